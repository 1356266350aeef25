from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from data_contracts.errors import ConfigError
from flows.baseline_readers import Tesseract, naive_row_order
from flows.bench.readers import as_text, columns_in_sequence, find_books, main, run, shortfalls, spread

PRINTED = ["欽定四庫全書", "經部一易類", "子夏易傳十一卷", "舊本題卜子夏撰"]


def figures(cer: float, in_sequence: float | None = None, recall: float = 1.0) -> dict[str, Any]:
    return {
        "cer": cer,
        "characters": 1000,
        "character_errors": round(1000 * cer),
        "median_page_cer": cer,
        "over_5_percent_ratio": 0.0,
        "seconds_per_page": 1.0,
        "bag_recall": recall,
        "columns_in_sequence_ratio": in_sequence,
        "page_cer": {1: cer},
    }


def a_report(**changes: Any) -> dict[str, Any]:
    book = {
        "book": "fr_argus_brevets_1910_twocol_b",
        "page_numbers": [1],
        "characters": 1000,
        "tomeflow": figures(0.01),
        "rapidocr": figures(0.7),
        "tesseract": figures(0.02),
        "absent": {},
    }
    english = {
        "books": ["en_lusitania_1915"],
        "pages": 1,
        "characters": 1000,
        "tomeflow": 0.008,
        "rapidocr": 0.009,
        "tesseract": 0.012,
        "ratio_to_tesseract": 0.67,
    }
    return {"conditions": {"dpi": "auto"}, "books": [book | changes], "clean_english_books": english}


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (PRINTED, (3, 3)),
        (PRINTED[::-1], (0, 3)),
        ([PRINTED[1], PRINTED[0], *PRINTED[2:]], (2, 3)),
        ([PRINTED[0], PRINTED[2]], (1, 1)),
        (["欽定四車全書", "無關之文", *PRINTED[1:]], (3, 3)),
        (["山高水長"], (0, 0)),
        ([], (0, 0)),
    ],
    ids=["right", "backwards", "two_exchanged", "two_not_read", "misread_and_noise", "nothing_matches", "nothing_read"],
)
def test_columns_are_in_sequence_when_neighbours_are_read_one_before_the_other(
    read: list[str], expected: tuple[int, int]
) -> None:
    assert columns_in_sequence(PRINTED, read) == expected


@pytest.mark.parametrize(
    ("count", "expected"), [(None, list(range(1, 11))), (2, [3, 8]), (3, [2, 6, 9]), (1, [6]), (99, list(range(1, 11)))]
)
def test_pages_are_spread_over_the_book(count: int | None, expected: list[int]) -> None:
    assert spread(range(1, 11), count) == expected


def test_books_are_found_by_the_beginning_of_their_names(tmp_path: Path) -> None:
    for name in ("en_a", "en_b", "fr_c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "pages.tsv").touch()
    assert [book.name for book in find_books(tmp_path, ["en_", "fr_c"])] == ["en_a", "en_b", "fr_c"]
    with pytest.raises(ConfigError, match="zh"):
        find_books(tmp_path, ["en_a", "zh"])


def test_a_folder_without_books_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--data"):
        find_books(tmp_path)


def test_figures_that_keep_every_promise_fall_short_of_none() -> None:
    assert shortfalls(a_report()) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tomeflow": figures(0.03), "rapidocr": figures(0.0285)}, "plain RapidOCR 2.85%"),
        ({"tomeflow": figures(0.03)}, "Tesseract 2.00%"),
        ({"tomeflow": figures(0.01, in_sequence=0.9)}, "90.0% of columns in sequence"),
        ({"tomeflow": figures(0.01, in_sequence=1.0, recall=0.8)}, "recall 80.0%"),
    ],
)
def test_a_book_that_falls_short_is_named_with_numbers(changes: dict[str, Any], words: str) -> None:
    found = shortfalls(a_report(**changes))
    assert any(words in text for text in found)


def test_english_books_are_held_to_their_own_rate_and_to_tesseracts() -> None:
    report = a_report()
    report["clean_english_books"] |= {"tomeflow": 0.0105, "ratio_to_tesseract": 0.88}
    assert len(shortfalls(report)) == 2


def test_the_table_says_why_a_reader_is_absent() -> None:
    report = a_report(tesseract=None, absent={"tesseract": "the program tesseract is not installed"})
    report["shortfalls"] = shortfalls(report)
    assert "no tesseract: the program tesseract is not installed" in as_text(report)


def test_tesseract_is_absent_without_its_program_or_its_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, need_tool: Any
) -> None:
    need_tool("tesseract")
    reader = Tesseract("zh_a_vertical_book")
    assert reader.absent_because is None or "chi_tra_vert" in reader.absent_because
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Tesseract("en_a_book").absent_because == "the program tesseract is not installed"


def test_naive_order_goes_across_two_columns() -> None:
    def box(left: float, top: float) -> Any:
        return ((left, top), (left + 100, top), (left + 100, top + 20), (left, top + 20))

    quads = [box(200, 3), box(0, 30), box(0, 0), box(200, 31)]
    assert naive_row_order(quads) == [2, 0, 1, 3]


@pytest.mark.shared_data
@pytest.mark.slow
def test_a_real_page_is_read_by_all_three(
    shared_data: Path, need_tool: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    need_tool("tesseract")
    assert main(["--data", str(shared_data), "--books", "en_lusitania", "--pages-per-book", "1", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    (book,) = report["books"]
    assert len(book["page_numbers"]) == 1
    assert all(book[name]["cer"] < 0.05 for name in ("tomeflow", "rapidocr", "tesseract"))
    assert report["clean_english_books"]["characters"] == book["characters"]
    assert report["conditions"]["threads"] >= 1


@pytest.mark.shared_data
@pytest.mark.slow
def test_columns_and_vertical_text_are_read_in_order(shared_data: Path) -> None:
    report = run(shared_data, ["fr_argus", "zh_"], pages_per_book=1)
    argus, vertical = report["books"]
    assert argus["tomeflow"]["cer"] < 0.1 < argus["rapidocr"]["cer"]
    assert vertical["tomeflow"]["columns_in_sequence_ratio"] == 1.0
    assert vertical["tomeflow"]["bag_recall"] >= 0.9
