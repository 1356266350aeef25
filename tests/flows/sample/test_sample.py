from __future__ import annotations

import itertools
import os
import re
import subprocess
import tracemalloc

import numpy as np
import pymupdf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_contracts.errors import ConfigError
from data_contracts.text import cer, is_ideographic
from flows.sample.book import write_sample
from flows.sample.page import BOLD, PAGE_HEIGHT, PAGE_WIDTH, ROMAN, PrintedPage, Token, print_book, set_rows, width
from flows.sample.scan import scan_page
from flows.sample.words import chinese_number, draw_cast

READABLE_CER = 0.02  # Tesseract on a clear page; measured 0.0 to 0.3 %
STREAMING_RATIO = 1.2  # peak memory of nine pages over that of three


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("sample") / "book.pdf", pages=8, seed=3)


def without_space(text: str) -> str:
    return "".join(text.split())


def dictionary_pages(pages: int, seed: int) -> list[PrintedPage]:
    return [page for page in print_book(pages, seed) if page.rules and len(page.lines) > 50]


def test_a_book_is_an_image_only_pdf_of_gray_jpegs_at_200_dpi(book):
    with pymupdf.open(book) as document:
        assert document.page_count == 8
        assert not document.is_repaired
        for page in document:
            assert page.rect == pymupdf.Rect(0, 0, PAGE_WIDTH, PAGE_HEIGHT)
            assert page.get_text() == ""
            ((xref, *_),) = page.get_images()
            image = document.extract_image(xref)
            assert (image["ext"], image["width"], image["height"], image["colorspace"]) == ("jpeg", 1200, 1800, 1)


def test_each_page_has_its_truth_and_no_other(book):
    truth = book.with_suffix(".truth")
    assert sorted(path.name for path in truth.iterdir()) == [f"page_{number:04d}.txt" for number in range(1, 9)]
    assert all(path.read_text(encoding="utf-8").endswith("\n") for path in truth.iterdir())


def test_equal_seeds_give_equal_bytes_and_other_seeds_other_books(book, tmp_path):
    again = write_sample(tmp_path / "again.pdf", pages=8, seed=3)
    assert again.read_bytes() == book.read_bytes()
    other = write_sample(tmp_path / "other.pdf", pages=1, seed=4)
    same_seed = write_sample(tmp_path / "same.pdf", pages=1, seed=3)
    assert other.read_bytes() != same_seed.read_bytes()


@pytest.mark.parametrize("pages", [1, 2, 3, 4, 5, 12, 30])
def test_a_book_has_as_many_pages_as_asked_for(pages):
    assert [page.page_number for page in print_book(pages, seed=1)] == list(range(1, pages + 1))


def test_the_truth_is_what_is_drawn_in_reading_order():
    for page in print_book(24, seed=2):
        assert without_space("".join(mark.text for mark in page.marks)) == without_space(page.truth)


def test_nothing_is_printed_beyond_the_paper():
    for page in print_book(24, seed=5):
        for mark in page.marks:
            assert mark.x > 20
            assert mark.x + width(mark.text, mark.font, mark.size) < PAGE_WIDTH - 20
            assert 40 < mark.y < PAGE_HEIGHT - 20


def test_the_dictionary_has_two_columns_in_alphabetical_order_under_its_guide_words():
    pages = dictionary_pages(24, seed=1)
    assert len(pages) == 6
    guides = []
    for page in pages:
        first, number, last = re.fullmatch(r"([A-Z ]+) (\d+) ([A-Z ]+)", page.lines[0]).groups()
        assert int(number) == page.page_number
        guides += [first.lower(), last.lower()]
        headwords = [mark.text.lower() for mark in page.marks[3:] if mark.font == BOLD and mark.text.endswith(",")]
        assert len(headwords) > 20
        columns = [mark.x < PAGE_WIDTH / 2 for mark in page.marks[3:]]
        assert [side for side, _ in itertools.groupby(columns)] == [True, False]
    assert guides == sorted(guides)


def test_a_quarter_of_the_book_is_chinese_and_numbered_in_chinese():
    pages = list(print_book(24, seed=1))
    assert [is_ideographic(page.truth) for page in pages] == [False] * 18 + [True] * 6
    assert pages[19].lines[-1] == chinese_number(20) == "二〇"


