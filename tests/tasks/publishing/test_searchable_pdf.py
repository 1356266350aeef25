"""The text layer as other programs see it: Poppler's pdftotext reads it, MuPDF shows that nothing else changed."""

import re
import subprocess
import unicodedata
from collections import Counter
from pathlib import Path

import pymupdf
import pytest
from support.readings import MARGIN_PX, blank_page, column, failed_page, page_of_truth, text_line, text_page
from support.sources import (
    drawn_pdf,
    image_streams,
    jpeg,
    pdf_with_a_lost_page,
    pixels_at,
    scan,
    scanned_pdf,
)

from data_contracts.errors import ContractViolated, RenderFailed
from tasks.publishing.old_text_layer import TextLayer
from tasks.publishing.plain_text import page_text
from tasks.publishing.searchable_pdf import BATCH_PAGES, SearchablePdfWriter
from tasks.sources.page_images import frames_of, natural_key

DIGEST = "ab" * 32
PAGE_PX = (1700, 2200)
"""Of a page of 612 x 792 points at 200 dpi."""

LINES = [
    "Der alte Müller daſs zaͤhlen",
    "wuͤrde — “quoted” ‘single’ don’t",
    "ﬁne ⸗ Straße £100 ½ Ωmega κόσμος",
    "𠀀𠀁 a𠀂b 永和九年",
]


def written(source: Path, pages, target: Path, kind="pdf", selected=None) -> SearchablePdfWriter:
    writer = SearchablePdfWriter(source, kind, selected or [page.page_number for page in pages], target, DIGEST)
    for page in pages:
        writer.add(page)
    writer.finish()
    return writer


@pytest.fixture
def words_of(need_tool):
    """Return a function: PDF -> the words of every page, as pdftotext gives them."""

    def read(path: Path, *options: str) -> list[list[str]]:
        command = [need_tool("pdftotext"), *options, str(path), "-"]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return [page.split() for page in text.split("\f")[:-1]]

    return read


def scanned_page(lines, page_number=1, **more):
    return text_page(lines, page_number, PAGE_PX, 200.0, **more)


def test_pdftotext_gives_the_words_of_the_reading_in_both_modes(tmp_path, words_of):
    pages = [scanned_page(LINES, number) for number in (1, 2, 3)]
    written(scanned_pdf(tmp_path / "scan.pdf"), pages, tmp_path / "document.pdf")
    expected = [page_text(page).split() for page in pages]
    assert words_of(tmp_path / "document.pdf") == expected
    assert words_of(tmp_path / "document.pdf", "-raw") == expected


def test_mupdf_gives_the_same_words(tmp_path):
    written(scanned_pdf(tmp_path / "scan.pdf", 1), [scanned_page(LINES)], tmp_path / "document.pdf")
    with pymupdf.open(tmp_path / "document.pdf") as document:
        assert document[0].get_text().split() == page_text(scanned_page(LINES)).split()


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_no_pixel_and_no_image_stream_changes(tmp_path, rotation):
    source, target = scanned_pdf(tmp_path / "scan.pdf", rotation=rotation), tmp_path / "document.pdf"
    written(source, [scanned_page(LINES, number) for number in (1, 2, 3)], target)
    assert pixels_at(target) == pixels_at(source)
    assert image_streams(target) == image_streams(source)
    assert target.read_bytes().startswith(source.read_bytes()), "the original is a prefix: nothing was rewritten"


def boxes_of(path: Path, need_tool) -> dict[str, list[float]]:
    """Return the box of every word on the first page [pt, as shown]."""
    command = [need_tool("pdftotext"), "-bbox", str(path), "-"]
    xml = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.findall(r'<word xMin="(\S+)" yMin="(\S+)" xMax="(\S+)" yMax="(\S+)">(.+?)</word>', xml)
    return {word: [float(number) for number in numbers] for *numbers, word in found}


