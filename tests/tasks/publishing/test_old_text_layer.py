"""What becomes of text that a PDF has already: kept, completed, replaced, or ours added to it."""

from collections import Counter

import pymupdf
import pytest
from support.readings import blank_page, failed_page, text_line, text_page
from support.sources import jpeg, pixels_at, scan

from tasks.publishing.invisible_text import without_invisible_text
from tasks.publishing.old_text_layer import OldWord, TextLayer, compare
from tasks.publishing.plain_text import page_text
from tasks.publishing.searchable_pdf import SearchablePdfWriter

TEXTS = [
    "Boats dawn before a pier how sum because",
    "only would when of had stone without",
    "the number tide and morning quiet",
    "it and that keeper of pier looked",
    "the many that up light of his",
]
INVISIBLE = 3
POINTS_PER_PX = 72 / 200
SHIFTED = b"""/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def /CMapType 2 def
1 begincodespacerange <00> <FF> endcodespacerange 1 beginbfrange <20> <7E> <0041> endbfrange
endcmap end end"""


def reading(texts=TEXTS, confidence=0.9):
    page = text_page(texts, 1, (1700, 2200), 200.0)
    lines = tuple(line.model_copy(update={"confidence": confidence}) for line in page.lines)
    return page.model_copy(update={"lines": lines})


def source_with(path, texts, mode=INVISIBLE, offset_px=(0, 0), to_unicode=None, rotation=0, **more):
    """Write a scan with ``texts`` over the lines of the reading, in a rendering mode."""
    with pymupdf.open() as document:
        page = document.new_page(width=612, height=792)
        page.insert_image(page.rect, stream=jpeg())
        for row, text in enumerate(texts):
            place = ((150 + offset_px[0]) * POINTS_PER_PX, (182 + 60 * row + offset_px[1]) * POINTS_PER_PX)
            if text:
                page.insert_text(place, text, fontsize=14, render_mode=mode, **more)
        if to_unicode:
            for font in page.get_fonts():
                xref = document.get_new_xref()
                document.update_object(xref, "<<>>")
                document.update_stream(xref, to_unicode)
                document.xref_set_key(font[0], "ToUnicode", f"{xref} 0 R")
        page.set_rotation(rotation)
        document.save(path)
    return path


def written(source, page, target):
    writer = SearchablePdfWriter(source, "pdf", [1], target, "ab" * 32)
    writer.add(page)
    writer.finish()
    with pymupdf.open(target) as document:
        words = Counter(document[0].get_text().split())
        hidden = sum(span["type"] == INVISIBLE for span in document[0].get_texttrace())
    return writer, words, hidden


def expected_words(texts=TEXTS):
    return Counter(" ".join(texts).split())


def test_a_good_layer_is_kept_and_no_word_doubled(tmp_path):
    source = source_with(tmp_path / "source.pdf", [text.replace("e", "c", 1) for text in TEXTS])
    writer, words, _ = written(source, reading(), tmp_path / "document.pdf")
    assert writer.text_layers == {1: TextLayer.KEPT}
    assert words.total() == expected_words().total()
    assert (tmp_path / "document.pdf").read_bytes() == source.read_bytes()


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_lines_that_a_layer_lacks_are_added(tmp_path, rotation):
    source = source_with(tmp_path / "source.pdf", [*TEXTS[:3], "", ""], rotation=rotation)
    page = reading()
    if rotation:  # the page is shown turned, and turned upright again to be read
        page = page.model_copy(update={"rotation": (360 - rotation) % 360})
    writer, words, _ = written(source, page, tmp_path / "document.pdf")
    assert writer.text_layers == {1: TextLayer.COMPLETED}
    assert words == expected_words()
    assert pixels_at(tmp_path / "document.pdf") == pixels_at(source)


def test_of_a_line_that_is_half_there_the_other_half_is_added(tmp_path):
    source = source_with(tmp_path / "source.pdf", ["Boats dawn before", *TEXTS[1:]])
    writer, words, _ = written(source, reading(), tmp_path / "document.pdf")
    assert writer.text_layers == {1: TextLayer.COMPLETED}
    assert words == expected_words()


@pytest.mark.parametrize("rotation", [0, 90])
@pytest.mark.parametrize(
    ("texts", "to_unicode"), [(TEXTS, SHIFTED), (["lorem ipsum dolor sit amet consectetur"] * 5, None)]
)
def test_an_invisible_layer_that_says_something_else_is_replaced(tmp_path, texts, to_unicode, rotation):
    source = source_with(tmp_path / "source.pdf", texts, to_unicode=to_unicode, rotation=rotation)
    page = reading().model_copy(update={"rotation": (360 - rotation) % 360})
    writer, words, _ = written(source, page, tmp_path / "document.pdf")
    assert writer.text_layers == {1: TextLayer.REPLACED}
    assert not writer.rubbish_pages
    assert words == expected_words()
    assert pixels_at(tmp_path / "document.pdf") == pixels_at(source)
    assert (tmp_path / "document.pdf").read_bytes().startswith(source.read_bytes())


def test_a_reading_that_is_unsure_takes_nothing_out(tmp_path):
    source = source_with(tmp_path / "source.pdf", ["lorem ipsum dolor sit amet"] * 5)
    writer, words, _ = written(source, reading(confidence=0.6), tmp_path / "document.pdf")
    assert writer.text_layers == {1: TextLayer.ADDED}
    assert writer.rubbish_pages == [1]
    assert words["lorem"] == 5
    assert expected_words() <= words


