"""The long s, which print before about 1800 has inside words and which resembles an f.

The recogniser writes ``f`` for many of them. Which of the two letters stands between given neighbours, spelling
decides: a table of German, English and French letter contexts (``long_s.json``, by ``training/long_s.py``) gives the
odds. A page is corrected only if its own letters show that it has the long s: some f that cannot be one, and few
round s where a long one would stand. The last letter of a word never is one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from models.compact.words.split import split_letters

TABLE = Path(__file__).with_name("long_s.json")
REACHES = (3, 2, 1)
"""Letters looked at on each side; the widest context that the table knows decides."""
LEAST_LOG_ODDS = 1.5
"""For s, at which f becomes s on a page with long s. Of the last fifths of four texts, with a table of the rest, this
mends 92 to 95 % of the s and spoils 1 to 6 % of the f inside words."""
IMPOSSIBLE_LOG_ODDS = 3.0
"""At which an f is hardly one."""
LEAST_IMPOSSIBLE = 3
IMPOSSIBLE_RATIO = 0.2
"""A page has the long s if so many of its f, and such a share, are hardly one; in modern print 1 to 3 % are."""
ROUND_RATIO = 0.1
"""And if they are such a share of the s inside words that are read as s. Of blackletter a part of the long s is read as
s, of early Roman type next to none; a modern page has 25 s inside words in 1,000 characters and hardly any such f."""


def long_s_indices(texts: Sequence[str], shapes: Sequence[str] | None = None) -> list[list[int]]:
    """Return for each line of a page the indices of the ``f`` that are a long s.

    ``shapes``: the lines as the recogniser read them, where some of ``texts`` were corrected since: an s that was
    one of their f is no round s.
    """
    odds = [list(_f_odds(text)) for text in texts]
    of_page = [value for line in odds for _, value in line]
    impossible, round_s = sum(value > IMPOSSIBLE_LOG_ODDS for value in of_page), _round_inside(shapes or texts)
    if impossible < max(LEAST_IMPOSSIBLE, IMPOSSIBLE_RATIO * len(of_page), ROUND_RATIO * round_s):
        return [[] for _ in texts]
    return [[index for index, value in line if value > LEAST_LOG_ODDS] for line in odds]


def _round_inside(texts: Sequence[str]) -> int:
    """Return how many round ``s`` stand inside the words of a page, where print with the long s has long ones."""
    return sum(word.cut(text).count("s", 0, -1) for text in texts for word in split_letters(text))


def _f_odds(text: str) -> Iterator[tuple[int, float]]:
    """Yield index and log-odds for s of each ``f`` in ``text`` that does not end a word."""
    for word in split_letters(text):
        letters = as_context(word.cut(text))
        for index, letter in enumerate(word.cut(text)[:-1]):
            if letter == "f":
                yield word.start + index, log_odds(letters, index + 1)


def as_context(word: str) -> str:
    """Return ``word`` as its letters are looked up: between borders, without case, s written as f."""
    return f"^{word.lower().replace('ſ', 's').replace('s', 'f')}$"


def contexts(letters: str, index: int, reaches: Sequence[int] = REACHES) -> Iterator[str]:
    """Yield what stands around ``letters[index]``, for each of ``reaches``."""
    for reach in reaches:
        yield f"{letters[max(0, index - reach) : index]}|{letters[index + 1 : index + 1 + reach]}"


def log_odds(letters: str, index: int) -> float:
    """Return the log-odds for s, against f, at ``letters[index]``; 0 if its neighbours are unknown."""
    table = _table()
    return next((table[context] for context in contexts(letters, index) if context in table), 0.0)


@cache
def _table() -> dict[str, float]:
    odds: dict[str, float] = json.loads(TABLE.read_text(encoding="utf-8"))["log_odds"]
    return odds
