"""What a reading is compared with where nobody wrote a transcription: the PDF's own text, or a second reader's.

A text layer counts as truth where the page shows it: born-digital pages, which were rendered and read back. The
invisible text of a scan is some other reader's and is not asked. A second reader (Tesseract) errs as well, so what
differs from it is an estimate and is marked as one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from data_contracts.config import ReadingConfig
from data_contracts.document import DocumentRef
from data_contracts.errors import ConfigError, ModelUnavailable
from data_contracts.records import parse_record
from data_contracts.result import PageStatus
from flows.published import published_pages
from tasks.sources.fetch import fetch_document
from tasks.sources.pdf.mupdf import load_page, mupdf
from tasks.validate import work_folder_of

FILES = "files"
TEXT_LAYER = "text-layer"
SECOND_READER = "second-reader"
INVISIBLE = 3
"""Text rendering mode of what is on a page and not shown."""


@dataclass(frozen=True)
class Truth:
    """Texts by page number, where they are from, and whether they are another reader's."""

    source: str
    pages: Mapping[int, str]
    is_estimate: bool = False


def read_text_layer(folder: Path, manifest: Mapping[str, Any]) -> Truth:
    """Return the visible text of the pages of the source of the document in ``folder``; the others are left out.

    Raises:
        ConfigError: the source is no PDF, has changed, or shows text on none of the selected pages.
    """
    document, path = _source(folder, manifest)
    if document.kind != "pdf":
        raise ConfigError(f"{document.uri} is no PDF, so it has no text of its own: name a folder with --truth.")
    with mupdf() as pymupdf, pymupdf.open(path, filetype="pdf") as pdf:
        texts = {number: _visible_text(load_page(pdf, number - 1)) for number in manifest["selected_pages"]}
    shown = {number: text for number, text in texts.items() if text.strip()}
    if not shown:
        raise ConfigError(
            f"none of the {len(texts)} selected pages of {document.uri} shows text of its own: these are scans. "
            f"Name a folder of transcriptions, or estimate with --truth {SECOND_READER}."
        )
    return Truth(TEXT_LAYER, shown)


def _visible_text(page: Any) -> str:
    """Return the page's text, or nothing where most of it is invisible: a scan with somebody's reading behind it."""
    characters = {True: 0, False: 0}
    for span in page.get_texttrace():
        characters[span["type"] == INVISIBLE] += len(span["chars"])
    return str(page.get_text("text")) if characters[False] > characters[True] else ""


def read_again(folder: Path, manifest: Mapping[str, Any], language: str) -> Truth:
    """Return what Tesseract reads, with its model ``language``, on the pages that have a text in ``folder``.

    Raises:
        ConfigError: the source has changed, or no selected page has text.
        ModelUnavailable: Tesseract or its model is not installed, or failed.
    """
    import numpy as np

    from flows.baseline_readers import Tesseract
    from tasks.sources.render import PageSource

    document, path = _source(folder, manifest)
    tesseract = Tesseract(model=language)
    if tesseract.absent_because:
        raise ModelUnavailable(f"{tesseract.absent_because}. Install it (tesseract-ocr), or choose --language.")
    pages = published_pages(folder, manifest)
    rotations = {page.page_number: page.rotation for page in pages if page.status is PageStatus.TEXT}
    render = parse_record(ReadingConfig.model_validate, manifest["config"], f"the manifest in {folder}").render
    texts: dict[int, str] = {}
    with PageSource(path, document.kind, render) as source:
        for number, rotation in rotations.items():
            image = source.render(number)
            upright = replace(image, pixels=np.ascontiguousarray(np.rot90(image.pixels, -rotation // 90)))
            texts[number] = "\n".join(tesseract.read(upright))
    if not texts:
        raise ConfigError(f"no page of {folder.name} has text that a second reader could confirm.")
    return Truth(SECOND_READER, texts, is_estimate=True)


def _source(folder: Path, manifest: Mapping[str, Any]) -> tuple[DocumentRef, Path]:
    """Return the document that was read, and a local path to it."""
    document, path = fetch_document(manifest["run"]["source"], work_folder_of(folder) / "spool")
    said = manifest["document"]["sha256"]
    if document.sha256 != said:
        raise ConfigError(
            f"{document.uri} has changed since it was read (sha256 {document.sha256[:12]}, then {said[:12]}): "
            "run it again."
        )
    return document, path
