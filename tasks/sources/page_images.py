"""Image files as pages: which kinds are read, in what order a folder's pages stand, how one becomes pixels.

Kinds are told apart by content, never by suffix. Knows neither PDF nor models.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from data_contracts.document import shown_name
from data_contracts.errors import RenderFailed, UnreadableDocument
from tasks.sources.tiff_pages import as_tags_mean, page_indexes

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from PIL.Image import Image

FileKind = Literal["pdf", "png", "jpeg", "tiff", "webp", "jpeg2000"]

KINDS_IN_WORDS = "a PDF or an image (PNG, JPEG, TIFF, WebP, JPEG 2000)"

PAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp", ".jp2", ".j2k", ".jpf", ".jpx")

HEAD_BYTES = 1024
"""How far into a file its kind shows; a PDF may have that much before its header."""

ASSUMED_DPI = 300.0
"""For images that do not say. 300 is what scanners are set to for text."""

LOWEST_BELIEVED_DPI = 100.0
"""Lower claims (72, 96) are defaults of software, not measurements of a scan. A fax has 204 x 98."""

MOST_UNEQUAL_DPI = 4.0
"""No device scans more than this many times finer across than down; then one of the two is a mistake."""

MAX_DECODED_MEGAPIXELS = 500
"""Decoding more than this takes over 1.5 GB at once; a page of 100 x 70 cm at 400 dpi has 180."""

FIRST_SIDEWAYS_ORIENTATION = 5
"""EXIF orientations from here on exchange width and height."""

_EXIF_ORIENTATION = 0x0112
_UNEQUAL_RATIO = 0.02

_PDF_OBJECT = re.compile(rb"(?:^|[\r\n])[0-9]{1,7} [0-9]{1,5} obj\b")
"""How the first object of a PDF begins, whose header may be damaged or gone."""

_PDF_END = re.compile(rb"startxref\s+[0-9]+\s+%%EOF")

_MAGIC: tuple[tuple[bytes, int, FileKind], ...] = (
    (b"\x89PNG\r\n\x1a\n", 0, "png"),
    (b"\xff\xd8\xff", 0, "jpeg"),
    (b"II*\0", 0, "tiff"),
    (b"MM\0*", 0, "tiff"),
    (b"II+\0", 0, "tiff"),
    (b"MM\0+", 0, "tiff"),
    (b"WEBP", 8, "webp"),
    (b"\0\0\0\x0cjP  \r\n\x87\n", 0, "jpeg2000"),
    (b"\xff\x4f\xff\x51", 0, "jpeg2000"),
)


@dataclass(frozen=True)
class Frame:
    """One page of an image source: a file, and which of its frames."""

    path: Path
    index: int = 0


def kind_of(head: bytes) -> FileKind | None:
    """Return what a file that begins with ``head`` is; None for anything that is not read here."""
    for magic, offset, kind in _MAGIC:
        if head[offset : offset + len(magic)] == magic:
            return kind
    return "pdf" if b"%PDF-" in head[:HEAD_BYTES] or _PDF_OBJECT.search(head[:HEAD_BYTES]) else None


def file_kind(path: Path) -> FileKind | None:
    """Return the kind of the file at ``path`` by its first bytes, or by its last if it is a PDF behind other bytes."""
    with path.open("rb") as file:
        kind = kind_of(file.read(HEAD_BYTES))
        file.seek(max(path.stat().st_size - HEAD_BYTES, 0))
        return kind or ("pdf" if _PDF_END.search(file.read()) else None)


def natural_key(name: str) -> tuple[tuple[str, int, str], ...]:
    """Return a sort key under which page2 stands before page10; names that differ never compare equal."""
    parts = re.findall(r"([^0-9]*)([0-9]*)", name.casefold())
    return (*((text, int(number or -1), number) for text, number in parts), (name, 0, ""))


def folder_files(folder: Path) -> tuple[list[Path], list[str]]:
    """Return the page images of ``folder`` in natural order, and the names of all else, hidden files left out.

    What is named like a page image is a page, whatever is in it: an empty or damaged one fails by itself later.

    Raises:
        UnreadableDocument: such a name leads to no file.
    """
    images: list[Path] = []
    ignored: list[str] = []
    for path in sorted(folder.iterdir(), key=lambda path: natural_key(path.name)):
        if path.name.startswith("."):
            continue
        is_named_so = path.suffix.lower() in PAGE_SUFFIXES and not path.is_dir()
        if is_named_so and not path.is_file():
            raise UnreadableDocument(
                f"{shown_name(path.name)} in the folder {folder.name} is named like a page but is no file (a broken "
                "link?). Put the page there, or take the name away."
            )
        kind = file_kind(path) if path.is_file() else None
        if kind != "pdf" and (kind or is_named_so):
            images.append(path)
        else:
            ignored.append(path.name)
    return images, ignored


def frames_of(source: Path) -> list[Frame]:
    """Return the pages of an image file or of a folder of images, in order; only TIFF files have several.

    Raises:
        UnreadableDocument: the header of the image file is damaged; in a folder such a file counts as a page.
    """
    if not source.is_dir():
        return [Frame(source, index) for index in _indexes_in(source)]
    return [Frame(path, index) for path in folder_files(source)[0] for index in _indexes_in_folder(path)]


def _indexes_in_folder(path: Path) -> list[int]:
    try:
        return _indexes_in(path)
    except UnreadableDocument:
        return [0]  # a page that fails by itself; the others are read


def _indexes_in(path: Path) -> list[int]:
    with open_image(path) as image:
        return find_pages(image, path)


def find_pages(image: Image, path: Path) -> list[int]:
    """Return which frames of the open ``image`` of the file at ``path`` are pages; it may show another one after.

    Raises:
        UnreadableDocument: not all of them can be found.
    """
    if image.format != "TIFF":
        return [0]
    try:
        return page_indexes(image)
    except (OSError, ValueError, SyntaxError, TypeError, KeyError, struct.error) as error:
        # the next frame lies behind the cut; Pillow fails with whatever it missed first
        raise _damaged(path, "its pages cannot be counted", error) from error


def open_image(path: Path) -> Image:
    """Open an image without decoding it; the caller closes it.

    Raises:
        UnreadableDocument: the header is damaged.
    """
    import PIL.Image
    from PIL import TiffImagePlugin

    PIL.Image.MAX_IMAGE_PIXELS = None  # our own limit is MAX_DECODED_MEGAPIXELS, checked before decoding
    TiffImagePlugin.READ_LIBTIFF = True  # Pillow's own decoder takes separate planes of 16 bits for 8
    try:
        return PIL.Image.open(path)
    except (OSError, ValueError, SyntaxError) as error:
        raise _damaged(path, "cannot be opened", error) from error


def _damaged(path: Path, what: str, error: object) -> UnreadableDocument:
    return UnreadableDocument(
        f"{shown_name(path.name)} looks like {file_kind(path) or 'no image'} but {what} ({error}). "
        "It is damaged, cut off or of a kind that is not read: get it again from its source, save it in another kind, "
        "or leave it out."
    )


def check_size(image: Image) -> None:
    """Refuse an image that would fill the memory.

    Raises:
        RenderFailed: it has more than ``MAX_DECODED_MEGAPIXELS``.
    """
    megapixels = image.width * image.height / 1e6
    if megapixels > MAX_DECODED_MEGAPIXELS:
        raise RenderFailed(
            f"the image has {image.width} x {image.height} pixels, {megapixels:.0f} Mpx; "
            f"the limit is {MAX_DECODED_MEGAPIXELS}. Scale it down or cut it into pages."
        )


def orientation_of(image: Image) -> int:
    """Return the EXIF orientation of ``image`` as opened, 1 to 8; 1 is upright."""
    orientation = int(image.getexif().get(_EXIF_ORIENTATION, 1))
    return orientation if 1 <= orientation <= 8 else 1


def shown_dpi(image: Image) -> tuple[float, float]:
    """Return the resolution of ``image`` across and down once it is upright [dpi]; ``ASSUMED_DPI`` if not credible."""
    across, down = (float(value) for value in image.info.get("dpi") or (0, 0))
    if max(across, down) < LOWEST_BELIEVED_DPI or max(across, down) > MOST_UNEQUAL_DPI * min(across, down):
        return ASSUMED_DPI, ASSUMED_DPI
    return (down, across) if orientation_of(image) >= FIRST_SIDEWAYS_ORIENTATION else (across, down)


def upright(image: Image) -> Image:
    """Return ``image`` as opened, in the colours that its file means, turned as its EXIF orientation asks.

    Raises:
        RenderFailed: its pixels are of a kind that would come out wrong.
    """
    from PIL import ImageOps

    if image.format == "TIFF":
        image = as_tags_mean(image)
    elif has_plain_cmyk(image):
        image = _invert_plain_cmyk(image)
    return ImageOps.exif_transpose(image) or image


def has_plain_cmyk(image: Image) -> bool:
    """Return whether ``image`` is a JPEG of CMYK whose ink is 255, not 0: without Adobe's marker nothing inverts it."""
    return image.format in ("JPEG", "MPO") and image.mode == "CMYK" and "adobe" not in image.info


