"""Spaces inside brackets: on both sides of a number or on neither."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.hypotheses import CHARACTERS, hypothesis_line

from models.compact.recognise.typography import as_printed

STAND_INS = {")": "Z", "[": "Q", "]": "W"}
"""Letters of the small head that are brackets here."""
WITH_BRACKETS = tuple({letter: mark for mark, letter in STAND_INS.items()}.get(c, c) for c in CHARACTERS)


def printed(text: str) -> str:
    (line,) = as_printed([hypothesis_line(text.translate(str.maketrans(STAND_INS)))], WITH_BRACKETS)
    return "".join(WITH_BRACKETS[index] for index in line.ctc_ids)


@pytest.mark.parametrize(
    ("read", "meant"),
    [
        ("(10 )", "( 10 )"),
        ("( 10)", "( 10 )"),
        ("( 10 )", "( 10 )"),
        ("(10)", "(10)"),
        ("[ 7] and (12 )", "[ 7 ] and ( 12 )"),
        ("(xii ) (XIV. )", "( xii ) ( XIV. )"),
        ("(1,200 ) (12. )", "( 1,200 ) ( 12. )"),
        ("( a) (b )", "( a ) ( b )"),
        ("he ( as I said) left", "he ( as I said) left"),
        ("( he) (who )", "( he) (who )"),
        ("(10 men )", "(10 men )"),
        ("(10 ", "(10 "),
        ("10 ) and ( 11", "10 ) and ( 11"),
    ],
)
def test_a_number_in_brackets_has_both_spaces_or_none(read: str, meant: str) -> None:
    assert printed(read) == meant


def test_the_space_that_comes_is_as_sure_as_the_other_and_stands_between() -> None:
    line = hypothesis_line("(10 Z")
    sure = line.ctc_posteriors.copy()
    sure[3] = 0.6
    (read,) = as_printed([replace(line, ctc_posteriors=sure)], WITH_BRACKETS)
    assert read.ctc_posteriors[1] == read.ctc_posteriors[4] == np.float32(0.6)
    assert (np.diff(read.ctc_frames) > 0).all()


def test_between_neighbouring_frames_is_no_room_for_a_space() -> None:
    line = hypothesis_line("(10 Z")
    frames = line.ctc_frames.copy()
    frames[0] = frames[1] - 1
    (read,) = as_printed([replace(line, ctc_frames=frames)], WITH_BRACKETS)
    assert read.ctc_ids.tolist() == line.ctc_ids.tolist()
