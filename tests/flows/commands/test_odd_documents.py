"""Every awkward PDF of the shared data: digitized, or refused by name. None crashes, none hangs.

The table holds what FILES.tsv says of them: only what is damaged, has no pages or wants a password is refused.
"""

import csv
import time
from collections import Counter

import numpy as np
import pymupdf
import pytest
from support.readings import line_across, text_page
from support.sources import image_streams

from data_contracts.config import RenderConfig
from data_contracts.errors import EmptyDocument, EncryptedDocument, UnreadableDocument
from tasks.publishing.publication import Publication
from tasks.publishing.publish import publish_document
from tasks.sources.fetch import fetch_document
from tasks.sources.render import PageSource

SECONDS_PER_PAGE = 60
MOST_PAGES = 8
"""Of a document; the one with 117 pages repeats itself."""

COMPARED_MEGAPIXELS = 4.0

REFUSED = {
    "ocrmypdf_invalid.pdf": UnreadableDocument,
    "opf_T02-01_001_document-catalog-No-document-catalog.pdf": EmptyDocument,
    "opf_T02-02_001_no-page-tree-node.pdf": EmptyDocument,
    "opf_T02-02_002_page-tree-kids-links-recursive.pdf": UnreadableDocument,
    "opf_T02-02_005_page-tree-no-kids.pdf": UnreadableDocument,
    "opf_T04_014_trailer-root-indirect-reference-to-wrong-object.pdf": EmptyDocument,
    "pypdf_libreoffice-writer-password.pdf": EncryptedDocument,
}

DIGITIZED = {
    "opf_T02-02_007_page-tree-wrong-count.pdf": 1,
    "opf_T02-05-01_014_endstream-keyword-missing.pdf": 1,
    "ocrmypdf_2400dpi.pdf": 1,
    "ocrmypdf_3small.pdf": 3,
    "ocrmypdf_acroform.pdf": 1,
    "ocrmypdf_aspect.pdf": 1,
    "ocrmypdf_blank.pdf": 1,
    "ocrmypdf_c02-22.pdf": 1,
    "ocrmypdf_cardinal.pdf": 4,
    "ocrmypdf_ccitt.pdf": 1,
    "ocrmypdf_cmyk.pdf": 1,
    "ocrmypdf_docinfo_latin1_key.pdf": 1,
    "ocrmypdf_enormous.pdf": 1,
    "ocrmypdf_epson.pdf": 1,
    "ocrmypdf_formxobject.pdf": 1,
    "ocrmypdf_francais.pdf": 1,
    "ocrmypdf_graph.pdf": 1,
    "ocrmypdf_graph_ocred.pdf": 1,
    "ocrmypdf_hugemono.pdf": 1,
    "ocrmypdf_jbig2.pdf": 1,
    "ocrmypdf_jbig2_baddevicen.pdf": 1,
    "ocrmypdf_kcs.pdf": 1,
    "ocrmypdf_lichtenstein.pdf": 1,
    "ocrmypdf_link.pdf": 2,
    "ocrmypdf_linn.pdf": 1,
    "ocrmypdf_livecycle.pdf": 1,
    "ocrmypdf_masks.pdf": 1,
    "ocrmypdf_meta.pdf": 1,
    "ocrmypdf_missing_docinfo.pdf": 1,
    "ocrmypdf_multipage.pdf": 6,
    "ocrmypdf_negzero.pdf": 1,
    "ocrmypdf_no_contents.pdf": 1,
    "ocrmypdf_overlay.pdf": 1,
    "ocrmypdf_palette.pdf": 1,
    "ocrmypdf_poster.pdf": 1,
    "ocrmypdf_rotated_skew.pdf": 1,
    "ocrmypdf_skew.pdf": 1,
    "ocrmypdf_tagged.pdf": 2,
    "ocrmypdf_toc.pdf": 2,
    "ocrmypdf_trivial.pdf": 1,
    "ocrmypdf_truetype_font_nomapping.pdf": 1,
    "ocrmypdf_type3_font_nomapping.pdf": 1,
    "ocrmypdf_vector.pdf": 1,
    "opf_T01_001_header-invalid-major-version.pdf": 1,
    "pypdf_GeoTopo-komprimiert.pdf": 117,
    "pypdf_annotated_pdf.pdf": 1,
    "pypdf_cmyk-image.pdf": 1,
    "pypdf_grayscale-image.pdf": 1,
    "pypdf_habibi-rotated.pdf": 4,
    "pypdf_imagemagick-images.pdf": 6,
    "pypdf_libreoffice-form.pdf": 1,
    "pypdf_multicolumn.pdf": 3,
    "pypdf_pdflatex-forms.pdf": 1,
    "pypdf_reportlab-overlay.pdf": 1,
    "pypdf_with-attachment.pdf": 1,
}

