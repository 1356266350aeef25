"""Two pages that failed from a passing cause are read again: they change in every output, and nothing else does."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymupdf
import pytest
from support.command import RUN_TIMEOUT_S, command, run
from support.short_pages import short_page, three_lines

from flows.serving.prefect_server import prefect_api

pytestmark = [pytest.mark.e2e, pytest.mark.flow, pytest.mark.slow]

PAGES = 50
LOST = (39, 43)
OTHERS = [number for number in range(1, PAGES + 1) if number not in LOST]


@pytest.fixture(scope="module")
def scans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scans") / "volume"
    folder.mkdir()
    for number in range(1, PAGES + 1):
        (folder / f"page{number}.png").write_bytes(short_page(three_lines(number)))
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One Prefect server for all commands of this module."""
    with prefect_api(tmp_path_factory.mktemp("server"), None):
        yield


def rewrite(path: Path, content: bytes) -> None:
    """Have the disk give other bytes for a while: nobody wrote to the file, so its size and time stay."""
    before = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.fixture(scope="module")
def failed(scans: Path, server: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of a run during which the files of two pages could not be read for a while."""
    output = tmp_path_factory.mktemp("failed")
    running = subprocess.Popen(command("run", scans, "-o", output), stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + RUN_TIMEOUT_S
    while not list(output.glob(".tomeflow/results/*/decode-000001-*")) and time.monotonic() < deadline:
        time.sleep(0.02)  # the document has been fetched, and the pages to come are not looked at yet
    content = {number: (scans / f"page{number}.png").read_bytes() for number in LOST}
    for number, whole in content.items():
        rewrite(scans / f"page{number}.png", whole[:200].ljust(len(whole), b"\0"))
    stderr = running.communicate(timeout=RUN_TIMEOUT_S)[1]
    for number, whole in content.items():
        rewrite(scans / f"page{number}.png", whole)
    assert running.returncode == 20, stderr
    return output


@pytest.fixture
def output(failed: Path, tmp_path: Path) -> Path:
    """A copy of it, to be backfilled."""
    return Path(shutil.copytree(failed, tmp_path / "out"))


def published_folder(output: Path) -> Path:
    (folder,) = (path.parent for path in output.glob("[!.]*/manifest.json"))
    return folder


def texts(folder: Path) -> list[str]:
    return (folder / "document.txt").read_text().split("\f")


def json_lines(folder: Path) -> list[bytes]:
    return (folder / "pages.jsonl").read_bytes().splitlines()


def pdf_pages(folder: Path) -> list[tuple[Any, ...]]:
    """Return what each page of the PDF shows and says: its images, undecoded, its content and its words."""
    with pymupdf.open(folder / "document.pdf") as document:
        return [
            (
                [document.xref_stream_raw(image[0]) for image in page.get_images()],
                page.read_contents(),
                page.get_text("words"),
            )
            for page in document
        ]


def warehouse(output: Path, sql: str) -> list[dict[str, Any]]:
    import duckdb

    with duckdb.connect(str(output / ".tomeflow" / "warehouse.duckdb"), read_only=True) as connection:
        return connection.execute(sql).df().to_dict("records")


def assert_only_lost_pages_changed(before: Path, after: Path) -> None:
    for read in (texts, json_lines, pdf_pages):
        old, new = read(before), read(after)
        assert len(old) == len(new) == PAGES
        assert [n for n in range(1, PAGES + 1) if old[n - 1] != new[n - 1]] == list(LOST), read.__name__
    for number in LOST:
        assert texts(before)[number - 1] == ""
        assert texts(after)[number - 1].splitlines() == three_lines(number)
        assert three_lines(number)[0].split() == [word[4] for word in pdf_pages(after)[number - 1][2]][:5]
    manifest = json.loads((after / "manifest.json").read_text())
    assert manifest["status_counts"]["failed"] == 0
    assert [page["page_number"] for page in manifest["backfilled_pages"]] == list(LOST)


@pytest.mark.parametrize("collected", [False, True], ids=["states kept", "states and features collected"])
def test_backfill_patches_two_of_fifty_pages_in_every_output_and_nothing_else(
    failed: Path, output: Path, server: None, scans: Path, collected: bool
) -> None:
    if collected:
        shutil.rmtree(output / ".tomeflow" / "states")
        shutil.rmtree(output / ".tomeflow" / "features")
    done = run("backfill", "-o", output, "--why", "the disk was away", "--json")
    assert done.returncode == 0, done.stderr
    (document,) = json.loads(done.stdout)["documents"]
    assert document["statuses"] == {"39": "text", "43": "text"}
    assert_only_lost_pages_changed(published_folder(failed), published_folder(output))
    stale = warehouse(output, "SELECT page_number FROM pages WHERE stale_context ORDER BY page_number")
    assert [row["page_number"] for row in stale] == document["stale_pages"] == [40, 41, 42, *range(44, PAGES + 1)]
    attempts = warehouse(output, "SELECT * FROM backfill_attempts ORDER BY page_number")
    assert [(a["page_number"], a["replaced_status"], a["status"], a["why"]) for a in attempts] == [
        (39, "failed", "text", "the disk was away"),
        (43, "failed", "text", "the disk was away"),
    ]
    if collected:
        in_context = run("backfill", "-o", output, "--status", "stale", "--json")
        assert in_context.returncode == 0, in_context.stderr
        assert json.loads(in_context.stdout)["documents"][0]["stale_pages"] == []
        manifest = json.loads((published_folder(output) / "manifest.json").read_text())
        assert [page["page_number"] for page in manifest["backfilled_pages"]] == list(LOST), "the others were not bad"
        return
    patched = {
        name: (published_folder(output) / name).read_bytes() for name in ("document.txt", "document.pdf", "pages.jsonl")
    }
    again = run("run", scans, "-o", output)
    assert again.returncode == 0, again.stderr
    assert all((published_folder(output) / name).read_bytes() == content for name, content in patched.items()), (
        "a later run keeps what was backfilled"
    )


def test_backfill_with_another_resolution_says_so_and_cascades(failed: Path, output: Path, server: None) -> None:
    done = run("backfill", "-o", output, "--pages", "39,43", "--dpi", "300", "--cascade", "--json")
    assert done.returncode == 0, done.stderr
    (document,) = json.loads(done.stdout)["documents"]
    assert document["stale_pages"] == []
    lines = [json.loads(line) for line in json_lines(published_folder(output))]
    assert [line["dpi"] for line in lines[37:40]] == [lines[0]["dpi"], 300.0, lines[0]["dpi"]]
    assert lines[38]["events"][-1]["kind"] == "backfilled"
    assert "render.dpi=300" in lines[38]["events"][-1]["detail"]
    assert json_lines(published_folder(output))[:38] == json_lines(published_folder(failed))[:38]
    manifest = json.loads((published_folder(output) / "manifest.json").read_text())
    assert [page["config"]["render"]["dpi"] for page in manifest["backfilled_pages"]] == [300, 300]
    assert manifest["stale_context_pages"] == []
    assert warehouse(output, "SELECT * FROM pages WHERE stale_context") == []
