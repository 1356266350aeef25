"""``tomeflow run``: options to configuration, documents side by side, a table at the end."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from typing import Any

from pydantic import ValidationError

from data_contracts.config import DigitizeConfig
from data_contracts.document import require_utf8_name, shown_name
from data_contracts.errors import ConfigError, UnreadableDocument, joint_exit_code
from data_contracts.result import DocumentReport
from flows.commands.progress import Progress
from flows.serving.prefect_server import prefect_api
from flows.settings import read_settings
from models.zoo import require_reader
from tasks.publishing.registry import formats_named


def read_config(options: argparse.Namespace) -> DigitizeConfig:
    """Return the configuration that the command line asks for; what it leaves out keeps its default.

    Raises:
        ConfigError: lists every wrong value.
    """
    sections = {
        "render": _given(dpi=None if options.dpi == "auto" else options.dpi),
        "sr_swa": _given(window_pages=options.window, lookahead_pages=options.lookahead, top_k=options.top_k),
        "vlm": _given(model_path=options.model_path, device=options.device),
    }
    values = {
        "reading": {**_given(model=options.model), **sections},
        "quality": _given(gate=options.gate),
        **_given(
            pages=options.pages,
            chunk_pages=options.chunk_pages,
            formats=options.format.split(",") if options.format else None,
        ),
    }
    try:
        config = DigitizeConfig.model_validate(values)
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(map(str, fault['loc']))}: {fault['msg']} (given: {fault['input']!r})"
            for fault in error.errors()
        )
        raise ConfigError(f"{wrong}. See tomeflow run --help.") from None
    formats_named(config.formats)
    require_reader(config.reading.model)
    return config


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def main(options: argparse.Namespace) -> int:
    """Run ``tomeflow run`` with parsed ``options`` and return the exit code of all its documents."""
    reports = run_documents(options)
    if options.json:
        print(json.dumps({"documents": [report.model_dump(exclude={"error", "exit_code"}) for report in reports]}))
    return joint_exit_code(report.exit_code for report in reports)


def run_documents(options: argparse.Namespace) -> list[DocumentReport]:
    """Digitize every input; one that fails is reported and never stops another."""
    config = read_config(options)
    settings = read_settings(options.output)
    # Ray prints on standard output that a worker died; that belongs to --json.
    with prefect_api(settings.work_folder, settings.prefect_api_url), Progress(), redirect_stdout(sys.stderr):
        from flows.digitize import digitize_collection
        from flows.execution.outcome import report_of

        def digitize(sources: list[str]) -> list[DocumentReport]:
            given = (sources, options.output, config, options.fresh, options.runner, options.at_once)
            reports: list[DocumentReport] = report_of(digitize_collection, *given)
            return reports

        reports = reports_on(options.inputs, digitize)
    _print_table(reports)
    return reports


def reports_on(sources: Sequence[str], digitize: Callable[[list[str]], list[DocumentReport]]) -> list[DocumentReport]:
    """Return a report for each source, in order; ``digitize`` gets those that a server takes as a parameter."""
    from flows.digitize import failed_report

    refused: dict[int, DocumentReport] = {}
    for index, source in enumerate(sources):
        try:
            require_utf8_name(source)
        except UnreadableDocument as error:
            refused[index] = failed_report(shown_name(source), error.message, error.exit_code)
    taken = [source for index, source in enumerate(sources) if index not in refused]
    reports = digitize(taken) if taken else []
    for index, report in refused.items():
        reports.insert(index, report)
    return reports


def _print_table(reports: list[DocumentReport]) -> None:
    """Say on standard error what became of each document."""
    for report in reports:
        if report.published:
            counts = ", ".join(f"{count} {status}" for status, count in report.status_counts.items() if count)
            print(
                f"{report.output}: {report.pages} pages ({counts}), {report.pages_per_second:.2f} pages/s, "
                f"peak memory {report.peak_memory_bytes / 1e6:.0f} MB",
                file=sys.stderr,
            )
        if report.error:
            print(f"tomeflow: {report.id}: {report.error}", file=sys.stderr)
