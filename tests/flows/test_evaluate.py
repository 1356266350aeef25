from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
from support.published import shelve

from data_contracts.errors import ConfigError
from data_contracts.geometry import Box
from data_contracts.result import Line, PageResult, PageStatus, Word
from data_contracts.text import ALL_STEPS, Step
from flows.commands import evaluate as command
from flows.evaluate import Evaluation, evaluate, find_document, read_truth, score

BOX = Box(left=0, top=0, right=1, bottom=1)
QUAD = ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0))


def a_line(text: str) -> Line:
    return Line(text=text, box=BOX, quad=QUAD, confidence=1, words=(Word(text=text, box=BOX, confidence=1),))


def a_page(number: int, text: str) -> PageResult:
    lines = tuple(a_line(line) for line in text.split("\n")) if text else ()
    status = PageStatus.TEXT if text else PageStatus.FAILED
    error = None if text else "could not be read"
    return PageResult(page_number=number, width_px=1, height_px=1, dpi=200, status=status, error=error, lines=lines)


def publish(output: Path, document: str, pages: dict[int, str], page_count: int | None = None) -> Path:
    return shelve(output / document, [a_page(number, text) for number, text in pages.items()], page_count)


def write_truth(folder: Path, pages: dict[str, str]) -> Path:
    folder.mkdir()
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_rates_are_micro_averages_with_a_median_and_a_share_of_bad_pages(tmp_path):
    publish(tmp_path / "out", "book-1", {1: "abcd efghi", 2: "zzzz", 3: "same line"})
    truth = write_truth(
        tmp_path / "truth", {"page_0001.txt": "abcd efghx", "page_0002.txt": "abcd", "page_0003.txt": "same\nline"}
    )
    result = evaluate(tmp_path / "out", truth)
    assert result.characters == 10 + 4 + 9
    assert result.cer == pytest.approx(5 / 23)
    assert result.wer == pytest.approx(2 / 5)
    assert result.median_page_cer == pytest.approx(0.1)
    assert result.over_5_percent_ratio == pytest.approx(2 / 3)
    assert [page.cer for page in result.per_page] == pytest.approx([0.1, 1.0, 0.0])


def test_the_json_has_the_promised_keys(tmp_path):
    result = score([(4, "truth", "trash")]).as_json()
    kinds = dict.fromkeys(("digits", "digit_errors", "punctuation", "punctuation_errors", "case_errors"), 0)
    kinds["letter_errors"] = 2
    assert json.loads(json.dumps(result)) == kinds | {
        "cer": 0.4,
        "wer": 1.0,
        "characters": 5,
        "pages": 1,
        "median_page_cer": 0.4,
        "over_5_percent_ratio": 1.0,
        "per_page": [kinds | {"page_number": 4, "cer": 0.4, "wer": 1.0, "characters": 5}],
    }


def test_wrong_digits_and_marks_are_counted_apart():
    result = score([(1, "( 12 ) of 1876", "( 2 ) of 1876"), (2, "(6), Rubens", "(6, RuBens"), (3, "ab", "cb7")])
    assert [(page.digit_errors, page.punctuation_errors, page.case_errors) for page in result.per_page] == [
        (1, 0, 0),
        (0, 1, 1),
        (1, 0, 0),
    ]
    kinds = result.as_json()
    assert (kinds["digits"], kinds["digit_errors"]) == (7, 2)
    assert (kinds["punctuation"], kinds["punctuation_errors"], kinds["letter_errors"]) == (5, 1, 1)
    assert "2 at 7 digits, 1 at 5 marks, 1 letters, 1 in case" in command.as_table(result)


def test_a_failed_page_counts_as_unread(tmp_path):
    publish(tmp_path / "out", "book-1", {1: "good", 2: ""})
    truth = write_truth(tmp_path / "truth", {"page_0001.txt": "good", "page_0002.txt": "lost"})
    assert evaluate(tmp_path / "out", truth).cer == 0.5


def test_noise_on_an_empty_page_is_not_forgiven():
    result = score([(1, "", "noise"), (2, "text", "text")])
    assert result.per_page[0].cer == 1
    assert result.cer == pytest.approx(5 / 4)


def test_steps_and_cap_can_be_switched_off():
    pages = [(1, "“a”", '"a" and more')]
    assert score(pages).cer == 1
    assert score(pages, cap=False).cer == pytest.approx(9 / 3)
    assert score([(1, "“a”", '"a"')], [step for step in ALL_STEPS if step is not Step.QUOTES]).cer > 0


def test_chinese_is_compared_without_spaces_and_its_bag_holds_characters():
    page = score([(1, "欽定四庫\n全書", "全書 欽定四庫")]).per_page[0]
    assert (page.characters, page.character_errors, page.bag_recall) == (6, 4, 1.0)


def test_a_table_of_scans_maps_rows_to_pages(tmp_path):
    truth = write_truth(
        tmp_path / "truth",
        {"page_0006.gt.txt": "six", "page_0013.gt.txt": "thirteen", "pages.tsv": 'page\timage\n6\ta.tif\n13\t"b.tif\n'},
    )
    assert read_truth(truth, 2) == {1: "six", 2: "thirteen"}


def test_a_table_that_names_an_absent_file_is_refused(tmp_path):
    truth = write_truth(tmp_path / "truth", {"page_0006.gt.txt": "six", "pages.tsv": "page\n6\n7\n"})
    with pytest.raises(ConfigError, match="not there: page_NNNN for 7"):
        read_truth(truth, 2)


@pytest.mark.parametrize("table", ["scan\n6\n", "page\nsix\n", "page\timage\n\n\ta\n"])
def test_a_table_without_page_numbers_is_refused(tmp_path, table):
    truth = write_truth(tmp_path / "truth", {"page_0006.gt.txt": "six", "pages.tsv": table})
    with pytest.raises(ConfigError, match="column `page`"):
        read_truth(truth, 1)


