"""Printed page numbers: every fault is found in the right place, and no intact book is accused."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.readings import text_line, text_page

from data_contracts.quality.number_run import NumberedPage, NumberFinding
from data_contracts.quality.number_sequence import check_sequence
from data_contracts.quality.page_numbers import PrintedNumber, parse_number, read_printed_numbers


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12", ("arabic", 12)),
        ("- 12 -", ("arabic", 12)),
        ("[12]", ("arabic", 12)),
        ("(13 )", ("arabic", 13)),
        ("（20）", ("arabic", 20)),
        ("I03", ("arabic", 103)),
        ("l2", ("arabic", 12)),
        ("1O", ("arabic", 10)),
        ("( 12 )", ("arabic", 12)),
        ("— 12 —", ("arabic", 12)),
        ("12.", ("arabic", 12)),
        ("Page 12", ("arabic", 12)),
        ("p. 12", ("arabic", 12)),
        ("- Seite 12 -", ("arabic", 12)),
        ("page", None),
        ("plate 12", None),
        ("xiv", ("roman", 14)),
        ("(VI)", ("roman", 6)),
        ("十二", ("ideographic", 12)),
        ("一百二十三", ("ideographic", 123)),
        ("廿三", ("ideographic", 23)),
        ("〇", None),
        ("C", None),
        ("iiii", None),
        ("Vi", None),
        ("12a", None),
        ("12345", None),
        ("", None),
        ("the", None),
    ],
)
def test_a_number_is_read_in_every_dress_and_nothing_else_is(text: str, expected: object) -> None:
    assert parse_number(unicodedata.normalize("NFKC", text)) == expected


def test_a_number_is_found_in_head_and_foot_but_not_in_the_text() -> None:
    def values(lines: Sequence[str]) -> list[int]:
        return [number.value for number in read_printed_numbers(text_page(lines))]

    body = [f"line {word} of the text" for word in "abcdefgh"]
    assert values(["26 THE CHILD", *body]) == [26]
    assert values(["THE CHILD", *body, "27"]) == [27]
    assert values([*body[:4], "1815", *body[4:]]) == []
    assert values([*body, "(1) Voir Pfaff, p. 292"]) == []


def pages_of(numbers: Sequence[int | str | None]) -> list[NumberedPage]:
    """Return one page a number; None bears none, "blank" is blank."""
    return [
        NumberedPage(
            page_number=index,
            candidates=(PrintedNumber(value=number, style="arabic", text=str(number), place="head"),)
            if isinstance(number, int)
            else (),
            is_blank=number == "blank",
        )
        for index, number in enumerate(numbers, start=1)
    ]


def critical(numbers: Sequence[int | str | None]) -> list[tuple[str, tuple[int, ...]]]:
    return [(f.kind, f.page_numbers) for f in check_sequence(pages_of(numbers)).findings if f.is_critical]


BOOK = list(range(1, 31))


@pytest.mark.parametrize("at", [0, 1, 7, 14, 28])
def test_two_neighbours_swapped_are_a_descent(at: int) -> None:
    numbers = [*BOOK[:at], BOOK[at + 1], BOOK[at], *BOOK[at + 2 :]]
    found = critical(numbers)
    assert [kind for kind, _ in found] == ["descent"]
    assert set(found[0][1]) <= {at + 1, at + 2}


def test_two_distant_pages_swapped_are_both_named() -> None:
    numbers = list(BOOK)
    numbers[6], numbers[21] = numbers[21], numbers[6]
    assert critical(numbers) == [("descent", (7,)), ("descent", (22,))]


def test_a_moved_block_is_a_descent() -> None:
    kinds = critical([*range(1, 31), *range(61, 91), *range(31, 61), *range(91, 121)])
    assert kinds == [("descent", (61,))]


@pytest.mark.parametrize("at", [1, 14, 29])
def test_a_page_twice_is_a_duplicate(at: int) -> None:
    assert critical([*BOOK[: at + 1], *BOOK[at:]]) == [("duplicate", (at + 1, at + 2))]


def test_a_copy_of_a_distant_page_is_a_duplicate() -> None:
    assert critical([*BOOK[:20], 5, *BOOK[20:]]) == [("duplicate", (5, 21))]


def test_a_blank_page_in_the_place_of_one_printed_page_is_critical_and_a_plate_is_not() -> None:
    assert critical([*BOOK[:9], "blank", *BOOK[10:]]) == [("blank_instead_of_text", (10,))]
    assert critical([*BOOK[:9], "blank", *BOOK[9:]]) == []
    assert critical([*BOOK[:9], "blank", *BOOK[11:]]) == []


@pytest.mark.parametrize("misread", [1, 7, 21, 29, 77, 815])
@pytest.mark.parametrize("at", [4, 14, 24])
def test_a_misread_number_accuses_nobody(at: int, misread: int) -> None:
    assert critical([*BOOK[:at], misread, *BOOK[at + 1 :]]) == []


def misread(numbers: Sequence[int | str | None]) -> dict[int, str]:
    findings = check_sequence(pages_of(numbers)).findings
    return {f.page_numbers[0]: f.detail for f in findings if f.kind == "misread"}


@pytest.mark.parametrize(
    ("numbers", "page", "read", "expected"),
    [
        ([9, 10, 11, 2, 13, 14], 4, 2, 12),
        ([5, 6, 7, 7, 9, 10], 4, 7, 8),
        ([1, 2, 5, 4, None, 6, 7], 3, 5, 3),
        ([1, 2, 5, 4, 6, 7, 8], 3, 5, 3),
        ([*BOOK[:19], 21, *BOOK[20:]], 20, 21, 20),
    ],
)
def test_a_misread_number_between_neighbours_that_bound_it_is_named_with_the_expected_one(
    numbers: Sequence[int | None], page: int, read: int, expected: int
) -> None:
    assert critical(numbers) == []
    found = misread(numbers)
    assert list(found) == [page]
    assert f"page {page} was read as printed {read}; expected is {expected} " in found[page]


@given(st.integers(2, 27), st.integers(1, 9999))
def test_whatever_one_number_is_read_as_it_is_a_warning_at_its_page(at: int, value: int) -> None:
    numbers = [*BOOK[:at], value, *BOOK[at + 1 :]]
    assert critical(numbers) == []
    assert list(misread(numbers)) == ([] if value == BOOK[at] else [at + 1])


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 9)), min_size=22, max_size=22))
@settings(max_examples=20)
def test_numbers_misread_here_and_there_accuse_no_page(digits: list[tuple[int, int]]) -> None:
    numbers = list(range(1, 101))
    for place, (at, digit) in zip(range(10, 98, 4), digits, strict=True):
        read = list(str(numbers[place]))
        read[at] = str(digit)
        numbers[place] = int("".join(read)) or 1
    wrong = {page for page, number in enumerate(numbers, start=1) if number != page}
    accused = {page for _, pages in critical(numbers) for page in pages}
    assert accused <= {page for page in wrong if numbers[page - 1] in wrong}  # two wrongs may look like an exchange
    assert wrong - accused <= set(misread(numbers))


@given(st.integers(1, 28), st.integers(1, 28))
def test_two_pages_that_changed_places_are_both_out_of_order(first: int, second: int) -> None:
    numbers = list(BOOK)
    numbers[first], numbers[second] = numbers[second], numbers[first]
    accused = {page for kind, pages in critical(numbers) for page in pages if kind == "descent"}
    assert accused <= {first + 1, second + 1}
    assert accused or first == second


def test_three_pages_that_changed_places_in_a_ring_are_all_named() -> None:
    numbers = list(BOOK)
    numbers[5], numbers[14], numbers[22] = numbers[14], numbers[22], numbers[5]
    assert critical(numbers) == [("descent", (6,)), ("descent", (15,)), ("descent", (23,))]


def test_a_page_that_changed_places_with_the_last_one_is_out_of_order() -> None:
    assert ("descent", (7,)) in critical([*BOOK[:6], 30, *BOOK[7:29], 7])


def test_equal_numbers_on_pages_that_do_not_read_alike_are_only_mentioned() -> None:
    doubled = pages_of([*BOOK[:7], 7, *BOOK[7:]])
    assert [f.kind for f in check_sequence(doubled).findings] == ["duplicate"]
    found = check_sequence(doubled, lambda first, second: False).findings
    assert [(f.kind, f.page_numbers) for f in found] == [("misread", (8,))]
    assert "pages 7 and 8 both bear printed 7, but do not read like one page" in found[0].detail


def test_the_number_of_a_plate_between_numbered_pages_accuses_nobody() -> None:
    assert critical([*range(40, 50), 3, *range(50, 60)]) == []
    assert critical([*BOOK[:12], None, 40, *BOOK[12:]]) == []


@pytest.mark.parametrize(
    "numbers",
    [
        [2 * n for n in range(6, 30)],  # two pages on a scan
        [(n + 1) // 2 if n % 2 else None for n in range(1, 60)],  # leaves numbered, not pages
        [n if n % 2 else None for n in range(1, 60)],  # only right-hand pages numbered
        [*range(1, 9), *range(1, 12), *range(1, 7), *range(1, 15)],  # each chapter begins anew
        [*range(1, 20), None, None, *range(20, 40), None, None, *range(40, 60)],  # plates without numbers
    ],
)
def test_other_ways_of_numbering_accuse_nobody(numbers: Sequence[int | None]) -> None:
    assert critical(numbers) == []
    assert misread(numbers) == {}


@pytest.mark.parametrize(
    "head", ["( {} )", "[{}]", "— {} —", "{}.", "({} )", "{}.-", "- {} -", "{} THE MOAT", "THE MOAT {}"]
)
def test_a_number_is_checked_in_every_dress(head: str) -> None:
    body = [f"line {word} of the text" for word in "abcdefgh"]
    values = [10, 11, 2, 13, 14, 15]
    pages = [
        NumberedPage(page_number=n, candidates=read_printed_numbers(text_page([head.format(value), *body], n)))
        for n, value in enumerate(values, start=1)
    ]
    found = check_sequence(pages).findings
    warned = [f.detail for f in found if f.kind == "misread"]
    assert [f.kind for f in found if f.is_critical] == []
    assert len(warned) == (0 if "MOAT" in head else 1)  # one digit in a running head is rather a chapter's


def test_a_misread_number_in_a_running_head_is_named_where_it_looks_like_the_expected_one() -> None:
    def head(value: int, n: int) -> NumberedPage:
        number = PrintedNumber(value=value, style="arabic", text=str(value), place="head", weight=0.8)
        return NumberedPage(page_number=n, candidates=(number,))

    for value, warned in ((87, True), (58, True), (3, False), (12, False)):
        pages = [head(value if n == 57 else n, n) for n in range(40, 70)]
        assert [f.kind for f in check_sequence(pages).findings] == (["misread"] if warned else [])


def test_gaps_and_new_books_are_only_mentioned() -> None:
    found = check_sequence(pages_of([*range(10, 20), *range(24, 40), *range(1, 20)])).findings
    assert [(f.kind, f.is_critical) for f in found] == [("gap", False), ("restart", False)]


def test_numbers_that_are_no_page_numbers_accuse_nobody() -> None:
    assert check_sequence(pages_of([77, 3, 77, 108, 5, 5, 4, 458, 3, 3])).findings == ()


def test_five_thousand_pages_are_checked_in_one_sweep() -> None:
    assert critical(range(1, 5001)) == []


def test_numbers_over_the_columns_of_a_table_are_no_page_numbers() -> None:
    body = [f"line {word} of the text" for word in "abcdefgh"]
    columns = [text_line(str(number), 150.0 + 300 * number, 90.0) for number in range(1, 6)]
    lines = [text_line(text, 150.0, 150.0 + 60 * row) for row, text in enumerate(body)]
    assert read_printed_numbers(text_page([*columns, *lines])) == ()
    facing = read_printed_numbers(text_page([*columns[:2], *lines]))
    assert [number.value for number in facing] == [1, 2]


def truth_pages(book: Path) -> list[NumberedPage]:
    pages = []
    for index, file in enumerate(sorted(book.glob("page_*.gt.txt")), start=1):
        lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
        candidates = read_printed_numbers(text_page(lines or ["-"], index))
        pages.append(NumberedPage(page_number=index, candidates=candidates))
    return pages


@pytest.mark.shared_data
def test_no_intact_book_is_accused(shared_data: Path) -> None:
    books = sorted(path for path in (shared_data / "books").iterdir() if path.is_dir())
    assert len(books) > 10
    accused: dict[str, list[NumberFinding]] = {}
    for book in books:
        findings = [finding for finding in check_sequence(truth_pages(book)).findings if finding.is_critical]
        if findings:
            accused[book.name] = findings
    assert accused == {}


def renumbered(pages: Sequence[NumberedPage]) -> list[NumberedPage]:
    return [page.model_copy(update={"page_number": number}) for number, page in enumerate(pages, start=1)]


@pytest.mark.shared_data
@pytest.mark.parametrize("name", ["fr_kovalewsky_1893", "en_lusitania_1915", "en_horton_genealogy_1876"])
def test_faults_in_a_real_book_are_found_where_its_numbers_run_on(shared_data: Path, name: str) -> None:
    pages = truth_pages(shared_data / "books" / name)
    numbers = {page: number.value for page, number in check_sequence(pages).numbers.items()}
    steps = (-1, 1, 2)  # a doubled page just before a gap could be the missing one, misread
    middles = [n for n in numbers if all(numbers.get(n + step) == numbers[n] + step for step in steps)]
    assert len(middles) >= 4
    for page in middles:
        index = page - 1
        blanked = [*pages[:index], NumberedPage(page_number=page, is_blank=True), *pages[index + 1 :]]
        assert ("blank_instead_of_text", (page,)) in kinds_of(blanked)
        doubled = renumbered([*pages[: index + 1], *pages[index:]])
        assert ("duplicate", (page, page + 1)) in kinds_of(doubled)
        swapped = renumbered([*pages[:index], pages[index + 1], pages[index], *pages[index + 2 :]])
        assert any(kind == "descent" and set(where) <= {page, page + 1} for kind, where in kinds_of(swapped))


def kinds_of(pages: Sequence[NumberedPage]) -> list[tuple[str, tuple[int, ...]]]:
    return [(finding.kind, finding.page_numbers) for finding in check_sequence(pages).findings]
