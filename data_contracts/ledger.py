"""The page ledger: no page is lost, invented, doubled or out of order, or the run fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from data_contracts.errors import LedgerUnbalanced
from data_contracts.result import PageResult, PageStatus


def status_counts(statuses: Iterable[PageStatus]) -> dict[str, int]:
    """Return how many pages ended with each status; every status is listed."""
    counts = Counter(statuses)
    return {status.value: counts[status] for status in PageStatus}


def check_ledger(selected: Sequence[int], pages: Iterable[PageResult]) -> dict[str, int]:
    """Return the status counts of ``pages`` if they are just the ``selected`` ones, in order; raise as ``balance``."""
    return balance(selected, [(page.page_number, page.status) for page in pages])


def balance(selected: Sequence[int], rows: Sequence[tuple[int, PageStatus]]) -> dict[str, int]:
    """Do the same, given the number and the status of each page.

    Raises:
        LedgerUnbalanced: a page is missing, unasked for, doubled or out of order; the message names it.
    """
    numbers = [number for number, _ in rows]
    if numbers == list(selected):
        return status_counts(status for _, status in rows)
    seen = Counter(numbers)
    faults = {
        "lost": sorted(set(selected) - set(numbers)),
        "invented": sorted(set(numbers) - set(selected)),
        "doubled": sorted(number for number, count in seen.items() if count > 1),
    }
    named = "; ".join(f"{fault}: pages {', '.join(map(str, which))}" for fault, which in faults.items() if which)
    raise LedgerUnbalanced(
        f"{len(selected)} pages were selected, {len(numbers)} came out ({named or 'out of order'}). "
        "Nothing was published; run again with --fresh, and report this as a bug if it happens twice."
    )
