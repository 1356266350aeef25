"""Writes the commonest words of each language: ``python -m models.training.common_words --data DIR``.

Counted in the training part of the texts, without words in capitals, which are names as often as not; French also in
the spelling of the 16th to 18th century.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path

from models.compact.words.language import COMMON_WORDS_FILE, counted
from models.compact.words.split import split_letters
from models.training.drawing.old_spelling import Language, old_french
from models.training.drawing.text import Corpus

WORDS = 1000
LANGUAGES: tuple[Language, ...] = ("de", "en", "fr")


def commonest(corpus: Corpus) -> list[str]:
    """Return the commonest words of ``corpus``, in alphabetical order."""
    counts: Counter[str] = Counter()
    for paragraph in corpus.texts:
        for spelling in (paragraph, old_french(paragraph)) if corpus.language == "fr" else (paragraph,):
            counts.update(counted(word for span in split_letters(spelling) if (word := span.cut(spelling)).islower()))
    return sorted(word for word, _ in counts.most_common(WORDS))


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with en/ fr/ de/ of *.txt")
    options = parser.parse_args()
    corpora = {language: Corpus(options.data / language, language, held_out=False) for language in LANGUAGES}
    words = {language: " ".join(commonest(corpus)) for language, corpus in corpora.items()}
    COMMON_WORDS_FILE.write_text(json.dumps(words, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
