"""Repetition, strange characters and near_duplicates: loops and copies are seen, real books are not accused."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support.readings import blank_page, text_page

from data_contracts.quality.measures import (
    count_scripts,
    distinct_ratio,
    find_near_duplicates,
    longest_loop,
    measure_text,
)

LINES = [f"{word} stands in line {number} of this page" for number, word in enumerate("abcdefghijklmnop")]


def test_distinct_ratio_counts_different_ngrams() -> None:
    assert distinct_ratio("abcabc", 3) == 0.75
    assert distinct_ratio("ab", 3) is None


@pytest.mark.parametrize("period", [1, 2, 3, 4])
def test_a_loop_of_lines_is_seen(period: int) -> None:
    loop = LINES[:period] * 6
    assert longest_loop([*LINES, *loop]) == 5 * period
    measures = measure_text(text_page([*LINES, *loop]))
    assert measures.repeated_lines == 5 * period


def test_a_loop_inside_a_line_lowers_distinct_35() -> None:
    measures = measure_text(text_page(["and so on " * 60]))
    assert measures.distinct_35_ratio is not None
    assert measures.distinct_35_ratio < 0.1


def test_chinese_is_counted_by_characters() -> None:
    assert measure_text(text_page(["天地玄黃宇宙洪荒" * 12])).distinct_20_ratio == pytest.approx(8 / 77)


def test_ditto_marks_and_refrains_are_no_loop() -> None:
    assert longest_loop(["idem", "a line", "idem", "another", "idem"]) == 0
    assert longest_loop(['"', '"', '"', '"']) == 0


def test_characters_that_no_print_shows_are_counted() -> None:
    assert measure_text(text_page(["ab\ufffd\ue000"])).odd_character_ratio == 0.5
    assert measure_text(text_page(["naïve „Straße“ ſ 欽定 §½ †"])).odd_character_ratio == 0


def test_scripts_are_told_apart() -> None:
    assert count_scripts("Иван and 定") == 3
    assert count_scripts("1815 —") == 0


def test_a_page_without_text_has_no_ratio() -> None:
    measures = measure_text(blank_page())
    assert (measures.distinct_20_ratio, measures.repeated_lines, measures.script_count) == (None, 0, 0)


def test_copies_are_found_even_when_read_slightly_otherwise() -> None:
    rng = random.Random(1)
    pages = [["".join(rng.choices("abcdefgh ", k=60)) for _ in range(20)] for _ in range(50)]
    texts = [(number, "\n".join(lines)) for number, lines in enumerate(pages, start=1)]
    near = "\n".join([*pages[6][:-1], "one line was read otherwise this time"])
    assert find_near_duplicates(texts) == []
    assert find_near_duplicates([*texts, (51, texts[3][1]), (52, near)]) == [(4, 51), (7, 52)]


def test_short_pages_and_running_heads_make_no_twins() -> None:
    head = "THE SAME RUNNING HEAD ON EVERY PAGE OF THE BOOK"
    assert find_near_duplicates([(1, "PART I."), (2, "PART I.")]) == []
    assert (
        find_near_duplicates([(n, "\n".join([head] * 6) + f"\n{n * 7919} " + "x" * n * 9) for n in range(1, 30)]) == []
    )


@pytest.mark.shared_data
def test_no_shared_book_repeats_itself_or_has_twins(shared_data: Path) -> None:
    for book in sorted((shared_data / "books").glob("*/")):
        texts = [file.read_text(encoding="utf-8") for file in sorted(book.glob("page_*.gt.txt"))]
        measures = [measure_text(text_page([line for line in t.splitlines() if line.strip()] or ["-"])) for t in texts]
        assert min(m.distinct_35_ratio if m.distinct_35_ratio is not None else 1.0 for m in measures) > 0.95
        assert max(m.repeated_lines for m in measures) <= 2
        assert find_near_duplicates(enumerate(texts)) == []
