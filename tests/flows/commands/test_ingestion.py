"""How often an object of an archive is tried, and what is remembered of it; no document is read here."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.published import shelve
from support.readings import blank_page
from support.sources import scanned_pdf

from data_contracts.config import DigitizeConfig
from data_contracts.warehouse.archive import ArchiveObject, ArchiveStatus, read_archive, record_objects, report_on
from data_contracts.warehouse.connection import open_warehouse
from flows.ingest_archive import MAX_ATTEMPTS, _Ingestion
from tasks.sources.scan import ArchiveItem, scan_archive


class Archive:
    """A folder, and passes over it that stop before any document is read."""

    def __init__(self, folder: Path) -> None:
        self.prefix, self.output = str(folder / "in"), str(folder / "out")
        self.warehouse = folder / "out" / ".tomeflow" / "warehouse.duckdb"
        self.runs = 0
        (folder / "in").mkdir()

    def item(self) -> ArchiveItem:
        (item,) = scan_archive(self.prefix, self.output)
        return item

    def take(self, item: ArchiveItem, *, retry_failed: bool = False) -> ArchiveObject:
        self.runs += 1
        ingestion = _Ingestion(self.prefix, self.output, DigitizeConfig(), retry_failed, f"run {self.runs}")
        seen = ingestion.take(item)
        with open_warehouse(self.warehouse) as connection:
            assert read_archive(connection, self.prefix)[item.name] == seen, "what is said is what is remembered"
        return seen

    def remember(self, **fields: object) -> None:
        with open_warehouse(self.warehouse) as connection:
            (seen,) = read_archive(connection, self.prefix).values()
            record_objects(connection, [seen.model_copy(update=fields)])


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(tmp_path)


def test_a_damaged_document_is_tried_once_until_it_changes(archive: Archive) -> None:
    path = Path(archive.prefix) / "cut.pdf"
    path.write_bytes(b"%PDF-1.7 cut")
    first, second = archive.take(archive.item()), archive.take(archive.item())
    assert first == second
    assert (first.status, first.attempts, first.exit_code, first.retryable) == (ArchiveStatus.FAILED, 1, 10, False)
    assert archive.take(archive.item(), retry_failed=True).attempts == 2
    path.write_bytes(b"%PDF-1.7 cut elsewhere")
    assert archive.take(archive.item()).attempts == 1


def test_what_may_pass_is_tried_a_bounded_number_of_times(archive: Archive) -> None:
    path = scanned_pdf(Path(archive.prefix) / "book.pdf", 1)
    item = archive.item()
    path.unlink()  # between the listing and the look: as good as a server that does not answer
    attempts = [archive.take(item).attempts for _ in range(MAX_ATTEMPTS + 2)]
    assert attempts == [1, 2, 3, 3, 3]
    seen = archive.take(item, retry_failed=True)
    assert (seen.attempts, seen.status, seen.retryable) == (4, ArchiveStatus.FAILED, True)


def test_a_document_at_which_the_process_is_killed_every_time_is_given_up(archive: Archive) -> None:
    path = Path(archive.prefix) / "cut.pdf"
    path.write_bytes(b"%PDF-1.7 cut")
    archive.take(archive.item())
    archive.remember(status=ArchiveStatus.READING, attempts=MAX_ATTEMPTS)
    seen = archive.take(archive.item())
    assert seen.status is ArchiveStatus.FAILED
    assert "killed 3 times" in (seen.reason or "")
    archive.remember(status=ArchiveStatus.READING, attempts=MAX_ATTEMPTS - 1)
    assert archive.take(archive.item()).attempts == MAX_ATTEMPTS, "once more"


def test_a_document_that_was_touched_but_not_changed_is_unchanged(archive: Archive) -> None:
    path = scanned_pdf(Path(archive.prefix) / "book.pdf", 1)
    cut = path.read_bytes()
    path.write_bytes(b"%PDF-1.7 cut")
    archive.take(archive.item())
    path.write_bytes(cut)
    from tasks.sources.fetch import fetch_document

    sha256 = fetch_document(str(path), path.parent / "spool")[0].sha256
    archive.remember(
        status=ArchiveStatus.PUBLISHED, sha256=sha256, document_id="book", run_id="earlier", exit_code=0, reason=None
    )
    shelve(Path(archive.output) / "book", [blank_page(1)])
    seen = archive.take(archive.item())
    assert (seen.status, seen.run_id, seen.version) == (ArchiveStatus.PUBLISHED, "earlier", archive.item().version)


@pytest.mark.parametrize(
    ("remembered", "place"),
    [
        ({"status": ArchiveStatus.PUBLISHED, "exit_code": 0}, "book"),
        ({"status": ArchiveStatus.FAILED, "exit_code": 40}, ".tomeflow/quarantine/book"),
    ],
    ids=["published", "quarantined"],
)
@pytest.mark.parametrize("lost", ["manifest.json", "pages.jsonl"])
def test_a_document_whose_folder_was_lost_is_tried_again(
    archive: Archive, remembered: dict[str, object], place: str, lost: str
) -> None:
    (Path(archive.prefix) / "cut.pdf").write_bytes(b"%PDF-1.7 cut")  # so that a new attempt ends at once
    archive.take(archive.item())
    archive.remember(**remembered, document_id="book", run_id="earlier", retryable=False)
    folder = shelve(Path(archive.output) / place, [blank_page(1)])
    assert archive.take(archive.item()).run_id == "earlier", "it is there"
    (folder / lost).unlink()
    assert archive.take(archive.item()).run_id == "run 3"


def test_the_report_counts_and_its_exit_code_is_that_of_the_archive(archive: Archive) -> None:
    for name, content in (("a.pdf", b""), ("b.txt", b"text"), ("c.pdf", b"%PDF-1.7 cut")):
        (Path(archive.prefix) / name).write_bytes(content)
    seen = [archive.take(item) for item in scan_archive(archive.prefix, archive.output)]
    report = report_on(archive.prefix, seen, ["z.pdf"], "run 9")
    assert (report.published, report.unchanged, report.failed, report.not_a_document) == (0, 0, 2, 1)
    assert report.exit_code == 3, "two causes: an empty file and a damaged one"
    assert report.gone == ("z.pdf",)
    assert [o.name for o in report.objects] == ["a.pdf", "b.txt", "c.pdf"], "what has a reason is told every time"
