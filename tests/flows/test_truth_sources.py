"""What stands for a transcription where there is none: visible text of a PDF, a second reader."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pymupdf
import pytest
from support.judged import judge_document
from support.readings import blank_page, text_page
from support.sources import drawn_pdf, scanned_pdf

from data_contracts.errors import ConfigError, ModelUnavailable
from flows.commands.cli import main
from flows.commands.query import run_query

SHOWN = "The keeper lit the lamp at dusk"
INVISIBLE = 3


def half_born_digital(path: Path) -> Path:
    """A page that shows text, a scan with somebody's invisible reading, a page with a few visible words on a scan."""
    document = pymupdf.open()
    document.new_page().insert_text((72, 100), SHOWN)
    page = document.new_page()
    page.insert_text((72, 100), "what another reader thought it said", render_mode=INVISIBLE)
    page = document.new_page()
    page.insert_text((72, 100), "what another reader thought it said", render_mode=INVISIBLE)
    page.insert_text((72, 200), "stamp")
    document.save(path)
    document.close()
    return path


def evaluated(capsys: pytest.CaptureFixture[str], output: Path, *arguments: str) -> dict[str, object]:
    capsys.readouterr()
    assert main(["eval", str(output), "--json", *arguments]) == 0
    return dict(json.loads(capsys.readouterr().out))


def test_only_text_that_a_page_shows_is_truth(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = half_born_digital(tmp_path / "half.pdf")
    pages = [text_page([SHOWN.replace("dusk", "dust")], 1), text_page(["x"], 2), text_page(["y"], 3)]
    judge_document(tmp_path / "out", pages, source=source)
    said = evaluated(capsys, tmp_path / "out", "--truth", "text-layer")
    assert (said["source"], said["is_estimate"], said["unjudged_pages"]) == ("text-layer", False, [2, 3])
    assert said["cer"] == pytest.approx(1 / len(SHOWN))
    columns = "source, is_estimate, characters, character_errors, word_errors"
    rows = run_query(tmp_path / "out", f"SELECT page_number, {columns} FROM page_accuracy")[1]
    assert rows == [(1, "text-layer", False, len(SHOWN), 1, 1)]


def test_a_scan_has_no_truth_of_its_own(tmp_path: Path) -> None:
    _, folder = judge_document(tmp_path / "out", [text_page(["x"], 1)], source=scanned_pdf(tmp_path / "scan.pdf", 1))
    with pytest.raises(ConfigError, match=r"none of the 1 selected pages .* shows text of its own"):
        judge_text_layer(folder)


def judge_text_layer(folder: Path) -> object:
    from flows.evaluate import find_truth

    return find_truth(folder, "text-layer")


def test_a_source_that_has_changed_is_refused(tmp_path: Path) -> None:
    source = drawn_pdf(tmp_path / "book.pdf", [SHOWN])
    _, folder = judge_document(tmp_path / "out", [text_page([SHOWN], 1)], source=source)
    drawn_pdf(source, ["something else"])
    with pytest.raises(ConfigError, match="has changed since it was read"):
        judge_text_layer(folder)


def test_measuring_again_replaces_and_each_source_stands_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = drawn_pdf(tmp_path / "book.pdf", [SHOWN])
    judge_document(tmp_path / "out", [text_page([SHOWN], 1)], source=source)
    (tmp_path / "truth.txt").write_text(SHOWN + "!")
    for truth in ("text-layer", "text-layer", str(tmp_path / "truth.txt")):
        evaluated(capsys, tmp_path / "out", "--truth", truth)
    evaluated(capsys, tmp_path / "out", "--truth", str(tmp_path / "truth.txt"), "--skip-steps", "4")
    rows = run_query(tmp_path / "out", "SELECT source, pages, round(cer * characters) FROM accuracy ORDER BY 1")[1]
    assert rows == [("files", 1, 1.0), ("text-layer", 1, 0.0)]


@pytest.mark.slow
def test_a_second_reader_gives_an_estimate_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], need_tool: Callable[[str], str]
) -> None:
    need_tool("tesseract")
    source = drawn_pdf(tmp_path / "book.pdf", [SHOWN, ""])
    judge_document(tmp_path / "out", [text_page([SHOWN], 1), blank_page(2)], source=source)
    said = evaluated(capsys, tmp_path / "out", "--truth", "second-reader")
    assert (said["source"], said["is_estimate"], said["unjudged_pages"]) == ("second-reader", True, [2])
    assert said["cer"] == 0.0
    assert run_query(tmp_path / "out", "SELECT is_estimate, pages FROM accuracy")[1] == [(True, 1)]


def test_a_second_reader_without_its_model_is_named(tmp_path: Path) -> None:
    from flows.evaluate import find_truth

    source = drawn_pdf(tmp_path / "book.pdf", [SHOWN])
    _, folder = judge_document(tmp_path / "out", [text_page([SHOWN], 1)], source=source)
    with pytest.raises(ModelUnavailable, match="tesseract"):
        find_truth(folder, "second-reader", "no_such_language")
