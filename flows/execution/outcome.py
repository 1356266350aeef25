"""How a run over many documents ends, for who looks at the server: a run of which something failed has failed.

What the run did stays: its report is the state's data, every document that was published is, and the next run starts
as always.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from hashlib import sha256
from shlex import quote
from typing import Any, TypeVar, cast

from prefect.artifacts import create_markdown_artifact
from prefect.states import Completed, Failed

from data_contracts.warehouse.archive import ArchiveObject, ArchiveReport, ArchiveStatus
from flows.execution.artifacts import TABLE_ROWS, is_watched, plain
from flows.execution.events import INCOMPLETE

Report = TypeVar("Report")

# Of the faults in the message of a state, which the lists of the UI show in one line.
FAULTS_TOLD = 3


def ended(report: Report, summary: str, *, failed: Sequence[str] = (), wanting: Sequence[str] = ()) -> Report:
    """Return what a flow is to return so that its run has failed, is ``Incomplete``, or has just completed.

    ``failed``: what went wrong in this run, for somebody to be told; ``wanting``: what is not as it should be, and was
    told before or stops nobody. Prefect takes a state in place of the value; ``report_of`` gives the value back.
    """
    faults = [*failed, *wanting]
    if not faults:
        return report
    more = f"; and {len(faults) - FAULTS_TOLD} more" if len(faults) > FAULTS_TOLD else ""
    message = f"{summary}: {'; '.join(faults[:FAULTS_TOLD])}{more}"
    if failed:
        return cast(Report, Failed(message=message, data=report))
    return cast(Report, Completed(name=INCOMPLETE, message=message, data=report))


def report_of(flow: Callable[..., Any], *arguments: Any, **parameters: Any) -> Any:
    """Run ``flow`` and return its report, also of a run that has failed by ``ended``.

    Raises:
        Exception: what the flow raised.
    """
    result = flow(*arguments, **parameters, return_state=True).result(raise_on_failure=False)
    if isinstance(result, BaseException):
        raise result
    return result


def archive_ended(report: ArchiveReport, run_id: str, output: str) -> ArchiveReport:
    """Show what became of an archive, and return what its flow is to return.

    A document that fails the same way night after night is told once: when run ``run_id`` met it.
    """
    failed = [seen for seen in report.objects if seen.status is ArchiveStatus.FAILED]
    partial = [seen for seen in report.objects if seen.status is ArchiveStatus.PUBLISHED and seen.exit_code]
    if is_watched():
        name = re.sub("[^a-z0-9]+", "-", report.prefix.lower()).strip("-")
        digits = sha256(report.prefix.encode()).hexdigest()[:8]  # names of other scripts leave nothing else
        create_markdown_artifact(_archive_page(report, failed, partial, output), key=f"archive-{name}-{digits}")
    new = [seen for seen in failed if seen.run_id == run_id]
    known = [seen for seen in failed if seen.run_id != run_id]
    counts = f"{report.published} published, {report.unchanged} unchanged, {report.failed} failed"
    return ended(report, counts, failed=[*map(_fault, new)], wanting=[*map(_fault, partial), *map(_fault, known)])


def _fault(seen: ArchiveObject) -> str:
    reason = seen.reason or ""
    return reason if seen.name in reason else f"{seen.name}: {reason}"


def _archive_page(
    report: ArchiveReport, failed: Sequence[ArchiveObject], partial: Sequence[ArchiveObject], output: str
) -> str:
    lines = [
        f"# {plain(report.prefix)}",
        "",
        "| published | unchanged | failed | not documents | gone |",
        "|---|---|---|---|---|",
        f"| {report.published} | {report.unchanged} | {report.failed} | {report.not_a_document} | {len(report.gone)} |",
    ]
    again = f"tomeflow ingest {quote(report.prefix)} -o {quote(output)} --retry-failed"
    lines += _list("Failed", failed, f"One that changes is read again by itself; all of them: {plain(again)}.")
    mended = f"{plain(f'tomeflow backfill -o {quote(output)}')}, or `tomeflow release`."
    lines += _list("Published, but not whole", partial, mended)
    if report.gone:
        lines += ["", "## Gone", "", "What was published of them stays.", ""]
        lines += [f"- {plain(name)}" for name in report.gone[:TABLE_ROWS]]
    return "\n".join(lines)


def _list(title: str, objects: Sequence[ArchiveObject], remedy: str) -> list[str]:
    if not objects:
        return []
    items = [f"- {plain(seen.name)}, attempt {seen.attempts}: {plain(_fault(seen))}" for seen in objects[:TABLE_ROWS]]
    more = [f"- and {len(objects) - TABLE_ROWS} more: `tomeflow query`"] if len(objects) > TABLE_ROWS else []
    return ["", f"## {title}", "", remedy, "", *items, *more]
