import logging
import shutil

import fsspec
import pymupdf
import pytest
from support.sources import drawn_pdf, jpeg, scan, scanned_pdf

from data_contracts.errors import (
    EmptyDocument,
    EncryptedDocument,
    NotADocument,
    StorageUnavailable,
    UnreadableDocument,
)
from tasks.sources.fetch import fetch_document, require_same


@pytest.fixture
def fetch(tmp_path):
    """Return a function: path or URI -> its document and its local path."""
    return lambda source: fetch_document(str(source), tmp_path / "spool")


def folder_of_pages(path, names=("page1.jpg", "page2.jpg", "page10.jpg")):
    path.mkdir()
    for number, name in enumerate(names):
        (path / name).write_bytes(jpeg(number))
    return path


def test_a_pdf_is_a_document_with_its_pages(fetch, tmp_path):
    source = scanned_pdf(tmp_path / "Mein Buch.pdf", 4)
    document, local = fetch(source)
    assert (document.kind, document.page_count, local) == ("pdf", 4, source)
    assert document.document_id == f"mein-buch-{document.sha256[:12]}"


@pytest.mark.parametrize(
    ("name", "format_name"),
    [
        ("a.png", "PNG"),
        ("a.jpg", "JPEG"),
        ("a.tif", "TIFF"),
        ("a.webp", "WEBP"),
        ("a.jp2", "JPEG2000"),
        ("a.pdf", "PNG"),
    ],
)
def test_an_image_is_a_document_of_one_page_whatever_its_suffix(fetch, tmp_path, name, format_name):
    scan().save(tmp_path / name, format_name)
    document, _ = fetch(tmp_path / name)
    assert (document.kind, document.page_count) == ("image", 1)


def test_a_pdf_without_the_suffix_is_a_pdf(fetch, tmp_path):
    scanned_pdf(tmp_path / "book.pdf", 2).rename(tmp_path / "book.png")
    document, _ = fetch(tmp_path / "book.png")
    assert (document.kind, document.page_count) == ("pdf", 2)


def test_every_frame_of_a_tiff_is_a_page(fetch, tmp_path):
    scan(1).save(tmp_path / "many.tif", save_all=True, append_images=[scan(2), scan(3)])
    assert fetch(tmp_path / "many.tif")[0].page_count == 3


def test_a_folder_is_one_document(fetch, tmp_path):
    document, local = fetch(folder_of_pages(tmp_path / "vol.2"))
    assert (document.kind, document.page_count, local) == ("folder", 3, tmp_path / "vol.2")


def test_a_folder_of_which_a_page_was_replaced_is_refused_with_what_to_do(fetch, tmp_path):
    before = fetch(folder_of_pages(tmp_path / "book"))[0]
    require_same(before, before.sha256)
    (tmp_path / "book" / "page2.jpg").write_bytes((tmp_path / "book" / "page1.jpg").read_bytes())
    with pytest.raises(UnreadableDocument, match=r"book .*a page file was replaced.*digitize it anew \(tomeflow run\)"):
        require_same(fetch(tmp_path / "book")[0], before.sha256)


def test_a_folders_digest_is_over_names_and_contents_of_its_pages_alone(fetch, tmp_path):
    first = fetch(folder_of_pages(tmp_path / "one"))[0].sha256
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    (tmp_path / "two" / ".hidden").write_text("x")
    (tmp_path / "two" / "notes.txt").write_text("x")
    assert fetch(tmp_path / "two")[0].sha256 == first
    (tmp_path / "two" / "page2.jpg").rename(tmp_path / "two" / "page3.jpg")
    assert fetch(tmp_path / "two")[0].sha256 != first


def test_what_a_folder_holds_beside_pages_is_listed(fetch, tmp_path, caplog):
    folder = folder_of_pages(tmp_path / "book")
    (folder / "notes.txt").write_text("x")
    (folder / ".hidden").write_text("x")
    with caplog.at_level(logging.WARNING, "tomeflow.ingest"):
        fetch(folder)
    assert "notes.txt" in caplog.text
    assert ".hidden" not in caplog.text


def test_equal_names_with_other_bytes_never_collide_and_equal_bytes_are_one_document(fetch, tmp_path):
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    drawn_pdf(tmp_path / "a" / "book.pdf", ["one"])
    drawn_pdf(tmp_path / "b" / "book.pdf", ["two"])
    shutil.copy(tmp_path / "a" / "book.pdf", tmp_path / "c" / "book.pdf")
    identities = [fetch(tmp_path / name / "book.pdf")[0].document_id for name in ("a", "b", "c")]
    assert identities[0] == identities[2] != identities[1]


