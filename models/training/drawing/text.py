"""Text for generated documents: running text of old books, with the names, captions and rubbish they have.

Knows nothing of fonts or pixels. The last part of every file is held out and never trained on; invented names
are split by a hash of the name, so that a held-out name is met nowhere in training.
"""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from models.training.drawing.invented_names import invent_name
from models.training.drawing.number_text import number_line, roman, some_figures
from models.training.drawing.old_spelling import Language, old_spelling, with_long_s

LineKind = Literal["running", "caption", "numbers", "random", "empty"]

HELD_OUT_SHARE = 0.08
"""Last part of every text, for measuring only."""
CAPTION_SHARE, EMPTY_SHARE, RANDOM_SHARE = 0.10, 0.05, 0.10
"""Short lines, crops without text and letter strings without sense: without them a decoder invents."""
NUMBER_SHARE = 0.10
"""Page numbers, dates, prices, rows of tables: without them a decoder drops figures and brackets that are sure."""
FIGURE_RATE = 0.02
"""Share of the words of running text behind which figures stand, in brackets or not."""
LINES_OF_A_PAGE = 8
PAGES_OF_A_DOCUMENT = 3
NAMES_OF_A_DOCUMENT = 8
NAME_RATE = 0.10
"""Share of the longer words that give way to a name of the document, so that rare words recur."""
HISTORICAL_RATE = 0.5
"""Share of German and French documents in the spelling of the 16th to 18th century."""
CURLY_RATE, CLOSE_RATE = 0.5, 0.5
"""Share of documents with curly apostrophes, and of French ones without the space before ; : ! ? »: a text has one way,
print has all, and a decoder that has seen one writes it everywhere."""

_FOLDED = str.maketrans({"„": "“", "‚": "‘", "\u00a0": " ", "\u202f": " ", "\u2009": " ", "ſ": "s"})
_RANDOM_LATIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,;:-'&()"


@dataclass(frozen=True)
class LineText:
    """What stands on a line (``shown``) and what a reader should write (``written``: s for a long s)."""

    shown: str
    written: str
    kind: LineKind = "running"


@dataclass(frozen=True)
class DocumentText:
    """Pages of lines of one document."""

    language: Language
    historical: bool
    pages: tuple[tuple[LineText, ...], ...]


