"""TIFFs written by hand: the pixels that their tags mean, or a refusal; and which frames are pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pymupdf
import pytest
from support.tiffs import DEFLATE, tiff_file, tiff_frame

from data_contracts.config import RenderConfig
from data_contracts.errors import RenderFailed, TomeflowError
from tasks.publishing.embedded_image import add_image_page
from tasks.sources.page_images import Frame, eight_bits, frames_of, open_image, upright
from tasks.sources.render import PageSource
from tasks.sources.scan_digest import scan_digests

Array = npt.NDArray[np.generic]
ROUNDING = 2
"""Of 255: 16 bits and floats become 8 by different roundings."""

ROWS, COLUMNS = np.mgrid[:60, :97]
COLOURS = np.stack([ROWS * 4 % 256, COLUMNS * 2 % 256, (ROWS * 3 + COLUMNS * 5) % 256], axis=2).astype(np.uint8)
COLOURS[0, 0], COLOURS[0, 1] = 255, 0
GREY = COLOURS[:, :, 2].copy()
FULL = np.full_like(GREY, 255)
INKS = np.dstack([255 - COLOURS, np.zeros_like(GREY)])
WHITE_IS_ZERO, BLACK_IS_ZERO, RGB, PALETTE, CMYK = 0, 1, 2, 3, 5
PLANES, COMPRESSION, PREDICTOR, BITS, FILL_ORDER, EXTRA, COLOUR_MAP, SUBFILE = 284, 259, 317, 258, 266, 338, 320, 254


def deep(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint16]:
    return pixels.astype(np.uint16) * 257


def read(path: Path) -> npt.NDArray[np.int64]:
    with open_image(path) as image:
        return np.asarray(eight_bits(upright(image)).convert("RGB")).astype(np.int64)


def in_pdf(path: Path) -> npt.NDArray[np.int64]:
    with pymupdf.open() as document:
        add_image_page(document, Frame(path))
        page = document[0]
        pixmap = page.get_pixmap(matrix=pymupdf.Matrix(97 / page.rect.width, 60 / page.rect.height))
        return np.frombuffer(pixmap.samples, np.uint8).reshape(60, 97, 3).astype(np.int64)


def common_kinds() -> Iterator[tuple[str, Array, int, dict[int, list[int]], Array]]:
    for depth, widen in (("8", lambda pixels: pixels), ("16", deep)):
        for planes in (1, 2):
            tags = {PLANES: [planes]}
            name = f"{depth} bits, {'separate planes' if planes == 2 else 'together'}"
            yield f"RGB of {name}", widen(COLOURS), RGB, tags, COLOURS
            yield f"RGB with alpha of {name}", widen(np.dstack([COLOURS, FULL])), RGB, {**tags, EXTRA: [2]}, COLOURS
            yield f"RGB with spare of {name}", widen(np.dstack([COLOURS, GREY])), RGB, {**tags, EXTRA: [0]}, COLOURS
            yield f"CMYK of {name}", widen(INKS), CMYK, tags, COLOURS
        yield f"grey of {depth} bits", widen(GREY), BLACK_IS_ZERO, {}, GREY
    map_of_16_bits = [int(value) * 257 for value in (*range(255, -1, -1), *range(256), *([9] * 256))]
    through_map = np.dstack([255 - GREY, GREY, np.full_like(GREY, 9)])
    yield "palette", GREY, PALETTE, {COLOUR_MAP: map_of_16_bits}, through_map
    yield "palette in bytes", GREY, PALETTE, {COLOUR_MAP: [value // 257 for value in map_of_16_bits]}, through_map
    yield "white is zero", 255 - GREY, WHITE_IS_ZERO, {}, GREY
    yield "floats", (GREY / 255).astype(np.float32), BLACK_IS_ZERO, {}, GREY
    yield "floats, white is zero", (1 - GREY / 255).astype(np.float32), WHITE_IS_ZERO, {}, GREY
    yield "signed 16 bits", GREY.astype(np.int16) * 128, BLACK_IS_ZERO, {}, GREY
    for bits in (1, 2, 4):
        levels = GREY >> (8 - bits)
        expected = (levels.astype(int) * 255 // (2**bits - 1)).astype(np.uint8)
        yield f"{bits} bits", levels, BLACK_IS_ZERO, {BITS: [bits]}, expected
        yield f"{bits} bits, white is zero", 2**bits - 1 - levels, WHITE_IS_ZERO, {BITS: [bits]}, expected
        yield f"{bits} bits, reversed", levels, BLACK_IS_ZERO, {BITS: [bits], FILL_ORDER: [2]}, expected


COMMON = {name: (pixels, photometric, tags, expected) for name, pixels, photometric, tags, expected in common_kinds()}
LITTLE_ENDIAN_ONLY = {
    "16 bits, white is zero": (deep(255 - GREY), WHITE_IS_ZERO, {}, GREY),
    "12 bits": ((deep(GREY) >> 4), BLACK_IS_ZERO, {BITS: [12]}, GREY),
    "unsigned 32 bits": (GREY.astype(np.uint32) * 16_843_009, BLACK_IS_ZERO, {}, GREY),
}
LAYOUTS = [("<", None, 1), ("<", 32, 1), ("<", None, DEFLATE), (">", None, 1), (">", 32, DEFLATE)]


def agrees(shown: npt.NDArray[np.int64], expected: Array) -> bool:
    meant = expected if expected.ndim == 3 else np.dstack([expected] * 3)
    return shown.shape == meant.shape and int(np.abs(shown - meant.astype(np.int64)).max()) <= ROUNDING


@pytest.mark.parametrize(("order", "tile", "compression"), LAYOUTS)
@pytest.mark.parametrize("name", COMMON)
def test_pixels_are_read_and_embedded_as_the_tags_mean_them(tmp_path, name, order, tile, compression):
    pixels, photometric, tags, expected = COMMON[name]
    if FILL_ORDER in tags and compression != 1:
        compression = 1  # libtiff turns the bits of compressed data; what a writer does with them is its own affair
    frame = tiff_frame(pixels, photometric, order, tile, {**tags, COMPRESSION: [compression]})
    (tmp_path / "page.tif").write_bytes(tiff_file([frame], order))
    assert agrees(read(tmp_path / "page.tif"), expected)
    assert agrees(in_pdf(tmp_path / "page.tif"), expected)


@pytest.mark.parametrize("tile", [None, 32])
@pytest.mark.parametrize("name", LITTLE_ENDIAN_ONLY)
def test_rarer_depths_are_read_and_embedded_as_the_tags_mean_them(tmp_path, name, tile):
    pixels, photometric, tags, expected = LITTLE_ENDIAN_ONLY[name]
    if BITS in tags and tile:
        tile = None
    (tmp_path / "page.tif").write_bytes(tiff_file([tiff_frame(pixels, photometric, "<", tile, tags)]))
    assert agrees(read(tmp_path / "page.tif"), expected)
    assert agrees(in_pdf(tmp_path / "page.tif"), expected)


@pytest.mark.parametrize("pixels", [GREY, COLOURS, deep(GREY), deep(COLOURS)], ids=["L", "RGB", "L16", "RGB16"])
@pytest.mark.parametrize("order", ["<", ">"])
def test_a_predictor_is_undone(tmp_path, pixels, order):
    tags = {COMPRESSION: [DEFLATE], PREDICTOR: [2]}
    photometric = RGB if pixels.ndim == 3 else BLACK_IS_ZERO
    (tmp_path / "page.tif").write_bytes(tiff_file([tiff_frame(pixels, photometric, order, None, tags)], order))
    assert agrees(read(tmp_path / "page.tif"), COLOURS if pixels.ndim == 3 else GREY)


REFUSED = {
    "grey and alpha in separate planes": (np.dstack([GREY, FULL]), BLACK_IS_ZERO, {PLANES: [2], EXTRA: [2]}),
    "signed bytes": ((GREY >> 1).astype(np.int8), BLACK_IS_ZERO, {}),
    "doubles": ((GREY / 255).astype(np.float64), BLACK_IS_ZERO, {}),
    "half floats": ((GREY / 255).astype(np.float16), BLACK_IS_ZERO, {}),
    "RGB of floats": ((COLOURS / 255).astype(np.float32), RGB, {}),
    "12 bits, white is zero": (4095 - (deep(GREY) >> 4), WHITE_IS_ZERO, {BITS: [12]}),
    "a palette of 65,536": (deep(GREY), PALETTE, {COLOUR_MAP: [*range(0, 65_536)] * 3}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_as_meant_is_refused_by_name(tmp_path, name):
    (tmp_path / "page.tif").write_bytes(tiff_file([tiff_frame(*REFUSED[name][:2], tags=REFUSED[name][2])]))
    with pytest.raises(TomeflowError, match=r"is not read|are not read|cannot be opened .* of a kind that is not read"):
        read(tmp_path / "page.tif")


def page(shade: int, side: int = 64, **tags: int) -> tuple[list[bytes], dict]:
    named = {"subfile": SUBFILE, "old": 255, "photometric": 262}
    return tiff_frame(
        np.full((side, side * 2), shade, np.uint8), BLACK_IS_ZERO, tags={named[name]: [tags[name]] for name in tags}
    )


CHAINS: dict[str, tuple[Callable[[], list], list[int]]] = {
    "thumbnails after": (lambda: [page(10, subfile=2), page(9, 8, subfile=1), page(20), page(9, 8, subfile=1)], [0, 2]),
    "thumbnails before": (
        lambda: [page(9, 8, subfile=1), page(10, subfile=0), page(9, 8, subfile=3), page(20)],
        [1, 3],
    ),
    "a pyramid": (lambda: [page(10), page(10, 32, subfile=1), page(10, 16, subfile=1), page(20)], [0, 3]),
    "old thumbnails": (lambda: [page(10, old=1), page(9, 8, old=2), page(20, old=3)], [0, 2]),
    "masks": (lambda: [page(10), page(0, subfile=4), page(20), page(0, subfile=6), page(0, photometric=4)], [0, 2]),
    "a mask of a thumbnail": (lambda: [page(10), page(0, 8, subfile=5), page(20)], [0, 2]),
    "all are flagged": (lambda: [page(10, subfile=1), page(20, subfile=1)], [0, 1]),
    "one alone, flagged": (lambda: [page(10, subfile=1)], [0]),
    "flagged and as large as the others": (lambda: [page(10), page(20, subfile=1)], [0, 1]),
    "small pages without a flag": (lambda: [page(10), page(20, 8)], [0, 1]),
}


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("in_folder", [False, True])
def test_frames_that_are_no_pages_are_none_anywhere(tmp_path, name, in_folder):
    make, expected = CHAINS[name]
    (tmp_path / "many.tif").write_bytes(tiff_file(make()))
    source = tmp_path if in_folder else tmp_path / "many.tif"
    kind = "folder" if in_folder else "image"
    frames = frames_of(source)
    assert [frame.index for frame in frames] == expected
    with PageSource(source, kind, RenderConfig()) as pages:
        shades = [int(pages.render(number + 1).pixels[0, 0, 0]) for number in range(len(frames))]
        assert int(pages.render(1).pixels[0, 0, 0]) == shades[0], "in any order"
    assert shades == [10, 20][: len(expected)]
    assert len(set(scan_digests(source, kind, range(1, len(frames) + 1)).values())) == len(frames)
    with pymupdf.open() as document:
        for frame, shade in zip(frames, shades, strict=True):
            add_image_page(document, frame)
            assert abs(document[-1].get_pixmap().pixel(1, 1)[0] - shade) <= ROUNDING


def test_a_frame_whose_pixels_cannot_be_read_is_a_page_that_fails_by_itself(tmp_path):
    odd = tiff_frame((GREY / 255).astype(np.float64), BLACK_IS_ZERO)
    (tmp_path / "many.tif").write_bytes(tiff_file([page(10), odd, page(20)]))
    assert [frame.index for frame in frames_of(tmp_path / "many.tif")] == [0, 1, 2]
    with PageSource(tmp_path / "many.tif", "image", RenderConfig()) as pages:
        with pytest.raises(RenderFailed, match=r"^page 2: "):
            pages.render(2)
        assert [int(pages.render(number).pixels[0, 0, 0]) for number in (1, 3)] == [10, 20]
