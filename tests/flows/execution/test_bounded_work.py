"""Small PDFs that ask for hours of work or all memory: the page fails by name within its bound, the rest is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support import bombs

from data_contracts.config import RenderConfig
from data_contracts.errors import RenderFailed, TooCostlyDocument, UnreadableDocument
from flows.execution.rendering import BoundedPages
from tasks.sources.fetch import fetch_document

SECONDS = 2
ENDED = "more than 2 s of processor time"
LARGE = "more memory|no memory"
DAMAGED = "could not be rendered"
"""MuPDF itself refuses some of them."""


@pytest.mark.parametrize(
    ("bomb", "told"),
    [
        (bombs.nested_forms, ENDED),
        (bombs.endless_content, ENDED),
        (bombs.endless_drawing, ENDED),
        (bombs.tiny_tiles, ENDED),
        (bombs.many_annotations, ENDED),
        (bombs.huge_image, f"{ENDED}|{LARGE}|{DAMAGED}"),
        (bombs.huge_jbig2, f"{ENDED}|{LARGE}|{DAMAGED}"),
        (bombs.huge_jpx, f"{ENDED}|{LARGE}|{DAMAGED}"),
    ],
)
def test_a_page_that_is_a_bomb_fails_by_name_and_the_others_are_rendered(
    tmp_path: Path, bomb: Callable[..., None], told: str
) -> None:
    path = bombs.with_bad_page(tmp_path / "bomb.pdf", bomb)
    with BoundedPages(path, "pdf", RenderConfig(dpi=50), SECONDS) as pages:
        for number in (1, bombs.BAD_PAGE, 3):
            if number == bombs.BAD_PAGE:
                with pytest.raises(RenderFailed, match=f"^page 2: .*({told})"):
                    pages.render(number)
            else:
                assert pages.render(number).pixels.min() < 100, "print"


@pytest.mark.parametrize("make", bombs.BAD_DOCUMENTS)
def test_a_document_that_is_a_bomb_is_refused_within_its_bound(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    path = make(tmp_path / "bomb.pdf")
    with pytest.raises(UnreadableDocument, match=r"bomb\.pdf"):
        fetch_document(str(path), tmp_path / "spool", SECONDS)


def test_a_document_that_takes_too_long_to_open_has_an_exit_code_of_its_own(tmp_path: Path) -> None:
    path = bombs.endless_object_stream(tmp_path / "bomb.pdf")
    with pytest.raises(TooCostlyDocument, match=r"bomb\.pdf could not be opened: it takes more than 1"):
        fetch_document(str(path), tmp_path / "spool", 1)
    assert TooCostlyDocument.exit_code == 14