def _invert_plain_cmyk(image: Image) -> Image:
    """Return ``image`` as its numbers are: Pillow takes every JPEG of CMYK for one of Adobe's."""
    from PIL import ImageChops

    inverted = ImageChops.invert(image)
    inverted.info = dict(image.info)
    return inverted


def square_pixels(image: Image, dpi: tuple[float, float]) -> tuple[Image, float]:
    """Return ``image`` with equal resolution both ways (fax pages have 204 x 98 dpi), and that resolution."""
    horizontal, vertical = dpi
    target = max(dpi)
    if abs(horizontal - vertical) <= _UNEQUAL_RATIO * target:
        return image, horizontal
    size = (round(image.width * target / horizontal), round(image.height * target / vertical))
    return eight_bits(image).resize(size), target


def eight_bits(image: Image) -> Image:
    """Return ``image`` as L or RGB with 8 bits a channel; transparent parts become white, as paper is."""
    import PIL.Image

    if image.mode.startswith(("I", "F")):
        return _deep_grey(image)
    if image.has_transparency_data:
        layered = image.convert("RGBA")
        return PIL.Image.alpha_composite(PIL.Image.new("RGBA", layered.size, "white"), layered).convert("RGB")
    return image.convert("L" if image.mode in ("1", "L") else "RGB")


def sixteen_bits(image: Image) -> Image:
    """Return grey of 9 to 16 bits as 16 bits: white is then what every reader takes for white. Nothing is lost."""
    import numpy as np
    import PIL.Image

    values = np.asarray(image).astype(np.float64)
    return PIL.Image.fromarray((values * (65_535 / _deep_white(values))).round().astype(np.uint16))


def _deep_grey(image: Image) -> Image:
    """Return grey of 9 to 32 bits or floats as 8 bits."""
    import numpy as np
    import PIL.Image

    values = np.clip(np.asarray(image, dtype=np.float64), 0, None)
    return PIL.Image.fromarray((values * (255 / _deep_white(values))).astype(np.uint8))


def _deep_white(values: npt.NDArray[np.float64]) -> float:
    """Return the largest number of as many bits as are in use, which the brightest pixel tells."""
    import numpy as np

    brightest = max(float(values.max(initial=0.0)), 1.0)
    return float(2.0 ** np.ceil(np.log2(brightest + 1)) - 1)


def is_of_one_colour(pixels: npt.NDArray[np.uint8]) -> bool:
    """Return whether all ``pixels`` [height, width, 3] are equal."""
    return bool((pixels == pixels[0, 0]).all())
