"""Known words: how they are cut from hypotheses, found, counted, and which list is believed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein
from support.hypotheses import CHARACTERS, hypothesis_line

from models.compact.words.candidates import CANDIDATES, DISTANCE_RATIO, KnownWords, in_case_of, keeps
from models.compact.words.document_words import CAPACITY_WORDS, LIST_MIN_WORDS, DocumentWords
from models.compact.words.hypothesis_words import ends_divided, hypothesis_words
from models.compact.words.word_list import WordList, load_word_lists

WORDS = st.text("abcdefgh", min_size=1, max_size=9)


def words_of(text, **how):
    return hypothesis_words(hypothesis_line(text), CHARACTERS, **({"continues": False} | how))


def test_a_word_is_core_and_edges_and_reaches_to_its_neighbours_peaks():
    line = hypothesis_line("to “Horton,” and")
    to, horton, and_ = hypothesis_words(line, CHARACTERS, continues=False)
    assert (horton.head, horton.core, horton.tail) == ("“", "Horton", ",”")
    assert (horton.before, horton.after) == (" ", " ")
    assert horton.first_frame == line.ctc_frames[2]
    assert horton.last_frame == line.ctc_frames[horton.stop]
    assert (to.before, to.first_frame) == ("", 0)
    assert (and_.after, and_.last_frame) == ("", len(line.frames) - 1)


def test_dashes_part_words_and_a_division_at_the_line_end_marks_both_halves():
    assert [word.core for word in words_of("to-day it con-")] == ["to", "day", "it", "con"]
    assert [word.is_divided for word in words_of("to-day it con-")] == [False, False, False, True]
    assert ends_divided(hypothesis_line("it con-"), CHARACTERS)
    assert not ends_divided(hypothesis_line("it is -"), CHARACTERS)
    assert [word.is_divided for word in words_of("tinued here", continues=True)] == [True, False]


@pytest.mark.parametrize(
    ("text", "is_word"), [("Horton", True), ("don't", True), ("1876", False), ("4th", True), ("王國", False)]
)
def test_numbers_and_chinese_are_no_words(text, is_word):
    (word,) = words_of(text)
    assert word.is_word is is_word


@given(st.lists(WORDS, max_size=60), WORDS)
def test_the_words_found_are_exactly_those_within_the_distance(words, asked):
    known = KnownWords(words)
    expected = {
        word for word in words if Levenshtein.distance(word, asked) <= int(DISTANCE_RATIO * max(len(word), len(asked)))
    }
    found = known.near(asked)
    assert len(found) == len(set(found)) == min(len(expected), CANDIDATES)
    assert set(found) <= expected
    distances = [Levenshtein.distance(word, asked) for word in found]
    assert distances == sorted(distances)


def test_a_known_word_keeps_its_form_and_is_found_in_any_case():
    known = KnownWords(["Horton", "horton"])
    assert known.near("HORTOM") == ("Horton",)
    assert "hOrton" in known


def test_a_candidate_is_tried_in_its_own_case_and_in_that_of_the_draft():
    assert in_case_of("HORTOM", "Horton") == ("HORTON", "Horton")
    assert in_case_of("Tbe", "the") == ("The", "the")
    assert in_case_of("horton", "Horton") == ("Horton", "horton")


def test_counts_are_bounded_and_the_rarest_and_longest_unseen_go_first():
    document = DocumentWords()
    document.add_page(["often"] * 3 + ["once"], 1, ())
    document.add_page([f"word{number}" for number in range(CAPACITY_WORDS - 1)], 2, ())
    assert len(document) == CAPACITY_WORDS
    assert document.count("Often") == 3
    assert document.count("once") == 0


def test_counts_survive_the_state_to_the_letter():
    document = DocumentWords()
    lists = (WordList("en", KnownWords(["word"])),)
    document.add_page(["Word", "wort", "word"], 3, lists)
    again = DocumentWords.from_json(document.as_json())
    assert again.as_json() == document.as_json()
    assert again.count("word") == 2


def test_a_list_is_believed_once_enough_words_of_the_document_are_in_it():
    lists = (WordList("en", KnownWords(["house"])),)
    document = DocumentWords()
    assert document.written_in(["house"] * (LIST_MIN_WORDS - 1), lists) == []
    assert document.written_in(["house"] * LIST_MIN_WORDS, lists) == list(lists)
    document.add_page(["maison"] * LIST_MIN_WORDS, 1, lists)
    assert document.written_in(["house"] * LIST_MIN_WORDS, lists) == []


def test_the_list_that_comes_with_the_model_knows_english_and_not_french():
    (english,) = load_word_lists()
    assert all(word in english.words for word in ("born", "daughter", "Thomas", "colour", "color", "married"))
    assert not any(word in english.words for word in ("toujours", "monsieurs", "fille", "naissance"))
    assert len(english.sha256) == 64


def test_without_lists_in_the_folder_there_are_none(tmp_path):
    assert load_word_lists(tmp_path) == ()


def test_drafts_without_characters_have_no_words():
    line = hypothesis_line("")
    assert hypothesis_words(line, CHARACTERS, continues=False) == []
    assert not ends_divided(line, CHARACTERS)
    assert line.frames.dtype == np.float16


def test_a_candidate_keeps_the_letters_that_are_sure():
    sure = np.array([True, False, False])
    assert keeps("MAY", "Mar", sure)
    assert keeps("Ma", "Mar", sure)
    assert not keeps("bay", "Mar", sure)
    assert not keeps("ar", "Mar", sure)
