"""A font of boxes for text that is never painted: it gives a word its place, its extent and its Unicode.

Each glyph is a plain box, as wide as its advance and as high as an em. The text is shown in rendering mode 3, so
no box leaves ink; but PDFium (Chrome, Edge) takes a character for as large as its outline, and leaves out those
without extent: words of one character, and every word that runs up, down or around a turned page.

A character's code is the low 16 bits of its code point, two bytes, with one font object for each Unicode
plane that occurs. So nothing is collected over the document: any page can be written on its own.
Sources: PDF 32000-1, 9.7 (composite fonts) and 9.10.3 (ToUnicode); TrueType tables as in ISO/IEC 14496-22.
"""

from __future__ import annotations

import struct
from itertools import groupby

UNITS_PER_EM = 1000
ADVANCE_UNITS = 500
"""Width of every glyph; about that of a Latin letter, so that stretched words stay near their natural size."""

ASCENT_UNITS = 800
DESCENT_UNITS = -200
"""Together one em: a word's selection box is as high as its font size. Poppler ignores a descent of 0."""

FONT_NAME = "TomeflowGlyphless"

_ACCENT_GLYPH, _LETTER_GLYPH, _GLYPHS = 0, 1, 2
_ON_CURVE = 1

FIRST_ACCENT, LAST_ACCENT = 0x0300, 0x036F
ACCENT_ADVANCE_UNITS = 130
"""Combining accents stand over the letter before them. Poppler tears a word apart behind an accent narrower than
0.1 em (on pages that stand on their head), MuPDF behind one wider than 0.15 em."""

_FIRST_OF_PLANE_1 = "\U00010000"

_BLOCK = 256
"""A range in a ToUnicode map may vary only in its last byte."""

_RANGES_PER_SECTION = 64
"""A ``beginbfrange`` section may hold up to 100."""

_CHECKSUM_OF_A_FONT = 0xB1B0AFBA
_ADJUSTMENT_OFFSET_BYTES = 8


def _checksum(data: bytes) -> int:
    padded = data + b"\0" * (-len(data) % 4)
    words: tuple[int, ...] = struct.unpack(f">{len(padded) // 4}I", padded)
    return sum(words) & 0xFFFFFFFF


def _head() -> bytes:
    times, box = (0, 0), (0, DESCENT_UNITS, ADVANCE_UNITS, ASCENT_UNITS)
    style, smallest_px, direction, short_offsets, glyph_format = 0, 3, 2, 0, 0
    return struct.pack(
        ">4I2H2q4h2H3h",
        *(0x10000, 0x10000, 0, 0x5F0F3CF5, 0b1011, UNITS_PER_EM, *times, *box),
        *(style, smallest_px, direction, short_offsets, glyph_format),
    )


def _box_glyph(width: int) -> bytes:
    """Return the outline of a box from the origin to ``width``, from descent to ascent: one contour, clockwise."""
    header = struct.pack(">5h", 1, 0, DESCENT_UNITS, width, ASCENT_UNITS)
    last_point, instructions, height = 3, 0, ASCENT_UNITS - DESCENT_UNITS
    steps_x, steps_y = (0, 0, width, 0), (DESCENT_UNITS, height, 0, -height)
    return header + struct.pack(">2H4B8h", last_point, instructions, *[_ON_CURVE] * 4, *steps_x, *steps_y)


