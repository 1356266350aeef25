"""File names that are not UTF-8: they cost the document that has one, and no other."""

from __future__ import annotations

import os
from pathlib import Path

from support.sources import jpeg

from data_contracts.config import DigitizeConfig
from data_contracts.warehouse.archive import ArchiveStatus, read_archive
from data_contracts.warehouse.connection import open_warehouse
from flows.commands.run import reports_on
from flows.digitize import failed_report
from flows.ingest_archive import _Ingestion
from tasks.sources.fetch import fetch_document
from tasks.sources.scan import names_gone, scan_archive

BAD = os.fsdecode(b"b\xff.jpg")


def test_of_a_batch_the_others_are_read_and_every_report_stands_in_its_place() -> None:
    reports = reports_on(
        [BAD, "1.png", "x/" + BAD, "2.png"], lambda sources: [failed_report(source, "", 0) for source in sources]
    )
    assert [(report.id, report.exit_code) for report in reports] == [
        (r"b\xff.jpg", 10),
        ("1.png", 0),
        (r"x/b\xff.jpg", 10),
        ("2.png", 0),
    ]
    assert reports[0].error == r"the name b\xff.jpg is not UTF-8 (shown escaped). Rename it."
    assert [report.id for report in reports_on([BAD], lambda _: [])] == [r"b\xff.jpg"], "no run is started for nothing"


def test_in_an_archive_such_a_file_is_remembered_as_failed_with_the_reason(tmp_path: Path) -> None:
    prefix, output = str(tmp_path / "in"), str(tmp_path / "out")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / BAD).write_bytes(jpeg(1))
    (item,) = scan_archive(prefix, output)
    seen = _Ingestion(prefix, output, DigitizeConfig(), False, "run 1").take(item)
    assert (seen.name, seen.status, seen.exit_code, seen.retryable) == (
        r"b\xff.jpg",
        ArchiveStatus.FAILED,
        10,
        False,
    )
    assert "not UTF-8" in (seen.reason or "")
    with open_warehouse(tmp_path / "out" / ".tomeflow" / "warehouse.duckdb") as connection:
        known = read_archive(connection, prefix)
    assert known == {item.name: seen}
    assert names_gone(list(known), scan_archive(prefix, output)) == []


def test_a_folder_keeps_a_page_of_such_a_name(tmp_path: Path) -> None:
    book = tmp_path / "in" / "book"
    book.mkdir(parents=True)
    for name in ("a.jpg", BAD):
        (book / name).write_bytes(jpeg(len(name)))
    (item,) = scan_archive(str(book.parent), str(tmp_path / "out"))
    assert len(item.version) == 64
    assert fetch_document(item.uri, tmp_path / "spool")[0].page_count == 2
