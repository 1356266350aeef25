"""Documents side by side, and one document twice at once."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from support.command import command
from support.failures.processes import until
from support.scripted_run import TIMEOUT_S, environment, executions, start
from support.sources import drawn_pdf

pytestmark = [pytest.mark.e2e, pytest.mark.flow]

PAGES = 4
SETTINGS = {"chunk_pages": 2, "formats": ["txt"], "reading": {"render": {"dpi": 50}}}


def book(path: Path) -> Path:
    return drawn_pdf(path, [f"{path.stem} {number}" for number in range(1, PAGES + 1)])


def test_documents_are_read_side_by_side_and_one_that_fails_stops_no_other(prefect_url: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.pdf"
    bad.write_bytes(b"not a document")
    sources = [bad, book(tmp_path / "one.pdf"), book(tmp_path / "two.pdf")]
    (tmp_path / "script.json").write_text(json.dumps({"encode 1": ["hold", 2]}))
    run = start(sources, tmp_path / "out", tmp_path, prefect_url, **SETTINGS)
    try:
        assert until(lambda: executions(tmp_path).count("encode 1") == 2, TIMEOUT_S), "the second waits for the first"
    finally:
        (tmp_path / "go").touch()
        out, err = run.communicate(timeout=TIMEOUT_S)
    reports = json.loads(out)
    assert [report["published"] for report in reports] == [False, True, True], err
    assert [report["exit_code"] for report in reports] == [13, 0, 0]
    assert "bad.pdf" in reports[0]["error"]
    assert [Path(report["output"]).name.partition("-")[0] for report in reports[1:]] == ["one", "two"]
    assert Counter(executions(tmp_path)) == {f"{step} {n}": 2 for step in ("encode", "decode") for n in range(1, 5)}


def test_an_ingestion_reads_as_many_documents_at_once_as_it_is_told(prefect_url: str, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    archive.mkdir()
    for name in ("one", "two", "three"):
        drawn_pdf(archive / f"{name}.pdf", [name])
    (tmp_path / "script.json").write_text(json.dumps({"encode 1": ["hold", 3]}))
    options = ("--at-once", "3", "--no-gate", "--format", "txt", "--dpi", "50")
    ingest = command("ingest", archive, "-o", tmp_path / "out", *options)
    with subprocess.Popen(ingest, env=environment(tmp_path, prefect_url), stderr=subprocess.PIPE, text=True) as run:
        try:
            assert until(lambda: executions(tmp_path).count("encode 1") == 3, TIMEOUT_S), "the third waits"
        finally:
            (tmp_path / "go").touch()
            _, err = run.communicate(timeout=TIMEOUT_S)
    assert run.returncode == 0, err


def test_of_two_runs_of_one_document_one_works_and_the_other_waits_and_says_so(
    prefect_url: str, tmp_path: Path
) -> None:
    source = book(tmp_path / "book.pdf")
    (tmp_path / "script.json").write_text(json.dumps({"decode 1": ["hold", 1]}))
    first = start([source], tmp_path / "out", tmp_path, prefect_url, **SETTINGS)
    assert until(lambda: "decode 1" in executions(tmp_path), TIMEOUT_S)
    second = start([source], tmp_path / "out", tmp_path, prefect_url, **SETTINGS)
    try:
        assert second.stderr is not None
        assert any("being digitized by another run; waiting for it" in line for line in second.stderr)
    finally:
        (tmp_path / "go").touch()
        outputs = [run.communicate(timeout=TIMEOUT_S) for run in (first, second)]
    assert [json.loads(out)[0]["published"] for out, _ in outputs] == [True, True], outputs
    assert set(Counter(executions(tmp_path)).values()) == {1}, "a page was read twice"
