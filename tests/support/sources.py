"""Small source documents: drawn pages as PDFs and image files, rebuilt for each test."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import numpy as np
import pymupdf
from PIL import Image

SCAN_SIZE_PX = (850, 1100)
SCAN_DPI = 100


def scan(seed: int = 1, size_px: tuple[int, int] = SCAN_SIZE_PX) -> Image.Image:
    """Return a grey page with dark bars where lines would be; every seed gives another page."""
    rng = np.random.default_rng(seed)
    pixels = rng.integers(200, 256, (size_px[1], size_px[0]), dtype=np.uint8)
    for top in range(size_px[1] // 10, size_px[1] * 9 // 10, 30):
        right = int(rng.integers(size_px[0] // 2, size_px[0] * 9 // 10))
        pixels[top : top + 12, size_px[0] // 10 : right] = 20
    return Image.fromarray(pixels)


def looping_tiff(frames: int, back_to: int) -> bytes:
    """Return a TIFF of ``frames`` pages whose last says that page number ``back_to`` (from 0) is the next."""
    file = io.BytesIO()
    scan(1).save(file, "TIFF", save_all=True, append_images=[scan(n) for n in range(2, frames + 1)])
    data = bytearray(file.getvalue())
    assert data[:4] == b"II*\0", "little endian, as Pillow writes"
    links, starts = [4], []
    for _ in range(frames):
        (start,) = struct.unpack_from("<I", data, links[-1])
        (entries,) = struct.unpack_from("<H", data, start)
        starts.append(start)
        links.append(start + 2 + entries * 12)
    struct.pack_into("<I", data, links[-1], starts[back_to])
    return bytes(data)


def jpeg(seed: int = 1) -> bytes:
    """Return ``scan`` as the bytes of a JPEG file."""
    file = io.BytesIO()
    scan(seed).save(file, "JPEG", quality=80)
    return file.getvalue()


def scanned_pdf(path: Path, pages: int = 3, rotation: int = 0) -> Path:
    """Write a PDF of image-only pages, each ``SCAN_SIZE_PX`` at ``SCAN_DPI`` before it is turned."""
    document = pymupdf.open()
    for seed in range(1, pages + 1):
        page = document.new_page(width=SCAN_SIZE_PX[0] * 72 / SCAN_DPI, height=SCAN_SIZE_PX[1] * 72 / SCAN_DPI)
        page.insert_image(page.rect, stream=jpeg(seed))
        page.set_rotation(rotation)
    document.save(path)
    document.close()
    return path


def heavy_pdf(path: Path, pages: int, page_bytes: int) -> Path:
    """Write a PDF of small scans that no one could compress: every page is ``page_bytes`` of its own."""
    file = io.BytesIO()
    scan(size_px=(200, 260)).save(file, "JPEG", quality=60)
    picture = file.getvalue()
    document = pymupdf.open()
    noise = np.random.default_rng(1)
    for _ in range(pages):
        page = document.new_page(width=200, height=260)
        # Behind its end marker a JPEG may carry anything; no reader looks at it.
        page.insert_image(page.rect, stream=picture + noise.bytes(page_bytes - len(picture)))
    document.save(path)
    document.close()
    return path


def drawn_pdf(path: Path, texts: list[str]) -> Path:
    """Write a PDF with visible text, one page for each of ``texts``."""
    document = pymupdf.open()
    for text in texts:
        document.new_page().insert_text((72, 100), text)
    document.save(path)
    document.close()
    return path


def pixels_at(path: Path, dpi: int = 150) -> list[bytes]:
    """Return every page of a PDF as pixels."""
    with pymupdf.open(path) as document:
        return [bytes(page.get_pixmap(dpi=dpi).samples) for page in document]


def image_streams(path: Path) -> list[list[bytes]]:
    """Return the undecoded streams of the images of every page of a PDF."""
    with pymupdf.open(path) as document:
        return [[document.xref_stream_raw(image[0]) for image in page.get_images()] for page in document]


def pdf_with_a_lost_page(path: Path, pages: int = 3, lost: int = 2) -> Path:
    """Write a PDF of scans in which page ``lost`` is counted but leads in a circle."""
    with pymupdf.open(scanned_pdf(path.with_suffix(".whole"), pages)) as document:
        parent = int(document.xref_get_key(document[0].xref, "Parent")[1].split()[0])
        kids = [page.xref for page in document]
        circle = kids[lost - 1] = document.get_new_xref()
        document.update_object(circle, f"<< /Type /Pages /Count 1 /Parent {parent} 0 R /Kids [{circle} 0 R] >>")
        document.xref_set_key(parent, "Kids", f"[{' '.join(f'{kid} 0 R' for kid in kids)}]")
        document.save(path)
    return path
