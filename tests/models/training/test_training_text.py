"""The text of generated documents: split, spelling, names, leaks."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from models.training.common_words import WORDS, commonest
from models.training.drawing.leaks import read_leaks
from models.training.drawing.number_text import MONTHS, number_line, roman, some_figures
from models.training.drawing.old_spelling import old_french, old_german, with_long_s
from models.training.drawing.text import (
    LINES_OF_A_PAGE,
    PAGES_OF_A_DOCUMENT,
    Corpus,
    eight_grams,
    typeset,
)

PARAGRAPHS = [
    f"Paragraph number {n} tells of a quiet house beside river {n}, where somebody counted candles every evening."
    for n in range(200)
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("\n\n".join(PARAGRAPHS), "utf-8")
    return tmp_path


def written(corpus: Corpus, documents: int = 20) -> list[str]:
    drawn = [corpus.document(random.Random(seed)) for seed in range(documents)]
    return [line.written for document in drawn for page in document.pages for line in page]


def names_in(texts: list[str]) -> set[str]:
    known = set(" ".join(PARAGRAPHS).split()) | set(MONTHS["en"].split())
    words = {word for text in texts for word in text.split() if word.istitle() and word.isalpha() and len(word) > 4}
    return words - known - {"Paragraph", "Chapter"}


def test_a_document_is_a_function_of_its_seed(folder: Path) -> None:
    corpus = Corpus(folder, "en", held_out=False)
    assert corpus.document(random.Random(7)) == corpus.document(random.Random(7))
    assert corpus.document(random.Random(7)) != corpus.document(random.Random(8))


def test_a_document_has_its_pages_and_lines(folder: Path) -> None:
    document = Corpus(folder, "en", held_out=False).document(random.Random(1))
    assert [len(page) for page in document.pages] == [LINES_OF_A_PAGE] * PAGES_OF_A_DOCUMENT


def test_held_out_text_and_names_are_met_nowhere_in_training(folder: Path) -> None:
    training, held_out = (written(Corpus(folder, "en", held_out=part)) for part in (False, True))
    numbers = {word for line in held_out for word in line.split() if word in map(str, range(184, 200))}
    assert numbers
    assert not names_in(training) & names_in(held_out)
    assert names_in(training)
    assert names_in(held_out)
    trained = " ".join(training)
    assert "river 199" not in trained


def test_every_kind_of_line_occurs_and_empty_crops_say_nothing(folder: Path) -> None:
    corpus = Corpus(folder, "en", held_out=False)
    lines = [line for seed in range(40) for page in corpus.document(random.Random(seed)).pages for line in page]
    kinds = {
        kind: sum(line.kind == kind for line in lines) / len(lines)
        for kind in ("running", "caption", "numbers", "random", "empty")
    }
    assert all(share > 0.02 for share in kinds.values()), kinds
    assert kinds["running"] > 0.6
    assert all(not line.shown and not line.written for line in lines if line.kind == "empty")


def test_a_long_s_is_shown_and_a_round_one_written() -> None:
    assert with_long_s("das Haus ist so, Gassen") == "das Haus iſt ſo, Gaſſen"


def test_apostrophes_are_set_curly_and_french_punctuation_close() -> None:
    said = "C'est ; « non » ! Oui : - ;"
    assert typeset(said, curly=False, close=False) == said
    assert typeset(said, curly=True, close=False) == said.replace("'", "’")
    assert typeset(said, curly=False, close=True) == "C'est; «non»! Oui: -;"


def test_the_commonest_words_are_no_names_and_french_ones_come_in_old_spelling_too(tmp_path: Path) -> None:
    rare = " ".join(
        "mot" + "abcdefghij"[n // 100] + "abcdefghij"[n // 10 % 10] + "abcdefghij"[n % 10] for n in range(999)
    )
    said = "Chaque soir Martin était seul avec Martin et Martin, puis il chantait pour lui."
    (tmp_path / "a.txt").write_text("\n\n".join([said] * 50 + [rare] + [said] * 50), "utf-8")
    words = commonest(Corpus(tmp_path, "fr", held_out=False))
    assert len(words) == WORDS
    assert words == sorted(words)
    assert {"était", "étoit", "avec", "auec", "pour"} <= set(words)
    assert not {"martin", "il", "chaque"} & set(words)


def test_old_german_spelling() -> None:
    said = "und sein Dank bei uns, ein Werk; kein Ei"
    assert old_german(said, comma=" /") == "vnd seyn Danck bey vns / ein Werck; kein Ei"


def test_old_french_spelling() -> None:
    assert old_french("il était une même avarice et je joue") == "il étoit vne mesme auarice & ie ioue"


@pytest.mark.parametrize(("number", "numeral"), [(1, "I"), (4, "IV"), (39, "XXXIX"), (90, "XC"), (399, "CCCXCIX")])
def test_numbers_are_written_in_roman_numerals(number: int, numeral: str) -> None:
    assert roman(number) == numeral


def test_a_paragraph_that_shares_an_eight_gram_with_a_book_is_dropped(folder: Path, tmp_path: Path) -> None:
    book = tmp_path / "books" / "one"
    book.mkdir(parents=True)
    (book / "page_0001.gt.txt").write_text(
        "He said: a quiet house beside river 12, where somebody counted\ncandles!", "utf-8"
    )
    leaks = read_leaks(tmp_path / "books")
    assert leaks & set(eight_grams(PARAGRAPHS[12]))
    kept = Corpus(folder, "en", held_out=False, drop=leaks)
    assert kept.paragraphs == 0
    assert Corpus(folder, "en", held_out=False).paragraphs > 100


def test_seven_shared_words_are_no_leak() -> None:
    shared = "one two three four five six seven"
    assert not set(eight_grams(shared + " eight")) & set(eight_grams(shared + " nine"))


def test_folders_without_text_or_truth_are_refused_with_what_they_need(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="one folder of public-domain text a language"):
        Corpus(tmp_path, "en", held_out=False)
    with pytest.raises(FileNotFoundError, match="a folder of books with their truth"):
        read_leaks(tmp_path)


@pytest.mark.parametrize("language", ["en", "fr", "de"])
def test_lines_of_figures_show_all_that_print_has(language: str) -> None:
    chance = random.Random(5)
    words = ["Some", "words", "that", "stand", "beside", "the", "figures", "of", "a", "table"]
    drawn = [number_line(chance, language, words, 50) for _ in range(600)]
    shapes = (
        r"\d+", r"\( \d+ \)", r"\(\d+\)", r"\[\d+\]", r"— \d+ —", r"\([ivxl]+\)", r"\d+\) .*",
        r"§ \d+\. .*", r"\([a-i]\) .*",
        r".*\d[.,]\d\d\d.*", r"[\d ,.—\"]+", r".*\. \. .*\d", r".*\b1[4-9]\d\d\b.*", r".*\(p?p?S?\.? ?\d.*\).*",
    )  # fmt: skip
    missing = [shape for shape in shapes if not any(re.fullmatch(shape, line) for line in drawn)]
    assert not missing
    assert all(line.strip() == line and "  " not in line and len(line) < 110 for line in drawn)


def test_prices_and_dates_are_those_of_the_language() -> None:
    figures = {
        language: " ".join(some_figures(random.Random(seed), language) for seed in range(300))
        for language in ("en", "fr", "de")
    }
    own = {"en": ("£", "January", "p."), "fr": (" fr.", "janvier", "p."), "de": ("Mk.", "Januar", "S.")}
    assert all(part in figures[language] for language, parts in own.items() for part in parts)
    assert "£" not in figures["de"] + figures["fr"]


def test_figures_stand_within_running_text_too(folder: Path) -> None:
    plain = set(" ".join(PARAGRAPHS).split())
    corpus = Corpus(folder, "en", held_out=False)
    running = [
        line.written
        for seed in range(20)
        for page in corpus.document(random.Random(seed)).pages
        for line in page
        if line.kind == "running"
    ]
    assert any(word.startswith(("(", "[")) and word not in plain for line in running for word in line.split())
