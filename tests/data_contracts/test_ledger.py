import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.readings import blank_page, failed_page, text_page

from data_contracts.errors import LedgerUnbalanced
from data_contracts.ledger import check_ledger

PAGES = [text_page(["one"], 1), blank_page(2), failed_page(5), text_page(["six"], 6)]
NUMBERS = [1, 2, 5, 6]


def test_a_balanced_ledger_counts_every_status_and_sums_to_the_pages():
    assert check_ledger(NUMBERS, iter(PAGES)) == {"text": 2, "blank": 1, "failed": 1, "truncated": 0}


@pytest.mark.parametrize(
    ("pages", "fault"),
    [
        (PAGES[:-1], "lost: pages 6"),
        ([*PAGES, text_page(["seven"], 7)], "invented: pages 7"),
        ([*PAGES, PAGES[-1]], "doubled: pages 6"),
        ([PAGES[1], PAGES[0], *PAGES[2:]], "out of order"),
    ],
)
def test_a_page_that_is_lost_invented_doubled_or_misplaced_is_named(pages, fault):
    with pytest.raises(LedgerUnbalanced, match=fault):
        check_ledger(NUMBERS, pages)


def test_the_message_names_both_numbers():
    with pytest.raises(LedgerUnbalanced, match="4 pages were selected, 3 came out"):
        check_ledger(NUMBERS, PAGES[1:])


@given(st.lists(st.integers(1, 8)), st.lists(st.integers(1, 8)))
def test_only_equal_sequences_balance(selected, numbers):
    assume(selected != numbers)
    with pytest.raises(LedgerUnbalanced):
        check_ledger(selected, [blank_page(number) for number in numbers])
