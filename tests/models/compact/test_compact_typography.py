from __future__ import annotations

import numpy as np
import pytest
from support.hypotheses import CHARACTERS, hypothesis_line

from models.compact.recognise.long_s import long_s_indices
from models.compact.recognise.typography import as_printed

GERMAN = (
    "fie ift fo fchwer zu lefen wie ein altes Buch",
    "auf dem Tifche lag des Kaufmanns Brief fefter",
    "in der Luft",
)
MODERN = (
    "sie ist so schwer zu lesen wie ein altes Buch",
    "auf dem Tische lag des Kaufmanns Brief fester",
    "in der Luft",
)


def printed(*lines: str) -> list[str]:
    read = as_printed([hypothesis_line(line) for line in lines], CHARACTERS)
    return ["".join(CHARACTERS[index] for index in line.ctc_ids) for line in read]


@pytest.mark.parametrize(
    ("hypothesis", "meant"),
    [
        ("about 164o; married", "about 1640; married"),
        ("12,ooo souls", "12,000 souls"),
        ("the 15oth year", "the 150th year"),
        ("from 1go9 to 19lo", "from 1909 to 1910"),
        ("1zoo men", "1200 men"),
        ("in IooI and Io24", "in IooI and 1024"),
        ("in l942, I914 and I9I4", "in 1942, 1914 and 1914"),
        ("l876-l879, 194I", "1876-1879, 1941"),
        ("l. 10l. 5s., I2, l9, I3l", "l. 10l. 5s., I2, l9, I3l"),
        ("Il y a, II.3, XI, I, AI4, l2a, ill, Ill.", "Il y a, II.3, XI, I, AI4, l2a, ill, Ill."),
        ("aged 8o, in 1o days, 5ol, 20g", "aged 80, in 10 days, 5ol, 20g"),
        ("book o4b, room 3oab", "book o4b, room 3oab"),
    ],
)
def test_letters_in_a_number_are_figures(hypothesis: str, meant: str) -> None:
    assert printed(hypothesis) == [meant]


@pytest.mark.parametrize(
    ("hypothesis", "place", "meant"),
    [
        ("den 3l. Dezember", 5, "den 31. Dezember"),
        ("the l2th day", 4, "the 12th day"),
        ("page I9", 5, "page 19"),
        ("no l here", 3, "no l here"),
        ("it ill became", 4, "it ill became"),
    ],
)
def test_at_the_end_of_a_number_a_letter_is_a_one_where_the_picture_allows_it(
    hypothesis: str, place: int, meant: str
) -> None:
    near, far = (hypothesis_line(hypothesis, {place: {hypothesis[place]: 8.0, "1": logit}}) for logit in (6.0, 1.0))
    read = [as_printed([line], CHARACTERS)[0] for line in (near, far)]
    assert ["".join(CHARACTERS[index] for index in line.ctc_ids) for line in read] == [meant, hypothesis]


def test_in_french_a_round_letter_behind_one_figure_stays() -> None:
    assert printed("la page in 8o est de 17oo et la table est 1o") == ["la page in 8o est de 1700 et la table est 1o"]


def test_a_thin_space_before_a_mark_is_none() -> None:
    assert printed("it was done ; and so", "; here") == ["it was done; and so", "; here"]


def test_in_french_the_space_before_a_mark_stays() -> None:
    assert printed("il est dans la maison et ne sort pas ; elle") == ["il est dans la maison et ne sort pas ; elle"]


def test_on_a_page_with_long_s_only_what_spelling_makes_an_f_stays_one() -> None:
    assert printed(*GERMAN) == list(MODERN)


def test_a_page_without_long_s_keeps_its_letters() -> None:
    lines = ("fifty of the finest ships left after five", "the chief officer of the fort gave a feast", "if it ift so")
    assert printed(*lines) == list(lines)


def test_where_round_s_stand_inside_words_an_impossible_f_is_a_misreading() -> None:
    lines = (
        "the case was closed and most persons desired no discussion",
        "she insisted that his last assistant possessed a license",
        "a consusion of ist and fift and fcore in reasonable disguise",
        "200 ft. of fome soil rests on the grassy side of these passes",
    )
    assert printed(*lines) == list(lines)


def test_an_s_that_the_recogniser_read_as_an_f_is_no_round_one_where_a_page_is_corrected_again() -> None:
    """A decoder writes what it sees: the second time most f of the page are corrected, and some lines have new ones."""
    lines = (*GERMAN[:2] * 4, "fie ift fo fchwer", "in der Luft")
    corrected = list(as_printed([hypothesis_line(line) for line in lines], CHARACTERS))
    corrected[-2] = hypothesis_line(lines[-2])
    again = as_printed(corrected, CHARACTERS)
    assert "".join(CHARACTERS[index] for index in again[-2].ctc_ids) == "sie ist so schwer"


def test_in_french_a_one_before_an_apostrophe_and_a_letter_is_an_l() -> None:
    french = "il est dans la maison et 1'information de 1'an 11 est dans le n'1"
    assert printed(french) == ["il est dans la maison et l'information de l'an 11 est dans le n'1"]
    assert printed("two 1's and 1'a") == ["two 1's and 1'a"]


def test_blackletter_of_which_a_part_is_read_as_round_s_has_a_long_s() -> None:
    lines = (*GERMAN, "das ist sein Haus, und sie hat es fo fchon gesehen")
    assert printed(*lines)[:2] == list(MODERN[:2])
    assert printed(*lines)[3] == "das ist sein Haus, und sie hat es so schon gesehen"


def test_the_last_letter_of_a_word_is_never_a_long_s() -> None:
    indices = long_s_indices([*GERMAN, "auf of Brief"])
    assert indices == [[0, 5, 8, 11, 23], [10, 41], [], []]


def test_a_chinese_one_among_latin_letters_is_a_dash() -> None:
    assert printed("一14一", "the reign of kings") == ["—14—", "the reign of kings"]
    assert printed("一14一", "王國") == ["一14一", "王國"]


def test_posteriors_and_frames_stay_with_their_characters() -> None:
    line = hypothesis_line("done ; 17oo")
    (read,) = as_printed([line], CHARACTERS)
    kept = np.arange(len("done ; 17oo")) != 4
    np.testing.assert_array_equal(read.ctc_posteriors, line.ctc_posteriors[kept])
    np.testing.assert_array_equal(read.ctc_frames, line.ctc_frames[kept])


def test_lines_without_characters_stay_empty() -> None:
    assert as_printed([], CHARACTERS) == ()
    assert printed("") == [""]


@pytest.mark.parametrize(
    ("text", "page", "meant"),
    [
        ("Le roi，dit-il：（voir", (), "Le roi,dit-il:(voir"),
        ("1，250", (), "1,250"),
        ("王國，王", (), "王國，王"),
        ("1，250", ("王國王",), "1，250"),
        ("Harlan，", ("王國王",), "Harlan,"),
    ],
)
def test_full_width_marks_stand_in_chinese_lines_only(text: str, page: tuple[str, ...], meant: str) -> None:
    assert printed(text, *page)[0] == meant
