"""What a document says of its pages is still there, and right, when some of them are published."""

import subprocess

import pikepdf
import pymupdf
import pypdfium2
import pytest
from pikepdf import Array, Dictionary, Name, StreamDecodeLevel, String
from support.damaged import plain_pdf, replaced, structured_pdf
from support.readings import text_page

from data_contracts.document import DocumentRef
from tasks.publishing import pdf_tags
from tasks.publishing.publication import Publication
from tasks.publishing.publish import publish_document
from tasks.publishing.searchable_pdf import BATCH_PAGES, SearchablePdfWriter


@pytest.fixture
def source(tmp_path):
    return structured_pdf(tmp_path / "structured.pdf")


def write(source, selected, target, words="read"):
    """Return what the writer says goes; every page has been read anew, and at other places than it says itself."""
    writer = SearchablePdfWriter(source, "pdf", selected, target, "ab" * 32)
    for number in selected:
        lines = [f"{words} {number} alpha", "beta gamma delta epsilon zeta eta theta"]
        writer.add(text_page(lines, number, (1700, 2200), 200.0))
    writer.finish()
    return writer.left_out


def titles(path):
    with pymupdf.open(path) as pdf:
        return pdf.get_toc()


def checked(path, need_tool):
    """Open it with three programs, and return it with pikepdf."""
    subprocess.run([need_tool("pdfinfo"), str(path)], check=True, capture_output=True)
    pypdfium2.PdfDocument(path).close()
    pdf = pikepdf.open(path)
    assert pdf.check_pdf_syntax() == []
    return pdf


def field_names(pdf):
    return [str(field.T) for field in pdf.Root.AcroForm.Fields]


def test_a_selection_keeps_all_that_the_document_says_of_its_pages(source, tmp_path, need_tool):
    said = write(source, [2, 3], tmp_path / "document.pdf")
    assert said == ["links to pages that are left out (2)"]
    with checked(tmp_path / "document.pdf", need_tool) as pdf:
        assert [page.label for page in pdf.pages] == ["ii", "1"]
        assert bytes(pdf.attachments["note.txt"].get_file().read_bytes()) == b"a note"
        assert (str(pdf.Root.Lang), pdf.Root.PageMode) == ("de", Name.UseOutlines)
        assert pdf.Root.ViewerPreferences.Direction == Name.R2L
        assert str(pdf.Root.OCProperties.OCGs[0].Name) == "layer"
        assert pdf.open_metadata()["dc:title"] == "Der Titel"
        assert field_names(pdf) == ["second", "shared"]
        assert [len(pdf.Root.AcroForm.Fields[n].get("/Kids", ())) for n in (0, 1)] == [0, 1]
        assert sorted(pikepdf.NameTree(pdf.Root.Names.Dests)) == ["page2", "page3"]
        links = [[link.get("/Dest") for link in page.Annots if link.Subtype == Name.Link] for page in pdf.pages]
        assert links[0][0][0].objgen == pdf.pages[1].obj.objgen
        assert links[1][0][0].objgen == pdf.pages[0].obj.objgen
        assert [str(page[1]) for page in links] == ["page3", "page2"]
        assert [page[2] for page in links] == [None, None]
        elements = list(pdf.Root.StructTreeRoot.K.K)
        assert [str(element.ActualText) for element in elements] == ["words of page 2", "words of page 3"]
        assert [element.Pg.objgen for element in elements] == [page.obj.objgen for page in pdf.pages]
        assert list(pikepdf.NumberTree(pdf.Root.StructTreeRoot.ParentTree)) == [1, 2]
    assert titles(tmp_path / "document.pdf") == [[1, "to 2", 1], [2, "to 2, 3", 2]]


def test_other_programs_see_it_too(source, tmp_path):
    write(source, [2, 3], tmp_path / "document.pdf")
    document = pypdfium2.PdfDocument(tmp_path / "document.pdf")
    try:
        assert [document.get_page_label(index) for index in range(2)] == ["ii", "1"]
        assert [mark.get_title() for mark in document.get_toc()] == ["to 2", "to 2, 3"]
        assert document.count_attachments() == 1
    finally:
        document.close()
    with pymupdf.open(tmp_path / "document.pdf") as document:
        values = [[(field.field_name, field.field_value) for field in page.widgets()] for page in document]
        assert values == [[("second", "value of second"), ("shared", "both")], []]


