import io
import re
import struct

import pytest
from fontTools.ttLib import TTFont
from PIL import ImageFont

from tasks.publishing import glyphless_font


def test_the_font_file_is_one_that_freetype_opens_and_its_glyphs_are_boxes_of_one_em():
    font = TTFont(io.BytesIO(glyphless_font.font_file()))
    glyphs = font["glyf"]
    boxes = [(glyphs[name].xMin, glyphs[name].yMin, glyphs[name].xMax, glyphs[name].yMax) for name in glyphs.glyphOrder]
    assert boxes == [(0, -200, 130, 800), (0, -200, 500, 800)], "as wide as they advance, an em high"
    assert [font["hmtx"][name][0] for name in glyphs.glyphOrder] == [130, 500]
    assert ImageFont.truetype(io.BytesIO(glyphless_font.font_file()), 1000).getmask("x").getbbox() == (0, 0, 130, 1000)


def test_the_whole_font_has_the_checksum_that_the_format_asks_for():
    data = glyphless_font.font_file()
    assert len(data) % 4 == 0
    assert sum(struct.unpack(f">{len(data) // 4}I", data)) & 0xFFFFFFFF == 0xB1B0AFBA


def unicode_of(plane: int) -> dict[int, str]:
    """Read a ToUnicode map as a viewer does."""
    codes: dict[int, str] = {}
    for first, last, target in re.findall(r"<(\w+)> <(\w+)> <(\w+)>", glyphless_font.to_unicode_map(plane).decode()):
        assert first[:2] == last[:2], "a range varies only in its last byte"
        base = bytes.fromhex(target)
        for offset in range(int(last, 16) - int(first, 16) + 1):
            assert base[-1] + offset <= 0xFF
            codes[int(first, 16) + offset] = (base[:-1] + bytes([base[-1] + offset])).decode("utf-16-be")
    return codes


@pytest.mark.parametrize("plane", [0, 1, 2])
def test_every_code_of_a_plane_means_its_character(plane):
    codes = unicode_of(plane)
    surrogates = set(range(0xD800, 0xE000)) if plane == 0 else set()
    assert set(codes) == set(range(0x10000)) - surrogates
    assert all(ord(character) == (plane << 16) + code for code, character in codes.items())


def test_no_section_of_the_map_is_longer_than_a_reader_must_accept():
    counts = re.findall(r"(\d+) beginbfrange", glyphless_font.to_unicode_map(0).decode())
    assert counts
    assert all(int(count) <= 100 for count in counts)


def test_text_is_cut_where_the_plane_changes():
    assert glyphless_font.coded("a𠀀𠀁b") == [(0, "0061"), (2, "00000001"), (0, "0062")]
    assert glyphless_font.planes_in("a𠀀") == {0, 2}
    assert glyphless_font.planes_in("aä永") == {0}


def test_accents_are_narrow_in_the_font_and_in_the_count():
    assert glyphless_font.advance_em("wu\u0364rde") == 5 * 0.5 + 0.13
    assert "/W [768 879 130]" in glyphless_font.cid_font(0, 1, 2)
    assert "/W " not in glyphless_font.cid_font(2, 1, 2), "there these codes are other characters"
    glyphs = struct.unpack(">65536H", glyphless_font.cid_to_gid_map(0))
    assert {code for code, glyph in enumerate(glyphs) if glyph == 0} == set(range(0x300, 0x370))
