"""PDFs that others open: each is repaired and read, or fails by its cause; none is published as blank."""

import hashlib
import logging

import numpy as np
import pikepdf
import pymupdf
import pytest
from pikepdf import Array, Dictionary, Name
from support.damaged import plain_pdf, replaced, structured_pdf
from support.readings import failed_page, text_page
from support.sources import scanned_pdf

from data_contracts.config import RenderConfig
from data_contracts.errors import EncryptedDocument, RenderFailed, UnreadableDocument
from data_contracts.formats.manifest import parse_manifest
from data_contracts.source_condition import SourceCondition
from tasks.publishing.publication import Publication
from tasks.publishing.publish import publish_document
from tasks.sources.fetch import fetch_document
from tasks.sources.render import PageSource

WHOLE = plain_pdf(2)
BOX = rb"/MediaBox \[[^\]]*\]"
LENGTH = rb"/Length \d+"
CONTENT = rb"/Contents (\d+ 0 R)"

QPDF = {
    "a page tree without a count": replaced(rb"/Count \d+", b"", WHOLE),
    "a page tree with a count below zero": replaced(rb"/Count \d+", b"/Count -1", WHOLE),
    "a page tree that counts too many": replaced(rb"/Count \d+", b"/Count 7", WHOLE),
    "a catalog with half an entry": replaced(rb"/Type /Catalog", b"/Catalog", WHOLE),
    "streams of no length": replaced(LENGTH, b"/Length 0 ", WHOLE),
    "streams longer than they say": replaced(LENGTH, b"/Length 10", WHOLE),
    "streams without an end": replaced(b"endstream\n", b"", WHOLE),
    "boxes of three numbers": replaced(BOX, b"/MediaBox [ 0 612 792 ]", WHOLE),
    "boxes with no number": replaced(BOX, b"/MediaBox [ 0 0 nan 792 ]", WHOLE),
    "boxes without an area": replaced(BOX, b"/MediaBox [ 0 0 0 0 ]", WHOLE),
    "boxes that are no arrays": replaced(BOX, b"/MediaBox << /A 1 >>", WHOLE),
    "boxes that are not there": replaced(BOX, b"/MediaBox 99 0 R", WHOLE),
    "no boxes": replaced(BOX, b"", WHOLE),
}
"""What MuPDF alone refuses, shows white or cuts."""