class Corpus:
    """The texts of one language: ``folder``/*.txt, of which one part is asked for.

    Raises:
        FileNotFoundError: the folder holds no text.
    """

    def __init__(self, folder: Path, language: Language, *, held_out: bool, drop: frozenset[int] = frozenset()) -> None:
        """Read the texts; paragraphs whose 8-grams (see ``leaks``) are in ``drop`` are left out."""
        files = sorted(folder.glob("*.txt"))
        if not files:
            raise FileNotFoundError(
                f"{folder} holds no *.txt; --data needs one folder of public-domain text a language"
            )
        self.language = language
        self.held_out = held_out
        parts = [_part(file.read_text("utf-8"), held_out) for file in files]
        self._paragraphs = [
            paragraph
            for text in parts
            for paragraph in _paragraphs(text)
            if len(paragraph) >= 30 and not (drop and drop & set(eight_grams(paragraph)))
        ]
        self._alphabet = sorted({c for p in self._paragraphs for c in p if c >= "\u3400"})

    @property
    def texts(self) -> tuple[str, ...]:
        """All paragraphs."""
        return tuple(self._paragraphs)

    @property
    def paragraphs(self) -> int:
        """How many paragraphs there are."""
        return len(self._paragraphs)

    def document(
        self,
        rng: random.Random,
        pages: int = PAGES_OF_A_DOCUMENT,
        lines: int = LINES_OF_A_PAGE,
        names: int = NAMES_OF_A_DOCUMENT,
    ) -> DocumentText:
        """Compose one document of ``pages`` of ``lines`` with so many recurring ``names``."""
        historical = self.language in ("de", "fr") and rng.random() < HISTORICAL_RATE
        stream = self._lines(rng, historical, [invent_name(rng, self.held_out) for _ in range(names)])
        drawn = tuple(tuple(next(stream) for _ in range(lines)) for _ in range(pages))
        return DocumentText(self.language, historical, drawn)

    def page(self, rng: random.Random, lines: int, names: Sequence[str]) -> tuple[LineText, ...]:
        """Compose one page, beginning anywhere in the texts, in which ``names`` occur; modern spelling."""
        return tuple(islice(self._lines(rng, historical=False, names=names), lines))

    def _lines(self, rng: random.Random, historical: bool, names: Sequence[str]) -> Iterator[LineText]:
        width = rng.randint(9, 26) if self.language == "zh" else rng.randint(28, 62)
        running = self._running(rng, width, historical, names)
        curly, close = rng.random() < CURLY_RATE, self.language == "fr" and rng.random() < CLOSE_RATE
        while True:
            draw = rng.random()
            if draw < EMPTY_SHARE:
                yield LineText("", "", "empty")
                continue
            kind: LineKind = "running"
            if draw < EMPTY_SHARE + RANDOM_SHARE:
                text, kind = self._nonsense(rng, width), "random"
            elif draw < EMPTY_SHARE + RANDOM_SHARE + CAPTION_SHARE:
                text, kind = self._caption(rng, names), "caption"
            elif draw < EMPTY_SHARE + RANDOM_SHARE + CAPTION_SHARE + NUMBER_SHARE and self.language != "zh":
                text, kind = number_line(rng, self.language, rng.choice(self._paragraphs).split(), width), "numbers"
            else:
                text = next(running)
            long_s = historical and kind == "running"
            yield _as_line(typeset(text, curly=curly, close=close), kind, long_s, self.language)

    def _running(self, rng: random.Random, width: int, historical: bool, names: Sequence[str]) -> Iterator[str]:
        start = rng.randrange(len(self._paragraphs))
        spelled = old_spelling(rng, self.language) if historical else str
        while True:
            paragraph = self._paragraphs[start % len(self._paragraphs)]
            start += 1
            if self.language == "zh":
                yield from (paragraph[at : at + width] for at in range(0, len(paragraph), width))
                continue
            words = [_renamed(word, rng, names) for word in spelled(paragraph).split()]
            yield from _filled(_with_figures(words, self.language, rng), width, rng)

    def _nonsense(self, rng: random.Random, width: int) -> str:
        if self.language == "zh" and rng.random() < 0.8:
            return "".join(rng.choice(self._alphabet) for _ in range(rng.randint(2, width)))
        words = ("".join(rng.choices(_RANDOM_LATIN, k=rng.randint(1, 9))) for _ in range(max(1, width // 8)))
        return " ".join(words)

    def _caption(self, rng: random.Random, names: Sequence[str]) -> str:
        words = [w for w in rng.choice(self._paragraphs).split() if len(w) > 1] or ["I"]
        some = words[: rng.randint(1, 4)] if self.language != "zh" else [words[0][: rng.randint(1, 6)]]
        number = str(rng.choice([rng.randint(1, 40), rng.randint(1, 999), rng.randint(1500, 1950)]))
        return rng.choice(
            [
                number,
                f"[{number}]",
                f"— {number} —",
                " ".join(some).upper(),
                " ".join(some),
                rng.choice(names).upper(),
                f"{rng.choice(names)}, {number}.",
                f"CHAPTER {roman(rng.randint(1, 60))}.",
                f"{roman(rng.randint(1, 90))}.",
                f"Fig. {number}.",
                f"{number} " + " ".join(some).upper(),
                " ".join(some).upper() + f" {number}",
                f"{rng.choice('ABCDEFGHJKLMNPRSTW')}. {rng.choice('ABCDEFGHJKLMNPRSTW')}.",
            ]
        )


def eight_grams(text: str) -> Iterator[int]:
    """Yield a hash of every run of eight words of ``text``, letters only; Chinese: of eight characters."""
    words = re.findall(r"[\u3400-\u9fff]|[^\W\d_]+", text.lower())
    for at in range(len(words) - 7):
        yield zlib.crc32(" ".join(words[at : at + 8]).encode())


def typeset(text: str, *, curly: bool, close: bool) -> str:
    """Return ``text`` with curly apostrophes if ``curly``, and if ``close`` without the space of French punctuation."""
    text = text.replace("'", "’") if curly else text
    return re.sub(r"(?<=\S) (?=[;:!?»])|(?<=«) ", "", text) if close else text


def _part(text: str, held_out: bool) -> str:
    cut = int(len(text) * (1 - HELD_OUT_SHARE))
    return text[cut:] if held_out else text[:cut]


def _paragraphs(text: str) -> Iterator[str]:
    """Yield paragraphs (blocks between blank lines, or single lines where no line is blank), white space folded."""
    blocks = re.split(r"\n\s*\n", text) if "\n\n" in text else text.split("\n")
    for block in blocks:
        chinese = sum(c >= "\u3400" for c in block) > len(block) // 3
        clean = block.translate(_FOLDED)
        if chinese:  # the readings in Latin letters of a dictionary are no running text
            clean = re.sub(r"[A-Za-zāáǎàēéěèīíǐìōóǒòūúǔùǖǘǚǜüɡ]+", "", clean)
        yield re.sub(r"\s+", "" if chinese else " ", clean).strip()


def _renamed(word: str, rng: random.Random, names: Sequence[str]) -> str:
    if len(word) < 4 or not word.isalpha() or rng.random() >= NAME_RATE:
        return word
    return rng.choice(names)


def _with_figures(words: Sequence[str], language: Language, rng: random.Random) -> list[str]:
    """Return ``words`` with figures behind some of them."""
    shown: list[str] = []
    for word in words:
        shown.append(word)
        if rng.random() < FIGURE_RATE:
            shown += some_figures(rng, language).split()
    return shown


def _filled(words: Sequence[str], width: int, rng: random.Random) -> Iterator[str]:
    """Yield lines of about ``width`` characters; now and then a long word is broken with a hyphen."""
    line = ""
    for word in words:
        if len(line) + len(word) + 1 <= width:
            line = f"{line} {word}".strip()
            continue
        rest = word
        room = width - len(line) - 2
        if room >= 3 and len(word) - room >= 3 and word.isalpha() and rng.random() < 0.5:
            line, rest = f"{line} {word[:room]}-".strip(), word[room:]
        if line:
            yield line[: width + 12]
        line = rest
    if line:
        yield line[: width + 12]


def _as_line(text: str, kind: LineKind, historical: bool, language: Language) -> LineText:
    long_s = historical and language in ("de", "fr")
    return LineText(with_long_s(text) if long_s else text, text, kind)
