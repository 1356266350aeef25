"""The report says the verdict first, shows every doubtful line, and lets nothing of the document become code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.browser import CHROMIUM_FLAGS
from support.judged import judge_document, prose_page
from support.readings import blank_page, text_page

from data_contracts.errors import ConfigError
from data_contracts.result import PageResult
from flows.commands.cli import main
from flows.commands.release import release_pages
from flows.report.document import WORST_LINES, write_report
from flows.report.line_crops import before_rotation
from flows.report.plot_svg import TICKS, line_plot


def report_on(tmp_path: Path, pages: list[PageResult]) -> str:
    _, folder = judge_document(tmp_path / "out", pages)
    return write_report(folder).read_text(encoding="utf-8")


def unsure(page: PageResult, confidence: float) -> PageResult:
    lines = (page.lines[0].model_copy(update={"confidence": confidence}), *page.lines[1:])
    return page.model_copy(update={"lines": lines})


def test_the_verdict_and_its_reasons_come_before_everything_else(tmp_path: Path) -> None:
    html = report_on(tmp_path, [blank_page(n) if n in (4, 8) else prose_page(n) for n in range(1, 13)])
    body = html[html.index("<body>") :]
    places = [
        body.index(text) for text in ("Quarantined", "2 of 12 pages are quarantined", "page 4</th>", "Every page")
    ]
    assert places == sorted(places)
    assert "printed page 4 belongs there" in body


def test_a_release_stands_beside_its_reason(tmp_path: Path) -> None:
    verdict, _ = judge_document(
        tmp_path / "out", [blank_page(n) if n in (4, 8) else prose_page(n) for n in range(1, 13)]
    )
    release_pages(str(tmp_path / "out"), verdict.document_id, "4,8", "blank in print", "Ada <Lovelace>")
    html = write_report(tmp_path / "out" / verdict.document_id).read_text(encoding="utf-8")
    assert "every check that stops a page has passed" in html
    assert "released by Ada &lt;Lovelace&gt; on 20" in html


def test_the_worst_lines_are_shown_with_their_pictures_worst_first(tmp_path: Path) -> None:
    pages = [unsure(prose_page(n), 0.6 + n / 100) for n in range(1, 31)]
    html = report_on(tmp_path, pages)
    shown = [int(page) for page in re.findall(r"page (\d+), confidence", html)]
    assert shown == list(range(1, WORST_LINES + 1))
    assert len(re.findall(r'src="data:image/jpeg;base64,[A-Za-z0-9+/=]{200,}"', html)) == WORST_LINES


def test_a_damaged_output_is_named(tmp_path: Path) -> None:
    _, folder = judge_document(tmp_path / "out", [prose_page(n) for n in range(1, 7)])
    (folder / "document.txt").write_text("something else")
    assert "Damaged in the output folder" in write_report(folder).read_text(encoding="utf-8")


def test_lines_that_memory_mended_say_from_which_page_to_which(tmp_path: Path) -> None:
    page = prose_page(5)
    mended = page.lines[1].model_copy(update={"text": "Penhallow <b>again</b>", "helped_by_pages": (2, 4)})
    lines = (page.lines[0], mended, *page.lines[2:])
    pages = [page.model_copy(update={"lines": lines}) if n == 5 else prose_page(n) for n in range(1, 7)]
    html = report_on(tmp_path, pages)
    assert "page 2, 4 → page 5</th><td>Penhallow &lt;b&gt;again&lt;/b&gt;" in html


def test_error_rates_are_plotted_expected_and_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, folder = judge_document(tmp_path / "out", [prose_page(n) for n in range(1, 4)])
    assert "lets expect" in write_report(folder).read_text(encoding="utf-8")
    assert "against the truth" not in (folder / "report.html").read_text(encoding="utf-8")
    (tmp_path / "truth.txt").write_text("\f".join(prose_page(n).text for n in range(1, 4)))
    assert main(["eval", str(folder), "--truth", str(tmp_path / "truth.txt")]) == 0
    assert "against the truth" in write_report(folder).read_text(encoding="utf-8")


def test_the_data_docs_of_great_expectations_are_written_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, folder = judge_document(tmp_path / "out", [prose_page(n) for n in range(1, 4)])
    assert main(["report", str(folder), "--data-docs", str(tmp_path / "docs")]) == 0
    assert str(tmp_path / "docs" / "index.html") in capsys.readouterr().out
    results = [page.read_text(encoding="utf-8") for page in (tmp_path / "docs" / "validations").rglob("*.html")]
    assert len(results) == 2
    assert any("printed_number" in page or "order_fault" in page for page in results)


def test_it_needs_a_document(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no published document"):
        write_report(tmp_path)


def test_it_refers_to_nothing_outside_itself(tmp_path: Path) -> None:
    html = report_on(tmp_path, [prose_page(n) for n in range(1, 7)])
    assert re.findall(r"(?<![-\w])(?:src|href|url|@import)[=(\s]+[\"']?(?!data:)[^\s\"'>]+", html) == []
    assert "<script" not in html


def test_a_plot_leaves_gaps_marks_pages_and_holds_equal_values() -> None:
    svg = line_plot({1: 0.5, 2: 0.6, 3: None, 4: 0.7}, "ms", marked=[2, 99])
    assert (svg.count("<polyline"), svg.count("<circle"), svg.count('class="marked"')) == (1, 1, 1)
    assert "nan" not in line_plot(dict.fromkeys(range(1, 9), 3.0), "MB")
    assert line_plot({1: None}, "ms") == ""


@pytest.mark.parametrize("most", [0.00012, 0.5, 99.9, 1234.5, 98765.0])
def test_the_labels_of_a_plot_fit_its_margin(most: float) -> None:
    labels = re.findall(r'text-anchor="end">([^<p]*)<', line_plot({1: most / 3, 2: most}, "ms"))
    assert len(labels) == TICKS
    assert all("e" not in label and len(label) <= 10 for label in labels), labels


@pytest.mark.parametrize(
    ("rotation", "expected"),
    [(0, (10, 20, 30, 60)), (90, (20, 70, 60, 90)), (180, (70, 140, 90, 180)), (270, (140, 10, 180, 30))],
)
def test_a_box_finds_its_place_before_the_page_was_turned(rotation: int, expected: tuple[int, ...]) -> None:
    page = text_page(["x"], size_px=(100, 200)).model_copy(update={"rotation": rotation})
    assert before_rotation((10, 20, 30, 60), page) == expected


ATTACKS = (
    "<script>document.title='broken'</script>",
    "<img src=x onerror=\"document.title='broken'\">",
    '"><svg onload="document.title=\'broken\'">',
    "'}};document.title='broken'//{{ 7*7 }}{% raw %}",
    "</q></div></body><body onload=\"document.title='broken'\">",
)


@pytest.mark.e2e
def test_text_of_a_scanned_page_does_nothing_in_a_real_browser(tmp_path: Path, need_tool) -> None:  # type: ignore[no-untyped-def]
    from playwright.sync_api import sync_playwright

    chromium = need_tool("chromium")
    pages = [unsure(text_page([attack, *(line.text for line in prose_page(n).lines)], n), 0.6)
             for n, attack in enumerate(ATTACKS, start=1)]  # fmt: skip
    _, folder = judge_document(tmp_path / "out", pages)
    report = write_report(folder)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch_persistent_context(
            str(tmp_path / "profile"),
            executable_path=chromium,
            args=list(CHROMIUM_FLAGS),
            viewport={"width": 390, "height": 800},
        )
        page = browser.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(report.as_uri())
        assert page.title() == "book-000000000000"
        assert [url for url in asked if not url.startswith("data:")] == [report.as_uri()]
        assert set(ATTACKS) <= set(page.locator("q").all_text_contents())
        assert page.locator("script, [onerror], [onload]").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        browser.close()