def test_form_feeds_serve_as_a_file_or_as_the_only_text_of_a_folder(tmp_path):
    folder = write_truth(tmp_path / "truth", {"whole.gt.txt": "\ufeffone\ftwo\f", "notes.pages.tsv": "pdf_page\n1\n"})
    assert read_truth(folder, 2) == read_truth(folder / "whole.gt.txt", 2) == {1: "one", 2: "two"}
    assert read_truth(folder, 3) == {1: "one", 2: "two", 3: ""}


def test_two_files_for_one_page_are_refused(tmp_path):
    truth = write_truth(tmp_path / "truth", {"page_0001.gt.txt": "a", "page_1.txt": "b"})
    with pytest.raises(ConfigError, match=r"page_0001\.gt\.txt and page_1\.txt .* both claim page 1"):
        read_truth(truth, 1)


@pytest.mark.parametrize("pages", [{}, {"a.txt": "a", "b.txt": "b"}])
def test_a_folder_without_a_clear_truth_is_refused(tmp_path, pages):
    with pytest.raises(ConfigError, match=f"found {len(pages)} text files"):
        read_truth(write_truth(tmp_path / "truth", pages), 1)


def test_a_truth_in_another_encoding_is_refused(tmp_path):
    (tmp_path / "page_0001.txt").write_bytes("fünf".encode("latin-1"))
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_truth(tmp_path, 1)


def test_a_page_without_truth_and_a_truth_without_page_are_both_named(tmp_path):
    publish(tmp_path / "out", "book-1", {1: "a", 2: "b"})
    truth = write_truth(tmp_path / "truth", {"page_0001.txt": "a", "page_0003.txt": "c"})
    with pytest.raises(ConfigError, match="no truth for pages 2; truth for pages 3, but the document has 2"):
        evaluate(tmp_path / "out", truth)


def test_only_selected_pages_count(tmp_path):
    publish(tmp_path / "out", "book-1", {2: "b"}, page_count=3)
    truth = write_truth(tmp_path / "truth", {"page_0001.txt": "a", "page_0002.txt": "b", "page_0003.txt": "c"})
    result = evaluate(tmp_path / "out", truth)
    assert [page.page_number for page in result.per_page] == [2]
    assert result.cer == 0


def test_several_documents_need_a_name(tmp_path):
    publish(tmp_path, "one-1", {1: "a"})
    (tmp_path / ".tomeflow").mkdir()
    assert find_document(tmp_path) == tmp_path / "one-1"
    publish(tmp_path, "two-2", {1: "a"})
    with pytest.raises(ConfigError, match="2 documents: name one with --document: one-1, two-2"):
        find_document(tmp_path)
    assert find_document(tmp_path, "two-2") == tmp_path / "two-2"
    assert find_document(tmp_path / "two-2") == tmp_path / "two-2"
    with pytest.raises(ConfigError, match="no document 'three'; it holds one-1, two-2"):
        find_document(tmp_path, "three")


def test_a_folder_without_published_documents_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="no published document"):
        evaluate(tmp_path, tmp_path)


def test_a_document_without_jsonl_is_refused(tmp_path):
    folder = publish(tmp_path, "one-1", {1: "a"})
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"files": {}}))
    with pytest.raises(ConfigError, match="--format that includes jsonl"):
        evaluate(tmp_path, tmp_path)


def test_steps_are_skipped_by_number_or_name():
    assert command.parse_skipped("") == ALL_STEPS
    assert command.parse_skipped("1, quotes") == (Step.HYPHENS, Step.SPACES, Step.DASHES, Step.DOTS)
    with pytest.raises(ConfigError, match="no normalisation step '0', 'case'"):
        command.parse_skipped("0,case,2")


@pytest.mark.parametrize("as_json", [True, False])
def test_the_command_prints_one_object_or_one_table(tmp_path, capsys, as_json):
    publish(tmp_path / "out", "book-1", {1: "ſo"})
    truth = write_truth(tmp_path / "truth", {"page_0001.txt": "so"})
    options = argparse.Namespace(
        output=str(tmp_path / "out"),
        truth=str(truth),
        document=None,
        skip_steps="letters",
        language="eng",
        json=as_json,
    )
    assert command.main(options) == 0
    printed = capsys.readouterr().out
    assert json.loads(printed)["cer"] == 0.5 if as_json else "total   50.00%  100.00%           2" in printed


@pytest.mark.shared_data
@pytest.mark.parametrize("book", ["en_horton_genealogy_1876", "zh_siku_jianming_mulu_juan1", "fr_porcie_16e"])
def test_every_real_table_names_its_truth_files(shared_data, book):
    folder = shared_data / "books" / book
    rows = (folder / "pages.tsv").read_text(encoding="utf-8").splitlines()[1:]
    truths = read_truth(folder, len(rows))
    assert list(truths) == list(range(1, len(rows) + 1))
    assert all(text.strip() for text in truths.values())
    assert score((number, text, text) for number, text in truths.items()).cer == 0


@pytest.mark.shared_data
def test_the_long_documents_truth_is_the_truth_of_its_books(shared_data):
    truths = read_truth(shared_data / "long", 156)
    rows = (shared_data / "long" / "oldbooks_shared_156p.pages.tsv").read_text(encoding="utf-8").splitlines()[1:]
    assert len(truths) == len(rows) == 156
    paths = [shared_data / row.split("\t")[3] for row in rows]
    result: Evaluation = score(
        (number, truths[number], path.read_text(encoding="utf-8")) for number, path in enumerate(paths, start=1)
    )
    assert result.cer == 0
