from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.readings import blank_page, failed_page, text_page

from tasks.publishing.plain_text import PlainTextWriter, page_text, plain_line


def written(path: Path, pages) -> str:
    writer = PlainTextWriter(path)
    for page in pages:
        writer.add(page)
    writer.finish()
    return path.read_text(encoding="utf-8")


def test_every_line_ends_with_a_newline_and_a_form_feed_stands_between_pages(tmp_path):
    pages = [text_page(["one", "two"], 1), text_page(["three"], 2)]
    assert written(tmp_path / "document.txt", pages) == "one\ntwo\n\fthree\n"


def test_blank_and_failed_pages_keep_their_form_feed(tmp_path):
    pages = [blank_page(1), text_page(["two"], 2), failed_page(3), blank_page(4)]
    assert written(tmp_path / "document.txt", pages).split("\f") == ["", "two\n", "", ""]


def test_a_document_without_pages_is_an_empty_file(tmp_path):
    assert written(tmp_path / "document.txt", []) == ""


@pytest.mark.parametrize("breaker", ["\f", "\n", "\r", "\v", "\x1c", "\x85", "\u2028", "\u2029", "\t"])
def test_nothing_inside_a_line_breaks_it_or_its_page(breaker):
    assert plain_line(f"a{breaker}b") == "a b"


def test_what_has_no_utf8_or_no_shape_is_left_out():
    assert plain_line("a\x00\ud800\x7fb") == "ab"


def test_text_is_composed_but_not_folded():
    assert plain_line("Mu\u0308ller za\u0364hlt \ufb01ne \u017f") == "M\u00fcller za\u0364hlt \ufb01ne \u017f"


@given(st.lists(st.text(), min_size=1))
def test_a_page_has_as_many_lines_in_the_file_as_in_the_reading(texts):
    page = text_page(["x"]).model_copy(
        update={"lines": tuple(text_page(["x"]).lines[0].model_copy(update={"text": text}) for text in texts)}
    )
    text = page_text(page)
    assert text.count("\n") == len(texts)
    assert "\f" not in text
    assert len(text.splitlines()) == len(texts)
    text.encode()
