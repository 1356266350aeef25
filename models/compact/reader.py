"""The compact model: PP-OCRv6 behind the ``OcrModel`` protocol, on the CPU.

``encode_visual`` encodes: which way up, where the lines are and in what order, their frames. ``decode`` writes what
the CTC head writes, after the decoder has verified it letter by letter (``verify.py``) and after lexicon rescoring
at the words that are still unsure (``rescoring.py``).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from data_contracts.config import CompactConfig, ReadingConfig
from data_contracts.result import BlankReason
from models.compact.decode.verify import Reading, hypothesis_reading
from models.compact.decode.weights import WEIGHTS_SHA256, load_verifiers
from models.compact.detect.blank import why_blank
from models.compact.detect.detector import LineDetector
from models.compact.detect.edge_strips import uncut_lines
from models.compact.detect.unread import unread_ratio
from models.compact.line_shape import Pixels
from models.compact.onnx_weights import DETECTOR, RECOGNIZER
from models.compact.orientation import find_rotation, turn
from models.compact.ornaments import without_ornaments
from models.compact.recognise.ctc_score import CtcHead
from models.compact.recognise.line_ends import without_strokes
from models.compact.recognise.recognizer import LineRecognizer
from models.compact.recognise.show_through import lines_of_this_side
from models.compact.recognise.text_line import hypothesis_line
from models.compact.recognise.typography import as_printed
from models.compact.rescore.page_memory import GEOMETRY, page_block
from models.compact.rescore.rescoring import Rescored, WordRescorer
from models.compact.words.hypothesis_words import confident_words, page_words
from models.compact.words.language import common_words, common_words_sha256, page_language
from models.compact.words.word_list import load_word_lists
from models.layout import line_directions, reading_order
from models.sr_swa.geometry import Geometry
from models.sr_swa.pages import Decoding, EncodedLine, EncodedPage, PageImage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from models.sr_swa.context import AttentionContext
    from models.sr_swa.memory.kv import KVBlock

ALGORITHM = "compact-16"
"""To be raised with every change of this package that can change a reading."""
NOISE_CONFIDENCE = 0.3
"""Mean posterior below which a line is a pattern in a picture. Of 1,838 lines on 59 pages of the shared books, none
with three characters or more stood below 0.5, so what is bad but legible has room above this."""
SHORT_NOISE_CONFIDENCE = 0.5
SHORT_CHARACTERS = 2
"""The same for one or two characters: there all 86 below 0.5 were specks, stamps and misread ditto marks."""
DECODER, LEXICON_RESCORING = "decoder_", "lexicon_rescoring"
"""``Line.read_by`` of a line that the decoder changed, with the language of its weights behind it (``decoder_fr``), and
of one in which the lexicon rescoring changed a word."""


class CompactModel:
    """Reads pages by their lines. Invariant: ``encode_visual`` is a function of the pixels and nothing else."""

    def __init__(self, config: CompactConfig, folder: Path | None = None) -> None:
        """Open the networks; ``folder`` holds the weights instead of the installed package.

        Raises:
            ModelUnavailable: the weights are missing or not the expected ones.
        """
        self._detector = LineDetector(config.detector_side_px, config.threads, folder)
        self._recognizer = LineRecognizer(config.threads, folder)
        self._lists = load_word_lists() if config.lexicon_rescoring and config.word_lists else ()
        self._verifiers = load_verifiers(self._recognizer.characters, folder) if config.decoder else {}
        self._lexicon_rescoring: WordRescorer | None = None
        if config.lexicon_rescoring:
            self._lexicon_rescoring = WordRescorer(CtcHead.load(folder), self._recognizer.characters, self._lists)

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
        """Return the legible lines of a page in reading order, after turning it upright; or why it has none.

        Quads are pixels [px] of the upright page.
        """
        pixels = image.pixels
        lines = self._see(pixels)
        rotation = find_rotation(pixels, lines, self._recognizer)
        if rotation:
            pixels = turn(pixels, rotation)
            lines = self._see(pixels)
        clear = [line for line in lines if not self._is_noise(line)]
        legible = self._writing(pixels, clear)
        printed = lines_of_this_side(pixels, legible, self._recognizer)
        # neither ornaments and strokes nor the image in a mirror are a script
        no_script = {id(line) for line in clear}.difference(map(id, printed))
        unread = unread_ratio(pixels, [line for line in lines if id(line) not in no_script], printed)
        height_px, width_px = pixels.shape[:2]
        order = reading_order(
            [line.quad for line in printed], [line.direction for line in printed], width_px, height_px
        )
        return EncodedPage(
            page_number=image.page_number,
            width_px=width_px,
            height_px=height_px,
            dpi=image.dpi,
            rotation=rotation,
            lines=as_printed([printed[index] for index in order], self._recognizer.characters),
            blank_reason=None if printed else BlankReason.SHOW_THROUGH if legible else why_blank(pixels),
            unread_ratio=unread,
        )

    def prefill(self, page: EncodedPage, context: AttentionContext) -> KVBlock:
        """Return the page's high-confidence words; they depend on the page alone, so ``context`` is not asked."""
        del context
        return page_block(page, self._recognizer.characters)

    def decode(self, page: EncodedPage, context: AttentionContext) -> Decoding:
        """Write each line as verified, with the words that lexicon rescoring in ``context`` finds misread."""
        return self.write(page, self.verify(page), context)

    def verify(self, page: EncodedPage) -> list[Reading]:
        """Return the decoder's readings of the lines of ``page``, a function of the page; elsewhere the hypotheses.

        The weights are those of the language that the page's high-confidence words show; without any, hypotheses stand.
        The context of a line is the hypothesis of the line before it, and nothing at the top of a page.
        """
        language = page_language(confident_words(page_words(page.lines, self.characters)), common_words())
        if language is None or language not in self._verifiers:
            return [hypothesis_reading(line) for line in page.lines]
        return [replace(reading, weights=language) for reading in self._verifiers[language].read_lines(page.lines)]

    def write(self, page: EncodedPage, readings: Sequence[Reading], context: AttentionContext) -> Decoding:
        """Return ``readings`` of the lines of ``page`` as text, after the lexicon rescoring."""
        written = [
            reading.as_line(line) if reading.changed else line
            for line, reading in zip(page.lines, readings, strict=True)
        ]
        verified = as_printed(written, self.characters)  # the decoder writes shapes, as it was taught
        rescored = (
            self._lexicon_rescoring.rescore_page(verified, context) if self._lexicon_rescoring else Rescored(verified)
        )
        lines, doubts = [], [0.0]
        for index, encoded in enumerate(rescored.lines):
            line = hypothesis_line(encoded, self._recognizer.characters)
            if line is not None:
                doubts.append(1 - line.confidence)
                changed = not np.array_equal(verified[index].ctc_ids, page.lines[index].ctc_ids)
                read_by = DECODER + readings[index].weights if changed else line.read_by
                read_by = LEXICON_RESCORING if index in rescored.changed_lines else read_by
                helped_by = rescored.helping_pages(index)
                lines.append(line.model_copy(update={"read_by": read_by, "helped_by_pages": helped_by}))
        ids = [int(index) for encoded in rescored.lines for index in encoded.ctc_ids]
        self.remember(page, context)
        return Decoding(
            lines=tuple(lines), token_ids=tuple(ids), uncertainty=max(doubts), window_mass=rescored.window_mass
        )

    def remember(self, page: EncodedPage, context: AttentionContext) -> None:
        """Count the high-confidence words of ``page``, as the hypothesis has them, for the pages after it."""
        if self._lexicon_rescoring:
            self._lexicon_rescoring.count_page(page.lines, context)

    def hypothesis_text(self, page: EncodedPage) -> str:
        """Return what detector and recogniser read on ``page``, a line a line: a hypothesis for a larger model."""
        return "\n".join(self._recognizer.text(line.ctc_ids) for line in page.lines)

    def _see(self, pixels: Pixels) -> list[EncodedLine]:
        """Return all lines of ``pixels`` as it stands, in no useful order."""
        quads = self._detector.detect(pixels)
        directions = line_directions(quads, pixels.shape[1], pixels.shape[0])
        return self._recognizer.read(pixels, quads, directions)

    def _writing(self, pixels: Pixels, clear: Sequence[EncodedLine]) -> list[EncodedLine]:
        """Return what is writing among the ``clear`` lines of ``pixels``, without strokes that are none."""
        legible = uncut_lines(pixels, clear)
        texts = [self._recognizer.text(line.ctc_ids) for line in legible]
        return without_strokes(pixels, without_ornaments(pixels, legible, texts), self._recognizer)

    def _is_noise(self, line: EncodedLine) -> bool:
        text = self._recognizer.text(line.ctc_ids).strip()
        floor = SHORT_NOISE_CONFIDENCE if len(text) <= SHORT_CHARACTERS else NOISE_CONFIDENCE
        return not text or float(np.mean(line.ctc_posteriors)) < floor


def load_compact(reading: ReadingConfig) -> CompactModel:
    """Return the compact model; raises ModelUnavailable."""
    return CompactModel(reading.compact)
