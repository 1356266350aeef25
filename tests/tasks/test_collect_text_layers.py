from datetime import UTC, datetime

from support.readings import blank_page, failed_page, text_page

from data_contracts.config import ReadingConfig
from data_contracts.document import DocumentRef, StateRef
from data_contracts.result import ChunkResult
from data_contracts.warehouse.connection import open_warehouse
from tasks.collect import collect_document, collect_text_layers
from tasks.document_run import RunRecord

STATE = StateRef(uri="states/x", sha256="1" * 64, size_bytes=1, next_page_number=5)


def test_a_page_row_says_what_became_of_its_text(tmp_path):
    path, reading = tmp_path / "warehouse.duckdb", ReadingConfig()
    document = DocumentRef(document_id="book", uri="book", sha256="0" * 64, page_count=4, kind="pdf")
    run = RunRecord(
        run_id="run",
        model_fingerprint="weights",
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        seconds=1.0,
        selected_pages=4,
        peak_memory_bytes=1,
    )
    pages = (text_page(["one"], 1), text_page(["two"], 2), blank_page(3), failed_page(4))
    collect_document(path, document, reading, run, [(ChunkResult(pages=pages, state=STATE), ())])
    collect_text_layers(path, document, reading, {"replaced": [1], "added": [2], "none": [3]})
    with open_warehouse(path) as connection:
        rows = connection.execute("SELECT page_number, text_layer FROM pages ORDER BY 1").fetchall()
    assert rows == [(1, "replaced"), (2, "added"), (3, "none"), (4, None)]
