"""Source and output in an object store: a real S3 server, the command as a user runs it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import fsspec
import pytest
from support.command import run

from flows.sample.book import write_sample

pytestmark = [pytest.mark.e2e, pytest.mark.flow]

PAGES = 4
PUBLISHED = ("document.txt", "document.pdf", "pages.jsonl")


def stamps(filesystem: fsspec.AbstractFileSystem, prefix: str) -> dict[str, object]:
    filesystem.invalidate_cache()
    return {name: info["LastModified"] for name, info in filesystem.find(prefix, detail=True).items()}


def test_another_machine_goes_on_from_the_store_and_publishes_the_same_bytes(s3_bucket: str, tmp_path: Path) -> None:
    sample = write_sample(tmp_path / "sample.pdf", PAGES, seed=7)
    local = run("run", sample, "-o", tmp_path / "local", "--chunk-pages", "2")
    assert local.returncode == 0, local.stderr
    (manifest,) = (tmp_path / "local").glob("*/manifest.json")
    store = fsspec.filesystem("s3")
    source, output = f"{s3_bucket}/in/sample.pdf", f"{s3_bucket}/out"
    store.put_file(str(sample), source)

    os.environ["TOMEFLOW_WORK"] = str(tmp_path / "one machine")
    first = run("run", source, "-o", output, "--chunk-pages", "2", "--json")
    assert first.returncode == 0, first.stderr
    (document,) = json.loads(first.stdout)["documents"]
    assert document["output"] == f"{output}/{manifest.parent.name}"
    for name in PUBLISHED:
        assert store.cat_file(f"{document['output']}/{name}") == (manifest.parent / name).read_bytes()
    (work,) = (tmp_path / "one machine").iterdir()
    assert {path.name for path in work.iterdir()} >= {"spool", "locks", "warehouse.duckdb", "prefect"}
    assert not {path.name for path in work.iterdir()} & {"results", "features", "states", "chunks"}

    checkpoints = stamps(store, f"{output}/.tomeflow")
    (last,) = sorted(name for name in checkpoints if "/results/" in name and "/decode-000003" in name)
    store.rm_file(last)
    first_state = min(name for name in checkpoints if "/states/" in name)
    content = store.cat_file(first_state)
    store.pipe_file(first_state, content[:-1])  # cut off: a state is verified before it is used
    os.environ["TOMEFLOW_WORK"] = str(tmp_path / "another machine")
    second = run("run", source, "-o", output, "--chunk-pages", "2")
    assert second.returncode == 0, second.stderr
    assert store.cat_file(first_state) == content
    after = stamps(store, f"{output}/.tomeflow")
    assert set(after) == set(checkpoints)
    done_again = {name for name, stamp in after.items() if stamp != checkpoints[name]}
    assert last in done_again
    assert not [name for name in done_again if "/results/" in name and name != last], "finished work was done twice"
    for name in PUBLISHED:
        assert store.cat_file(f"{document['output']}/{name}") == (manifest.parent / name).read_bytes()


def test_a_store_that_does_not_answer_is_an_error_that_says_so(tmp_path: Path) -> None:
    sample = write_sample(tmp_path / "sample.pdf", 1, seed=7)
    os.environ |= {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
    os.environ["TOMEFLOW_WORK"] = str(tmp_path / "work")
    done = run("run", sample, "-o", "s3://nowhere/out")
    assert done.returncode == 50, done.stderr
    assert "s3://nowhere/out" in done.stderr
    assert "Check that the endpoint answers" in done.stderr
    assert "Traceback" not in done.stderr
