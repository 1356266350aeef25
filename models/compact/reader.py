"""The compact model: PP-OCRv6's eyes behind the ``OcrModel`` protocol, on the CPU.

``encode_visual`` sees: which way up, where the lines are and in what order, what they look like. ``decode`` writes
what the CTC head drafted, and asks the gate about each line that the head is unsure of.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from data_contracts.config import CompactConfig
from models.compact.blank import why_blank
from models.compact.detector import LineDetector
from models.compact.line_shape import Pixels
from models.compact.onnx_weights import DETECTOR, RECOGNIZER
from models.compact.orientation import find_rotation, turn
from models.compact.page_memory import GEOMETRY, line_query, page_block, words_in, words_of
from models.compact.recognizer import LineRecognizer
from models.compact.words import draft_line
from models.layout import line_directions, reading_order
from models.sr_swa.protocol import Decoding, EncodedLine, EncodedPage, Geometry, PageImage

if TYPE_CHECKING:
    from models.sr_swa.context import AttentionContext
    from models.sr_swa.kv import KVBlock

ALGORITHM = "compact-1"
"""To be raised with every change of this package that can change a reading."""
NOISE_CONFIDENCE = 0.3
"""Mean posterior below which a line is a pattern in a picture. Of 1,838 lines on 59 pages of the shared books, none
with three characters or more stood below 0.5, so what is bad but legible has room above this."""
SHORT_NOISE_CONFIDENCE = 0.5
SHORT_CHARACTERS = 2
"""The same for one or two characters: there all 86 below 0.5 were specks, stamps and misread ditto marks."""
FULL_MASS = 1.0
"""What a reference counts for when a word of the line stands in it: it is a hit, whatever ratio makes one."""


class CompactModel:
    """Reads pages by their lines. Invariant: ``encode_visual`` is a function of the pixels and nothing else."""

    def __init__(self, config: CompactConfig, folder: Path | None = None) -> None:
        """Open the networks; ``folder`` holds the weights instead of the installed package.

        Raises:
            ModelUnavailable: the weights are missing or not the expected ones.
        """
        self._detector = LineDetector(config.detector_side_px, config.threads, folder)
        self._recognizer = LineRecognizer(config.threads, folder)

    @property
    def fingerprint(self) -> str:
        """Algorithm, device class, dtype of the memory, and the weights by their sha256."""
        return f"{ALGORITHM}/cpu/{GEOMETRY.dtype}/{DETECTOR.sha256}/{RECOGNIZER.sha256}"

    @property
    def geometry(self) -> Geometry:
        """One layer with one head: a word's picture."""
        return GEOMETRY

    def encode_visual(self, image: PageImage) -> EncodedPage:
        """Return the legible lines of a page in reading order, after turning it upright; or why it has none."""
        pixels = image.pixels
        lines = self._see(pixels)
        rotation = find_rotation(pixels, lines, self._recognizer)
        if rotation:
            pixels = turn(pixels, rotation)
            lines = self._see(pixels)
        legible = [line for line in lines if not self._is_noise(line)]
        height_px, width_px = pixels.shape[:2]
        order = reading_order(
            [line.quad for line in legible], [line.direction for line in legible], width_px, height_px
        )
        return EncodedPage(
            page_number=image.page_number,
            width_px=width_px,
            height_px=height_px,
            dpi=image.dpi,
            rotation=rotation,
            lines=tuple(legible[place] for place in order),
            blank_reason=None if legible else why_blank(pixels),
        )

    def prefill(self, page: EncodedPage, context: AttentionContext) -> KVBlock:
        """Return the page's sure words; they depend on the page alone, so ``context`` is not asked."""
        del context
        return page_block(page, self._recognizer.characters)

    def decode(self, page: EncodedPage, context: AttentionContext) -> Decoding:
        """Write the draft of each line; for the unsure ones references are fetched, if the gate says so."""
        lines, doubts = [], [0.0]
        for encoded in page.lines:
            line = draft_line(encoded, self._recognizer.characters)
            if line is not None:
                lines.append(line)
                doubts.append(1 - line.confidence)
                self._consult(encoded, doubts[-1], context)
        ids = [int(index) for encoded in page.lines for index in encoded.draft_ids]
        return Decoding(lines=tuple(lines), token_ids=tuple(ids), uncertainty=max(doubts))

    def _see(self, pixels: Pixels) -> list[EncodedLine]:
        """Return all lines of ``pixels`` as it stands, in no useful order."""
        quads = self._detector.detect(pixels)
        directions = line_directions(quads, pixels.shape[1], pixels.shape[0])
        return self._recognizer.read(pixels, quads, directions)

    def _is_noise(self, line: EncodedLine) -> bool:
        text = self._recognizer.text(line.draft_ids).strip()
        floor = SHORT_NOISE_CONFIDENCE if len(text) <= SHORT_CHARACTERS else NOISE_CONFIDENCE
        return not text or float(np.mean(line.draft_posteriors)) < floor

    def _consult(self, line: EncodedLine, doubt: float, context: AttentionContext) -> None:
        """Ask for references to a line's words. One in which a word of the line stands as drafted is a hit."""
        query = line_query(line, self._recognizer.characters)
        if not query.shape[2]:
            return
        fetch = context.fetch(query, doubt)
        if fetch is not None:
            words = words_of(line, self._recognizer.characters)
            fetch.note_mass({block.page_number: FULL_MASS for block in fetch.blocks if words & words_in(block)})
