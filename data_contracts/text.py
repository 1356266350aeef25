"""How two texts are compared: a normalisation in six switchable steps, then error rates.

Transcriptions differ from print in ways that no reader calls an error: curly or straight quotes, the long s, a
hyphen at the end of a line. Both sides pass through the same steps before they are compared; a rate with the
steps says nothing about a rate without them, so the steps belong to every figure.

========= ==========================================================================================
step      what it does
========= ==========================================================================================
letters   compatibility forms to plain ones (NFKC: ligatures, full width); a, o, u with e above to their
          umlauts; long s to s, round r to r, double oblique hyphen and not-sign to -; soft hyphens go
hyphens   a hyphen between letters at the end of a line is dropped and the word joined
spaces    a run of white space, line ends included, is one space; none at the ends. In Chinese and
          Japanese text all white space goes
quotes    every single quote is ', every double quote (also two single ones) is "
dashes    every dash is -, a run of them one, without spaces around
dots      an ellipsis, and three or more dots with or without spaces between, are ...
========= ==========================================================================================

A pair of texts counts as Chinese or Japanese when more than half of the truth's letters are ideographs or kana.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from enum import StrEnum

from rapidfuzz.distance import Levenshtein


class Step(StrEnum):
    """One switchable step of the normalisation; the module's table says what each does."""

    LETTERS = "letters"
    HYPHENS = "hyphens"
    SPACES = "spaces"
    QUOTES = "quotes"
    DASHES = "dashes"
    DOTS = "dots"


ALL_STEPS: tuple[Step, ...] = tuple(Step)

_SPACELESS_LANGUAGES = ("zh", "ja", "yue", "lzh")

# NFKC would tear the acute accent into a space and a combining mark; in print it stands for an apostrophe.
_LETTERS = str.maketrans({"ſ": "s", "ꝛ": "r", "⸗": "-", "¬": "-", "￢": "-", "´": "'", "\N{SOFT HYPHEN}": None})
_E_ABOVE = re.compile("(?<=[aouAOU])\N{COMBINING LATIN SMALL LETTER E}")
_SINGLE_QUOTES = re.compile("[‘’‚‛′‵‹›`ʼʻ]")
_DOUBLE_QUOTES = re.compile("[“”„‟«»〝〞〟]|''")
_DASHES = re.compile(r"\s*[-‐‑‒–—―−⁃](?:\s*[-‐‑‒–—―−⁃])*\s*")
_DOTS = re.compile(r"\.(?:\s*\.){2,}")
_LINE_END_HYPHEN = re.compile(r"(?<=[^\W\d_])[-‐][ \t]*\r?\n[ \t]*(?=[^\W\d_])")
_IDEOGRAPH_OR_KANA = re.compile(
    "[\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af]"
)


def normalise(text: str, *, steps: Collection[Step] = ALL_STEPS, language: str | None = None) -> str:
    """Return ``text`` after the given ``steps``; their order is fixed and doing them twice changes nothing.

    ``language`` is a code such as ``zh`` or ``en`` and decides whether white space goes; None looks at the text.
    """
    if Step.LETTERS in steps:
        text = unicodedata.normalize("NFKD", text.translate(_LETTERS))
        text = unicodedata.normalize("NFKC", _E_ABOVE.sub("\N{COMBINING DIAERESIS}", text))
    if Step.HYPHENS in steps:
        text = _LINE_END_HYPHEN.sub("", text)
    if Step.SPACES in steps:
        text = ("" if _goes_without_spaces(text, language) else " ").join(text.split())
    if Step.QUOTES in steps:
        text = _DOUBLE_QUOTES.sub('"', _SINGLE_QUOTES.sub("'", text))
    if Step.DASHES in steps:
        text = _DASHES.sub("-", text)
    if Step.DOTS in steps:
        text = _DOTS.sub("...", text.replace("…", "..."))
    return text


def normalise_pair(
    truth: str, reading: str, *, steps: Collection[Step] = ALL_STEPS, language: str | None = None
) -> tuple[str, str]:
    """Return both texts normalised alike: where ``language`` is None, the truth alone decides about white space."""
    if language is None:
        language = "zh" if is_ideographic(normalise(truth, steps={Step.LETTERS} & set(steps))) else "und"
    return normalise(truth, steps=steps, language=language), normalise(reading, steps=steps, language=language)


def is_ideographic(text: str) -> bool:
    """Tell whether more than half of the letters are ideographs or kana."""
    letters = sum(character.isalpha() for character in text)
    return 2 * len(_IDEOGRAPH_OR_KANA.findall(text)) > letters


def cer(
    truth: str,
    reading: str,
    *,
    steps: Collection[Step] = ALL_STEPS,
    language: str | None = None,
    cap: bool = True,
) -> float:
    """Return the character error rate: edit distance over the truth's length, both normalised.

    With ``cap`` a rate is at most 1, so that one noisy picture cannot outweigh a book.
    """
    truth, reading = normalise_pair(truth, reading, steps=steps, language=language)
    return error_ratio(edit_distance(truth, reading, cap=cap), len(truth))


def wer(
    truth: str,
    reading: str,
    *,
    steps: Collection[Step] = ALL_STEPS,
    language: str | None = None,
    cap: bool = True,
) -> float:
    """Return the word error rate, as :func:`cer` but over words (:func:`words_like`)."""
    truth, reading = normalise_pair(truth, reading, steps=steps, language=language)
    truth_words, reading_words = words_like(truth, truth), words_like(truth, reading)
    return error_ratio(edit_distance(truth_words, reading_words, cap=cap), len(truth_words))


def words_like(truth: str, text: str) -> list[str]:
    """Return what stands between white space in ``text``; every character, where ``truth`` is ideographic."""
    return list("".join(text.split())) if is_ideographic(truth) else text.split()


def edit_distance(truth: Sequence[Hashable], reading: Sequence[Hashable], *, cap: bool = True) -> int:
    """Return the fewest insertions, deletions and substitutions that turn one into the other.

    With ``cap`` it is at most the truth's length, except that where the truth is empty nothing is forgiven.
    """
    distance: int = Levenshtein.distance(truth, reading)
    return min(distance, len(truth)) if cap and truth else distance


def error_ratio(errors: int, length: int) -> float:
    """Return errors over length; where there is nothing to read, 0 for nothing read and 1 for anything."""
    return errors / length if length else float(errors > 0)


def bag_recall(truth: Sequence[Hashable], reading: Sequence[Hashable]) -> float:
    """Return the share of the truth's items that were read, in whatever order; 1 when there are none.

    For tables, columns and newspapers, where the order of a transcription is a matter of taste. Give strings for
    characters, lists for words; exchange the arguments for the precision.
    """
    return (Counter(truth) & Counter(reading)).total() / len(truth) if truth else 1.0


def _goes_without_spaces(text: str, language: str | None) -> bool:
    return is_ideographic(text) if language is None else language.lower().startswith(_SPACELESS_LANGUAGES)