def test_names_come_back_on_far_pages():
    pages = list(print_book(48, seed=1))
    cast = draw_cast(1)
    for name in [surname for _, surname in cast.people] + list(cast.chinese_people):
        numbers = [page.page_number for page in pages if name in page.truth]
        assert numbers[-1] - numbers[0] > 9, f"{name} stands only on pages {numbers}"


def test_a_long_book_takes_no_more_memory_than_a_short_one(tmp_path):
    def peak_bytes(pages: int) -> int:
        tracemalloc.start()
        write_sample(tmp_path / "book.pdf", pages, seed=1)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    write_sample(tmp_path / "book.pdf", 1, seed=1)
    assert peak_bytes(9) < STREAMING_RATIO * peak_bytes(3)


def test_a_shorter_book_of_the_same_name_leaves_no_truth_behind(tmp_path):
    write_sample(tmp_path / "book.pdf", 2, seed=1)
    write_sample(tmp_path / "book.pdf", 1, seed=1)
    assert [path.name for path in (tmp_path / "book.truth").iterdir()] == ["page_0001.txt"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["book.pdf", "book.truth"]


def test_all_wrong_parameters_are_named_at_once(tmp_path):
    with pytest.raises(ConfigError, match=r"--pages is 0.*book\.pdf instead of book\.png"):
        write_sample(tmp_path / "book.png", 0, seed=1)


def test_a_scan_has_a_dark_fold_grain_and_the_ghost_of_the_page_behind():
    blank = np.zeros((600, 400), np.float32)
    printed = blank.copy()
    printed[100:500, 50:100] = 1
    scan, ghosted = (scan_page(blank, behind, np.random.default_rng(1), recto=True) for behind in (None, printed))
    assert scan[:, :8].mean() < scan[:, 200:].mean() - 20
    verso = scan_page(blank, None, np.random.default_rng(1), recto=False)
    assert verso[:, -8:].mean() < verso[:, :200].mean() - 20
    assert 1 < scan[250:350, 180:220].std() < 10
    assert ghosted[200:400, 310:340].mean() < scan[200:400, 310:340].mean() - 5
    assert ghosted[200:400, 60:90].mean() == pytest.approx(scan[200:400, 60:90].mean(), abs=1)


def test_a_scan_is_tilted_now_and_then():
    ink = np.zeros((600, 400), np.float32)
    ink[300:306, 40:360] = 1
    lowest = []
    for seed in range(6):
        scan = scan_page(ink, None, np.random.default_rng(seed), recto=True)
        lowest.append(int(scan[:, 320:340].mean(axis=1).argmin()) - int(scan[:, 100:120].mean(axis=1).argmin()))
    assert min(lowest) < 0 < max(lowest)


@given(st.lists(st.text(alphabet="abcdeinorst", min_size=1, max_size=14), min_size=1, max_size=40))
def test_setting_a_paragraph_loses_no_letter_and_respects_the_measure(text):
    measure, size = 120.0, 10.0
    rows = list(set_rows([Token(word) for word in text], measure, size, first_indent=12))
    assert re.sub("- | ", "", " ".join(row.text for row in rows)) == "".join(text)
    for row in rows:
        assert len(row.tokens) == 1 or row.indent + width(row.text, ROMAN, size) <= measure + 0.01
    assert [row.justified for row in rows] == [True] * (len(rows) - 1) + [False]


def test_a_sample_page_can_be_read(book, tmp_path, need_tool):
    tesseract = need_tool("tesseract")
    with pymupdf.open(book) as document:
        (tmp_path / "page.jpg").write_bytes(document.extract_image(document[2].get_images()[0][0])["image"])
    command = [tesseract, tmp_path / "page.jpg", "-", "-l", "eng"]
    one_thread = os.environ | {"OMP_THREAD_LIMIT": "1"}  # its threads only hinder one another
    reading = subprocess.run(command, capture_output=True, text=True, check=True, env=one_thread).stdout
    truth = (book.with_suffix(".truth") / "page_0003.txt").read_text(encoding="utf-8")
    assert cer(truth, reading) < READABLE_CER