@pytest.mark.parametrize(
    ("selected", "labels", "outline"),
    [
        ([1, 5], ["i", "A-7"], ["to 1", "to 2", "to 2, 5", "to 4", "to 4, 5"]),
        ([4], ["2"], ["to 4"]),
        ([3], ["1"], ["to 2", "to 2, 3"]),
        ([1, 2, 4, 5], ["i", "ii", "2", "A-7"], ["to 1", "to 2", "to 2, 5", "to 4", "to 4, 5"]),
    ],
)
def test_labels_and_outline_follow_any_selection(source, tmp_path, selected, labels, outline):
    write(source, selected, tmp_path / "document.pdf")
    with pikepdf.open(tmp_path / "document.pdf") as pdf:
        assert [page.label for page in pdf.pages] == labels
    assert [title for _, title, _ in titles(tmp_path / "document.pdf")] == outline


def test_of_pages_left_out_nothing_stays_in_the_file(source, tmp_path):
    write(source, [2, 3], tmp_path / "document.pdf")
    with pikepdf.open(tmp_path / "document.pdf") as pdf:
        pdf.save(tmp_path / "open.pdf", compress_streams=False, stream_decode_level=StreamDecodeLevel.generalized)
    content = (tmp_path / "open.pdf").read_bytes()
    assert b"Hello page 2" in content
    assert b"words of page 3" in content
    for gone in (b"Hello page 1", b"Hello page 4", b"words of page 5", b"value of fourth"):
        assert gone not in content


@pytest.mark.parametrize("locked", [False, True])
def test_without_a_selection_nothing_is_lost(tmp_path, locked, need_tool):
    locks = {"encryption": pikepdf.Encryption(owner="o", user="", R=6)} if locked else {}
    source = structured_pdf(tmp_path / "structured.pdf", **locks)
    assert write(source, [1, 2, 3, 4, 5], tmp_path / "document.pdf") == []
    with pikepdf.open(source) as before, checked(tmp_path / "document.pdf", need_tool) as after:
        assert set(after.Root.keys()) == set(before.Root.keys())
        assert after.Root.PageMode == Name.UseOutlines
        assert [page.label for page in after.pages] == ["i", "ii", "1", "2", "A-7"]
        assert field_names(after) == ["second", "fourth", "shared"]
        assert len(after.Root.StructTreeRoot.K.K) == 5
    assert titles(tmp_path / "document.pdf") == titles(source)


def test_a_new_reading_of_a_page_changes_nothing_of_the_structure(source, tmp_path):
    write(source, [2, 3], tmp_path / "document.pdf")
    write(source, [2, 3], tmp_path / "patched.pdf", words="reread")
    first, second = (pikepdf.open(tmp_path / name) for name in ("document.pdf", "patched.pdf"))
    with first, second:
        assert [page.label for page in second.pages] == ["ii", "1"]
        assert field_names(second) == field_names(first)
        assert set(second.Root.keys()) == set(first.Root.keys())
    assert titles(tmp_path / "patched.pdf") == titles(tmp_path / "document.pdf")


def test_equal_selections_are_equal_bytes(source, tmp_path):
    for name in ("one.pdf", "two.pdf"):
        write(source, [2, 3, 5], tmp_path / name)
    assert (tmp_path / "one.pdf").read_bytes() == (tmp_path / "two.pdf").read_bytes()


def test_what_goes_is_said_in_the_manifest_and_in_a_warning(source, tmp_path, caplog):
    document = DocumentRef(document_id="book-1", uri=str(source), sha256="ab" * 32, page_count=5, kind="pdf")
    pages = [text_page(["one"], number, (1700, 2200), 200.0) for number in (2, 3)]
    manifest = publish_document(Publication(document, source, lambda: iter(pages)), tmp_path / "out", ("pdf",), {}, {})
    assert manifest["left_out_of_pdf"] == ["links to pages that are left out (2)"]
    assert "document.pdf comes without links to pages" in caplog.text


