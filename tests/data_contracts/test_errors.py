import inspect
import re

import pytest

from data_contracts import errors
from data_contracts.errors import RenderFailed, StorageUnavailable, TomeflowError, page_context

TREE = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, TomeflowError)]


def test_every_cause_has_an_exit_code_of_its_own():
    codes = {kind: kind.exit_code for kind in TREE}
    assert len(set(codes.values())) == len(codes)
    assert all(0 < code < 126 for code in codes.values()), "a shell uses 126 and above itself"


@pytest.mark.parametrize("kind", TREE)
def test_the_drawn_tree_shows_every_error_below_its_parent_with_its_exit_code(kind):
    lines = (errors.__doc__ or "").splitlines()
    (row,) = [index for index, line in enumerate(lines) if re.search(rf"\b{kind.__name__}\b", line)]
    assert re.search(rf"\b{kind.__name__}\b +(exit code )?{kind.exit_code}\b", lines[row])
    assert ("retryable" in lines[row]) == (kind.retryable and not kind.__base__.retryable)
    if kind is not TomeflowError:
        indent = lines[row].index(kind.__name__)
        above = [line for line in lines[:row] if (match := re.search(r"[A-Z]\w+", line)) and match.start() < indent]
        assert kind.__base__.__name__ in above[-1]


def test_document_and_page_are_attached_by_who_knows_them():
    with pytest.raises(RenderFailed) as caught, page_context(document="book-1"), page_context(page_number=7):
        raise RenderFailed("no pixels")
    assert str(caught.value) == "book-1, page 7: no pixels"
    assert (caught.value.document, caught.value.page_number) == ("book-1", 7)


def test_the_innermost_place_wins():
    with (
        pytest.raises(RenderFailed, match=r"^page 3: no pixels$"),
        page_context(page_number=9),
        page_context(page_number=3),
    ):
        raise RenderFailed("no pixels")


def test_other_exceptions_pass_untouched():
    with pytest.raises(ValueError, match=r"^plain$"), page_context(document="book"):
        raise ValueError("plain")


def test_an_error_without_a_place_is_its_message():
    assert str(StorageUnavailable("no room")) == "no room"
