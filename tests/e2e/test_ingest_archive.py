"""An archive on a real S3 server is published, whatever is wrong with three of its thirty documents."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import boto3
import pymupdf
import pytest
from support.command import RUN_TIMEOUT_S, command, run
from support.short_pages import short_page, short_pdf, three_lines

from flows.commands.query import run_query
from flows.serving.prefect_server import prefect_api

pytestmark = [pytest.mark.e2e, pytest.mark.flow, pytest.mark.slow]

GOOD_FILES = 25
FOLDERS = 2
BAD = ("box 3/cut.pdf", "box 3/locked.pdf", "box 3/scan.png")


@pytest.fixture
def archive(s3_endpoint: str, s3_bucket: str, tmp_path: Path) -> Any:
    """Put 30 documents and a note below ``s3_bucket/archive`` and return a function that puts one more or another."""
    client = boto3.client("s3", endpoint_url=s3_endpoint)

    def put(name: str, data: bytes) -> None:
        client.put_object(Bucket=s3_bucket.removeprefix("s3://"), Key=f"archive/{name}", Body=data)

    for number in range(1, GOOD_FILES + 1):
        pages = [number] if number % 5 else [number, number + 100]
        put(f"box {number % 3}/letter{number}.pdf", short_pdf(tmp_path / "made.pdf", pages).read_bytes())
    for number in range(FOLDERS):
        for page in (1, 2):
            put(f"volume {number}/page{page}.png", short_page(three_lines(200 + 10 * number + page)))
    put(BAD[0], short_pdf(tmp_path / "made.pdf", [1]).read_bytes()[:300])
    put(BAD[1], locked_pdf(tmp_path / "made.pdf"))
    put(BAD[2], b"not an image")
    put("box 3/note.txt", b"three of these are damaged")
    return put


def locked_pdf(path: Path) -> bytes:
    written = io.BytesIO()
    with pymupdf.open(short_pdf(path, [1])) as document:
        document.save(written, encryption=pymupdf.PDF_ENCRYPT_AES_256, user_pw="x", owner_pw="y")
    return written.getvalue()


def content_of(name: str, endpoint: str, bucket: str) -> bytes:
    client = boto3.client("s3", endpoint_url=endpoint)
    return client.get_object(Bucket=bucket.removeprefix("s3://"), Key=f"archive/{name}")["Body"].read()


def manifests(output: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in output.glob("[!.]*/manifest.json")}


def test_thirty_documents_three_bad_killed_run_again_and_one_changed(
    archive: Any, s3_endpoint: str, s3_bucket: str, tmp_path: Path
) -> None:
    prefix, output = f"{s3_bucket}/archive", tmp_path / "out"
    arguments = ("ingest", prefix, "-o", output, "--json")
    with prefect_api(tmp_path / "server", None):
        killed = subprocess.Popen(command(*arguments), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + RUN_TIMEOUT_S
        while len(manifests(output)) < 4 and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(killed.pid, signal.SIGKILL)
        killed.wait()
        before = manifests(output)
        assert 4 <= len(before) < GOOD_FILES

        first = run(*arguments)
        report = json.loads(first.stdout)
        assert first.returncode == report["exit_code"] == 3, first.stderr
        assert report["published"] + report["unchanged"] == GOOD_FILES + FOLDERS
        assert report["unchanged"] >= len(before) - 2, "at most the two that were in work are looked at again"
        assert (report["failed"], report["not_a_document"]) == (len(BAD), 1)
        reasons = {seen["name"]: (seen["exit_code"], seen["reason"]) for seen in report["objects"] if seen["reason"]}
        assert set(reasons) == {*BAD, "box 3/note.txt"}
        assert [reasons[name][0] for name in BAD] == [10, 11, 13]
        assert all(name in first.stderr for name in reasons)
        after = manifests(output)
        assert len(after) == GOOD_FILES + FOLDERS
        untouched = [path for path, stamp in before.items() if after[path] == stamp]
        assert len(untouched) >= len(before) - 2

        lost = next(path for path in untouched if not path.parent.name.startswith("letter4-"))
        shutil.rmtree(lost.parent)
        archive("box 1/letter4.pdf", short_pdf(tmp_path / "made.pdf", [300]).read_bytes())
        archive("box 2/letter5.pdf", content_of("box 2/letter5.pdf", s3_endpoint, s3_bucket))
        two = [subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in "ab"]
        outcomes = [json.loads(process.communicate(timeout=RUN_TIMEOUT_S)[0]) for process in two]
    assert [process.returncode for process in two] == [3, 3], "the archive still has three bad documents"
    assert sorted(outcome["published"] for outcome in outcomes) == [0, 2], "one waits, then finds everything done"
    assert [outcome["failed"] for outcome in outcomes] == [3, 3]
    assert all(
        seen["attempts"] == 1 for outcome in outcomes for seen in outcome["objects"] if seen["status"] == "failed"
    )
    changed = {path for path, stamp in manifests(output).items() if after.get(path) != stamp}
    assert lost in changed, "what was lost is there again"
    changed.remove(lost)
    assert len(changed) == 1
    statuses = run_query(output, "SELECT status, count(*) FROM archive_objects GROUP BY ALL ORDER BY ALL")[1]
    assert statuses == [("failed", len(BAD)), ("not_a_document", 1), ("published", GOOD_FILES + FOLDERS)]
    assert "as page 300 tells" in changed.pop().with_name("document.txt").read_text()
