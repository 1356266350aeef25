"""PDFs of a few kilobytes that ask for hours of work or for all memory, each on one page among good ones, or in all."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import pikepdf
from pikepdf import Array, Dictionary, Name, Pdf
from PIL import Image

GOOD_PAGES = (1, 3)
BAD_PAGE = 2
HUGE_PX = 100_000
BLOCK_BYTES = 1 << 24
PAGE_BOX = Array([0, 0, 612, 792])


def _inflating_to(blocks: int, fill: bytes = b" ") -> bytes:
    """Return data packed twice by Flate that holds ``blocks`` times 16 MB of ``fill``."""
    packer = zlib.compressobj(9)
    head = packer.compress(b"") + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(fill * (BLOCK_BYTES // len(fill))) + packer.flush(zlib.Z_FULL_FLUSH)
    return zlib.compress(head + block * blocks, 9)


def _with_image(pdf: Pdf, page: pikepdf.Page, data: bytes, **entries: object) -> None:
    image = pdf.make_stream(data, Type=Name.XObject, Subtype=Name.Image, **entries)
    page.Resources = Dictionary(XObject=Dictionary(A=image))
    page.Contents = pdf.make_stream(b"q 612 0 0 792 0 0 cm /A Do Q")


def nested_forms(pdf: Pdf, page: pikepdf.Page) -> None:
    """A form that shows another twice, which shows another twice ... 2^28 squares."""
    shape = {"Type": Name.XObject, "Subtype": Name.Form, "BBox": PAGE_BOX}
    form = pdf.make_stream(b"0 0 1 1 re f", **shape)
    for _ in range(28):
        form = pdf.make_stream(b"/A Do /A Do", **shape, Resources=Dictionary(XObject=Dictionary(A=form)))
    page.Resources = Dictionary(XObject=Dictionary(A=form))
    page.Contents = pdf.make_stream(b"/A Do")


def endless_content(pdf: Pdf, page: pikepdf.Page) -> None:
    """Content of 16 GB that says nothing."""
    content = pdf.make_stream(b"")
    content.write(_inflating_to(1000), filter=Array([Name.FlateDecode, Name.FlateDecode]))
    page.Contents = content


def endless_drawing(pdf: Pdf, page: pikepdf.Page) -> None:
    """Content of 4 GB that draws."""
    content = pdf.make_stream(b"")
    content.write(_inflating_to(256, b"0 0 9 9 re f 0 0 8 8 re f 1 1 2 2 re f "), filter=Array([Name.FlateDecode] * 2))
    page.Contents = content


def huge_image(pdf: Pdf, page: pikepdf.Page) -> None:
    """An image of 100,000 x 100,000 grey pixels."""
    entries = {"Width": HUGE_PX, "Height": HUGE_PX, "ColorSpace": Name.DeviceGray, "BitsPerComponent": 8}
    _with_image(pdf, page, b"", **entries)
    page.Resources.XObject.A.write(_inflating_to(600, b"\0"), filter=Array([Name.FlateDecode, Name.FlateDecode]))


def huge_jbig2(pdf: Pdf, page: pikepdf.Page) -> None:
    """A JBIG2 page of 100,000 x 100,000, which shows nothing."""
    about_page = struct.pack(">IIIIBH", HUGE_PX, HUGE_PX, 0, 0, 0, 0)
    segment = struct.pack(">IBBBI", 0, 48, 0, 1, len(about_page)) + about_page
    entries = {"Width": HUGE_PX, "Height": HUGE_PX, "ColorSpace": Name.DeviceGray, "BitsPerComponent": 1}
    _with_image(pdf, page, b"", **entries)
    page.Resources.XObject.A.write(segment, filter=Name.JBIG2Decode)


def huge_jpx(pdf: Pdf, page: pikepdf.Page) -> None:
    """A JPEG 2000 image whose header says 100,000 x 100,000."""
    file = io.BytesIO()
    Image.new("L", (64, 64), 128).save(file, "JPEG2000", no_jp2=True)
    data = bytearray(file.getvalue())
    size = data.index(b"\xff\x51") + 6
    struct.pack_into(">II", data, size, HUGE_PX, HUGE_PX)
    struct.pack_into(">II", data, size + 16, HUGE_PX, HUGE_PX)
    entries = {"Width": HUGE_PX, "Height": HUGE_PX, "ColorSpace": Name.DeviceGray, "BitsPerComponent": 8}
    _with_image(pdf, page, b"", **entries)
    page.Resources.XObject.A.write(bytes(data), filter=Name.JPXDecode)


def many_annotations(pdf: Pdf, page: pikepdf.Page) -> None:
    """A million annotations, each of which shows a form of a thousand squares."""
    squares = b"0 0 9 9 re f " * 1000
    form = pdf.make_stream(squares, Type=Name.XObject, Subtype=Name.Form, BBox=PAGE_BOX)
    stamp = {"Type": Name.Annot, "Subtype": Name.Stamp, "Rect": PAGE_BOX, "AP": Dictionary(N=form), "F": 4}
    page.Annots = Array([pdf.make_indirect(Dictionary(**stamp))] * 1_000_000)


def tiny_tiles(pdf: Pdf, page: pikepdf.Page) -> None:
    """A page filled with a pattern of forms that repeats every thousandth of a point."""
    shape = {"Type": Name.XObject, "Subtype": Name.Form, "BBox": Array([0, 0, 1, 1])}
    form = pdf.make_stream(b"0 0 1 1 re f", **shape)
    for _ in range(18):
        form = pdf.make_stream(b"/A Do /A Do", **shape, Resources=Dictionary(XObject=Dictionary(A=form)))
    pattern = pdf.make_stream(
        b"/A Do",
        Type=Name.Pattern,
        PatternType=1,
        PaintType=1,
        TilingType=1,
        BBox=Array([0, 0, 1, 1]),
        XStep=0.001,
        YStep=0.001,
        Resources=Dictionary(XObject=Dictionary(A=form)),
    )
    page.Resources = Dictionary(Pattern=Dictionary(P=pattern))
    page.Contents = pdf.make_stream(b"/Pattern cs /P scn 0 0 612 792 re f")


BAD_PAGES = (
    nested_forms,
    endless_content,
    endless_drawing,
    huge_image,
    huge_jbig2,
    huge_jpx,
    many_annotations,
    tiny_tiles,
)


def with_bad_page(path: Path, bomb: object) -> Path:
    """Write a PDF of three pages, the second of them a bomb."""
    with pikepdf.new() as pdf:
        for number in (1, BAD_PAGE, 3):
            pdf.add_blank_page(page_size=(612, 792))
            page = pdf.pages[-1]
            font = Dictionary(Type=Name.Font, Subtype=Name.Type1, BaseFont=Name.Helvetica)
            page.Resources = Dictionary(Font=Dictionary(F=font))
            page.Contents = pdf.make_stream(f"BT /F 24 Tf 72 600 Td (good page number {number}) Tj ET".encode())
        bomb(pdf, pdf.pages[BAD_PAGE - 1])
        pdf.save(path, stream_decode_level=pikepdf.StreamDecodeLevel.none, compress_streams=False)
    return path


def _written(path: Path, objects: dict[int, bytes], trailer: bytes) -> Path:
    data = bytearray(b"%PDF-1.5\n")
    places = {}
    for number, content in objects.items():
        places[number] = len(data)
        data += b"%d 0 obj\n%b\nendobj\n" % (number, content)
    table = len(data)
    data += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    for number in range(1, len(objects) + 1):
        data += b"%010d 00000 n \n" % places[number]
    data += b"trailer\n<< /Size %d /Root 1 0 R %b >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, trailer, table)
    path.write_bytes(data)
    return path


def page_tree_cycle(path: Path) -> Path:
    """Pages whose child is themselves."""
    return _written(
        path,
        {1: b"<< /Type /Catalog /Pages 2 0 R >>", 2: b"<< /Type /Pages /Count 9 /Kids [2 0 R 2 0 R] /Parent 2 0 R >>"},
        b"",
    )


def page_tree_of_shared_nodes(path: Path) -> Path:
    """2^28 pages that are one."""
    objects = {1: b"<< /Type /Catalog /Pages 2 0 R >>"}
    for number in range(2, 30):
        kids = b"<< /Type /Pages /Count %d /Kids [%d 0 R %d 0 R] /MediaBox [0 0 9 9] >>"
        objects[number] = kids % (2 ** (30 - number), number + 1, number + 1)
    objects[30] = b"<< /Type /Page /Parent 29 0 R /MediaBox [0 0 9 9] >>"
    return _written(path, objects, b"")


def xref_loop(path: Path) -> Path:
    """A table of objects that names itself as the one before it."""
    _written(
        path, {1: b"<< /Type /Catalog /Pages 2 0 R >>", 2: b"<< /Type /Pages /Count 0 /Kids [] >>"}, b"/Prev 000000"
    )
    data = path.read_bytes()
    place = int(data.rpartition(b"startxref\n")[2].split()[0])
    path.write_bytes(data.replace(b"/Prev 000000", b"/Prev %06d" % place))
    return path


def endless_object_stream(path: Path) -> Path:
    """A catalogue that lies behind 16 GB of nothing in a stream of objects."""
    packed = _inflating_to(1000)
    entries = b"/Type /ObjStm /N 1 /First 2000000000 /Filter [/FlateDecode /FlateDecode] /Length %d" % len(packed)
    data = bytearray(b"%PDF-1.5\n")
    places = [len(data)]
    data += b"2 0 obj\n<< %b >>\nstream\n%b\nendstream\nendobj\n" % (entries, packed)
    places.append(len(data))
    rows = [struct.pack(">BIH", *row) for row in ((0, 0, 65535), (2, 2, 0), (1, places[0], 0), (1, places[1], 0))]
    table = b"".join(rows)
    about = b"/Type /XRef /Size 4 /W [1 4 2] /Root 1 0 R /Length %d" % len(table)
    data += b"3 0 obj\n<< %b >>\nstream\n%b\nendstream\nendobj\nstartxref\n%d\n%%%%EOF\n" % (about, table, places[1])
    path.write_bytes(data)
    return path


BAD_DOCUMENTS = (page_tree_cycle, page_tree_of_shared_nodes, xref_loop, endless_object_stream)
