"""The calibration benchmark: parts of equal size, honest factors, a plot that is a picture."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from support.judged import judge_document
from support.readings import text_page

from data_contracts.errors import ConfigError
from flows.bench.calibration import MeasuredPage, Part, as_report, cut
from flows.commands.cli import main


def test_pages_are_cut_by_prediction_and_averaged_by_characters() -> None:
    pages = [MeasuredPage("b", n, n / 100, 100 * n, n * n) for n in (4, 1, 3, 2)]
    parts = cut(pages, parts=2)
    assert [part.pages for part in parts] == [2, 2]
    assert parts[0].predicted_cer == pytest.approx((0.01 * 100 + 0.02 * 200) / 300)
    assert parts[0].measured_cer == pytest.approx(5 / 300)
    with pytest.raises(ConfigError, match="4 pages with text are too few for 5 parts"):
        cut(pages, parts=5)


def test_a_factor_is_the_same_either_way_and_counts() -> None:
    parts = [Part(1, 0.02, 0.01), Part(1, 0.01, 0.021), Part(1, 0.01, 0.0), Part(1, 0.01, 0.012)]
    report = as_report(parts)
    assert [part["factor"] for part in report["parts"]] == pytest.approx([2.0, 2.1, float("inf"), 1.2])
    assert (report["within_promise"], report["within_goal"]) == (2, 1)


def test_published_readings_are_measured_without_reading_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = [f"page {number} says something of its own {number * 7919}" for number in range(1, 11)]
    book = tmp_path / "data" / "books" / "en_book"
    book.mkdir(parents=True)
    (book / "pages.tsv").write_text("page\n" + "".join(f"{n}\n" for n in range(1, 11)))
    for number, text in enumerate(texts, start=1):
        (book / f"page_{number:04d}.gt.txt").write_text(text.replace("own", "oun"))
    pages = [text_page([text], number) for number, text in enumerate(texts, start=1)]
    judge_document(tmp_path / "out", pages, name="en_book")
    plot = tmp_path / "plot.svg"
    arguments = ["--data", str(tmp_path / "data"), "--readings", str(tmp_path / "out"), "--plot", str(plot), "--json"]
    capsys.readouterr()
    assert main(["bench", "calibration", *arguments]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [part["pages"] for part in report["parts"]] == [1] * 10
    assert report["parts"][0]["measured_cer"] == pytest.approx(1 / len(texts[0]), rel=0.2)
    assert len(ET.parse(plot).getroot().findall("{http://www.w3.org/2000/svg}circle")) == 10
