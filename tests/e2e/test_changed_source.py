"""A source that is replaced in the middle of a run: nothing of the other book is published or kept."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from support.failures.processes import until
from support.scripted_run import TIMEOUT_S, executions, start
from support.sources import drawn_pdf

from data_contracts.errors import UnreadableDocument

pytestmark = [pytest.mark.e2e, pytest.mark.flow]

SETTINGS = {"chunk_pages": 2, "formats": ["txt", "jsonl"], "reading": {"render": {"dpi": 50}}}


def test_pages_of_another_book_are_neither_published_nor_kept(prefect_url: str, tmp_path: Path) -> None:
    source = drawn_pdf(tmp_path / "book.pdf", [f"page {number}" for number in range(1, 9)])
    undisturbed = tmp_path / "calm"
    undisturbed.mkdir()
    calm = start([source], undisturbed / "out", undisturbed, prefect_url, **SETTINGS)
    expected, _ = calm.communicate(timeout=TIMEOUT_S)

    (tmp_path / "script.json").write_text(json.dumps({"encode 5": ["hold", 1]}))
    run = start([source], tmp_path / "out", tmp_path, prefect_url, **SETTINGS)
    assert until(lambda: "encode 5" in executions(tmp_path), TIMEOUT_S)
    kept = shutil.move(source, tmp_path / "kept.pdf")
    drawn_pdf(source, [f"another {number}" for number in range(1, 9)])
    (tmp_path / "go").touch()
    out, err = run.communicate(timeout=TIMEOUT_S)
    (report,) = json.loads(out)
    assert report["exit_code"] == UnreadableDocument.exit_code, err
    assert "was changed while it was read" in report["error"]
    assert not list((tmp_path / "out").glob("*/manifest.json"))

    shutil.move(kept, source)
    out, err = start([source], tmp_path / "out", tmp_path, prefect_url, **SETTINGS).communicate(timeout=TIMEOUT_S)
    (report,), (calm_report,) = json.loads(out), json.loads(expected)
    assert report["published"], err
    pages = [Path(each["output"], "pages.jsonl").read_bytes() for each in (report, calm_report)]
    assert pages[0] == pages[1]
    assert executions(tmp_path).count("encode 1") == 1, "what was read of the right book is kept"
