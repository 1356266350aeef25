"""A page that would be rendered for hours is failed, once; the other pages and documents are published."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import bombs
from support.scripted_run import TIMEOUT_S, executions, start
from support.sources import drawn_pdf

from data_contracts.formats.jsonl import read_pages

pytestmark = [pytest.mark.e2e, pytest.mark.flow]

SETTINGS = {"reading": {"render": {"dpi": 50}}, "render_timeout_seconds": 2, "quality": {"gate": False}}


def test_a_page_that_hangs_is_failed_once_and_all_else_is_published(prefect_url: str, tmp_path: Path) -> None:
    bomb = bombs.with_bad_page(tmp_path / "bomb.pdf", bombs.nested_forms)
    good = drawn_pdf(tmp_path / "good.pdf", ["one", "two", "three", "four"])
    for _ in range(2):
        run = start([bomb, good], tmp_path / "out", tmp_path, prefect_url, **SETTINGS)
        out, err = run.communicate(timeout=TIMEOUT_S)
        assert run.returncode == 0, err
        first, second = (list(read_pages(Path(report["output"]) / "pages.jsonl")) for report in json.loads(out))
        assert [page.status for page in first] == ["text", "failed", "text"]
        assert "more than 2 s of processor time" in first[1].error
        assert {page.status for page in second} == {"text"}
        assert all((Path(report["output"]) / "document.pdf").exists() for report in json.loads(out))
    assert executions(tmp_path).count("encode 1") == 2, "of two documents, once each: nothing was begun again"
    assert "no sign of life" not in err