def test_a_word_is_selectable_where_it_stands(tmp_path, need_tool):
    page = scanned_page(["alpha beta gamma", "delta epsilon"])
    written(scanned_pdf(tmp_path / "scan.pdf", 1), [page], tmp_path / "document.pdf")
    found = boxes_of(tmp_path / "document.pdf", need_tool)
    for word in (word for line in page.lines for word in line.words):
        expected = [side * 72 / 200 for side in (word.box.left, word.box.top, word.box.right, word.box.bottom)]
        assert found[word.text] == pytest.approx(expected, abs=0.1)


@pytest.mark.parametrize("shown_rotation", [0, 90, 180, 270])
@pytest.mark.parametrize("reading_rotation", [0, 90, 180, 270])
def test_text_follows_the_page_however_it_is_turned(tmp_path, shown_rotation, reading_rotation, words_of):
    source = scanned_pdf(tmp_path / "scan.pdf", 1, rotation=shown_rotation)
    size = PAGE_PX if (shown_rotation + reading_rotation) % 180 == 0 else PAGE_PX[::-1]
    page = text_page(LINES[:2], 1, size, 200.0, rotation=reading_rotation)
    written(source, [page], tmp_path / "document.pdf")
    assert words_of(tmp_path / "document.pdf", "-raw") == [page_text(page).split()]
    with pymupdf.open(tmp_path / "document.pdf") as document:
        (word,) = [word for word in document[0].get_text("words") if word[4] == "Der"]
        shown = pymupdf.Rect(word[:4]) * document[0].rotation_matrix * (200 / 72)
    box = page.lines[0].words[0].box
    upright = {
        0: (box.left, box.top),
        90: (box.top, size[0] - box.right),
        180: (size[0] - box.right, size[1] - box.bottom),
        270: (size[1] - box.bottom, box.left),
    }
    assert tuple(shown.normalize().tl) == pytest.approx(upright[reading_rotation], abs=1)


def test_crop_box_and_user_unit_are_respected(tmp_path, need_tool):
    with pymupdf.open(scanned_pdf(tmp_path / "scan.pdf", 1)) as document:
        document[0].set_cropbox(pymupdf.Rect(100, 50, 500, 700))
        document.xref_set_key(document[0].xref, "UserUnit", "2")
        document.save(tmp_path / "cropped.pdf")
    page = text_page(["alpha beta"], 1, (1600, 2600), 144.0)
    written(tmp_path / "cropped.pdf", [page], tmp_path / "document.pdf")
    with pymupdf.open(tmp_path / "document.pdf") as document:
        assert document[0].rect == pymupdf.Rect(0, 0, 800, 1300)
        found = document[0].get_text("words")[0]
    box = page.lines[0].words[0].box
    assert found[:4] == pytest.approx([side / 2 for side in (box.left, box.top, box.right, box.bottom)], abs=0.1)
    assert pixels_at(tmp_path / "document.pdf", 36) == pixels_at(tmp_path / "cropped.pdf", 36)


