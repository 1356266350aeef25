"""A source that is replaced, written to or taken away while it is read is noticed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from support.sources import drawn_pdf, scan

from data_contracts.errors import StorageUnavailable, UnreadableDocument
from tasks.sources.fetch import fetch_document
from tasks.sources.stamp import require_unchanged


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return drawn_pdf(tmp_path / "book.pdf", ["page 1", "page 2"])


def test_a_source_that_nobody_touches_is_the_same_and_its_stamp_is_no_part_of_its_identity(source: Path) -> None:
    document, path = fetch_document(str(source), source.parent / "spool")
    require_unchanged(document, path)
    os.utime(path)
    again, _ = fetch_document(str(source), source.parent / "spool")
    assert again.stamp != document.stamp
    assert again.model_dump_json() == document.model_dump_json()


def test_a_replaced_source_is_refused_and_a_missing_one_may_come_back(source: Path) -> None:
    document, path = fetch_document(str(source), source.parent / "spool")
    kept = shutil.move(source, source.with_suffix(".kept"))
    with pytest.raises(StorageUnavailable, match="went away while it was read") as gone:
        require_unchanged(document, path)
    assert gone.value.retryable
    drawn_pdf(source, ["another", "book", "altogether"])
    with pytest.raises(UnreadableDocument, match="was changed while it was read"):
        require_unchanged(document, path)
    shutil.move(kept, source)
    require_unchanged(document, path)


def test_a_folder_that_gets_another_page_is_refused(tmp_path: Path, source: Path) -> None:
    folder = tmp_path / "leaves"
    folder.mkdir()
    for number in (1, 2):
        scan(number).save(folder / f"p{number}.png")
    document, path = fetch_document(str(folder), tmp_path / "spool")
    (folder / "notes.txt").write_text("no page")
    require_unchanged(document, path)
    scan(3).save(folder / "p0.png")
    with pytest.raises(UnreadableDocument, match="was changed"):
        require_unchanged(document, path)