@pytest.mark.parametrize("hidden", [{"color": (1, 1, 1)}, {"mode": 0}, {"mode": 0, "overlay": False}])
def test_rubbish_that_is_painted_stays_and_ours_is_added(tmp_path, hidden):
    """White, black, or under the picture: in each case it is paint, which is not touched."""
    source = source_with(tmp_path / "source.pdf", TEXTS, to_unicode=SHIFTED, **{"mode": 0, **hidden})
    writer, words, _ = written(source, reading(), tmp_path / "document.pdf")
    assert writer.text_layers == {1: TextLayer.ADDED}
    assert writer.rubbish_pages == [1]
    assert expected_words() <= words
    assert pixels_at(tmp_path / "document.pdf") == pixels_at(source)


@pytest.mark.parametrize("mode", [0, INVISIBLE])
def test_a_layer_that_stands_in_the_wrong_place_is_kept(tmp_path, mode):
    source = source_with(tmp_path / "source.pdf", TEXTS, mode, offset_px=(0, 700))
    writer, words, _ = written(source, reading(), tmp_path / "document.pdf")
    assert writer.text_layers == {1: TextLayer.KEPT}
    assert words == expected_words()


def test_a_stamp_that_is_seen_stays_when_rubbish_is_taken_out(tmp_path):
    source = source_with(tmp_path / "first.pdf", ["lorem ipsum dolor sit amet"] * 5)
    with pymupdf.open(source) as document:
        document[0].insert_text((300, 700), "Digitized by Nobody")
        document.save(tmp_path / "source.pdf")
    writer, words, _ = written(tmp_path / "source.pdf", reading(), tmp_path / "document.pdf")
    assert writer.text_layers == {1: TextLayer.REPLACED}
    assert words == expected_words() + Counter(["Digitized", "by", "Nobody"])
    assert pixels_at(tmp_path / "document.pdf") == pixels_at(tmp_path / "source.pdf")


def test_rubbish_in_a_form_stays_since_other_pages_may_show_the_form(tmp_path):
    form = source_with(tmp_path / "form.pdf", TEXTS, to_unicode=SHIFTED)
    with pymupdf.open(form) as inner, pymupdf.open() as document:
        page = document.new_page(width=612, height=792)
        page.show_pdf_page(page.rect, inner, 0)
        document.save(tmp_path / "source.pdf")
    writer, words, _ = written(tmp_path / "source.pdf", reading(), tmp_path / "document.pdf")
    assert writer.text_layers == {1: TextLayer.ADDED}
    assert writer.rubbish_pages == [1]
    assert expected_words() <= words


def test_pages_without_a_reading_say_what_they_have(tmp_path):
    source = source_with(tmp_path / "source.pdf", TEXTS)
    for page, layer in ((blank_page(), TextLayer.KEPT), (failed_page(), TextLayer.NONE)):
        writer, _, _ = written(source, page, tmp_path / "document.pdf")
        assert writer.text_layers == {1: layer}
    scan().save(tmp_path / "scan.png")
    writer = SearchablePdfWriter(tmp_path / "scan.png", "image", [1], tmp_path / "image.pdf", "ab" * 32)
    writer.add(blank_page())
    writer.finish()
    assert writer.text_layers == {1: TextLayer.NONE}


def test_text_that_would_move_is_not_touched(tmp_path):
    with pymupdf.open(source_with(tmp_path / "first.pdf", ["x"])) as document:
        xref = document[0].get_contents()[-1]
        moved = b"BT /helv 14 Tf 54 700 Td 3 Tr (lorem ipsum dolor sit amet) Tj 0 Tr (Boats) Tj ET"
        document.update_stream(xref, moved)
        document.save(tmp_path / "source.pdf")
    page = text_page([text_line("Boats dawn before a pier", 150, (792 - 700) / POINTS_PER_PX - 32)])
    writer, _, _ = written(tmp_path / "source.pdf", page, tmp_path / "document.pdf")
    assert writer.rubbish_pages == [1]
    assert pixels_at(tmp_path / "document.pdf") == pixels_at(tmp_path / "source.pdf")


def test_operators_that_do_more_than_show_keep_doing_the_rest():
    content = b"BT 3 Tr 1 2 (a) \" (b) ' [(c) 5 (d)] TJ q 0 Tr (e) Tj Q (f) Tj ET"
    assert without_invisible_text(content).split() == b"BT 3 Tr 1 Tw 2 Tc T* T* q 0 Tr (e) Tj Q ET".split()
    assert without_invisible_text(b"BT 0 Tr (e) Tj ET") is None
    assert without_invisible_text(b"BT 3 Tr (unfinished") is None
    assert without_invisible_text(b"BT /x Tr (a) Tj ET") is None


def test_repeated_common_words_are_counted_where_they_stand():
    page = reading(["the the the the", "the the the the"])
    above = [OldWord("the", word.box.center) for word in page.lines[0].words]
    comparison = compare(page.lines, above)
    assert [line.text for line in comparison.missing] == ["the the the the"]
    assert comparison.missing[0].box == page.lines[1].box


def test_a_page_without_old_words_lacks_everything():
    page = reading()
    comparison = compare(page.lines, [OldWord("—", (10, 10))])
    assert comparison.is_all_missing
    assert "".join(f"{line.text}\n" for line in comparison.missing) == page_text(page)
