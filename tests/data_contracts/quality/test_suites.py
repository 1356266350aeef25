"""Every fault is named by the expectation that is meant for it; warnings stop nothing; nulls are not judged."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from support.readings import blank_page, failed_page, text_page

from data_contracts.config import QualityConfig
from data_contracts.quality.page_facts import DocumentFacts, PageFacts, gather_document_facts, gather_page_facts
from data_contracts.quality.suites import evaluate_document, evaluate_pages
from data_contracts.quality.verdict import Evaluation
from data_contracts.result import PageResult, PageTimings

QUALITY = QualityConfig()


def prose(number: int) -> PageResult:
    """Return a page of different words that bears its own number."""
    lines = [" ".join(f"word{number * 1009 + row * 31 + column}x" for column in range(8)) for row in range(12)]
    return text_page([str(number), *lines], number)


def book(pages: int = 12) -> list[PageResult]:
    return [prose(number) for number in range(1, pages + 1)]


def failed(evaluations: tuple[Evaluation, ...]) -> dict[tuple[str, str], list[int]]:
    return {(e.severity, e.expectation): [p.page_number for p in e.pages] for e in evaluations if not e.success}


def judged(pages: list[PageResult]) -> dict[tuple[str, str], list[int]]:
    return failed(evaluate_pages(gather_page_facts(pages), QUALITY))


def unsure(page: PageResult, confidence: float) -> PageResult:
    return page.model_copy(
        update={"lines": tuple(line.model_copy(update={"confidence": confidence}) for line in page.lines)}
    )


def test_a_clean_book_passes_everything() -> None:
    assert judged([*book(11), blank_page(12)]) == {}


def with_page(number: int, change: Callable[[PageResult], PageResult]) -> list[PageResult]:
    return [change(page) if page.page_number == number else page for page in book()]


def lines_of(page: PageResult) -> list[str]:
    return [line.text for line in page.lines]


@pytest.mark.parametrize(
    ("severity", "expectation", "change"),
    [
        ("warning", "page has a reading", lambda page: failed_page(page.page_number)),
        ("critical", "confidence", lambda page: unsure(page, 0.3)),
        ("warning", "good confidence", lambda page: unsure(page, 0.7)),
        ("critical", "no loop of words", lambda page: text_page([str(page.page_number), "on and on " * 80], 6)),
        ("critical", "no loop of lines", lambda page: text_page([*lines_of(page), *["again and again"] * 20], 6)),
        ("warning", "few repeated lines", lambda page: text_page([*lines_of(page), *["again and again"] * 7], 6)),
        ("critical", "characters of print", lambda page: text_page([*lines_of(page), "\ufffd" * 200], 6)),
        ("warning", "only characters of print", lambda page: text_page([*lines_of(page), "\ufffd" * 20], 6)),
        ("critical", "script is readable", lambda page: page.model_copy(update={"unread_ratio": 0.4})),
        ("critical", "script is readable", lambda page: blank_page(6).model_copy(update={"unread_ratio": 1.0})),
        ("warning", "all scripts are readable", lambda page: page.model_copy(update={"unread_ratio": 0.08})),
        ("warning", "printed numbers fit their neighbours", lambda page: text_page(["9", *lines_of(page)[1:]], 6)),
        ("warning", "few scripts", lambda page: text_page([str(page.page_number), "abc где αβγ 定定定 한한한"], 6)),
        ("critical", "no blank page in place of a printed one", lambda page: blank_page(6)),
        ("critical", "no page reads like another", lambda page: text_page(lines_of(prose(2)), 6)),
    ],
)
def test_each_fault_is_named_by_its_expectation(
    severity: str, expectation: str, change: Callable[[PageResult], PageResult]
) -> None:
    assert judged(with_page(6, change))[severity, expectation] == [6]


def test_swapped_and_doubled_pages_are_named() -> None:
    pages = book()
    order = [*range(5), 6, 5, *range(7, 12)]
    swapped = [text_page(lines_of(pages[i]), n) for n, i in enumerate(order, start=1)]
    assert set(judged(swapped)["critical", "printed numbers ascend"]) <= {6, 7}
    doubled = [text_page(lines_of(pages[i]), n) for n, i in enumerate([*range(6), *range(5, 12)], start=1)]
    found = judged(doubled)
    assert found["critical", "printed numbers are unique"] == [7]
    assert found["critical", "no page reads like another"] == [7]


def test_the_share_of_print_in_an_unreadable_script_is_named() -> None:
    facts = gather_page_facts(with_page(6, lambda page: page.model_copy(update={"unread_ratio": 0.4123})))
    named = next(e for e in evaluate_pages(facts, QUALITY) if e.expectation == "script is readable")
    assert [(page.page_number, page.reason) for page in named.pages] == [
        (6, "script not readable: no character accounts for 41.2% of the print in its lines (allowed 15.0%)")
    ]


def test_a_good_page_is_not_accused_for_the_number_of_another() -> None:
    pages = with_page(6, lambda page: text_page(["5", *lines_of(page)[1:]], 6))
    assert judged(pages) == {("warning", "printed numbers fit their neighbours"): [6]}
    unnumbered = [text_page(lines_of(page)[1:], n) if n == 8 else page for n, page in enumerate(pages, start=1)]
    assert judged(unnumbered) == {("warning", "printed numbers fit their neighbours"): [6]}


def misread_words(page: PageResult, number: int, seed: int) -> PageResult:
    """Return ``page`` as another scan of it may be read: one letter in twenty differs."""
    chance = random.Random(seed)

    def again(line: str) -> str:
        return "".join(chance.choice("abcdef") if c.isalpha() and chance.random() < 0.05 else c for c in line)

    return text_page([lines_of(page)[0], *map(again, lines_of(page)[1:])], number)


def test_a_page_scanned_twice_is_doubled_though_it_was_read_differently() -> None:
    pages = book()
    order = [*range(6), 5, *range(6, 12)]
    doubled = [misread_words(pages[i], n, seed=n) for n, i in enumerate(order, start=1)]
    assert judged(doubled) == {("critical", "printed numbers are unique"): [7]}


def test_two_pages_with_one_number_that_read_differently_are_only_mentioned() -> None:
    pages = book()
    other = text_page(["6", *lines_of(prose(77))[1:]], 7)
    inserted = [*pages[:6], other, *(text_page(lines_of(pages[i]), i + 2) for i in range(6, 12))]
    assert judged(inserted) == {("warning", "printed numbers fit their neighbours"): [7]}


@pytest.mark.parametrize("text", ["\N{BLACK SQUARE}", "12", "iv", "* * *"])
def test_almost_empty_pages_are_no_duplicates_of_one_another(text: str) -> None:
    pages = [
        *book(6),
        *(text_page([text], n) for n in (7, 8, 9)),
        *(text_page(lines_of(prose(n)), n) for n in (10, 11)),
    ]
    facts = gather_page_facts(pages, dict.fromkeys(range(1, 12), "the same picture"))
    assert [fact.page_number for fact in facts if fact.near_duplicate_fault or fact.number_fault] == []


def test_a_gap_is_only_a_warning() -> None:
    pages = [text_page(lines_of(page), n) for n, page in enumerate([*book(6), prose(9), *book(14)[9:]], start=1)]
    assert judged(pages) == {("warning", "printed numbers have no gap"): [7]}


def test_a_text_page_of_white_space_is_empty() -> None:
    white = text_page([prose(6).lines[0].model_copy(update={"text": "  "})], 6)
    assert judged(with_page(6, lambda page: white))["critical", "text page has text"] == [6]


def timings(pages: int, growth_bytes: int, slow: float) -> dict[int, PageTimings]:
    return {
        n: PageTimings(
            page_number=n, decode_ms=slow if n > pages / 2 else 1.0, peak_memory_bytes=10**9 + n * growth_bytes
        )
        for n in range(1, pages + 1)
    }


def test_the_ledger_memory_and_latency_are_judged_for_the_document() -> None:
    facts = gather_page_facts(book())
    good = gather_document_facts(range(1, 13), facts, timings(12, 0, 1.0))
    assert failed(evaluate_document(good, QUALITY)) == {}
    bad = gather_document_facts(range(2, 14), [*facts, facts[3]], timings(12, 5_000_000, 3.0))
    evaluations = {e.expectation: e for e in evaluate_document(bad, QUALITY) if not e.success}
    assert {name: e.severity for name, e in evaluations.items()} == {
        "no page is lost": "critical",
        "no page is unasked for": "critical",
        "no page comes twice": "critical",
        "memory is flat": "warning",
        "pages take equally long": "warning",
    }
    assert [evaluations[f"no page is {fault}"].detail for fault in ("lost", "unasked for")] == ["13", "1"]


@pytest.mark.parametrize(("fetched", "success"), [(10, True), (1000, False)])
def test_the_hit_ratio_counts_only_above_a_minimum_of_fetches(fetched: int, success: bool) -> None:
    facts = DocumentFacts(hit_ratio=0.0, references_fetched=fetched)
    assert ("warning", "references hit") in failed(evaluate_document(facts, QUALITY)) or success


def test_a_fault_among_five_thousand_pages_is_found() -> None:
    one = gather_page_facts([prose(1)])[0]
    facts: list[PageFacts] = [one.model_copy(update={"page_number": number}) for number in range(1, 5001)]
    facts[3210] = facts[3210].model_copy(update={"near_duplicate_fault": "page 3211 reads like page 7"})
    assert failed(evaluate_pages(facts, QUALITY)) == {("critical", "no page reads like another"): [3211]}
