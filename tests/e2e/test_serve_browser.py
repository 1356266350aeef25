"""A person at the browser: refused with the reason, then right, watching the run, opening what it shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Locator, Page, expect, sync_playwright
from support.browser import CHROMIUM_FLAGS
from support.served import RUN_TIMEOUT_S, Served

from flows.sample.book import write_sample

pytestmark = [pytest.mark.e2e, pytest.mark.flow, pytest.mark.slow]

# A page of the UI, on a machine that does other things as well.
PAGE_TIMEOUT_MS = 120_000
# Between two looks at a run, as a person reloads a page.
LOOK_EVERY_MS = 2_000


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("served"))
    write_sample(served.folder / "sample.pdf", 1, seed=9)
    served.start()
    yield served
    served.kill()


@pytest.fixture
def page(need_tool: Callable[[str], str], tmp_path: Path) -> Iterator[Page]:
    chromium = need_tool("chromium")
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            tmp_path / "profile",
            executable_path=chromium,
            args=list(CHROMIUM_FLAGS),
            viewport={"width": 1400, "height": 1200},
        )
        context.set_default_timeout(PAGE_TIMEOUT_MS)
        expect.set_options(timeout=PAGE_TIMEOUT_MS)
        yield context.new_page()
        context.close()


def field(page: Page, label: str, kind: str) -> Locator:
    """The input of the form under ``label``."""
    return page.locator(f'xpath=//label[normalize-space(.)="{label}"]/ancestor::*[.//{kind}][1]//{kind}').first


def test_a_person_runs_a_document_in_the_browser(served: Served, page: Page, tmp_path: Path) -> None:
    asked: set[str] = set()
    page.on("request", lambda request: asked.add(urlsplit(request.url).hostname or ""))
    page.goto(f"{served.url}/deployments")
    page.get_by_role("link", name="digitize", exact=True).first.click()
    deployment = served.deployment()["id"]
    page.goto(f"{served.url}/deployments/deployment/{deployment}/run")

    field(page, "source", "textarea").fill("sample.pdf")
    expect(page.get_by_text("pages between two checkpoints [pages]").first).to_be_visible()
    field(page, "Chunk Pages (Optional)", "input").fill("5000")
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_text("5000 is greater than the maximum of 1024").first).to_be_visible()
    page.screenshot(path=tmp_path / "refused.png")
    assert served.ask("/flow_runs/filter", {}) == []

    field(page, "Chunk Pages (Optional)", "input").fill("1")
    page.get_by_role("button", name="Submit").click()
    page.wait_for_url(f"**/deployments/deployment/{deployment}?*")
    (run,) = served.ask("/flow_runs/filter", {})
    page.goto(f"{served.url}/runs/flow-run/{run['id']}")
    for _ in range(RUN_TIMEOUT_S * 1000 // LOOK_EVERY_MS):
        if page.get_by_text("Completed", exact=True).count():
            break
        page.wait_for_timeout(LOOK_EVERY_MS)
    expect(page.get_by_text("pages 1-1 done").first).to_be_visible()
    page.screenshot(path=tmp_path / "run.png", full_page=True)

    page.get_by_text("Artifacts", exact=True).click()
    page.get_by_role("link").filter(has_text="-summary").click()
    expect(page.get_by_role("link", name="document.txt").first).to_be_visible()
    page.screenshot(path=tmp_path / "summary.png", full_page=True)
    page.goto(page.get_by_role("link", name="document.txt").first.get_attribute("href") or "")
    (text,) = served.output.glob("*/document.txt")
    assert page.inner_text("body").split() == text.read_text().split()

    pages = served.ask("/artifacts/latest/filter", {"artifacts": {"key": {"like_": "%-pages"}}})[0]
    page.goto(f"{served.url}/artifacts/artifact/{pages['latest_id']}")
    expect(page.get_by_text("confidence", exact=True).first).to_be_visible()
    page.screenshot(path=tmp_path / "pages.png", full_page=True)
    assert asked - {""} == {"127.0.0.1"}  # no host: data that the page has made itself


def test_the_other_look_of_the_ui_asks_nobody_outside_either(served: Served, page: Page) -> None:
    refused = []
    page.on("console", lambda message: refused.append(message.text))
    page.goto(f"{served.url}/v2/dashboard")
    expect(page.get_by_text("Dashboard").first).to_be_visible()
    assert not [text for text in refused if "ERR_NAME_NOT_RESOLVED" in text]
