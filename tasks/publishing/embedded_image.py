"""An image file as a page of a PDF, without loss.

JPEG and JPEG 2000 files go in as they are, byte for byte; so does the compressed data of a plain PNG.
Black and white becomes CCITT G4, everything else is packed as PNG packs it: both without loss. Of colour
TIFFs with 16 bits a channel 8 are kept; transparent parts become white.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from data_contracts.errors import RenderFailed
from tasks.sources.page_images import (
    FIRST_SIDEWAYS_ORIENTATION,
    Frame,
    check_size,
    eight_bits,
    has_plain_cmyk,
    open_image,
    orientation_of,
    shown_dpi,
    sixteen_bits,
    upright,
)
from tasks.sources.pdf.mupdf import POINTS_PER_INCH, mupdf

if TYPE_CHECKING:
    from PIL.Image import Image

IMAGE_RESOURCE = "TomeflowPage"

_PLACEMENTS = {
    1: (1, 0, 0, 1, 0, 0),
    2: (-1, 0, 0, 1, 1, 0),
    3: (-1, 0, 0, -1, 1, 1),
    4: (1, 0, 0, -1, 0, 1),
    5: (0, -1, -1, 0, 1, 1),
    6: (0, -1, 1, 0, 0, 1),
    7: (0, 1, 1, 0, 0, 0),
    8: (0, 1, -1, 0, 1, 0),
}
"""EXIF orientation -> where the stored image's unit square goes on a page of 1 x 1."""

_DEVICE_SPACES = {1: "/DeviceGray", 3: "/DeviceRGB", 4: "/DeviceCMYK"}
_JPEG_COMPONENTS = {"L": 1, "RGB": 3, "CMYK": 4}
_INVERTED_CMYK = "/Decode [1 0 1 0 1 0 1 0]"

_ICC_SIGNATURE = slice(16, 20)
_ICC_COMPONENTS = {b"GRAY": 1, b"RGB ": 3, b"CMYK": 4}

_TIFF_ROWS_PER_STRIP = 278
_TIFF_STRIP_OFFSETS = 273
_TIFF_STRIP_LENGTHS = 279

_PNG_SIGNATURE_BYTES = 8
_PNG_COLOUR, _PNG_PALETTE = 2, 3
_PNG_PLAIN_COLOUR_TYPES = (0, _PNG_COLOUR, _PNG_PALETTE)


@dataclass(frozen=True)
class _Embedded:
    """An image XObject: compressed ``data``, the ``entries`` of its dictionary beside the colour space.

    ``components`` is 0 where the data says its colour space itself (JPEG 2000). ``palette`` is RGB.
    ``size_px`` is width and height as stored in the PDF, before ``orientation`` is applied.
    """

    data: bytes
    size_px: tuple[int, int]
    entries: str
    components: int
    palette: bytes = b""
    orientation: int = 1


def add_image_page(document: Any, frame: Frame) -> None:
    """Append the page ``frame`` to the open PyMuPDF ``document``, in the size that its resolution gives.

    Raises:
        UnreadableDocument: the file cannot be opened.
        RenderFailed: it is too large to decode, or its pixels are damaged and have to be packed anew.
    """
    with open_image(frame.path) as image:
        check_size(image)
        try:
            image.seek(frame.index)
            embedded = _embed(image, frame)
        except (OSError, ValueError, SyntaxError, EOFError) as error:
            raise RenderFailed(f"{frame.path.name} is damaged ({error}). Get it again or leave it out.") from error
        dpi = shown_dpi(image)
        profile = image.info.get("icc_profile") or b""
    sideways = embedded.orientation >= FIRST_SIDEWAYS_ORIENTATION
    shown_px = embedded.size_px[::-1] if sideways else embedded.size_px
    width, height = (pixels * POINTS_PER_INCH / per_inch for pixels, per_inch in zip(shown_px, dpi, strict=True))
    page = document.new_page(-1, width=width, height=height)
    image_xref = _add_stream(document, embedded.data, _dictionary(document, embedded, profile))
    a, b, c, d, e, f = _PLACEMENTS[embedded.orientation]
    matrix = (a * width, b * height, c * width, d * height, e * width, f * height)
    shown = f"q {' '.join(f'{number:.4f}' for number in matrix)} cm /{IMAGE_RESOURCE} Do Q\n"
    document.xref_set_key(page.xref, "Resources", f"<< /XObject << /{IMAGE_RESOURCE} {image_xref} 0 R >> >>")
    document.xref_set_key(page.xref, "Contents", f"{_add_stream(document, shown.encode('ascii'), '<<>>')} 0 R")


def _embed(image: Image, frame: Frame) -> _Embedded:
    """Return ``image`` as a PDF image: the file itself where a PDF can hold it, else packed without loss."""
    if image.format in ("JPEG", "MPO") and image.mode in _JPEG_COMPONENTS:
        return _jpeg(image, frame.path.read_bytes())
    if image.format == "JPEG2000" and not image.has_transparency_data:
        entries = f"{_size(image.size)} /Filter /JPXDecode"
        return _Embedded(frame.path.read_bytes(), image.size, entries, 0, b"", orientation_of(image))
    if image.format == "PNG" and orientation_of(image) == 1:
        embedded = _png(frame.path.read_bytes())
        if embedded is not None:
            return embedded
    return _packed(upright(image))


