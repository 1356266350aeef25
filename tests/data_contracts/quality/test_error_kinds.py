"""Errors by kind of character: each edit counts for one kind, and the kinds add up to the edit distance."""

from __future__ import annotations

import random

import pytest

from data_contracts.quality.error_kinds import Kind, count_errors, count_kinds, kind_of
from data_contracts.text import edit_distance


@pytest.mark.parametrize(
    ("truth", "reading", "errors"),
    [
        ("( 12 )", "( 2 )", {Kind.DIGITS: 1}),
        ("(17)", "( 7 )", {Kind.DIGITS: 1, Kind.SPACES: 1}),
        ("(6)", "(6", {Kind.PUNCTUATION: 1}),
        ("in 1942", "in l942", {Kind.DIGITS: 1}),
        ("all", "a1l", {Kind.LETTERS: 1}),
        ("page", "page 7", {Kind.DIGITS: 1, Kind.SPACES: 1}),
        ("Rubens", "RuBENs", {Kind.CASE: 3}),
        ("two words", "twowords", {Kind.SPACES: 1}),
        ("£3", "E3", {Kind.PUNCTUATION: 1}),
        ("欽定", "欽走", {Kind.LETTERS: 1}),
        ("same", "same", {}),
        ("", "(", {Kind.PUNCTUATION: 1}),
    ],
)
def test_an_error_counts_for_what_was_lost_or_invented(truth: str, reading: str, errors: dict[Kind, int]) -> None:
    assert count_errors(truth, reading) == errors


def test_the_kinds_add_up_to_the_edit_distance() -> None:
    chance = random.Random(3)
    for _ in range(200):
        truth, reading = ("".join(chance.choices("abAB12(., ", k=chance.randint(0, 20))) for _ in range(2))
        assert count_errors(truth, reading).total() == edit_distance(truth, reading, cap=False)
        assert count_kinds(truth).total() == len(truth)


def test_letters_with_accents_and_marks_are_letters_and_fractions_no_digits() -> None:
    assert [kind_of(character) for character in "éẞ̂½²7§€"] == [
        *(Kind.LETTERS,) * 5,
        Kind.DIGITS,
        *(Kind.PUNCTUATION,) * 2,
    ]