def test_a_password_is_asked_for_with_the_way_around_it(fetch, tmp_path):
    with pymupdf.open(scanned_pdf(tmp_path / "open.pdf")) as document:
        document.save(tmp_path / "locked.pdf", encryption=pymupdf.PDF_ENCRYPT_AES_256, user_pw="x", owner_pw="y")
    with pytest.raises(EncryptedDocument, match=r"locked\.pdf needs a password.*qpdf --decrypt"):
        fetch(tmp_path / "locked.pdf")


def test_a_pdf_that_only_its_owner_may_change_is_read(fetch, tmp_path):
    with pymupdf.open(scanned_pdf(tmp_path / "open.pdf")) as document:
        document.save(tmp_path / "owned.pdf", encryption=pymupdf.PDF_ENCRYPT_AES_256, owner_pw="y")
    assert fetch(tmp_path / "owned.pdf")[0].page_count == 3


def test_a_damaged_pdf_that_can_be_repaired_is_a_document(fetch, tmp_path):
    whole = scanned_pdf(tmp_path / "book.pdf", 2).read_bytes()
    (tmp_path / "cut.pdf").write_bytes(whole[: whole.rindex(b"xref")])
    assert fetch(tmp_path / "cut.pdf")[0].page_count == 2


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (b"", NotADocument, "is empty"),
        (b"just text", NotADocument, "is not a PDF or an image"),
        (b"PK\x03\x04", NotADocument, "is not a PDF or an image"),
        (b"%PDF-1.4\nnothing\n%%EOF", UnreadableDocument, "too damaged to open"),
        (
            b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\n"
            b"trailer<</Root 1 0 R>>\n%%EOF",
            EmptyDocument,
            "without pages",
        ),
        (b"\x89PNG\r\n\x1a\n\0\0", UnreadableDocument, "cannot be opened"),
    ],
)
def test_what_is_no_document_is_refused_by_its_cause(fetch, tmp_path, content, error, message):
    (tmp_path / "odd.pdf").write_bytes(content)
    with pytest.raises(UnreadableDocument, match=message) as caught:
        fetch(tmp_path / "odd.pdf")
    assert type(caught.value) is error


def test_a_pdf_without_its_end_is_said_to_be_cut_off(fetch, tmp_path):
    with pymupdf.open(scanned_pdf(tmp_path / "book.pdf", 5)) as document:
        document.save(tmp_path / "packed.pdf", use_objstms=1)  # as most are made: what names the pages comes last
    whole = (tmp_path / "packed.pdf").read_bytes()
    for percent in (1, 50, 90):
        (tmp_path / "cut.pdf").write_bytes(whole[: len(whole) * percent // 100])
        with pytest.raises(UnreadableDocument, match=r"cut\.pdf .*seems to be cut off.*Get the file again") as caught:
            fetch(tmp_path / "cut.pdf")
        assert not isinstance(caught.value, EmptyDocument)


def test_a_name_with_two_colons_is_a_name(fetch, tmp_path, monkeypatch):
    scan().save(tmp_path / "a::b.png")
    monkeypatch.chdir(tmp_path)
    for source in ("a::b.png", tmp_path / "a::b.png"):
        document, local = fetch(source)
        assert (document.kind, local) == ("image", tmp_path / "a::b.png")


def test_a_folder_without_pages_is_empty(fetch, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "notes.txt").write_text("x")
    with pytest.raises(EmptyDocument, match=r"holds no page images.*tomeflow ingest"):
        fetch(tmp_path / "folder")


def test_a_missing_source_is_named(fetch, tmp_path):
    with pytest.raises(UnreadableDocument, match=r"no file or folder .*none\.pdf"):
        fetch(tmp_path / "none.pdf")


def test_a_source_below_a_file_is_missing_or_unavailable_but_no_traceback(fetch, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises((UnreadableDocument, StorageUnavailable)):
        fetch(tmp_path / "file" / "book.pdf")


def test_a_remote_source_is_read_from_the_spool(fetch, tmp_path):
    remote = fsspec.filesystem("memory")
    local = scanned_pdf(tmp_path / "book.pdf", 2)
    remote.pipe_file("/archive/book.pdf", local.read_bytes())
    for number in (1, 2, 10):
        remote.pipe_file(f"/archive/vol/page{number}.jpg", jpeg(number))
    try:
        document, copy = fetch("memory://archive/book.pdf")
        assert (document.uri, document.document_id) == ("memory://archive/book.pdf", fetch(local)[0].document_id)
        assert copy.is_relative_to(tmp_path / "spool")
        folder, _ = fetch("memory://archive/vol")
        assert (folder.kind, folder.page_count, folder.document_id[:4]) == ("folder", 3, "vol-")
    finally:
        remote.store.clear()