@pytest.mark.parametrize("percent", [20, 40, 50, 80, 99])
@pytest.mark.parametrize("selected", [[1, 2, 3], [2, 3]])
def test_of_a_pdf_that_is_cut_off_any_pages_can_be_published(tmp_path, percent, selected):
    content = scanned_pdf(tmp_path / "whole.pdf", 3).read_bytes()
    (tmp_path / "cut.pdf").write_bytes(content[: len(content) * percent // 100])
    written(tmp_path / "cut.pdf", [failed_page(number) for number in selected], tmp_path / "document.pdf")
    with pymupdf.open(tmp_path / "document.pdf") as document:
        assert document.page_count == len(selected)


def test_a_page_is_published_as_it_is_read_where_its_crop_box_leaves_nothing_of_it(tmp_path):
    with pymupdf.open(scanned_pdf(tmp_path / "scan.pdf", 1)) as document:
        document.xref_set_key(document[0].xref, "CropBox", "[5000 5000 5100 5100]")
        document.save(tmp_path / "cropped.pdf")
    page = text_page(["alpha beta"], 1, (1700, 2200), 200.0)
    written(tmp_path / "cropped.pdf", [page], tmp_path / "document.pdf")
    with pymupdf.open(tmp_path / "document.pdf") as document:
        found = document[0].get_text("words")[0]
    box, scale = page.lines[0].words[0].box, 72 / 200
    assert found[:4] == pytest.approx([side * scale for side in (box.left, box.top, box.right, box.bottom)], abs=0.1)
    assert pixels_at(tmp_path / "document.pdf", 36) == pixels_at(tmp_path / "scan.pdf", 36)


@pytest.mark.parametrize("lean_degrees", [-5, -2, -0.7, 0.4, 1, 2, 4, 8])
def test_a_skewed_scan_gives_whole_words(tmp_path, lean_degrees, words_of):
    texts = ["Der alte Müller daſs zaͤhlen wuͤrde", "the quick brown fox jumps over", "the lazy dog again"]
    lines = [text_line(text, 400, 500 + 70 * index, lean_degrees) for index, text in enumerate(texts)]
    written(scanned_pdf(tmp_path / "scan.pdf", 1), [scanned_page(lines)], tmp_path / "document.pdf")
    expected = " ".join(texts).split()
    assert words_of(tmp_path / "document.pdf", "-raw") == [expected]
    (found,) = words_of(tmp_path / "document.pdf")
    assert Counter(found) == Counter(expected)


def test_vertical_columns_are_words_from_right_to_left(tmp_path, words_of):
    columns = ["欽定四庫全書簡明目錄卷一", "經部一", "舊本題卜子夏撰實後人輾轉依托"]
    lines = [column(text, PAGE_PX[0] - MARGIN_PX - 70 * index, MARGIN_PX) for index, text in enumerate(columns)]
    written(scanned_pdf(tmp_path / "scan.pdf", 1), [scanned_page(lines)], tmp_path / "document.pdf")
    assert words_of(tmp_path / "document.pdf") == [columns]
    assert words_of(tmp_path / "document.pdf", "-raw") == [columns]


def test_two_columns_keep_the_order_of_the_reading(tmp_path, words_of):
    left = [f"left{index} first column line{index}" for index in range(12)]
    right = [f"right{index} second column line{index}" for index in range(12)]
    lines = [text_line(text, 150, 150 + 60 * index) for index, text in enumerate(left)]
    lines += [text_line(text, 950, 160 + 60 * index) for index, text in enumerate(right)]
    written(scanned_pdf(tmp_path / "scan.pdf", 1), [scanned_page(lines)], tmp_path / "document.pdf")
    assert words_of(tmp_path / "document.pdf", "-raw") == [" ".join([*left, *right]).split()]


def test_only_selected_pages_are_kept_and_their_streams_verbatim(tmp_path, words_of):
    source = scanned_pdf(tmp_path / "scan.pdf", 6)
    pages = [scanned_page([f"page{number}"], number) for number in (2, 3, 5)]
    written(source, pages, tmp_path / "document.pdf")
    assert words_of(tmp_path / "document.pdf") == [["page2"], ["page3"], ["page5"]]
    assert image_streams(tmp_path / "document.pdf") == [image_streams(source)[index] for index in (1, 2, 4)]
    assert pixels_at(tmp_path / "document.pdf") == [pixels_at(source)[index] for index in (1, 2, 4)]
    assert (tmp_path / "document.pdf").stat().st_size < source.stat().st_size


def test_more_pages_than_a_batch_and_pages_without_text(tmp_path, words_of):
    count = BATCH_PAGES * 2 + 3
    pages = [
        scanned_page([f"page{number}"], number) if number % 5 else blank_page(number) for number in range(1, count)
    ]
    pages.append(failed_page(count))
    written(scanned_pdf(tmp_path / "scan.pdf", count), pages, tmp_path / "document.pdf")
    expected = [[f"page{number}"] if number % 5 and number < count else [] for number in range(1, count + 1)]
    assert words_of(tmp_path / "document.pdf") == expected


@pytest.mark.parametrize("kind", ["whole", "selected", "folder"])
def test_equal_input_gives_equal_bytes(tmp_path, kind):
    pages = [scanned_page(LINES, number) for number in ((1, 3) if kind == "selected" else (1, 2, 3))]
    if kind == "folder":
        (source := tmp_path / "folder").mkdir()
        for number in (1, 2, 3):
            scan(number).save(source / f"page{number}.png")
    else:
        source = scanned_pdf(tmp_path / "scan.pdf")
    for name in ("first.pdf", "second.pdf"):
        written(source, pages, tmp_path / name, kind="folder" if kind == "folder" else "pdf")
    assert (tmp_path / "first.pdf").read_bytes() == (tmp_path / "second.pdf").read_bytes()


def test_a_page_with_a_text_layer_of_its_own_keeps_it_and_gets_no_second(tmp_path, words_of):
    source = drawn_pdf(tmp_path / "drawn.pdf", ["the words of the page", "p. 7"])
    pages = [scanned_page(["the w0rds of the page"], 1), scanned_page(["a long line that was read", "p. 7"], 2)]
    writer = written(source, pages, tmp_path / "document.pdf")
    first, second = words_of(tmp_path / "document.pdf")
    assert writer.text_layers == {1: TextLayer.KEPT, 2: TextLayer.COMPLETED}
    assert first == ["the", "words", "of", "the", "page"]
    expected = ["a", "long", "line", "that", "was", "read", "p.", "7"]
    assert sorted(second) == sorted(expected), "a page number alone is no text layer"


def test_resources_that_pages_share_or_inherit_are_served(tmp_path, words_of):
    with pymupdf.open(scanned_pdf(tmp_path / "scan.pdf", 3)) as document:
        shared = document.get_new_xref()
        document.update_object(shared, document.xref_get_key(document[0].xref, "Resources")[1])
        parent = int(document.xref_get_key(document[0].xref, "Parent")[1].split()[0])
        document.xref_set_key(parent, "Resources", f"{shared} 0 R")
        for page in document:
            document.xref_set_key(page.xref, "Resources", "null")
        document.save(tmp_path / "shared.pdf")
    pages = [scanned_page([f"page{number}", "𠀀"], number) for number in (1, 2, 3)]
    written(tmp_path / "shared.pdf", pages, tmp_path / "document.pdf")
    assert words_of(tmp_path / "document.pdf") == [[f"page{number}", "𠀀"] for number in (1, 2, 3)]
    assert pixels_at(tmp_path / "document.pdf") == pixels_at(tmp_path / "shared.pdf")


def test_a_page_that_leaves_its_coordinates_changed_does_not_move_the_text(tmp_path, need_tool):
    with pymupdf.open(scanned_pdf(tmp_path / "scan.pdf", 1)) as document:
        xref = document[0].get_contents()[-1]
        document.update_stream(xref, document.xref_stream(xref) + b"\n0.1 0 0 0.1 300 300 cm\n")
        document.save(tmp_path / "careless.pdf")
    page = scanned_page(["alpha beta"])
    written(tmp_path / "careless.pdf", [page], tmp_path / "document.pdf")
    box = page.lines[0].words[0].box
    found = boxes_of(tmp_path / "document.pdf", need_tool)["alpha"]
    assert found[:2] == pytest.approx([box.left * 0.36, box.top * 0.36], abs=0.1)


def test_an_encrypted_file_that_opens_without_a_password_becomes_a_plain_one(tmp_path, words_of):
    source = tmp_path / "locked.pdf"
    with pymupdf.open(scanned_pdf(tmp_path / "scan.pdf", 2)) as document:
        document.save(source, encryption=pymupdf.PDF_ENCRYPT_AES_256, owner_pw="secret")
    for name in ("document.pdf", "again.pdf"):
        written(source, [scanned_page(["one"], 1), scanned_page(["two"], 2)], tmp_path / name)
    assert words_of(tmp_path / "document.pdf") == [["one"], ["two"]]
    assert pixels_at(tmp_path / "document.pdf") == pixels_at(source)
    assert image_streams(tmp_path / "document.pdf") == image_streams(source)
    assert (tmp_path / "document.pdf").read_bytes() == (tmp_path / "again.pdf").read_bytes()


def test_a_damaged_file_that_mupdf_repairs_is_written_anew_with_its_streams(tmp_path, words_of):
    source = tmp_path / "damaged.pdf"
    whole = scanned_pdf(tmp_path / "scan.pdf", 2)
    source.write_bytes(whole.read_bytes()[: whole.read_bytes().rindex(b"xref")])
    written(source, [scanned_page(["one"], 1), scanned_page(["two"], 2)], tmp_path / "document.pdf")
    assert words_of(tmp_path / "document.pdf") == [["one"], ["two"]]
    assert image_streams(tmp_path / "document.pdf") == image_streams(whole)
    with pymupdf.open(tmp_path / "document.pdf") as document:
        assert not document.is_repaired


@pytest.mark.parametrize("numbers", [(1, 2, 3), (1, 2), (2, 3), (1, 3)])
def test_a_page_that_cannot_be_opened_keeps_its_place(tmp_path, numbers):
    source = pdf_with_a_lost_page(tmp_path / "damaged.pdf")
    pages = [failed_page(2) if number == 2 else scanned_page([f"page{number}"], number) for number in numbers]
    for name in ("document.pdf", "again.pdf"):
        written(source, pages, tmp_path / name)
    assert (tmp_path / "document.pdf").read_bytes() == (tmp_path / "again.pdf").read_bytes()
    with pymupdf.open(tmp_path / "document.pdf") as document:
        assert document.page_count == len(numbers)
        for index, number in enumerate(numbers):
            if number != 2:
                assert document[index].get_text().split() == [f"page{number}"]
                assert document.xref_stream_raw(document[index].get_images()[0][0]) == jpeg(number)


def test_letters_signs_and_ideographs_of_all_kinds_survive(tmp_path, words_of):
    blocks = [range(0x21, 0x7F), range(0xA1, 0xAD), range(0xAE, 0x250), range(0x370, 0x378), range(0x391, 0x3A2),
              range(0x400, 0x460), range(0x1E00, 0x1F00), range(0x2010, 0x2028), range(0x2030, 0x205F),
              range(0x2190, 0x2200), range(0x3001, 0x3100), range(0x4E00, 0xA000, 53), range(0xE000, 0xE010),
              range(0xFB00, 0xFB05), range(0xFF01, 0xFF5F), range(0x10330, 0x1034B), range(0x1F300, 0x1F320),
              range(0x20000, 0x2A6D0, 997)]  # fmt: skip
    words = [f"x{chr(code)}y" for block in blocks for code in block]
    words += [f"{letter}{chr(accent)}z" for letter in "aou" for accent in (0x304, 0x364, 0x365)]
    words = [word for word in words if unicodedata.normalize("NFC", word) == word]
    assert len(words) > 1900
    lines = [" ".join(words[start : start + 10]) for start in range(0, len(words), 10)]
    page = text_page(lines, 1, (1700, 20_000), 200.0)
    with pymupdf.open() as document:
        document.new_page(width=612, height=7200)
        document.save(tmp_path / "blank.pdf")
    written(tmp_path / "blank.pdf", [page], tmp_path / "document.pdf")
    assert words_of(tmp_path / "document.pdf", "-raw") == [words]
    (found,) = words_of(tmp_path / "document.pdf")
    assert Counter(found) == Counter(words)


def test_lines_without_a_resolution_are_refused(tmp_path):
    page = text_page(["one"], 1, PAGE_PX, 0.0)
    with pytest.raises(ContractViolated, match="page 1 has 1 lines but no resolution"):
        written(scanned_pdf(tmp_path / "scan.pdf", 1), [page], tmp_path / "document.pdf")


def test_a_folder_of_images_becomes_pages_in_natural_order_with_the_files_inside(tmp_path, words_of):
    folder = tmp_path / "book"
    folder.mkdir()
    for number in (1, 2, 10):
        (folder / f"page{number}.jpg").write_bytes(jpeg(number))
    pages = [text_page([f"page{number}"], index, (850, 1100), 300.0) for index, number in enumerate((1, 2, 10), 1)]
    written(folder, pages, tmp_path / "document.pdf", kind="folder")
    assert words_of(tmp_path / "document.pdf") == [["page1"], ["page2"], ["page10"]]
    assert image_streams(tmp_path / "document.pdf") == [[jpeg(number)] for number in (1, 2, 10)]


def test_a_damaged_image_keeps_its_page_if_it_failed_and_is_an_error_if_it_was_read(tmp_path):
    folder = tmp_path / "book"
    folder.mkdir()
    for number in (1, 2, 3):
        scan(number).save(folder / f"page{number}.tif")
    damaged = folder / "page2.tif"
    damaged.write_bytes(damaged.read_bytes()[:20_000])
    pages = [blank_page(1), failed_page(2), blank_page(3)]
    written(folder, pages, tmp_path / "document.pdf", kind="folder")
    streams = image_streams(tmp_path / "document.pdf")
    assert [len(page) for page in streams] == [1, 0, 1]
    with pytest.raises(RenderFailed, match=r"page2\.tif is damaged"):
        written(folder, [blank_page(1), blank_page(2), blank_page(3)], tmp_path / "document.pdf", kind="folder")


def test_names_sort_as_people_count():
    names = ["page10.png", "page2.png", "Page1.png", "page02.png", "cover.png", "2.png", "10.png"]
    expected = ["2.png", "10.png", "cover.png", "Page1.png", "page02.png", "page2.png", "page10.png"]
    assert sorted(names, key=natural_key) == expected


@pytest.mark.shared_data
@pytest.mark.parametrize("book", ["en_lusitania_1915", "en_corset_and_crinoline_1868", "fr_henriade_18e"])
def test_real_pages_keep_every_pixel_and_give_every_word(shared_data, tmp_path, book, words_of):
    source = shared_data / "books" / book / f"{book}.pdf"
    truths = sorted((shared_data / "books" / book).glob("page_*.gt.txt"))[:4]
    with pymupdf.open(source) as document:
        images = [document[index].get_image_info()[0] for index in range(4)]
        widths = [document[index].rect.width for index in range(4)]
    pages = [
        page_of_truth(
            truth.read_text(encoding="utf-8"), number, (image["width"], image["height"]), image["width"] * 72 / width
        )
        for number, (truth, image, width) in enumerate(zip(truths, images, widths, strict=True), start=1)
    ]
    written(source, pages, tmp_path / "document.pdf")
    expected = [page_text(page).split() for page in pages]
    assert words_of(tmp_path / "document.pdf", "-raw") == expected
    # By default pdftotext joins words that are divided at a line's end, as no reading does.
    joined = [re.sub(r"-\n", "", page_text(page)).split() for page in pages]
    assert [Counter(words) for words in words_of(tmp_path / "document.pdf")] == [Counter(words) for words in joined]
    assert pixels_at(tmp_path / "document.pdf") == pixels_at(source)[:4]
    assert image_streams(tmp_path / "document.pdf") == image_streams(source)[:4]


def test_frames_of_a_file_are_counted_in_tiff_only(tmp_path):
    scan(1).save(tmp_path / "many.tif", save_all=True, append_images=[scan(2), scan(3)])
    scan(1).save(tmp_path / "one.png")
    assert len(frames_of(tmp_path / "many.tif")) == 3
    assert len(frames_of(tmp_path / "one.png")) == 1