MUPDF = {
    "no header": WHOLE[WHOLE.index(b"\n") + 1 :],
    "much before the header": b"From: a scanner\r\n" + b"junk " * 1000 + b"\n" + WHOLE,
    "no cross-reference table": WHOLE[: WHOLE.index(b"xref\n")] + WHOLE[WHOLE.index(b"trailer") :],
    "no trailer": WHOLE[: WHOLE.rindex(b"xref\n0")],
    "a table elsewhere": replaced(rb"startxref\n\d+", b"startxref\n12345", WHOLE),
    "a table some bytes off": replaced(rb"%PDF-1\.\d\n", rb"%PDF-1.4\n%abcdefg\n", WHOLE),
    "objects without an end": replaced(b"endobj\n", b"", WHOLE),
    "streams without a length": replaced(LENGTH, b"", WHOLE),
    "pages without a type": replaced(rb"/Type /Pages?\b", b"", WHOLE),
    "the end cut off": WHOLE[: len(WHOLE) * 19 // 20],
    "line ends of another system": replaced(b"\n", b"\r\n", WHOLE),
    "content among nothing": replaced(CONTENT, rb"/Contents [ null \1 null 88 0 R ]", WHOLE),
}

AS_IT_IS = {
    "little before the header": b"HTTP/1.1 200 OK\r\n\r\n" + WHOLE,
    "boxes with corners exchanged": replaced(BOX, b"/MediaBox [ 612 792 0 0 ]", WHOLE),
}


@pytest.fixture
def fetch(tmp_path):
    """Return a function: the bytes of a PDF -> its document and the path it is read from."""

    def fetched(content):
        (tmp_path / "odd.pdf").write_bytes(content)
        return fetch_document(str(tmp_path / "odd.pdf"), tmp_path / "spool")

    return fetched


def words_of(path):
    with pymupdf.open(path, filetype="pdf") as pdf:
        return [page.get_text().strip() for page in pdf]


def ink(path, page_number):
    with PageSource(path, "pdf", RenderConfig(dpi=72)) as pages:
        return int((pages.render(page_number).pixels < 128).sum())


@pytest.mark.parametrize("case", [*QPDF, *MUPDF, *AS_IT_IS])
def test_a_damaged_pdf_is_read_whole_and_its_repair_is_said(fetch, tmp_path, case):
    document, path = fetch((QPDF | MUPDF | AS_IT_IS)[case])
    assert document.page_count == 2
    assert words_of(path) == ["Hello page 1", "Hello page 2"]
    assert [ink(path, 1), ink(path, 2)] == [ink_of_a_whole_page(tmp_path, n) for n in (1, 2)]
    by = document.condition.repaired_by or ""
    assert by.split()[:1] == (["qpdf"] if case in QPDF else ["MuPDF"] if case in MUPDF else [])
    assert bool(document.condition.damage) == (case not in AS_IT_IS)
    assert (path == tmp_path / "odd.pdf") == (case not in QPDF)


def ink_of_a_whole_page(tmp_path, page_number):
    (tmp_path / "whole.pdf").write_bytes(WHOLE)
    return ink(tmp_path / "whole.pdf", page_number)


def test_a_repaired_pdf_keeps_the_identity_of_its_bytes_and_is_published_the_same_each_time(fetch, tmp_path):
    content = QPDF["a page tree without a count"]
    document, path = fetch(content)
    assert document.sha256 == hashlib.sha256(content).hexdigest()
    pages = [text_page(["Hello"], number, (1700, 2200), 200.0) for number in (1, 2)]
    manifests = []
    for name in ("one", "two"):
        again, repaired = fetch_document(document.uri, tmp_path / f"spool-{name}")
        assert repaired.read_bytes() == path.read_bytes()
        manifests.append(
            publish_document(Publication(again, repaired, lambda: iter(pages)), tmp_path / name, ("pdf", "txt"), {}, {})
        )
    assert manifests[0] == manifests[1]
    assert manifests[0]["document"]["sha256"] == document.sha256
    assert manifests[0]["source_condition"]["repaired_by"].startswith("qpdf ")
    assert words_of(tmp_path / "one" / "document.pdf") == ["Hello page 1", "Hello page 2"]


@pytest.mark.parametrize(
    "content", [b"/Contents 77 0 R", b"/Contents [ 77 0 R 78 0 R ]", b"/Contents << >>", b"/Contents [ null ]"]
)
@pytest.mark.parametrize("needs_repair", [False, True])
def test_a_page_whose_content_is_lost_fails_and_the_others_are_read(fetch, tmp_path, content, needs_repair):
    damaged = replaced(CONTENT, content, WHOLE, count=1)
    document, path = fetch(replaced(rb"/Count \d+", b"", damaged) if needs_repair else damaged)
    with PageSource(path, "pdf", RenderConfig(dpi=72)) as pages:
        with pytest.raises(RenderFailed, match=r"page 1: .*comes out empty"):
            pages.render(1)
        assert np.ptp(pages.render(2).pixels) > 0
    readings = [failed_page(1), text_page(["two"], 2, (1700, 2200), 200.0)]
    publish_document(Publication(document, path, lambda: iter(readings)), tmp_path / "out", ("pdf",), {}, {})
    assert words_of(tmp_path / "out" / "document.pdf")[1]


def test_a_page_without_content_is_blank_and_whole(fetch):
    document, path = fetch(replaced(rb"/Contents\b", b"/Contentz", WHOLE, count=1))
    assert document.condition == SourceCondition()
    assert ink(path, 1) == 0


def test_a_page_without_a_box_is_as_large_as_what_lies_on_it(fetch, tmp_path):
    with pymupdf.open(scanned_pdf(tmp_path / "scan.pdf", 1)) as pdf:
        xref = pdf[0].get_contents()[0]
        pdf.update_stream(xref, b"q 700 0 0 1200 -20 -30 cm /" + pdf[0].get_images()[0][7].encode() + b" Do Q")
        pdf.xref_set_key(pdf[0].xref, "MediaBox", "[0 1]")
        pdf.save(tmp_path / "boxless.pdf")
    _, path = fetch((tmp_path / "boxless.pdf").read_bytes())
    with pymupdf.open(path) as pdf:
        assert pdf[0].mediabox == pymupdf.Rect(-20, -30, 680, 1170)


def test_of_several_pdfs_in_one_file_it_is_said_that_the_last_is_read(fetch):
    document, path = fetch(WHOLE + plain_pdf(1))
    assert words_of(path) == ["Hello page 1"]
    assert "several PDFs" in " ".join(document.condition.damage)


LOCKED = pikepdf.Encryption(owner="o", user="u", R=6)
LOCKED_PLAIN, LOCKED_PACKED = (
    plain_pdf(2, encryption=LOCKED, object_stream_mode=mode)
    for mode in (pikepdf.ObjectStreamMode.disable, pikepdf.ObjectStreamMode.generate)
)


@pytest.mark.parametrize(
    "content",
    [
        LOCKED_PLAIN,
        LOCKED_PACKED,
        replaced(rb"/Kids", b"/Kidz", LOCKED_PLAIN),
        replaced(rb"/Pages ", b"/Pagez ", LOCKED_PLAIN),
        replaced(rb"/Root ", b"/Rood ", LOCKED_PLAIN),
        replaced(rb"/Count \d+", b"", LOCKED_PLAIN),
        replaced(rb"startxref\n\d+", b"startxref\n5", LOCKED_PLAIN),
        replaced(rb"startxref\n\d+", b"startxref\n5", LOCKED_PACKED),
        LOCKED_PACKED[: LOCKED_PACKED.rindex(b"startxref")],
        replaced(rb"/CF << .*? >> >>", b"/CF null", LOCKED_PLAIN),
        replaced(rb"/V 5", b"/V 9", LOCKED_PLAIN),
    ],
)
def test_an_encrypted_pdf_is_told_as_such_however_damaged(fetch, content):
    with pytest.raises(EncryptedDocument, match=r"needs a password.*qpdf --decrypt"):
        fetch(content)


def test_what_nobody_can_repair_is_refused_as_before(fetch):
    with pytest.raises(UnreadableDocument, match=r"too damaged to open|without pages"):
        fetch(b"%PDF-1.4\n1 0 obj\n<</Type/Catalog>>\nendobj\n%%EOF")


@pytest.mark.parametrize("packed", [False, True])
def test_what_an_owner_does_not_allow_is_said_and_the_copy_opens(tmp_path, caplog, packed):
    allowed = pikepdf.Permissions(extract=False, modify_other=False)
    locks = pikepdf.Encryption(owner="o", user="", R=6 if packed else 4, allow=allowed)
    source = structured_pdf(tmp_path / "owned.pdf", encryption=locks)
    document, path = fetch_document(str(source), tmp_path / "spool")
    assert path == source
    assert {"copying", "changing"} <= set(document.condition.restrictions)
    assert "printing" not in document.condition.restrictions
    assert any("does not allow" in warning for warning in document.condition.warnings())
    pages = [text_page(["one"], number, (1700, 2200), 200.0) for number in range(1, 6)]
    with caplog.at_level(logging.WARNING):
        publish_document(Publication(document, path, lambda: iter(pages)), tmp_path / "out", ("pdf",), {}, {})
    with pikepdf.open(tmp_path / "out" / "document.pdf") as pdf:
        assert not pdf.is_encrypted
        assert len(pdf.pages) == 5


def signed_pdf(path, level):
    """Write a PDF with one signed and one empty signature field; ``level`` of DocMDP certifies it."""
    with pikepdf.open(structured_pdf(path.with_suffix(".unsigned"))) as pdf:
        signature = pdf.make_indirect(Dictionary(Type=Name.Sig, Filter=Name("/Adobe.PPKLite")))
        parameters = Dictionary(Type=Name.TransformParams, V=Name("/1.2"))
        if level:
            parameters.P = level
            reference = Dictionary(Type=Name.SigRef, TransformMethod=Name.DocMDP, TransformParams=parameters)
            signature.Reference = Array([reference])
            pdf.Root.Perms = Dictionary(DocMDP=signature)
        group = pdf.make_indirect(Dictionary(FT=Name.Sig, T=pikepdf.String("signatures"), Kids=Array()))
        for name, value in (("signed", signature), ("empty", None)):
            field = Dictionary(T=pikepdf.String(name), Parent=group, Rect=Array([0, 0, 0, 0]), Subtype=Name.Widget)
            if value is not None:
                field.V = value
            group.Kids.append(pdf.make_indirect(field))
        pdf.Root.AcroForm.Fields.append(group)
        pdf.save(path)
    return path


@pytest.mark.parametrize(("level", "certified_for"), [(0, None), (1, "no changes"), (2, "only filling in forms")])
@pytest.mark.parametrize("selected", [(1, 2, 3, 4, 5), (2, 3)])
def test_a_signed_pdf_is_said_to_be_one_and_its_copy_opens(tmp_path, level, certified_for, selected):
    document, path = fetch_document(str(signed_pdf(tmp_path / "signed.pdf", level)), tmp_path / "spool")
    assert (document.condition.signatures, document.condition.certified_for) == (1, certified_for)
    assert any("is signed (1 signatures" in warning for warning in document.condition.warnings())
    pages = [text_page(["one"], number, (1700, 2200), 200.0) for number in selected]
    manifest = publish_document(
        Publication(document, path, lambda: iter(pages)), tmp_path / "out", ("pdf",), FIELDS, RUN
    )
    assert manifest["source_condition"]["signatures"] == 1
    parse_manifest((tmp_path / "out" / "manifest.json").read_bytes(), "manifest")
    with pikepdf.open(tmp_path / "out" / "document.pdf") as pdf:
        assert len(pdf.pages) == len(selected)
        assert any(str(field.T) == "signatures" for field in pdf.Root.AcroForm.Fields)


FIELDS = {"config": {}, "config_sha256": "cd" * 32, "model_fingerprint": "m", "versions": {}}
RUN = {"source": "x", "started_at": "2026-01-01T00:00:00Z"}


def test_of_a_sound_pdf_nothing_is_said(tmp_path):
    document, path = fetch_document(str(structured_pdf(tmp_path / "sound.pdf")), tmp_path / "spool")
    assert (document.condition, path) == (SourceCondition(), tmp_path / "sound.pdf")
    assert document.condition.manifest_fields() == {}
    assert document.condition.warnings() == []
