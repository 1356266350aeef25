from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_contracts.geometry import Quad
from models.compact.recognise.text_line import hypothesis_line
from models.compact.words.split import WordSpan, spans, split_at_dashes, split_letters, split_tokens, split_words
from models.sr_swa.pages import EncodedLine

FLAT: Quad = ((100, 200), (500, 200), (500, 240), (100, 240))
COLUMN: Quad = ((100, 200), (140, 200), (140, 600), (100, 600))
FRAMES = 40
FRAME_PX = 10.0


def encoded(
    text: str,
    frames: list[int],
    posteriors: list[float] | None = None,
    quad: Quad = FLAT,
    direction: Literal["horizontal", "vertical"] = "horizontal",
) -> tuple[EncodedLine, list[str]]:
    """Return a line of 40 frames whose characters stand at ``frames``, and the characters of its class ids."""
    line = EncodedLine(
        quad=quad,
        direction=direction,
        frames=np.zeros((FRAMES, 120), np.float16),
        ctc_ids=np.arange(1, len(text) + 1, dtype=np.int32),
        ctc_posteriors=np.asarray(posteriors or [0.9] * len(text), np.float32),
        ctc_frames=np.asarray(frames, np.int32),
        top_ids=np.zeros((FRAMES, 8), np.int32),
        top_posteriors=np.zeros((FRAMES, 8), np.float16),
        frame_px=FRAME_PX,
    )
    return line, ["", *text]


def words(text: str) -> list[str]:
    return [text[span.start : span.stop] for span in split_words(list(text))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("of Harlan, now", ["of", "Harlan,", "now"]),
        ("  doubled   spaces ", ["doubled", "spaces"]),
        ("", []),
        ("   ", []),
        ("南浦", ["南浦"]),
        ("南", ["南"]),
        ("南浦城外有", ["南浦", "城外有"]),
        ("南浦城外有一座旧桥", ["南浦城", "外有一", "座旧桥"]),
        ("南浦城外，有一座旧桥。", ["南浦城外，", "有一", "座旧桥。"]),
        ("名曰「南浦」也", ["名曰", "「南浦」", "也"]),
        ("民國1912年春 三月", ["民國", "1912", "年春", "三月"]),
        ("the word 南浦 in an English line", ["the", "word", "南浦", "in", "an", "English", "line"]),
        ("12 - 34", ["12", "-", "34"]),
    ],
)
def test_words_are_what_stands_between_spaces_and_runs_of_two_to_four_ideographs(
    text: str, expected: list[str]
) -> None:
    assert words(text) == expected


@given(st.text(alphabet="ab1 ,.南浦城外（）。「", max_size=40))
def test_words_cover_every_character_but_spaces_once_and_in_order(text: str) -> None:
    spans = split_words(list(text))
    covered = [place for span in spans for place in range(span.start, span.stop)]
    assert covered == [place for place, character in enumerate(text) if character != " "]


@given(st.text(alphabet="ab1 ,.南浦城外（）。「", max_size=40))
def test_joining_the_words_gives_the_text(text: str) -> None:
    line = hypothesis_line(*encoded(text, [place % FRAMES for place in range(len(text))]))
    if line is None:
        assert not text.strip()
        return
    assert line.joiner.join(word.text for word in line.words) == line.text
    assert line.text == " ".join(text.split())


def test_a_word_lies_between_the_middles_of_its_gaps() -> None:
    # "ab" at frames 2 and 6, the space at 8, "cd" at 10 and 14: the border is half way from 6 to 10.
    line = hypothesis_line(*encoded("ab cd", [2, 6, 8, 10, 14]))
    assert line is not None
    first, second = line.words
    assert (first.box.top, first.box.bottom) == (200, 240)
    assert first.box.right == pytest.approx(100 + 8.5 * FRAME_PX)
    assert second.box.left == pytest.approx(100 + 8.5 * FRAME_PX)
    assert first.box.left == pytest.approx(100 + (2.5 - 0.8 * 3) * FRAME_PX)
    assert second.box.right == pytest.approx(100 + (14.5 + 0.8 * 3) * FRAME_PX)


def test_words_far_apart_do_not_reach_across_the_gap() -> None:
    line = hypothesis_line(*encoded("ab cd", [2, 4, 6, 34, 36]))
    assert line is not None
    first, second = line.words
    assert first.box.right < 300 < second.box.left


def test_the_words_of_a_column_lie_below_one_another() -> None:
    line = hypothesis_line(*encoded("南浦城外有一", [3, 9, 15, 21, 27, 33], quad=COLUMN, direction="vertical"))
    assert line is not None
    assert [word.text for word in line.words] == ["南浦城", "外有一"]
    upper, lower = line.words
    assert upper.box.bottom == pytest.approx(lower.box.top)
    assert (upper.box.left, upper.box.right) == (100, 140)
    assert lower.box.bottom <= 600


def test_a_line_is_as_sure_as_its_characters_and_a_word_as_its_weakest() -> None:
    line = hypothesis_line(*encoded("ab c", [2, 6, 10, 14], [0.9, 0.5, 0.1, 0.7]))
    assert line is not None
    assert line.confidence == pytest.approx((0.9 + 0.5 + 0.7) / 3)
    assert [word.confidence for word in line.words] == pytest.approx([0.5, 0.7])


def test_a_draft_without_characters_is_no_line() -> None:
    assert hypothesis_line(*encoded("  ", [2, 4])) is None


def test_a_word_before_a_space_in_a_chinese_line_carries_it() -> None:
    line = hypothesis_line(*encoded("南浦 城外", [2, 8, 14, 20, 26]))
    assert line is not None
    assert line.joiner == ""
    assert [word.text for word in line.words] == ["南浦 ", "城外"]


def test_a_span_says_where_it_is() -> None:
    assert split_words(list(" ab")) == [WordSpan(1, 3)]


@pytest.mark.parametrize(
    ("cut", "expected"),
    [
        (split_words, ["l’an", "1820,", "North-West", "d½s"]),
        (split_at_dashes, ["l’an", "1820,", "North", "West", "d½s"]),
        (split_letters, ["l", "an", "North", "West", "d½s"]),
    ],
)
def test_each_cut_says_which_characters_are_inside_words(
    cut: Callable[[str], list[WordSpan]], expected: list[str]
) -> None:
    text = "l’an 1820, North-West d½s"
    assert [word.cut(text) for word in cut(text)] == expected


def test_the_decoders_words_are_cut_at_spaces_and_in_runs_where_there_are_none() -> None:
    space = 99
    assert split_tokens([1, 2, space, space, 3], space) == [WordSpan(0, 2), WordSpan(4, 5)]
    assert split_tokens([1] * 15, space) == [WordSpan(0, 15)]
    runs = split_tokens([1] * 26, space)
    assert (runs[0], runs[-1]) == (WordSpan(0, 3), WordSpan(24, 26))
    assert sum(run.stop - run.start for run in runs) == 26


@given(st.text(alphabet="ab -", max_size=20))
def test_the_splitter_finds_the_longest_runs_of_what_is_inside_words(text: str) -> None:
    assert [word.cut(text) for word in spans(text, "ab".__contains__)] == re.findall("[ab]+", text)
