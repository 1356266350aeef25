"""What must hold of a reading, as expectation suites: the only door to Great Expectations, opened when needed.

Two suites: one row a page, one row a document. An expectation is critical (the page is quarantined, or the
document stops) or a warning (it is mentioned). Great Expectations calls a suite failed when only a warning
fails; severity is therefore read expectation by expectation, and what follows from it is the verdict's business.
"""

from __future__ import annotations

import logging
import os
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from data_contracts.config import QualityConfig
from data_contracts.quality.page_facts import DocumentFacts, PageFacts
from data_contracts.quality.verdict import Evaluation, PageReason, Severity
from data_contracts.result import PageStatus

_ONE_AT_A_TIME = threading.Lock()
"""The library keeps its current context in a global; documents are judged side by side in one process."""


@dataclass(frozen=True)
class Check:
    """One expectation on one column: a range, a set of allowed values, or that a fault column is empty.

    Nulls and rows outside ``only_status`` are not judged.
    """

    name: str
    column: str
    severity: Severity
    minimum: float | None = None
    maximum: float | None = None
    allowed: tuple[str, ...] | None = None
    only_status: PageStatus | None = None

    @property
    def judged_column(self) -> str:
        """The column of the table that Great Expectations sees."""
        return f"{self.column} of {self.only_status.value} pages" if self.only_status else self.column

    def says(self, value: Any) -> str:
        """Return what is wrong with ``value``."""
        if self.allowed == ("",):
            return str(value)
        if self.column == "unread_ratio":
            share = f"no character accounts for {value:.1%} of the print in its lines"
            return f"script not readable: {share} (allowed {self.maximum:.1%})"
        if self.allowed is not None:
            return f"{self.column} is {value}, not {' or '.join(self.allowed)}"
        bound = f"below {self.minimum}" if self.minimum is not None else f"above {self.maximum}"
        return f"{self.column} {float(value):.4g} is {bound}"


def page_checks(quality: QualityConfig) -> tuple[Check, ...]:
    """Return the page suite. A page that failed has an exit code of its own; it is mentioned, not quarantined."""
    none = ("",)
    return (
        Check("page has a reading", "status", "warning", allowed=("text", "blank")),
        Check("text page has text", "characters", "critical", minimum=1, only_status=PageStatus.TEXT),
        Check("confidence", "confidence", "critical", minimum=quality.min_confidence),
        Check("good confidence", "confidence", "warning", minimum=quality.warn_confidence),
        Check("script is readable", "unread_ratio", "critical", maximum=quality.max_unread_ratio),
        Check("all scripts are readable", "unread_ratio", "warning", maximum=quality.warn_unread_ratio),
        Check("few errors where the truth is known", "cer", "warning", maximum=quality.warn_cer),
        Check("no loop of words", "distinct_35_ratio", "critical", minimum=quality.min_distinct_35_ratio),
        Check("few repeated words", "distinct_20_ratio", "warning", minimum=quality.warn_distinct_20_ratio),
        Check("no loop of lines", "repeated_lines", "critical", maximum=quality.max_repeated_lines),
        Check("few repeated lines", "repeated_lines", "warning", maximum=quality.warn_repeated_lines),
        Check("characters of print", "odd_character_ratio", "critical", maximum=quality.max_odd_character_ratio),
        Check("only characters of print", "odd_character_ratio", "warning", maximum=quality.warn_odd_character_ratio),
        Check("few scripts", "script_count", "warning", maximum=quality.warn_scripts),
        Check("printed numbers ascend", "order_fault", "critical", allowed=none),
        Check("printed numbers are unique", "number_fault", "critical", allowed=none),
        Check("no blank page in place of a printed one", "blank_fault", "critical", allowed=none),
        Check("no page reads like another", "near_duplicate_fault", "critical", allowed=none),
        Check("printed numbers fit their neighbours", "misread_number", "warning", allowed=none),
        Check("printed numbers have no gap", "gap", "warning", allowed=none),
        Check("printed numbers begin once", "restart", "warning", allowed=none),
    )


def document_checks(quality: QualityConfig) -> tuple[Check, ...]:
    """Return the document suite."""
    none = ("",)
    return (
        Check("no page is lost", "lost_pages", "critical", allowed=none),
        Check("no page is unasked for", "unasked_pages", "critical", allowed=none),
        Check("no page comes twice", "doubled_pages", "critical", allowed=none),
        Check("references hit", "hit_ratio", "warning", minimum=quality.min_hit_ratio),
        Check("memory is flat", "memory_slope_bytes", "warning", maximum=quality.max_memory_slope_bytes),
        Check("pages take equally long", "latency_drift_ratio", "warning", maximum=quality.max_latency_drift_ratio),
    )


def evaluate_pages(facts: Iterable[PageFacts], quality: QualityConfig) -> tuple[Evaluation, ...]:
    """Judge all pages of a document; takes a fraction of a second a thousand pages, plus the library's import once."""
    checks = page_checks(quality)
    rows = judged_rows(facts, checks)
    return tuple(
        Evaluation(
            suite="pages",
            expectation=check.name,
            severity=check.severity,
            success=not failing,
            pages=tuple(PageReason(page_number=number, reason=check.says(value)) for number, value in failing),
        )
        for check, failing in _validate("pages", rows, checks, "page_number")
    )


