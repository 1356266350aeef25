"""What a change of a hypothesis takes away, and what speaks against it: scripted lines, no decoder."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.hypotheses import CHARACTERS, FRAMES_A_CHARACTER, hypothesis_line

from models.compact.decode.changes import Change, ChangeRules, stays_above
from models.sr_swa.pages import EncodedLine

END = 0
RULES = ChangeRules(CHARACTERS, END, sure_digit=0.5, sure_mark=0.9)


def at(place: int, frames_off: int = 0) -> int:
    """Return the frame of the character at ``place`` of a drafted line, or of one beside it."""
    return 1 + FRAMES_A_CHARACTER * place + frames_off


def change(line: EncodedLine, used: int, chosen: str, frame: int) -> Change:
    return RULES.change(line, used, CHARACTERS.index(chosen) if chosen else END, frame)


def removed(line: EncodedLine, used: int, chosen: str, frame: int) -> str:
    places = change(line, used, chosen, frame).removed
    return "".join(CHARACTERS[index] for index in line.ctc_ids[places.start : places.stop])


def forbids(line: EncodedLine, used: int, chosen: str, frame: int) -> bool:
    before, seen_to = line.ctc_ids[max(0, used - 2) : used].tolist(), int(line.ctc_frames[used - 1]) if used else -1
    return RULES.forbids(change(line, used, chosen, frame), before, seen_to)


LINE = hypothesis_line("in 12, ab")


@pytest.mark.parametrize(
    ("used", "chosen", "frame", "gone"),
    [
        (0, "m", at(0), "i"),
        (0, "m", at(1), "in"),
        (1, "x", at(0, 1), ""),
        (3, " ", at(3), ""),
        (1, " ", at(3), "n "),
        (7, " ", at(7), "a"),
        (3, "l", at(4), "12"),
        (6, "", at(6), " ab"),
    ],
)
def test_what_has_its_peak_up_to_the_frame_goes_and_a_space_leaves_what_stays(
    used: int, chosen: str, frame: int, gone: str
) -> None:
    assert removed(LINE, used, chosen, frame) == gone


@pytest.mark.parametrize(
    ("used", "chosen", "frame", "forbidden"),
    [
        (0, "m", at(0), False),
        (3, "l", at(3), True),
        (3, "7", at(3), True),
        (5, ".", at(5), True),
        (2, "", at(2), True),
        (6, "", at(6), False),
        (0, "", at(0), True),
        (4, " ", at(4), False),
        (3, " ", at(3), True),
        (0, " ", at(0, -1), True),
        (8, "7", at(7, 1), True),
        (8, "x", at(7, 1), False),
    ],
)
def test_a_sure_figure_or_mark_stays_and_none_is_invented(used: int, chosen: str, frame: int, forbidden: bool) -> None:
    assert forbids(LINE, used, chosen, frame) == forbidden


def test_a_letter_is_doubled_where_it_was_lost_and_never_written_a_third_time() -> None:
    assert not forbids(hypothesis_line("an,"), 2, "n", at(1, 1))
    assert forbids(hypothesis_line("ann,"), 3, "n", at(2, 1))


@pytest.mark.parametrize("letter", ["n", ",", " "])
def test_nothing_is_written_twice_from_one_picture(letter: str) -> None:
    line = hypothesis_line(f"a{letter}b")
    assert forbids(line, 2, letter, at(1))
    assert forbids(line, 2, letter, at(1, -1))
    assert forbids(line, 2, letter, at(1, 1)) == (letter == " ")
    wide = line.top_ids.copy()
    wide[at(1, 1), 0] = CHARACTERS.index(letter)
    assert forbids(replace(line, top_ids=wide), 2, letter, at(1, 1))
    assert not forbids(line, 2, "x", at(1))


def test_a_letter_that_came_at_a_frame_comes_no_second_time_there() -> None:
    line, place = hypothesis_line("ab"), CHARACTERS.index("x")
    came = change(line, 1, "x", at(0, 1))
    assert not RULES.forbids(came, line.ctc_ids[:1].tolist(), at(0))
    assert RULES.forbids(came, [int(line.ctc_ids[0]), place], at(0, 1))


def test_an_unsure_figure_or_mark_may_go() -> None:
    line = hypothesis_line("a7,", {1: {"7": 5.0, "l": 4.9, "I": 4.9}, 2: {",": 5.0, ".": 4.0}})
    assert line.ctc_posteriors[1] < 0.5
    assert line.ctc_posteriors[2] < 0.9
    assert not forbids(line, 1, "l", at(1))
    assert not forbids(line, 2, ".", at(2))


def test_a_quotation_mark_may_change_its_shape_and_takes_no_second_place() -> None:
    line = hypothesis_line("so ”ab”")
    assert removed(line, 3, "“", at(3)) == removed(line, 3, "“", at(3, -1)) == "”"
    assert not forbids(line, 3, "“", at(3))
    assert forbids(line, 3, "'", at(3))
    assert RULES.most_sure(change(line, 3, "“", at(3, -1))) == pytest.approx(line.ctc_posteriors[3])


def test_what_is_sure_costs_more_and_what_the_picture_lacks_is_dear() -> None:
    line = hypothesis_line("abc", {1: {"b": 6.0, "h": 5.0}})
    unsure, sure, both = (
        RULES.against(change(line, *where)) for where in ((1, "h", at(1)), (2, "e", at(2)), (1, "m", at(2)))
    )
    assert 0 <= unsure < sure < both
    seen, unseen = (RULES.against(change(line, 2, letter, at(1, 0))) for letter in ("h", "x"))
    assert 0 < seen < unseen
    assert RULES.against(change(line, 1, " ", at(0, 1))) == 0


def test_a_change_is_no_surer_than_what_the_draft_leaves_for_it() -> None:
    line = hypothesis_line("abc", {1: {"b": 6.0, "h": 5.0}})
    assert RULES.most_sure(change(line, 1, "h", at(1))) == pytest.approx(1 - line.ctc_posteriors[1])
    assert RULES.most_sure(change(line, 2, "e", at(2))) < 0.01
    assert RULES.most_sure(change(line, 2, "x", at(1, 1))) < 0.01
    assert RULES.most_sure(change(line, 2, " ", at(1, 1))) == 1


def test_figures_brackets_and_symbols_stay_sooner_than_other_marks_and_letters_never() -> None:
    assert [stays_above(character, 0.5, 0.9) for character in "7(]£½"] == [0.5] * 5
    assert [stays_above(character, 0.5, 0.9) for character in ".,'-“*"] == [0.9] * 6
    assert [stays_above(character, 0.5, 0.9) for character in ("", " ", "a", "é")] == [np.inf] * 4
