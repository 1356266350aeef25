import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_contracts.errors import ConfigError
from tasks.plan import parse_pages, plan_chunks, spell_pages


@given(st.sets(st.integers(1, 40), min_size=1))
def test_pages_are_spelt_as_they_are_parsed(numbers):
    assert parse_pages(spell_pages(sorted(numbers)), 40) == tuple(sorted(numbers))


def test_pages_in_a_row_are_spelt_as_a_range():
    assert spell_pages([1, 2, 3, 7, 9, 10]) == "1-3,7,9-10"


@pytest.mark.parametrize(
    ("pages", "expected"),
    [
        (None, (1, 2, 3, 4, 5, 6)),
        ("1-3,5", (1, 2, 3, 5)),
        (" 2 - 3 , 6 ", (2, 3, 6)),
        ("6,1", (1, 6)),
        ("1-4,3-6,4", (1, 2, 3, 4, 5, 6)),
        ("6", (6,)),
    ],
)
def test_a_selection_is_ascending_and_names_each_page_once(pages, expected):
    assert parse_pages(pages, 6) == expected


@pytest.mark.parametrize(
    ("pages", "fault"),
    [
        ("0-3", "0-3 begins before page 1"),
        ("5-9", "5-9 ends after page 6, the last one"),
        ("7", "7 ends after page 6"),
        ("5-2", "5-2 is reversed, write 2-5"),
        ("x", "'x' is neither a page nor a range"),
        ("1,,2", "'' is neither a page nor a range"),
        ("", "'' is neither"),
        ("-3", "'-3' is neither"),
        ("1-", "'1-' is neither"),
        ("１", "neither"),
        ("1.5", "neither"),
    ],
)
def test_a_wrong_selection_is_refused_with_its_reason(pages, fault):
    with pytest.raises(ConfigError, match=fault):
        parse_pages(pages, 6)


def test_every_wrong_part_is_named_at_once():
    with pytest.raises(ConfigError) as caught:
        parse_pages("0,2,9,z", 6)
    for fault in ("0 begins before", "9 ends after", "'z' is neither"):
        assert fault in str(caught.value)


@given(st.integers(1, 3000), st.integers(1, 64))
def test_chunks_cover_every_page_once_in_order(page_count, chunk_pages):
    selected = parse_pages(None, page_count)
    chunks = plan_chunks(selected, chunk_pages)
    assert tuple(number for chunk in chunks for number in chunk.page_numbers) == selected
    assert all(len(chunk.page_numbers) == chunk_pages for chunk in chunks[:-1])
    assert 1 <= len(chunks[-1].page_numbers) <= chunk_pages
    assert [chunk.chunk_number for chunk in chunks] == list(range(1, len(chunks) + 1))


@given(st.sets(st.integers(1, 200), min_size=1), st.integers(1, 20))
def test_a_selection_with_gaps_is_covered_too(numbers, chunk_pages):
    selected = parse_pages(",".join(map(str, numbers)), 200)
    chunks = plan_chunks(selected, chunk_pages)
    assert tuple(number for chunk in chunks for number in chunk.page_numbers) == tuple(sorted(numbers))


def test_chunks_without_pages_make_no_sense():
    with pytest.raises(ValueError, match="at least one page"):
        plan_chunks((1, 2), 0)
