"""A document of 1,500 pages and 400 MB in an object store: memory, page images and the spool stay bounded."""

from __future__ import annotations

import json
import os
from pathlib import Path

import fsspec
import pytest
from support.scripted_run import TIMEOUT_S, executions, start
from support.sources import heavy_pdf

from flows.digitize import ENCODE_WORKERS
from tasks.loading import QUEUE_DEPTH_PAGES

pytestmark = [pytest.mark.e2e, pytest.mark.flow, pytest.mark.slow]

PAGES = 1500
PAGE_BYTES = 270_000
WINDOW_PAGES = 8
GROWTH_BYTES = 40_000_000
"""What an allocator may keep after the first 300 pages; one page image a page would be 750 MB."""


def test_1500_pages_from_an_object_store_keep_memory_flat_and_few_page_images_alive(
    s3_bucket: str, prefect_url: str, tmp_path: Path
) -> None:
    store = fsspec.filesystem("s3")
    heavy = heavy_pdf(tmp_path / "heavy.pdf", PAGES, PAGE_BYTES)
    assert heavy.stat().st_size > PAGES * PAGE_BYTES
    store.put_file(str(heavy), f"{s3_bucket}/in/heavy.pdf")
    heavy.unlink()
    os.environ["TOMEFLOW_WORK"] = str(tmp_path / "work")
    run = start(
        [f"{s3_bucket}/in/heavy.pdf"],
        f"{s3_bucket}/out",
        tmp_path,
        prefect_url,
        chunk_pages=50,
        formats=["txt"],
        reading={"sr_swa": {"window_pages": WINDOW_PAGES}},
    )
    out, err = run.communicate(timeout=TIMEOUT_S)
    (report,) = json.loads(out)
    assert report["published"], err
    assert report["status_counts"]["text"] == PAGES
    assert len(executions(tmp_path)) == 2 * PAGES, "each page is seen once and read once"
    most_alive = int((tmp_path / "most_alive.txt").read_text())
    assert 1 < most_alive <= ENCODE_WORKERS * (QUEUE_DEPTH_PAGES + 1) <= WINDOW_PAGES
    memory = [int(line) for line in (tmp_path / "memory.txt").read_text().splitlines()]
    assert len(memory) == PAGES // 100
    assert max(memory[3:]) < max(memory[:3]) + GROWTH_BYTES
    (spool,) = (tmp_path / "work").glob("*/spool")
    assert len(list(spool.rglob("*.pdf"))) <= 1, "copied once"
    kept = store.du(f"{s3_bucket}/out/.tomeflow/states", total=False)
    assert len(kept) <= 3 + PAGES // 64 + 1, "states are collected on the store too"
