"""A book to try tomeflow on: an image-only PDF that looks scanned, with the truth of every page beside it.

One page at a time is set, drawn, scanned and bound, so a long book takes no more memory than a short one. The same
number of pages and the same seed give the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from data_contracts.errors import ConfigError
from flows.sample.page import PAGE_HEIGHT, PAGE_WIDTH, PrintedPage, font, print_book
from tasks.sources.pdf.mupdf import mupdf

if TYPE_CHECKING:
    from flows.sample.scan import Ink, Scan

DPI = 200
JPEG_QUALITY = 80
POINTS_PER_INCH = 72


def write_sample(path: Path, pages: int, seed: int) -> Path:
    """Write a book of ``pages`` pages to ``path`` and their texts to ``<stem>.truth/page_NNNN.txt``; return ``path``.

    Raises:
        ConfigError: fewer than one page, or a name that does not end in .pdf.
    """
    if faults := _faults(path, pages):
        raise ConfigError("; ".join(faults))
    path.parent.mkdir(parents=True, exist_ok=True)
    truth = path.with_suffix(".truth")
    shutil.rmtree(truth, ignore_errors=True)  # a longer sample of that name would leave pages behind
    truth.mkdir()
    with _bound(path, f"tomeflow sample {pages} {seed}") as book:
        for page, scan in _scan_book(pages, seed):
            book.add(_jpeg(scan), *reversed(scan.shape))
            (truth / f"page_{page.page_number:04d}.txt").write_text(page.truth, encoding="utf-8")
    return path


def main(options: argparse.Namespace) -> int:
    """Run ``tomeflow sample`` with parsed ``options`` (``output``, ``pages``, ``seed``) and return the exit code."""
    print(write_sample(Path(options.output), options.pages, options.seed))
    return 0


def _faults(path: Path, pages: int) -> list[str]:
    faults = []
    if pages < 1:
        faults.append(f"--pages is {pages}, a book has at least 1")
    if path.suffix.lower() != ".pdf":
        faults.append(f"the sample is a PDF, name it {path.with_suffix('.pdf').name} instead of {path.name}")
    return faults


def _scan_book(pages: int, seed: int) -> Iterator[tuple[PrintedPage, Scan]]:
    import numpy as np

    from flows.sample.scan import scan_page

    behind: Ink | None = None
    for page in print_book(pages, seed):
        ink = _draw(page)
        rng = np.random.default_rng([seed, page.page_number])
        yield page, scan_page(ink, behind, rng, recto=page.page_number % 2 == 1)
        behind = ink


def _draw(page: PrintedPage) -> Ink:
    """Return the ink of a page [height, width]."""
    import numpy as np

    with mupdf() as pymupdf, pymupdf.open() as sheet_document:
        sheet = sheet_document.new_page(width=PAGE_WIDTH, height=PAGE_HEIGHT)
        writer = pymupdf.TextWriter(sheet.rect)
        for mark in page.marks:
            writer.append((mark.x, mark.y), mark.text, font=font(mark.font), fontsize=mark.size)
        writer.write_text(sheet)
        for x0, y0, x1, y1 in page.rules:
            sheet.draw_line((x0, y0), (x1, y1), width=0.6)
        pixmap = sheet.get_pixmap(dpi=DPI, colorspace=pymupdf.csGRAY)
        gray = np.frombuffer(pixmap.samples, np.uint8).reshape(pixmap.height, pixmap.stride)[:, : pixmap.width]
        return (1 - gray.astype(np.float32) / 255).astype(np.float32)


def _jpeg(scan: Scan) -> bytes:
    import cv2

    done, encoded = cv2.imencode(".jpg", scan, [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])
    assert done
    return encoded.tobytes()


class _Binder:
    """Writes an image-only PDF page by page. Only the places of its objects are kept in memory.

    PyMuPDF would hold every page until the end, and would write the date. Objects 1 and 2 are the catalogue and the
    page tree, written last; each page takes three: picture, contents, page.
    """

    def __init__(self, file: BinaryIO) -> None:
        """Begin the document in ``file``, open for writing."""
        self._file = file
        self._offsets = {0: 0}
        self._page_objects: list[int] = []
        self._next_object = 3
        file.write(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")

    def add(self, jpeg: bytes, width_px: int, height_px: int) -> None:
        """Add a page that shows one gray JPEG over its whole area."""
        width, height = (pixels * POINTS_PER_INCH / DPI for pixels in (width_px, height_px))
        picture = self._write_stream(
            f"/Type /XObject /Subtype /Image /Width {width_px} /Height {height_px} /ColorSpace /DeviceGray "
            f"/BitsPerComponent 8 /Filter /DCTDecode",
            jpeg,
        )
        drawing = f"{width:g} 0 0 {height:g} 0 0 cm /Scan Do".encode()
        contents = self._write_stream("/Filter /FlateDecode", zlib.compress(drawing))
        self._page_objects.append(
            self._write_object(
                f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {width:g} {height:g}] /Contents {contents} 0 R "
                f"/Resources << /XObject << /Scan {picture} 0 R >> >> >>".encode()
            )
        )

    def finish(self, identity: str) -> None:
        """Write what holds the pages together. ``identity`` becomes the document's /ID in place of a date."""
        kids = " ".join(f"{number} 0 R" for number in self._page_objects)
        self._write_object(b"<< /Type /Catalog /Pages 2 0 R >>", 1)
        self._write_object(f"<< /Type /Pages /Count {len(self._page_objects)} /Kids [{kids}] >>".encode(), 2)
        start = self._file.tell()
        size = len(self._offsets)
        entries = [f"{self._offsets[number]:010d} 00000 n \n" for number in range(1, size)]
        self._file.write(f"xref\n0 {size}\n0000000000 65535 f \n{''.join(entries)}".encode())
        digest = hashlib.sha256(identity.encode()).hexdigest()[:32]
        trailer = f"<< /Size {size} /Root 1 0 R /ID [<{digest}> <{digest}>] >>"
        self._file.write(f"trailer\n{trailer}\nstartxref\n{start}\n%%EOF\n".encode())

    def _write_stream(self, entries: str, data: bytes) -> int:
        head = f"<< {entries} /Length {len(data)} >>\nstream\n".encode()
        return self._write_object(head + data + b"\nendstream")

    def _write_object(self, body: bytes, number: int | None = None) -> int:
        if number is None:
            number = self._next_object
            self._next_object += 1
        self._offsets[number] = self._file.tell()
        self._file.write(f"{number} 0 obj\n".encode() + body + b"\nendobj\n")
        return number


@contextmanager
def _bound(path: Path, identity: str) -> Iterator[_Binder]:
    """Give a binder whose book appears at ``path`` only when it is whole."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        with partial.open("wb") as file:
            binder = _Binder(file)
            yield binder
            binder.finish(identity)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
