"""PDF pages whose print lies where a quick look at image sizes misses it: in masks, patterns, forms, clips and strips.

Each of ``LAYERED`` writes a page that shows black print on white, or nearly so; the print is any grey image.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from pathlib import Path

import pikepdf
from pikepdf import Array, Dictionary, Name, Stream
from PIL import Image

DPI = 150
"""Resolution of the print in every page of ``LAYERED``."""


class LayeredPage:
    """One page of a new PDF, as large as ``printed`` is at ``DPI``. ``draw`` adds to what it shows."""

    def __init__(self, printed: Image.Image) -> None:
        self.printed = printed.convert("L")
        self.pdf = pikepdf.new()
        self.width, self.height = (side * 72 / DPI for side in printed.size)
        self.objects, self.patterns, self.states = Dictionary(), Dictionary(), Dictionary()
        self.fonts = Dictionary()
        self.content = ""
        self.entries = Dictionary()

    @property
    def everywhere(self) -> str:
        return f"{self.width:.4f} 0 0 {self.height:.4f} 0 0 cm"

    def image(self, data: bytes, size: tuple[int, int], **entries: object) -> Stream:
        plain = {"Subtype": Name.Image, "Width": size[0], "Height": size[1], "BitsPerComponent": 8, **entries}
        return self.pdf.make_indirect(Stream(self.pdf, data, Dictionary(Type=Name.XObject, **plain)))

    def colour(self, size: tuple[int, int] = (1, 1), shade: int = 0, **entries: object) -> Stream:
        return self.image(bytes([shade]) * (size[0] * size[1]), size, ColorSpace=Name.DeviceGray, **entries)

    def soft_mask(self, **entries: object) -> Stream:
        """Return a soft mask under which the print shows."""
        ink = self.printed.point(lambda shade: 255 - shade)
        return self.image(ink.tobytes(), ink.size, ColorSpace=Name.DeviceGray, **entries)

    def stencil(self, part: Image.Image | None = None) -> Stream:
        """Return a mask of one bit, in CCITT: black, 0, is painted."""
        return self.image(*_fax(part or self.printed), BitsPerComponent=1, ImageMask=True)

    def draw(self, operators: str, **objects: Stream) -> None:
        for name, drawn in objects.items():
            self.objects[f"/{name}"] = drawn
        self.content += f"q {operators} Q\n"

    def show(self, image: Stream) -> None:
        self.draw(f"{self.everywhere} /Im Do", Im=image)

    def save(self, path: Path) -> Path:
        resources = Dictionary(XObject=self.objects, Pattern=self.patterns, ExtGState=self.states, Font=self.fonts)
        box = Array([0, 0, self.width, self.height])
        page = Dictionary(Type=Name.Page, MediaBox=box, Resources=resources, Contents=self.pdf.make_stream(b""))
        for name, value in self.entries.items():
            page[name] = value
        page.Contents = self.pdf.make_stream(self.content.encode("ascii"))
        self.pdf.pages.append(pikepdf.Page(self.pdf.make_indirect(page)))
        self.pdf.save(path, static_id=True)
        return path


def _encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def _fax(image: Image.Image) -> tuple[bytes, tuple[int, int]]:
    """Return one bit a pixel, 0 for black, eight in a byte."""
    bits = image.point(lambda shade: 255 if shade > 128 else 0).convert("1")
    return bits.tobytes(), bits.size


def jbig2(image: Image.Image) -> bytes:
    """Return ``image`` as an embedded JBIG2 stream: one page, one generic region coded as a fax is (ITU-T T.88)."""
    bits = image.point(lambda shade: 0 if shade > 128 else 255).convert("1")  # Pillow codes 0 as white paper
    tiff = io.BytesIO()
    bits.save(tiff, "TIFF", compression="group4", tiffinfo={278: bits.height})
    with Image.open(tiff) as opened:
        (start,), (length,) = opened.tag_v2[273], opened.tag_v2[279]
    fax = tiff.getvalue()[start : start + length]
    size = struct.pack(">II", *bits.size)
    page = size + b"\0" * 8 + b"\0" + b"\0\0"
    region = size + b"\0" * 8 + b"\0" + b"\x01" + fax
    header = struct.pack(">IBBBI", 0, 48, 0, 1, len(page))
    return header + page + struct.pack(">IBBBI", 1, 38, 0, 1, len(region)) + region


def _under_soft_mask(**entries: object) -> Callable[[LayeredPage], None]:
    return lambda page: page.show(page.colour(SMask=page.soft_mask(**entries)))


def _soft_mask_in(kind: str, name: Name, **options: object) -> Callable[[LayeredPage], None]:
    def write(page: LayeredPage) -> None:
        ink = page.printed.point(lambda shade: 255 - shade)
        mask = page.image(_encoded(ink, kind, **options), ink.size, ColorSpace=Name.DeviceGray, Filter=name)
        page.show(page.colour(SMask=mask))

    return write


def _inverted_soft_mask(page: LayeredPage) -> None:
    mask = page.image(page.printed.tobytes(), page.printed.size, ColorSpace=Name.DeviceGray, Decode=Array([1, 0]))
    page.show(page.colour(SMask=mask))


def _stencil_mask(page: LayeredPage) -> None:
    page.show(page.colour(Mask=page.stencil()))


def _inverted_stencil_mask(page: LayeredPage) -> None:
    inverted = page.printed.point(lambda shade: 255 - shade)
    mask = page.stencil(inverted)
    mask.Decode = Array([1, 0])
    page.show(page.colour(Mask=mask))


def _jbig2_mask(page: LayeredPage) -> None:
    data = jbig2(page.printed)
    mask = page.image(data, page.printed.size, BitsPerComponent=1, ImageMask=True, Filter=Name.JBIG2Decode)
    mask.Decode = Array([0, 1])
    page.show(page.colour(Mask=mask))


def _nested_forms(page: LayeredPage) -> None:
    inner = page.colour(SMask=page.soft_mask())
    for _ in range(3):
        form = Stream(page.pdf, b"q 0.5 0 0 0.5 0 0 cm 2 0 0 2 0 0 cm /Im Do Q")
        form.update(Dictionary(Type=Name.XObject, Subtype=Name.Form, BBox=Array([0, 0, 1, 1])))
        form.Resources = Dictionary(XObject=Dictionary(Im=inner))
        inner = page.pdf.make_indirect(form)
    page.show(inner)


def _pattern(page: LayeredPage) -> None:
    tile = Stream(page.pdf, f"q {page.everywhere} /Im Do Q".encode("ascii"))
    box = Array([0, 0, page.width, page.height])
    tile.update(
        Dictionary(
            Type=Name.Pattern, PatternType=1, PaintType=1, TilingType=1, BBox=box, XStep=page.width, YStep=page.height
        )
    )
    tile.Resources = Dictionary(XObject=Dictionary(Im=page.colour(SMask=page.soft_mask())))
    page.patterns.P = page.pdf.make_indirect(tile)
    page.draw(f"/Pattern cs /P scn 0 0 {page.width} {page.height} re f")


def _group_soft_mask(page: LayeredPage) -> None:
    form = Stream(page.pdf, f"q {page.everywhere} /Im Do Q".encode("ascii"))
    form.update(Dictionary(Type=Name.XObject, Subtype=Name.Form, BBox=Array([0, 0, page.width, page.height])))
    form.Group = Dictionary(S=Name.Transparency, CS=Name.DeviceGray)
    form.Resources = Dictionary(XObject=Dictionary(Im=page.soft_mask()))
    page.states.G = Dictionary(SMask=Dictionary(S=Name.Luminosity, G=page.pdf.make_indirect(form)))
    page.draw(f"/G gs {page.everywhere} BI /W 1 /H 1 /BPC 8 /CS /G ID \0 EI")


def _painted_stencil(page: LayeredPage) -> None:
    page.draw(f"0 g {page.everywhere} /Im Do", Im=page.stencil())


def _matte(page: LayeredPage) -> None:
    mask = page.soft_mask(Matte=Array([0]))
    size = page.printed.size
    page.show(page.colour(size, SMask=mask))


def _user_unit(page: LayeredPage) -> None:
    page.show(page.colour(SMask=page.soft_mask()))
    page.width, page.height = page.width / 10, page.height / 10
    page.content = f"0.1 0 0 0.1 0 0 cm {page.content}"
    page.entries.UserUnit = 10


def _sideways(page: LayeredPage) -> None:
    page.printed = page.printed.rotate(90, expand=True)
    page.width, page.height = page.height, page.width
    page.show(page.colour(SMask=page.soft_mask()))
    page.entries.Rotate = 90


def _halves(page: LayeredPage) -> None:
    width, height = page.printed.size
    whole = page.printed
    for name, top, part in (("A", 0.5, (0, 0, width, height // 2)), ("B", 0.0, (0, height // 2, width, height))):
        page.printed = whole.crop(part)
        image = page.colour(SMask=page.soft_mask())
        matrix = f"{page.width} 0 0 {page.height / 2} 0 {page.height * top} cm"
        page.draw(f"{matrix} /{name} Do", **{name: image})


def _indexed(page: LayeredPage) -> None:
    space = Array([Name.Indexed, Name.DeviceRGB, 0, pikepdf.String(b"\0\0\0")])
    page.show(page.image(b"\0", (1, 1), ColorSpace=space, SMask=page.soft_mask()))


ONE_PIXEL: dict[str, Callable[[LayeredPage], None]] = {
    "soft mask": _under_soft_mask(),
    "soft mask that is smoothed": _under_soft_mask(Interpolate=True),
    "soft mask in JPEG": _soft_mask_in("JPEG", Name.DCTDecode, quality=95),
    "soft mask in JPEG 2000": _soft_mask_in("JPEG2000", Name.JPXDecode),
    "soft mask, inverted": _inverted_soft_mask,
    "soft mask with a matte": _matte,
    "soft mask of a group, inline image": _group_soft_mask,
    "mask of one bit": _stencil_mask,
    "mask of one bit, inverted": _inverted_stencil_mask,
    "mask in JBIG2": _jbig2_mask,
    "in forms in forms": _nested_forms,
    "in a pattern": _pattern,
    "painted stencil": _painted_stencil,
    "UserUnit": _user_unit,
    "turned": _sideways,
    "in halves": _halves,
    "one colour of a palette": _indexed,
}
"""Name -> writer: the colour has one pixel (or only one value), all print is in the mask."""


def _coarse(page: LayeredPage, shade: int, part: int = 6, **entries: object) -> Stream:
    """Return a picture of one ``part`` of the print's resolution."""
    size = (max(page.printed.width // part, 1), max(page.printed.height // part, 1))
    return page.colour(size, shade, **entries)


def _over_paper(foreground: Callable[[LayeredPage], None]) -> Callable[[LayeredPage], None]:
    def write(page: LayeredPage) -> None:
        page.draw(f"{page.everywhere} /Paper Do", Paper=_coarse(page, 250))
        foreground(page)

    return write


def _cut_paper(page: LayeredPage) -> None:
    page.draw(f"{page.everywhere} /Ink Do", Ink=_coarse(page, 10))
    page.show(_coarse(page, 255, Mask=page.stencil(page.printed.point(lambda shade: 255 - shade))))


def _cells(page: LayeredPage, across: int, down: int, is_stencil: bool) -> None:
    """Show the print in ``across`` x ``down`` images of its own resolution."""
    width, height = page.printed.width // across, page.printed.height // down
    for row in range(down):
        for column in range(across):
            part = page.printed.crop((column * width, row * height, (column + 1) * width, (row + 1) * height))
            image = (
                page.stencil(part) if is_stencil else page.image(part.tobytes(), part.size, ColorSpace=Name.DeviceGray)
            )
            left, bottom = column * width * 72 / DPI, page.height - (row + 1) * height * 72 / DPI
            name = f"C{row}x{column}"
            page.draw(f"0 g {width * 72 / DPI} 0 0 {height * 72 / DPI} {left} {bottom} cm /{name} Do", **{name: image})


def _shaded_stencil(page: LayeredPage) -> None:
    """Paint a stencil in a pattern that is one coarse dark image."""
    tile = Stream(page.pdf, f"q {page.everywhere} /Im Do Q".encode("ascii"))
    box = Array([0, 0, page.width, page.height])
    tile.update(
        Dictionary(
            Type=Name.Pattern, PatternType=1, PaintType=1, TilingType=1, BBox=box, XStep=page.width, YStep=page.height
        )
    )
    tile.Resources = Dictionary(XObject=Dictionary(Im=_coarse(page, 10)))
    page.patterns.P = page.pdf.make_indirect(tile)
    page.draw(f"/Pattern cs /P scn {page.everywhere} /Im Do", Im=page.stencil())


def _jpx_foreground(page: LayeredPage) -> None:
    small = Image.new("L", (page.printed.width // 6, page.printed.height // 6), 10)
    page.show(
        page.image(
            _encoded(small, "JPEG2000"),
            small.size,
            ColorSpace=Name.DeviceGray,
            Filter=Name.JPXDecode,
            SMask=page.soft_mask(),
        )
    )


def _jbig2_foreground(page: LayeredPage) -> None:
    data = jbig2(page.printed)
    mask = page.image(data, page.printed.size, BitsPerComponent=1, ImageMask=True, Filter=Name.JBIG2Decode)
    page.show(_coarse(page, 10, Mask=mask))


def _coarse_in_form(page: LayeredPage) -> None:
    form = Stream(page.pdf, b"/Im Do")
    form.update(Dictionary(Type=Name.XObject, Subtype=Name.Form, BBox=Array([0, 0, 1, 1])))
    form.Resources = Dictionary(XObject=Dictionary(Im=_coarse(page, 10, Mask=page.stencil())))
    page.show(page.pdf.make_indirect(form))


COARSE: dict[str, Callable[[LayeredPage], None]] = {
    "foreground under a mask": lambda page: page.show(_coarse(page, 10, Mask=page.stencil())),
    "foreground under a soft mask": lambda page: page.show(_coarse(page, 10, SMask=page.soft_mask())),
    "foreground of one twelfth": lambda page: page.show(_coarse(page, 10, 12, Mask=page.stencil())),
    "over paper": _over_paper(lambda page: page.show(_coarse(page, 10, Mask=page.stencil()))),
    "JPEG 2000 under a soft mask": _jpx_foreground,
    "under a mask in JBIG2": _jbig2_foreground,
    "paper that is cut out over ink": _cut_paper,
    "strips over paper": _over_paper(lambda page: _cells(page, 1, 11, is_stencil=False)),
    "pieces over paper": _over_paper(lambda page: _cells(page, 10, 22, is_stencil=False)),
    "stencils over paper": _over_paper(lambda page: _cells(page, 5, 11, is_stencil=True)),
    "stencil in a pattern": _shaded_stencil,
    "in a form": _coarse_in_form,
}
"""Name -> writer: colours are coarse (25 dpi or less), the print has ``DPI``, as mixed raster content has it."""

LAYERED = {**{f"one pixel: {name}": write for name, write in ONE_PIXEL.items()}, **COARSE}


def layered_pdf(path: Path, name: str, printed: Image.Image) -> Path:
    """Write the page ``name`` of ``LAYERED`` that shows ``printed``."""
    page = LayeredPage(printed)
    LAYERED[name](page)
    return page.save(path)