def _tables() -> dict[bytes, bytes]:
    """Return what a PDF needs of a TrueType font behind a CID font, in the order of the tags."""
    metrics = (ASCENT_UNITS, DESCENT_UNITS, 0, ADVANCE_UNITS)
    widths = {_ACCENT_GLYPH: ACCENT_ADVANCE_UNITS, _LETTER_GLYPH: ADVANCE_UNITS}
    outlines = [_box_glyph(widths[glyph]) for glyph in range(_GLYPHS)]
    return {
        b"glyf": b"".join(outlines),
        b"head": _head(),
        b"hhea": struct.pack(">I3hH6h4hhH", 0x10000, *metrics, 0, 0, 0, 1, 0, 0, *[0] * 4, 0, _GLYPHS),
        b"hmtx": struct.pack(">HhHh", ACCENT_ADVANCE_UNITS, 0, ADVANCE_UNITS, 0),
        b"loca": struct.pack(">3H", *(number * len(outlines[0]) // 2 for number in range(_GLYPHS + 1))),
        b"maxp": struct.pack(">I14H", 0x10000, _GLYPHS, 4, 1, 0, 0, 1, *[0] * 8),
    }


def _assemble(tables: dict[bytes, bytes]) -> bytes:
    count = len(tables)
    power = 1 << (count.bit_length() - 1)
    header = struct.pack(">I4H", 0x10000, count, power * 16, power.bit_length() - 1, (count - power) * 16)
    offset = len(header) + 16 * count
    directory, body = b"", b""
    for tag, data in tables.items():
        directory += struct.pack(">4s3I", tag, _checksum(data), offset + len(body), len(data))
        body += data + b"\0" * (-len(data) % 4)
    return header + directory + body


def font_file() -> bytes:
    """Return the TrueType file: two boxes, one for accents and one for all else."""
    font = bytearray(_assemble(_tables()))
    adjustment = (_CHECKSUM_OF_A_FONT - _checksum(bytes(font))) & 0xFFFFFFFF
    struct.pack_into(">I", font, font.index(_head()) + _ADJUSTMENT_OFFSET_BYTES, adjustment)
    return bytes(font)


def cid_to_gid_map(plane: int) -> bytes:
    """Return the map from character codes to glyphs: boxes as wide as a letter, narrow ones for accents."""
    accents = range(FIRST_ACCENT, LAST_ACCENT + 1) if plane == 0 else range(0)
    return b"".join(struct.pack(">H", _ACCENT_GLYPH if code in accents else _LETTER_GLYPH) for code in range(0x10000))


def to_unicode_map(plane: int) -> bytes:
    """Return the ToUnicode CMap of a Unicode plane: code c means code point plane * 65536 + c."""
    blocks = [code for code in range(0, 0x10000, _BLOCK) if plane or not 0xD800 <= code < 0xE000]
    ranges = [f"<{code:04X}> <{code + _BLOCK - 1:04X}> <{_utf16_hex((plane << 16) + code)}>" for code in blocks]
    sections = (ranges[start : start + _RANGES_PER_SECTION] for start in range(0, len(ranges), _RANGES_PER_SECTION))
    body = "".join(f"{len(part)} beginbfrange\n{chr(10).join(part)}\nendbfrange\n" for part in sections)
    return (
        "/CIDInit /ProcSet findresource begin\n12 dict begin\nbegincmap\n"
        "/CIDSystemInfo << /Registry (Adobe) /Ordering (UCS) /Supplement 0 >> def\n"
        "/CMapName /Adobe-Identity-UCS def\n/CMapType 2 def\n"
        f"1 begincodespacerange\n<0000> <FFFF>\nendcodespacerange\n{body}"
        "endcmap\nCMapName currentdict /CMap defineresource pop\nend\nend\n"
    ).encode("ascii")


def _utf16_hex(code_point: int) -> str:
    return chr(code_point).encode("utf-16-be").hex().upper()


def planes_in(text: str) -> set[int]:
    """Return the Unicode planes whose fonts are needed to show ``text``."""
    return {0} if max(text, default="") < _FIRST_OF_PLANE_1 else {ord(character) >> 16 for character in text}


def coded(text: str) -> list[tuple[int, str]]:
    """Return ``text`` as stretches of one plane each: the plane, and its characters' codes in hexadecimal."""
    if max(text, default="") < _FIRST_OF_PLANE_1:
        return [(0, text.encode("utf-16-be").hex())]
    stretches = groupby(map(ord, text), lambda code_point: code_point >> 16)
    return [(plane, "".join(f"{code & 0xFFFF:04x}" for code in codes)) for plane, codes in stretches]


def advance_em(text: str) -> float:
    """Return how wide ``text`` is at a font size of one [em]."""
    accents = 0 if text.isascii() else sum(FIRST_ACCENT <= ord(character) <= LAST_ACCENT for character in text)
    return (accents * ACCENT_ADVANCE_UNITS + (len(text) - accents) * ADVANCE_UNITS) / UNITS_PER_EM


def font_descriptor(font_file_xref: int) -> str:
    """Return the font descriptor object."""
    box = f"[0 {DESCENT_UNITS} {ADVANCE_UNITS} {ASCENT_UNITS}]"
    fixed_pitch_and_symbolic = 5
    return (
        f"<< /Type /FontDescriptor /FontName /{FONT_NAME} /Flags {fixed_pitch_and_symbolic} /FontBBox {box} "
        f"/ItalicAngle 0 /Ascent {ASCENT_UNITS} /Descent {DESCENT_UNITS} /CapHeight {ASCENT_UNITS} /StemV 80 "
        f"/FontFile2 {font_file_xref} 0 R >>"
    )


def cid_font(plane: int, descriptor_xref: int, cid_to_gid_xref: int) -> str:
    """Return the CID font object of one plane."""
    widths = f"/DW {ADVANCE_UNITS}" + (
        f" /W [{FIRST_ACCENT} {LAST_ACCENT} {ACCENT_ADVANCE_UNITS}]" if plane == 0 else ""
    )
    return (
        f"<< /Type /Font /Subtype /CIDFontType2 /BaseFont /{FONT_NAME} "
        "/CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> "
        f"/FontDescriptor {descriptor_xref} 0 R /CIDToGIDMap {cid_to_gid_xref} 0 R {widths} >>"
    )


def composite_font(cid_font_xref: int, to_unicode_xref: int) -> str:
    """Return the composite font object of one plane, the one that a page names."""
    return (
        f"<< /Type /Font /Subtype /Type0 /BaseFont /{FONT_NAME} /Encoding /Identity-H "
        f"/DescendantFonts [{cid_font_xref} 0 R] /ToUnicode {to_unicode_xref} 0 R >>"
    )
