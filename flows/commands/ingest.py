"""``tomeflow ingest``: options to configuration, then the flow, then what became of every object."""

from __future__ import annotations

import argparse
import sys

from data_contracts.warehouse.archive import ArchiveReport
from flows.commands.progress import follow
from flows.commands.run import read_config
from flows.serving.prefect_server import prefect_api
from flows.settings import read_settings


def main(options: argparse.Namespace) -> int:
    """Run ``tomeflow ingest`` with parsed ``options`` and return the archive's exit code."""
    config = read_config(options)
    settings = read_settings(options.output)
    with prefect_api(settings.work_folder, settings.prefect_api_url):
        from flows.execution.outcome import report_of
        from flows.ingest_archive import ingest_archive

        follow("tomeflow.ingest")
        given = (options.prefix, options.output, config, options.retry_failed, options.at_once)
        report: ArchiveReport = report_of(ingest_archive, *given)
    _print_report(report)
    if options.json:
        print(report.model_dump_json())
    return report.exit_code


def _print_report(report: ArchiveReport) -> None:
    """Say on standard error what is not published whole, what is gone, and how many objects there are of each kind."""
    for seen in report.objects:
        if seen.reason:
            print(f"{seen.name}: {seen.status.value}: {seen.reason}", file=sys.stderr)
    for name in report.gone:
        print(f"{name}: gone; what was published of it stays", file=sys.stderr)
    print(
        f"{report.prefix}: {report.published} published, {report.unchanged} unchanged, {report.failed} failed, "
        f"{report.not_a_document} not documents",
        file=sys.stderr,
    )
