"""What four viewers find in a PDF: the text of every page, and where its characters stand."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pymupdf
import pypdfium2
import pytest

PDFJS_FOLDER = Path(__file__).parent / "pdfjs"
HYPHEN_AT_LINE_END = "\ufffe"
"""What PDFium gives for a hyphen and the end of its line."""

Rect = tuple[float, float, float, float]
"""(left, bottom, right, top) in the user space of the page [pt]."""


def pdfium_pages(path: Path) -> list[str]:
    """What Chrome and Edge find."""
    with pypdfium2.PdfDocument(path) as document:
        texts = [page.get_textpage().get_text_range(errors="surrogatepass") for page in document]
    return [text.replace(HYPHEN_AT_LINE_END, "-\n") for text in texts]


def poppler_pages(path: Path) -> list[str]:
    """What the viewers of GNOME and KDE find."""
    command = ["pdftotext", "-raw", str(path), "-"]
    text = subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout
    return text.split("\f")[:-1]


def mupdf_pages(path: Path) -> list[str]:
    """What MuPDF and the viewers built on it find."""
    with pymupdf.open(path) as document:
        return [page.get_text() for page in document]


def pdfjs_pages(path: Path) -> list[str]:
    """What Firefox finds."""
    command = ["node", str(PDFJS_FOLDER / "words.mjs"), str(path)]
    pages: list[str] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return pages


VIEWERS: Mapping[str, Callable[[Path], list[str]]] = {
    "pdfium": pdfium_pages,
    "poppler": poppler_pages,
    "mupdf": mupdf_pages,
    "pdfjs": pdfjs_pages,
}


def need_viewer(name: str) -> Callable[[Path], list[str]]:
    """Return the function that reads the text of a PDF's pages with a viewer; skip the test where it lacks."""
    if name == "poppler" and shutil.which("pdftotext") is None:
        pytest.skip("the program pdftotext is not installed (.ci/run installs it)")
    if name == "pdfjs" and not (shutil.which("node") and (PDFJS_FOLDER / "node_modules").is_dir()):
        pytest.skip("node or pdf.js is not installed (.ci/run installs them; npm ci in tests/support/pdfjs)")
    return VIEWERS[name]


def pdfium_characters(path: Path, page_index: int = 0) -> list[tuple[str, Rect]]:
    """Return the characters of a page with the boxes that are marked where somebody selects them."""
    with pypdfium2.PdfDocument(path) as document:
        page = document[page_index].get_textpage()
        return [
            (page.get_text_range(index, 1, errors="surrogatepass"), page.get_charbox(index, loose=True))
            for index in range(page.count_chars())
        ]