def _size(size_px: tuple[int, int]) -> str:
    return f"/Width {size_px[0]} /Height {size_px[1]}"


def _jpeg(image: Image, data: bytes) -> _Embedded:
    components = _JPEG_COMPONENTS[image.mode]
    inverted = _INVERTED_CMYK if image.mode == "CMYK" and not has_plain_cmyk(image) else ""
    entries = f"{_size(image.size)} /BitsPerComponent 8 /Filter /DCTDecode {inverted}"
    return _Embedded(data, image.size, entries, components, b"", orientation_of(image))


def _packed(image: Image) -> _Embedded:
    """Return ``image`` as CCITT G4 if it is black and white, else as PNG packs it."""
    if image.mode == "1":
        return _ccitt(image)
    if image.mode.startswith("I;16"):
        image = sixteen_bits(image)
    keeps_depth = image.mode in ("L", "RGB", "P", "I;16") and not image.has_transparency_data
    file = io.BytesIO()
    (image if keeps_depth else eight_bits(image)).save(file, "PNG")
    embedded = _png(file.getvalue())
    assert embedded is not None, "a PNG of these modes has no alpha and is not interlaced"
    return embedded


def _ccitt(image: Image) -> _Embedded:
    """Return black and white ``image`` in one strip of CCITT G4; white paper is what its codes are short for."""
    import PIL.Image
    from PIL import ImageChops

    file = io.BytesIO()
    ImageChops.invert(image).save(file, "TIFF", compression="group4", tiffinfo={_TIFF_ROWS_PER_STRIP: image.height})
    with PIL.Image.open(file) as tiff:
        (start,), (length,) = tiff.tag_v2[_TIFF_STRIP_OFFSETS], tiff.tag_v2[_TIFF_STRIP_LENGTHS]  # type: ignore[attr-defined]
    parameters = f"<< /K -1 /Columns {image.width} /Rows {image.height} >>"
    entries = f"{_size(image.size)} /BitsPerComponent 1 /Filter /CCITTFaxDecode /DecodeParms {parameters}"
    return _Embedded(file.getvalue()[start : start + length], image.size, entries, 1)


def _png(data: bytes) -> _Embedded | None:
    """Return the compressed data of a PNG file as a PDF reads it; None with transparency or interlacing."""
    chunks = list(_png_chunks(data))
    kinds = {kind for kind, _ in chunks}
    width, height, bits, colour_type, _, _, interlaced = struct.unpack(">IIBBBBB", chunks[0][1])
    if interlaced or colour_type not in _PNG_PLAIN_COLOUR_TYPES or b"tRNS" in kinds:
        return None
    components = 3 if colour_type == _PNG_COLOUR else 1
    parameters = f"<< /Predictor 15 /Colors {components} /BitsPerComponent {bits} /Columns {width} >>"
    palette = b"".join(content for kind, content in chunks if kind == b"PLTE") if colour_type == _PNG_PALETTE else b""
    return _Embedded(
        b"".join(content for kind, content in chunks if kind == b"IDAT"),
        (width, height),
        f"{_size((width, height))} /BitsPerComponent {bits} /Filter /FlateDecode /DecodeParms {parameters}",
        components,
        palette,
    )


def _png_chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    position = _PNG_SIGNATURE_BYTES
    while position + 8 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, position)
        yield kind, data[position + 8 : position + 8 + length]
        position += 12 + length


def _dictionary(document: Any, embedded: _Embedded, profile: bytes) -> str:
    space = _colour_space(document, embedded, profile)
    return f"<< /Type /XObject /Subtype /Image {embedded.entries} {space} >>"


def _colour_space(document: Any, embedded: _Embedded, profile: bytes) -> str:
    """Return the /ColorSpace entry: with the image's own profile where it has one of the right kind."""
    if not embedded.components:
        return ""
    components = 3 if embedded.palette else embedded.components
    space = _DEVICE_SPACES[components]
    if _ICC_COMPONENTS.get(profile[_ICC_SIGNATURE]) == components:
        profile_xref = _add_stream(document, profile, f"<< /N {components} /Alternate {space} >>")
        space = f"[/ICCBased {profile_xref} 0 R]"
    if embedded.palette:
        space = f"[/Indexed {space} {len(embedded.palette) // 3 - 1} <{embedded.palette.hex()}>]"
    return f"/ColorSpace {space}"


def _add_stream(document: Any, data: bytes, dictionary: str) -> int:
    """Add ``data`` as it is: ``dictionary`` already names the filters that it was compressed with."""
    with mupdf() as pymupdf:
        low_level = pymupdf.mupdf
        xref = int(document.get_new_xref())
        document.update_object(xref, dictionary)
        pdf = low_level.pdf_document_from_fz_document(document.this)
        buffer = low_level.fz_new_buffer_from_copied_data(data)
        low_level.pdf_update_stream(pdf, low_level.pdf_new_indirect(pdf, xref, 0), buffer, 1)
    return xref