DAMAGE_FLAGS = ("mupdf:", "NO-PAGES", "needs-password")

pytestmark = pytest.mark.shared_data


def test_the_table_names_every_file_and_refuses_only_what_is_known_to_be_unreadable(shared_data):
    with (shared_data / "oddpdf" / "FILES.tsv").open(newline="", encoding="utf-8") as file:
        flags = {row["file"]: row["flags"] for row in csv.DictReader(file, delimiter="\t")}
    assert set(flags) == set(REFUSED) | set(DIGITIZED)
    assert not set(REFUSED) & set(DIGITIZED)
    for name in REFUSED:
        assert any(flag in flags[name] for flag in DAMAGE_FLAGS), f"{name} is refused, but nothing is known against it"


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_refused_by_name_with_a_remedy(shared_data, tmp_path, name):
    with pytest.raises(UnreadableDocument, match=r"qpdf|Get the file again") as caught:
        fetch_document(str(shared_data / "oddpdf" / name), tmp_path / "spool")
    assert type(caught.value) is REFUSED[name]
    assert name in str(caught.value)


def shown(page: pymupdf.Page) -> bytes:
    """Return the pixels of a page at 150 dpi, or fewer where it is a poster."""
    area = page.rect.width * page.rect.height
    zoom = min(150 / 72, (COMPARED_MEGAPIXELS * 1e6 / area) ** 0.5)
    return bytes(page.get_pixmap(matrix=pymupdf.Matrix(zoom, zoom)).samples)


@pytest.mark.parametrize("name", DIGITIZED)
def test_what_can_be_read_is_rendered_and_published_without_a_change(shared_data, tmp_path, name):
    document, path = fetch_document(str(shared_data / "oddpdf" / name), tmp_path / "spool")
    assert document.page_count == DIGITIZED[name]
    numbers = range(1, min(document.page_count, MOST_PAGES) + 1)
    pages = []
    with PageSource(path, "pdf", RenderConfig()) as source:
        for number in numbers:
            started = time.monotonic()
            image = source.render(number)
            assert time.monotonic() - started < SECONDS_PER_PAGE
            height, width = image.pixels.shape[:2]
            assert 0 < width * height <= 40e6 * 1.001
            assert np.ptp(image.pixels) > 0 or name in BLANK
            line = line_across("alpha beta", (width, height))
            pages.append(text_page([line], number, (width, height), image.dpi))
    manifest = publish_document(
        Publication(document, path, lambda: iter(pages)), tmp_path / "out", ("pdf", "txt"), {}, {}
    )
    with pymupdf.open(path) as original, pymupdf.open(tmp_path / "out" / "document.pdf") as published:
        assert published.page_count == len(numbers)
        assert not published.is_repaired
        for page_index in range(published.page_count):
            assert shown(published[page_index]) == shown(original[page_index])
            words = Counter(published[page_index].get_text().split())
            assert ({"alpha", "beta"} <= set(words)) != (page_index + 1 in manifest["pages_with_own_text"])
    assert image_streams(tmp_path / "out" / "document.pdf") == image_streams(path)[: len(numbers)]


BLANK = {
    "ocrmypdf_blank.pdf",
    "ocrmypdf_docinfo_latin1_key.pdf",
    "ocrmypdf_livecycle.pdf",
    "ocrmypdf_meta.pdf",
    "ocrmypdf_no_contents.pdf",
    "ocrmypdf_toc.pdf",
    "ocrmypdf_trivial.pdf",
}
"""With at least one page on which nothing is drawn."""
