"""The command as a user runs it: a real process, a real Prefect server, the real model."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.command import RUN_TIMEOUT_S, command, run
from support.failures.processes import until

from flows.sample.book import write_sample

pytestmark = [pytest.mark.e2e, pytest.mark.flow]

PAGES = 6
CHUNK_PAGES = 2
PUBLISHED = ("document.txt", "document.pdf", "pages.jsonl")


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sample(tmp_path_factory.mktemp("sample") / "sample.pdf", PAGES, seed=7)


@pytest.fixture(scope="module")
def undisturbed(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    """The document folder and the JSON of an ordinary run."""
    output = tmp_path_factory.mktemp("undisturbed")
    done = run("run", sample, "-o", output, "--chunk-pages", str(CHUNK_PAGES), "--json")
    assert done.returncode == 0, done.stderr
    (document,) = json.loads(done.stdout)["documents"]
    return Path(document["output"]), document


def published_bytes(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in PUBLISHED}


def processes_of(output: Path) -> list[int]:
    """Processes whose environment points into ``output``: a private server that outlived its run."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if str(output.resolve()).encode() in entry.read_bytes():
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return found


def finished_chunks(results: Path) -> list[Path]:
    return sorted(results.rglob("decode-*"))


def test_every_page_of_the_sample_is_accounted_for(undisturbed: tuple[Path, dict[str, object]]) -> None:
    folder, document = undisturbed
    assert document["pages"] == PAGES
    assert document["published"] is True
    assert document["status_counts"] == {"text": PAGES, "blank": 0, "failed": 0, "truncated": 0}
    assert (folder / "document.txt").read_text().count("\f") == PAGES - 1
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["selected_pages"] == list(range(1, PAGES + 1))


def test_the_sample_is_read_correctly(sample: Path, undisturbed: tuple[Path, dict[str, object]]) -> None:
    done = run("eval", undisturbed[0].parent, "--truth", sample.with_suffix(".truth"), "--json")
    assert done.returncode == 0, done.stderr
    evaluation = json.loads(done.stdout)
    assert evaluation["pages"] == PAGES
    assert evaluation["cer"] < 0.02, evaluation


@pytest.mark.parametrize("after_chunks", [0, 1, 2])
def test_a_killed_run_resumes_to_the_same_bytes(
    after_chunks: int, sample: Path, undisturbed: tuple[Path, dict[str, object]], tmp_path: Path
) -> None:
    arguments = command("run", sample, "-o", tmp_path, "--chunk-pages", str(CHUNK_PAGES))
    killed = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    results = tmp_path / ".tomeflow" / "results"
    assert until(lambda: results.exists() and len(finished_chunks(results)) >= after_chunks, RUN_TIMEOUT_S)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    assert until(lambda: not processes_of(tmp_path), 30), "a process outlived its run"
    before = {path: path.stat().st_mtime_ns for path in finished_chunks(results)}
    done = run("run", sample, "-o", tmp_path, "--chunk-pages", str(CHUNK_PAGES))
    assert done.returncode == 0, done.stderr
    again = [path for path, changed in before.items() if path.stat().st_mtime_ns != changed]
    assert not again, "finished chunks were done twice"
    (folder,) = (path.parent for path in tmp_path.glob("*/manifest.json"))
    assert published_bytes(folder) == published_bytes(undisturbed[0])


def test_chunk_size_does_not_change_a_byte(
    sample: Path, undisturbed: tuple[Path, dict[str, object]], tmp_path: Path
) -> None:
    done = run("run", sample, "-o", tmp_path, "--chunk-pages", "1")
    assert done.returncode == 0, done.stderr
    (folder,) = (path.parent for path in tmp_path.glob("*/manifest.json"))
    assert published_bytes(folder) == published_bytes(undisturbed[0])


def test_a_run_of_fewer_pages_says_which_published_ones_it_replaces(
    undisturbed: tuple[Path, dict[str, object]], sample: Path, tmp_path: Path
) -> None:
    output = tmp_path / "copy"
    shutil.copytree(undisturbed[0].parent, output)
    done = run("run", sample, "-o", output, "--pages", "1-2", "--chunk-pages", str(CHUNK_PAGES))
    assert done.returncode == 0, done.stderr
    assert f"{undisturbed[0].name} holds pages 3-{PAGES} too" in done.stderr
    assert (output / undisturbed[0].name / "document.txt").read_text().count("\f") == 1
    status = run("status", undisturbed[0].name, "-o", output).stdout
    assert "2 (2 text)" in status, "pages of earlier runs count no more"


def test_a_damaged_checkpoint_is_noticed_and_only_it_is_redone(
    sample: Path, undisturbed: tuple[Path, dict[str, object]], tmp_path: Path
) -> None:
    output = tmp_path / "copy"
    shutil.copytree(undisturbed[0].parent, output)
    work = output / ".tomeflow"
    chunks = sorted((work / "chunks").rglob("*.json"))
    assert len(chunks) == PAGES // CHUNK_PAGES
    damaged = chunks[1]
    content = damaged.read_bytes()
    damaged.write_bytes(content.replace(b'"confidence":0.', b'"confidence":0.0', 1))
    stamps = {path: path.stat().st_mtime_ns for path in chunks if path != damaged}
    done = run("run", sample, "-o", output, "--chunk-pages", str(CHUNK_PAGES))
    assert done.returncode == 0, done.stderr
    assert damaged.read_bytes() == content
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items())


def test_collected_states_and_features_are_made_again_when_needed(
    sample: Path, undisturbed: tuple[Path, dict[str, object]], tmp_path: Path
) -> None:
    output = tmp_path / "copy"
    shutil.copytree(undisturbed[0].parent, output)
    work = output / ".tomeflow"
    shutil.rmtree(work / "states")
    shutil.rmtree(work / "features")
    last = sorted((work / "results").rglob("decode-*"))[-1]
    last.unlink()
    done = run("run", sample, "-o", output, "--chunk-pages", str(CHUNK_PAGES))
    assert done.returncode == 0, done.stderr
    assert published_bytes(output / undisturbed[0].name) == published_bytes(undisturbed[0])


def test_one_bad_document_never_costs_the_batch(sample: Path, tmp_path: Path) -> None:
    bad, other = tmp_path / "bad.pdf", tmp_path / "folder"
    bad.write_bytes(b"not a document")
    other.mkdir()
    done = run("run", bad, sample, other, "-o", tmp_path / "out", "--pages", "1", "--json")
    documents = json.loads(done.stdout)["documents"]
    assert [document["published"] for document in documents] == [False, True, False]
    assert done.returncode == 3
    assert str(bad) in done.stderr
    assert str(other) in done.stderr
    assert "Traceback" not in done.stderr


def test_a_wrong_parameter_lists_every_wrong_field(sample: Path, tmp_path: Path) -> None:
    done = run("run", sample, "-o", tmp_path / "out", "--window", "0", "--dpi", "7", "--chunk-pages", "-3")
    assert done.returncode == 2
    for field in ("window_pages", "dpi", "chunk_pages"):
        assert field in done.stderr
    assert not (tmp_path / "out").exists()


def test_help_imports_nothing_heavy() -> None:
    heavy = ("prefect", "torch", "pandas", "cv2", "pymupdf", "numpy", "pydantic", "duckdb")
    code = (
        "import sys; from flows.commands.cli import main\n"
        "main(['--help'])\n"
        f"print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert "run" in done.stdout
