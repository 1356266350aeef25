"""Makes training data: ``python -m models.training.drawing.generate --data DIR --documents N``.

Text in, features out: documents are composed, drawn, degraded, read by the frozen recogniser, aligned and stored,
one file a document. A document is a function of its number; those already on disk are skipped, so the command
can be stopped and started again at any moment.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein

from data_contracts.geometry import Quad
from models.compact.decode.decoder import FrozenHead
from models.compact.onnx_weights import BLANK_CLASS
from models.compact.recognise.recognizer import LineRecognizer
from models.sr_swa.pages import EncodedLine
from models.training.drawing import shards
from models.training.drawing.align import align
from models.training.drawing.degrade import Image
from models.training.drawing.draw import draw_document
from models.training.drawing.leaks import read_leaks
from models.training.drawing.old_spelling import LANGUAGES, Language
from models.training.drawing.text import Corpus, LineText

CACHE = Path(".cache/train")
LANGUAGE_CYCLE: tuple[Language, ...] = ("en", "fr", "de", "en", "zh", "en", "de", "fr", "en", "fr", "en", "de", "zh")
"""Documents in turn: en 38 %, fr 23 %, de 23 %, zh 15 %."""
HELD_OUT_SEED = 1_000_000_000
LONG_SEED = 500_000_000
LONG_PAGES, LONG_LINES = 24, 25
"""A document on which memory can show what it is worth: longer than the window, pages with words enough."""
LONG_NAMES = (20, 60, 150)
LONG_SEVERITY = (0.35, 0.8)
"""Where the hypothesis errs on some per cent of the characters: what is clean has no doubts, what is worse no cues."""
UNREADABLE_RATIO = 0.5
"""A line whose hypothesis misses more of its characters is shown to nobody: its target would teach guessing."""


class Reader:
    """The frozen recogniser and its head, for crops whose text is known."""

    def __init__(self) -> None:
        """Open the recogniser.

        Raises:
            ModelUnavailable: the weights are missing or not the expected ones.
        """
        self.recognizer = LineRecognizer(1)
        self.head = FrozenHead.load()
        self.ids = {character: index for index, character in enumerate(self.recognizer.characters) if index}

    def sample(self, crop: Image, text: LineText, page: int, severity: float) -> shards.Sample:
        """Read ``crop`` [height, width] and align ``text`` to its frames."""
        line = self.recognizer.read(np.repeat(crop[:, :, None], 3, axis=2), [_outline(crop)], ["horizontal"])[0]
        ids = np.asarray([self.ids.get(character, BLANK_CLASS) for character in text.written], np.int32)
        distance = Levenshtein.distance(text.written, self.recognizer.text(line.ctc_ids))
        usable = BLANK_CLASS not in ids and len(ids) <= len(line.frames)
        usable = (usable and distance <= UNREADABLE_RATIO * max(1, len(ids))) or not len(ids)
        frames = align(self._scores(line, ids)) if usable else np.zeros(len(ids), np.int32)
        return shards.Sample(line, ids, frames, page, severity, text.kind, bool(usable))

    def _scores(self, line: EncodedLine, ids: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        """Return logits of the CTC states of ``ids``: blank, first, blank, second, ... [frames, 1 + 2 * characters]."""
        states = np.full(1 + 2 * len(ids), BLANK_CLASS)
        states[1::2] = ids
        weight, bias = self.head.weight.numpy(), self.head.bias.numpy()
        return np.asarray(line.frames.astype(np.float32) @ weight[states].T + bias[states], np.float32)


def make_document(number: int, corpus: Corpus, fonts: Path, reader: Reader, seed: int) -> shards.Document:
    """Compose, draw, read and align document ``number`` from the texts of ``corpus``."""
    text = corpus.document(random.Random(seed))
    samples, style = [], ""
    for page, degradation, line, crop in draw_document(text, fonts, seed, held_out=corpus.held_out):
        samples.append(reader.sample(crop, line, page, degradation.severity))
        style = degradation.style
    return shards.Document(number, corpus.language, text.historical, style, tuple(samples))


def make_long_document(number: int, corpus: Corpus, fonts: Path, reader: Reader, seed: int) -> shards.Document:
    """Make document ``number`` for fitting the lexicon rescoring: of many pages, all about equally bad."""
    chance = random.Random(seed)
    text = corpus.document(chance, LONG_PAGES, LONG_LINES, chance.choice(LONG_NAMES))
    severity = chance.uniform(*LONG_SEVERITY)
    drawn = draw_document(text, fonts, seed, held_out=corpus.held_out, severity=severity)
    samples = [(reader.sample(crop, line, page, shared.severity), shared.style) for page, shared, line, crop in drawn]
    return shards.Document(
        number, corpus.language, text.historical, samples[0][1], tuple(sample for sample, _ in samples)
    )


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with en/ fr/ de/ zh/ of *.txt")
    parser.add_argument("--documents", type=int, default=1000, help="how many to have in the end")
    parser.add_argument("--held-out", action="store_true", help="make documents for measuring")
    parser.add_argument(
        "--long", action="store_true", help="make documents of many pages, for fitting the lexicon rescoring"
    )
    parser.add_argument("--books", type=Path, help="folder of books whose text must not be trained on")
    parser.add_argument("--language", choices=LANGUAGES, help="documents of this language only; default: all in turn")
    parser.add_argument("--cache", type=Path, default=CACHE)
    options = parser.parse_args()
    folder = options.cache / (("long_" if options.long else "") + ("held_out" if options.held_out else "documents"))
    folder.mkdir(parents=True, exist_ok=True)
    leaks = read_leaks(options.books) if options.books else frozenset()
    cycle = (options.language,) if options.language else LANGUAGE_CYCLE
    corpora = {
        language: Corpus(options.data / language, language, held_out=options.held_out, drop=leaks)
        for language in dict.fromkeys(cycle)
    }
    reader = Reader()
    for number in range(options.documents):
        path = folder / f"{number:06d}.safetensors"
        if not path.exists():
            seed = number + HELD_OUT_SEED * options.held_out + LONG_SEED * options.long
            make = make_long_document if options.long else make_document
            corpus = corpora[cycle[number % len(cycle)]]
            shards.save(make(number, corpus, options.cache / "fonts", reader, seed), path)


def _outline(crop: Image) -> Quad:
    height, width = crop.shape
    return ((0.0, 0.0), (width - 1.0, 0.0), (width - 1.0, height - 1.0), (0.0, height - 1.0))


if __name__ == "__main__":
    main()
