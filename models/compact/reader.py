"""The compact model: PP-OCRv6's eyes behind the ``OcrModel`` protocol, on the CPU.

``encode_visual`` sees: which way up, where the lines are and in what order, what they look like. ``decode`` writes
what the CTC head drafted, after the decoder has verified it letter by letter (``verify.py``) and after a second look at
the words that are still unsure (``rescoring.py``).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from data_contracts.config import CompactConfig
from data_contracts.result import BlankReason
from models.compact.blank import why_blank
from models.compact.ctc_score import CtcHead
from models.compact.detector import LineDetector
from models.compact.draft_words import page_words, sure_words
from models.compact.line_shape import Pixels
from models.compact.onnx_weights import DETECTOR, RECOGNIZER
from models.compact.orientation import find_rotation, turn
from models.compact.page_language import common_words, common_words_sha256, page_language
from models.compact.page_memory import GEOMETRY, page_block
from models.compact.recognizer import LineRecognizer
from models.compact.rescoring import Rescored, WordRescorer
from models.compact.show_through import lines_of_this_side
from models.compact.typography import as_printed
from models.compact.verify import Reading, draft_reading
from models.compact.weights import WEIGHTS_SHA256, load_verifiers
from models.compact.word_list import load_word_lists
from models.compact.words import draft_line
from models.layout import line_directions, reading_order
from models.sr_swa.protocol import Decoding, EncodedLine, EncodedPage, Geometry, PageImage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from models.sr_swa.context import AttentionContext
    from models.sr_swa.kv import KVBlock

ALGORITHM = "compact-15"
"""To be raised with every change of this package that can change a reading."""
NOISE_CONFIDENCE = 0.3
"""Mean posterior below which a line is a pattern in a picture. Of 1,838 lines on 59 pages of the shared books, none
with three characters or more stood below 0.5, so what is bad but legible has room above this."""
SHORT_NOISE_CONFIDENCE = 0.5
SHORT_CHARACTERS = 2
"""The same for one or two characters: there all 86 below 0.5 were specks, stamps and misread ditto marks."""
DECODER, SECOND_LOOK = "decoder_", "second_look"
"""``Line.read_by`` of a line that the decoder changed, with the language of its weights behind it (``decoder_fr``), and
of one in which the second look changed a word."""


class CompactModel:
    """Reads pages by their lines. Invariant: ``encode_visual`` is a function of the pixels and nothing else."""

    def __init__(self, config: CompactConfig, folder: Path | None = None) -> None:
        """Open the networks; ``folder`` holds the weights instead of the installed package.

        Raises:
            ModelUnavailable: the weights are missing or not the expected ones.
        """
        self._detector = LineDetector(config.detector_side_px, config.threads, folder)
        self._recognizer = LineRecognizer(config.threads, folder)
        self._lists = load_word_lists() if config.second_look and config.word_lists else ()
        self._verifiers = load_verifiers(self._recognizer.characters, folder) if config.decoder else {}
        self._second_look: WordRescorer | None = None
        if config.second_look:
            self._second_look = WordRescorer(CtcHead.load(folder), self._recognizer.characters, self._lists)

    @property
    def fingerprint(self) -> str:
        """Algorithm, device class, dtype of the memory, and the weights and word lists by their sha256."""
        weights = [WEIGHTS_SHA256[language] for language in self._verifiers]
        decoder = [*weights, common_words_sha256()] if weights else []
        digests = (DETECTOR.sha256, RECOGNIZER.sha256, *decoder, *(each.sha256 for each in self._lists))
        return "/".join((ALGORITHM, "cpu", str(GEOMETRY.dtype), *digests))

    @property
    def geometry(self) -> Geometry:
        """One layer with one head: a word's picture."""
        return GEOMETRY

    @property
    def characters(self) -> tuple[str, ...]:
        """The character of each class; the blank's is empty."""
        return self._recognizer.characters

    def encode_visual(self, image: PageImage) -> EncodedPage:
        """Return the legible lines of a page in reading order, after turning it upright; or why it has none."""
        pixels = image.pixels
        lines = self._see(pixels)
        rotation = find_rotation(pixels, lines, self._recognizer)
        if rotation:
            pixels = turn(pixels, rotation)
            lines = self._see(pixels)
        legible = [line for line in lines if not self._is_noise(line)]
        lines = lines_of_this_side(pixels, legible, self._recognizer)
        height_px, width_px = pixels.shape[:2]
        order = reading_order([line.quad for line in lines], [line.direction for line in lines], width_px, height_px)
        return EncodedPage(
            page_number=image.page_number,
            width_px=width_px,
            height_px=height_px,
            dpi=image.dpi,
            rotation=rotation,
            lines=as_printed([lines[place] for place in order], self._recognizer.characters),
            blank_reason=None if lines else BlankReason.SHOW_THROUGH if legible else why_blank(pixels),
        )

    def prefill(self, page: EncodedPage, context: AttentionContext) -> KVBlock:
        """Return the page's sure words; they depend on the page alone, so ``context`` is not asked."""
        del context
        return page_block(page, self._recognizer.characters)

    def decode(self, page: EncodedPage, context: AttentionContext) -> Decoding:
        """Write the draft of each line as verified, with the words that a second look in ``context`` finds misread."""
        return self.write(page, self.verify(page), context)

    def verify(self, page: EncodedPage) -> list[Reading]:
        """Return the decoder's readings of the lines of ``page``, a function of the page; elsewhere the drafts.

        The weights are those of the language that the page's sure words show; without any, drafts stand. The context
        of a line is the draft of the line before it, and nothing at the top of a page.
        """
        language = page_language(sure_words(page_words(page.lines, self.characters)), common_words())
        if language is None or language not in self._verifiers:
            return [draft_reading(line) for line in page.lines]
        return [replace(reading, weights=language) for reading in self._verifiers[language].read_lines(page.lines)]

    def write(self, page: EncodedPage, readings: Sequence[Reading], context: AttentionContext) -> Decoding:
        """Return ``readings`` of the lines of ``page`` as text, after the second look."""
        written = [
            reading.as_line(line) if reading.changed else line
            for line, reading in zip(page.lines, readings, strict=True)
        ]
        verified = as_printed(written, self.characters)  # the decoder writes shapes, as it was taught
        looked = self._second_look.rescore_page(verified, context) if self._second_look else Rescored(verified)
        lines, doubts = [], [0.0]
        for index, encoded in enumerate(looked.lines):
            line = draft_line(encoded, self._recognizer.characters)
            if line is not None:
                doubts.append(1 - line.confidence)
                changed = not np.array_equal(verified[index].draft_ids, page.lines[index].draft_ids)
                read_by = DECODER + readings[index].weights if changed else line.read_by
                read_by = SECOND_LOOK if index in looked.changed_lines else read_by
                helped_by = looked.helping_pages(index)
                lines.append(line.model_copy(update={"read_by": read_by, "helped_by_pages": helped_by}))
        ids = [int(index) for encoded in looked.lines for index in encoded.draft_ids]
        self.remember(page, context)
        return Decoding(
            lines=tuple(lines), token_ids=tuple(ids), uncertainty=max(doubts), window_mass=looked.window_mass
        )

    def remember(self, page: EncodedPage, context: AttentionContext) -> None:
        """Count the sure words of ``page``, as drafted, for the pages after it."""
        if self._second_look:
            self._second_look.count_page(page.lines, context)

    def draft_text(self, page: EncodedPage) -> str:
        """Return what the eyes alone read on ``page``, a line a line: a draft for a larger model."""
        return "\n".join(self._recognizer.text(line.draft_ids) for line in page.lines)

    def _see(self, pixels: Pixels) -> list[EncodedLine]:
        """Return all lines of ``pixels`` as it stands, in no useful order."""
        quads = self._detector.detect(pixels)
        directions = line_directions(quads, pixels.shape[1], pixels.shape[0])
        return self._recognizer.read(pixels, quads, directions)

    def _is_noise(self, line: EncodedLine) -> bool:
        text = self._recognizer.text(line.draft_ids).strip()
        floor = SHORT_NOISE_CONFIDENCE if len(text) <= SHORT_CHARACTERS else NOISE_CONFIDENCE
        return not text or float(np.mean(line.draft_posteriors)) < floor
