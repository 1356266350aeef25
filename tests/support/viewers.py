"""What four viewers find in a PDF: the text of every page, and where its characters stand."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping
from ctypes import byref, c_int
from pathlib import Path

import pymupdf
import pypdfium2
import pypdfium2.raw as pdfium_c
import pytest

PDFJS_FOLDER = Path(__file__).parent / "pdfjs"
HYPHEN_AT_LINE_END = "\ufffe"
"""What PDFium gives for a hyphen and the end of its line."""

Rect = tuple[float, float, float, float]
"""(left, top, right, bottom)."""

UNWRITTEN = re.compile("[\u202a-\u202e\u00ad]")
"""What Poppler puts around text that runs from right to left; soft hyphens, which pdf.js leaves out."""


def pdfium_pages(path: Path) -> list[str]:
    """What Chrome and Edge find."""
    with pypdfium2.PdfDocument(path) as document:
        texts = [page.get_textpage().get_text_range(errors="surrogatepass") for page in document]
    return [text.replace(HYPHEN_AT_LINE_END, "-\n") for text in texts]


def poppler_pages(path: Path, raw: bool = True) -> list[str]:
    """What the viewers of GNOME and KDE find; ``raw``: in the order of the content, else as the page is laid out."""
    command = ["pdftotext", *(["-raw"] if raw else []), str(path), "-"]
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


def pdfium_boxes(path: Path, page_index: int, size_px: tuple[int, int]) -> list[tuple[str, Rect]]:
    """Return the characters of a page with the boxes that are marked where they are selected [px of a rendering]."""
    found = []
    with pypdfium2.PdfDocument(path) as document:
        page = document[page_index]
        text = page.get_textpage()
        for index in range(text.count_chars()):
            left, bottom, right, top = text.get_charbox(index, loose=True)
            corners = [_on_device(page, size_px, x, y) for x, y in ((left, bottom), (right, top))]
            found.append((chr(pdfium_c.FPDFText_GetUnicode(text, index)), _around(corners)))
    return found


def _on_device(page: pypdfium2.PdfPage, size_px: tuple[int, int], x: float, y: float) -> tuple[float, float]:
    device_x, device_y = c_int(), c_int()
    finer = 16  # whole pixels are what PDFium gives
    size = [side * finer for side in size_px]
    pdfium_c.FPDF_PageToDevice(page, 0, 0, *size, 0, x, y, byref(device_x), byref(device_y))
    return device_x.value / finer, device_y.value / finer


def mupdf_boxes(path: Path, page_index: int, size_px: tuple[int, int]) -> list[tuple[str, Rect]]:
    """Return the same as MuPDF marks them."""
    with pymupdf.open(path) as document:
        document.xref_set_key(document[page_index].xref, "UserUnit", "null")  # PyMuPDF's rotation matrix forgets it
        page = document[page_index]
        to_pixels = page.rotation_matrix * pymupdf.Matrix(size_px[0] / page.rect.width, size_px[1] / page.rect.height)
        return [
            (character["c"], tuple((pymupdf.Rect(character["bbox"]) * to_pixels).normalize()))
            for block in page.get_text("rawdict")["blocks"]
            for line in block["lines"]
            for span in line["spans"]
            for character in span["chars"]
        ]


def _around(points: list[tuple[float, float]]) -> Rect:
    xs, ys = zip(*points, strict=True)
    return min(xs), min(ys), max(xs), max(ys)


def words_found(expected: str, found: str) -> tuple[int, int]:
    """Return how many words of ``expected`` are among the words of ``found``, each as often, and how many there are."""
    words, others = Counter(plain(expected).split()), Counter(plain(found).split())
    return (words & others).total(), words.total()


def plain(text: str) -> str:
    """Return ``text`` without what viewers change: ligatures, controls of direction, soft hyphens."""
    return unicodedata.normalize("NFKC", UNWRITTEN.sub("", text))


if __name__ == "__main__":  # PYTHONPATH=.:tests python -m support.viewers FOLDER...: published documents
    for folder in map(Path, sys.argv[1:]):
        expected = (folder / "document.txt").read_text(encoding="utf-8")
        for name, pages_of in VIEWERS.items():
            found, words = words_found(expected, "\n".join(pages_of(folder / "document.pdf")))
            print(f"{folder.name} {name}: {found} of {words} words, {100 * found / max(words, 1):.2f} %")
