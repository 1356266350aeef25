"""Makes ``long_s.json``: python -m models.training.long_s --data FOLDER.

Counts, in modern text, which of s and f stands between which letters. Contexts that say the same as the narrower one
inside them are left out.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from models.compact.recognise.long_s import REACHES, TABLE, as_context, contexts
from models.compact.words.split import split_letters

STRENGTH = 2.0
"""What a narrower context counts for, in occurrences, when it is refined by a wider one."""
TELLING = 0.5
"""A wider context is kept if its log-odds differ by so much."""
MOST = 9.0
"""Log-odds are cut off here: no text is long enough to be surer."""
LANGUAGES = ("de", "en", "fr")


def main() -> None:
    """Write the table from FOLDER/{de,en,fr}/*.txt."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER", help="with de/ en/ fr/ of *.txt")
    parser.add_argument("--share", type=float, default=1.0, help="of each text, from its beginning (to test the rest)")
    options = parser.parse_args()
    paths = sorted(path for language in LANGUAGES for path in (options.data / language).glob("*.txt"))
    words = [word for path in paths for word in _words(path.read_text(encoding="utf-8"), options.share)]
    table = {
        "made_by": "models/training/long_s.py: counts of letter contexts, no text",
        "texts": [f"{path.parent.name}/{path.name}" for path in paths],
        "log_odds": log_odds_table(words),
    }
    TABLE.write_text(json.dumps(table, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


def _words(text: str, share: float) -> list[str]:
    part = text[: round(share * len(text))]
    return [word.cut(part) for word in split_letters(part)]


def log_odds_table(words: Iterable[str]) -> dict[str, float]:
    """Return context -> log-odds for s against f, of the contexts that say more than narrower ones."""
    counts: Counter[tuple[str, str]] = Counter()
    chains: dict[str, tuple[str, ...]] = {}
    for word, times in Counter(map(str.lower, words)).items():
        letters = as_context(word)
        for index, letter in enumerate(word[:-1]):
            if letter in "sf":
                around = tuple(contexts(letters, index + 1, sorted(REACHES)))
                chains[around[-1]] = around
                for context in around:
                    counts[context, letter] += times
    table: dict[str, float] = {}
    for _, around in sorted(chains.items()):
        _add_chain(table, around, counts)
    return table


def _add_chain(table: dict[str, float], around: tuple[str, ...], counts: Counter[tuple[str, str]]) -> None:
    """Add the contexts of one letter, narrow to wide."""
    share, known = 0.5, 0.0
    for context in around:
        s, f = counts[context, "s"], counts[context, "f"]
        share = (s + STRENGTH * share) / (s + f + STRENGTH)
        odds = max(
            -MOST, min(MOST, math.log(share / (1 - share)) if 0 < share < 1 else math.copysign(MOST, share - 0.5))
        )
        if context in table or abs(odds - known) > TELLING:
            table[context] = known = round(odds, 1)


if __name__ == "__main__":
    main()
