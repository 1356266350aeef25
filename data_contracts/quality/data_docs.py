"""Great Expectations' own HTML about a document, for who wants to see every expectation with its counts.

The pages take their styles from the web, so offline they are plain; the report (``tomeflow report``) needs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from data_contracts.config import QualityConfig
from data_contracts.quality.page_facts import DocumentFacts, PageFacts
from data_contracts.quality.suites import (
    document_checks,
    document_row,
    judged_rows,
    library,
    page_checks,
    suite_of,
    table_of,
)

SITE = "docs"
INDEX = "index.html"


def write_data_docs(folder: Path, pages: Iterable[PageFacts], document: DocumentFacts, quality: QualityConfig) -> Path:
    """Judge ``pages`` and ``document`` once more, write the outcome as HTML into ``folder`` and return its index."""
    with library() as gx:
        context = gx.get_context(mode="ephemeral")
        context.variables.progress_bars = {"globally": False}
        store = {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(folder.resolve())}
        builder = {"class_name": "DefaultSiteIndexBuilder"}
        site = {"class_name": "SiteBuilder", "store_backend": store, "site_index_builder": builder}
        context.add_data_docs_site(SITE, site)
        _judge(gx, context, "pages", page_checks(quality), judged_rows(pages, page_checks(quality)), "page_number")
        _judge(gx, context, "document", document_checks(quality), [document_row(document, quality)], "row")
    return folder / INDEX


def _judge(gx: Any, context: Any, name: str, checks: Any, rows: list[dict[str, Any]], key: str) -> None:
    batches = context.data_sources.add_pandas(name).add_dataframe_asset(name).add_batch_definition_whole_dataframe(name)
    suite = context.suites.add(suite_of(gx, name, checks))
    definition = context.validation_definitions.add(gx.ValidationDefinition(name=name, data=batches, suite=suite))
    checkpoint = gx.Checkpoint(
        name=name,
        validation_definitions=[definition],
        result_format={"result_format": "SUMMARY", "unexpected_index_column_names": [key]},
        actions=[gx.checkpoint.UpdateDataDocsAction(name=SITE, site_names=[SITE])],
    )
    context.checkpoints.add(checkpoint).run(batch_parameters={"dataframe": table_of(rows)})
