"""Drops training text that a book of the accuracy benchmark also has.

``python -m models.training.drawing.leaks --data DIR --books DIR`` reports what would be dropped; ``generate`` takes
the same ``--books`` and leaves those paragraphs out.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from models.training.drawing.old_spelling import LANGUAGES
from models.training.drawing.text import Corpus, eight_grams


def read_leaks(books: Path) -> frozenset[int]:
    """Return the 8-grams of every ``page_*.gt.txt`` in the folders of ``books``.

    Raises:
        FileNotFoundError: there is no truth in the folder.
    """
    truths = sorted(books.glob("*/*.gt.txt"))
    if not truths:
        raise FileNotFoundError(f"{books} holds no */*.gt.txt; --books needs a folder of books with their truth")
    return frozenset(gram for truth in truths for gram in eight_grams(truth.read_text("utf-8")))


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--books", type=Path, required=True)
    options = parser.parse_args()
    leaks = read_leaks(options.books)
    for language in LANGUAGES:
        for held_out in (False, True):
            all_of_it = Corpus(options.data / language, language, held_out=held_out)
            kept = Corpus(options.data / language, language, held_out=held_out, drop=leaks)
            part = "held out" if held_out else "training"
            dropped = all_of_it.paragraphs - kept.paragraphs
            print(f"{language} {part}: {dropped} of {all_of_it.paragraphs} paragraphs dropped")


if __name__ == "__main__":
    main()