def changed(source, tmp_path, change):
    with pikepdf.open(source) as pdf:
        change(pdf)
        pdf.save(tmp_path / "changed.pdf")
    return tmp_path / "changed.pdf"


def test_outlines_that_go_in_circles_end(source, tmp_path):
    def circle(pdf):
        first = pdf.Root.Outlines.First
        first.Next.Next.Next = first
        first.Next.First.First = first

    write(changed(source, tmp_path, circle), [2, 3], tmp_path / "document.pdf")
    with pikepdf.open(tmp_path / "document.pdf") as pdf, pdf.open_outline() as outline:
        assert [item.title for item in outline.root] == ["to 2"]


def test_an_opening_page_threads_and_xfa_go_and_are_said(source, tmp_path):
    def add(pdf):
        pdf.Root.OpenAction = Array([pdf.pages[0].obj, Name.Fit])
        pdf.Root.AcroForm.XFA = pdf.make_stream(b"<xdp/>")
        thread, bead = (pdf.make_indirect(Dictionary()) for _ in range(2))
        thread.F, bead.T, bead.P, bead.N = bead, thread, pdf.pages[0].obj, bead
        pdf.Root.Threads, pdf.pages[1].obj.B = Array([thread]), Array([bead])

    said = write(changed(source, tmp_path, add), [2, 3], tmp_path / "document.pdf")
    assert [any(word in part for part in said) for word in ("links", "XFA", "opens", "threads")] == [True] * 4
    with pikepdf.open(tmp_path / "document.pdf") as pdf:
        assert not {"/OpenAction", "/Threads"} & set(pdf.Root.keys())


def test_more_tags_than_memory_should_hold_go_and_are_said(source, tmp_path, monkeypatch):
    monkeypatch.setattr(pdf_tags, "MOST_ELEMENTS", 3)
    assert any("tags" in part for part in write(source, [2, 3], tmp_path / "document.pdf"))
    with pikepdf.open(tmp_path / "document.pdf") as pdf:
        assert "/StructTreeRoot" not in pdf.Root


def test_old_style_destinations_and_string_names_of_other_encodings(source, tmp_path):
    def add(pdf):
        pdf.Root.Dests = Dictionary(here=Array([pdf.pages[1].obj, Name.Fit]), there=Array([pdf.pages[4].obj, Name.Fit]))
        pdf.Root.Names.Dests.Names.extend([String("zu Straße 𝔞"), Dictionary(D=Array([pdf.pages[2].obj, Name.Fit]))])

    write(changed(source, tmp_path, add), [2, 3], tmp_path / "document.pdf")
    with pikepdf.open(tmp_path / "document.pdf") as pdf:
        assert list(pdf.Root.Dests.keys()) == ["/here"]
        assert "zu Straße 𝔞" in pikepdf.NameTree(pdf.Root.Names.Dests)


def test_a_damaged_source_keeps_its_pages_and_says_what_goes(tmp_path):
    content = replaced(rb"/Kids \[ (\d+ 0 R)", rb"/Kids [ \1 2 0 R", plain_pdf(3))
    (tmp_path / "circle.pdf").write_bytes(content)
    assert "outline" in write(tmp_path / "circle.pdf", [1], tmp_path / "document.pdf")[0]
    with pymupdf.open(tmp_path / "document.pdf") as pdf:
        assert "Hello page 1" in pdf[0].get_text()


def test_many_pages_and_batches(tmp_path):
    count = 3 * BATCH_PAGES
    (tmp_path / "many.pdf").write_bytes(plain_pdf(count))
    selected = list(range(2, count + 1, 2))
    assert write(tmp_path / "many.pdf", selected, tmp_path / "document.pdf") == []
    with pymupdf.open(tmp_path / "document.pdf") as pdf:
        assert all(f"Hello page {number}\n" in page.get_text() for number, page in zip(selected, pdf, strict=True))