def evaluate_document(facts: DocumentFacts, quality: QualityConfig) -> tuple[Evaluation, ...]:
    """Judge the document as a whole."""
    return _judge_document(document_row(facts, quality), document_checks(quality))


def document_row(facts: DocumentFacts, quality: QualityConfig) -> dict[str, Any]:
    """Return the row that the document suite judges; of few fetches the hit ratio is null."""
    enough = facts.references_fetched >= quality.hit_ratio_fetches
    return {**facts.model_dump(), "row": 0, "hit_ratio": facts.hit_ratio if enough else None}


def evaluate_published(damaged_files: Sequence[str]) -> tuple[Evaluation, ...]:
    """Judge what was written to the output folder or the quarantine: ``damaged_files`` are not what was meant."""
    check = Check("every file is whole", "damaged_files", "critical", allowed=("",))
    return _judge_document({"row": 0, "damaged_files": ", ".join(damaged_files)}, [check])


def _judge_document(row: dict[str, Any], checks: Sequence[Check]) -> tuple[Evaluation, ...]:
    return tuple(
        Evaluation(
            suite="document",
            expectation=check.name,
            severity=check.severity,
            success=not failing,
            detail=check.says(failing[0][1]) if failing else "",
        )
        for check, failing in _validate("document", [row], checks, "row")
    )


def judged_rows(facts: Iterable[PageFacts], checks: Sequence[Check]) -> list[dict[str, Any]]:
    """Return the rows that the page suite judges."""
    return [_judged(fact.as_row(), checks) for fact in facts]


def _judged(row: dict[str, Any], checks: Sequence[Check]) -> dict[str, Any]:
    """Return ``row`` with a column for each check that only concerns pages of one status."""
    narrowed = [check for check in checks if check.only_status]
    extra = {c.judged_column: row[c.column] if row["status"] == c.only_status else None for c in narrowed}
    return {**row, **extra}


def _validate(
    suite_name: Literal["pages", "document"], rows: list[dict[str, Any]], checks: Sequence[Check], key: str
) -> Iterator[tuple[Check, list[tuple[int, Any]]]]:
    """Yield each check with the (key, value) of the rows that fail it.

    Raises:
        RuntimeError: an expectation could not be evaluated; not judged is never passed.
    """
    if not rows:
        return
    with library() as gx:
        outcomes = _outcomes(gx, suite_name, rows, checks, key)
    for number, check in enumerate(checks):
        outcome = outcomes[number]
        if outcome.exception_info.get("raised_exception", True):
            raise RuntimeError(f"the expectation {check.name!r} could not be evaluated: {outcome.exception_info}")
        failing = outcome.result.get("unexpected_index_list") or []
        yield check, [(int(entry[key]), entry[check.judged_column]) for entry in failing]


def _outcomes(
    gx: Any, suite_name: str, rows: list[dict[str, Any]], checks: Sequence[Check], key: str
) -> dict[int, Any]:
    """Return what Great Expectations says of each of ``checks``, by its place."""
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    batches = context.data_sources.add_pandas(suite_name).add_dataframe_asset(suite_name)
    suite = suite_of(gx, suite_name, checks)
    batch = batches.add_batch_definition_whole_dataframe("all").get_batch({"dataframe": table_of(rows)})
    form = {"result_format": "COMPLETE", "unexpected_index_column_names": [key]}
    results = batch.validate(suite, result_format=form).results
    return {result.expectation_config.meta["check"]: result for result in results}


def suite_of(gx: Any, name: str, checks: Sequence[Check]) -> Any:
    """Return ``checks`` as Great Expectations' suite; each carries its place in its meta data."""
    return gx.ExpectationSuite(name, expectations=[_expectation(check, n) for n, check in enumerate(checks)])


def table_of(rows: list[dict[str, Any]]) -> Any:
    """Return ``rows`` as the data frame that Great Expectations takes."""
    import pyarrow as pa

    return pa.Table.from_pylist(rows).to_pandas()


@contextmanager
def library() -> Iterator[Any]:
    """Yield Great Expectations, alone in it until the block ends."""
    with _ONE_AT_A_TIME:
        yield _great_expectations()


def _great_expectations() -> Any:
    """Import the library (some seconds, once) without its telemetry, its chatter and its own warnings.

    It imports what it finds installed (cloud clients too), and each of those warns of something.
    """
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "False")  # read when the library is imported
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import great_expectations as gx
        import great_expectations.expectations  # the same warnings
    for name in ("great_expectations", "great_expectations.data_context.types.base"):  # the second sets its own level
        logging.getLogger(name).setLevel(logging.WARNING)
    return gx


def _expectation(check: Check, number: int) -> Any:
    import great_expectations.expectations as gxe

    common: dict[str, Any] = {"column": check.judged_column, "severity": check.severity, "meta": {"check": number}}
    if check.allowed is not None:
        return gxe.ExpectColumnValuesToBeInSet(value_set=list(check.allowed), **common)  # type: ignore[attr-defined]  # exported at run time
    return gxe.ExpectColumnValuesToBeBetween(min_value=check.minimum, max_value=check.maximum, **common)  # type: ignore[attr-defined]
