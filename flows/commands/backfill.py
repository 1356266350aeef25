"""``tomeflow backfill``: options to a query and to changes of the configuration, then what came of every page."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import datetime
from typing import Any

from data_contracts.config import check_changes
from data_contracts.errors import ConfigError
from data_contracts.warehouse.backfill import BACKFILL_STATUSES, BackfillReport
from data_contracts.warehouse.connection import is_begun
from flows.commands.progress import follow
from flows.serving.prefect_server import prefect_api
from flows.settings import read_settings
from models.zoo import require_reader


def main(options: argparse.Namespace) -> int:
    """Run ``tomeflow backfill`` with parsed ``options`` and return the exit code."""
    parameters = read_parameters(options)
    settings = read_settings(options.output)
    if not is_begun(settings.work_folder):
        raise ConfigError(
            f"there is nothing to read again in {options.output}: no document was read into it. Is -o right?"
        )
    with prefect_api(settings.work_folder, settings.prefect_api_url):
        from flows.backfill import backfill
        from flows.execution.outcome import report_of

        follow("tomeflow.backfill")
        report: BackfillReport = report_of(backfill, options.output, **parameters)
    _print_report(report)
    if options.json:
        print(report.model_dump_json())
    return report.exit_code


def read_parameters(options: argparse.Namespace) -> dict[str, Any]:
    """Return the flow's parameters as the command line gives them.

    Raises:
        ConfigError: a date, a status or a change cannot be read; lists all of them.
    """
    faults, since, statuses = [], None, tuple(options.status.split(",")) if options.status else None
    if unknown := sorted(set(statuses or ()) - set(BACKFILL_STATUSES)):
        faults.append(f"--status {', '.join(unknown)}: write some of {', '.join(BACKFILL_STATUSES)}")
    try:
        since = datetime.fromisoformat(options.since).astimezone() if options.since else None
    except ValueError:
        faults.append(f"--since {options.since}: write a date such as 2026-11-30 or 2026-11-30T18:00")
    faults += [f"--set {change}: write NAME=VALUE" for change in options.set if "=" not in change]
    if faults:
        raise ConfigError("; ".join(faults))
    changes = dict(change.split("=", 1) for change in options.set)
    overrides = {name: _value(text) for name, text in changes.items()}
    overrides |= {"render.dpi": options.dpi} if options.dpi is not None else {}
    check_changes(overrides)
    require_reader(overrides.get("model", "compact"))
    return {
        "document": options.document,
        "since": since,
        "statuses": statuses,
        "pages": options.pages,
        "chunks": options.chunks,
        "model": options.model,
        "config_sha256": options.config or "",
        "overrides": overrides,
        "cascade": options.cascade,
        "why": options.why,
    }


def _value(text: str) -> Any:
    """Return a number, true, false or null as such, anything else as text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _print_report(report: BackfillReport) -> None:
    """Say on standard error what became of each page."""
    for document in report.documents:
        for number, status in document.statuses.items():
            print(f"{document.document_id} page {number}: {status}", file=sys.stderr)
        for number, reason in document.skipped.items():
            print(f"{document.document_id} page {number}: not tried: {reason}", file=sys.stderr)
        if document.stale_pages:
            print(
                f"{document.document_id}: {len(document.stale_pages)} later pages were read before this; "
                "--status stale or --cascade reads them again",
                file=sys.stderr,
            )
        if document.error:
            print(f"tomeflow: {document.document_id}: {document.error}", file=sys.stderr)
    if not report.documents:
        print("no page answers this query; see tomeflow status", file=sys.stderr)
