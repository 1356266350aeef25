"""Checks the CTC hypothesis with the decoder in few passes; what comes out is as if read letter by letter.

A line whose every character is sure keeps its hypothesis. Of the others the whole hypothesis is put before the decoder
at once; up to the first letter that it would write otherwise all is verified, there it writes its own letter, and
behind it the hypothesis goes on from the frame that this letter points at. The result is, by construction, what
``read_plainly`` gives step by step, for every line that is decoded; passes are capped, and a line that needs more keeps
its hypothesis.

A change needs a margin, and must pay for what it removes: the decoder writes what the hypothesis suggests unless it
holds something else for likelier by ``margin`` and by how sure the hypothesis is of the characters that would go. A
figure, a bracket or another mark stays where the hypothesis is sure of it, only a space may come before it; and no
figure is invented where the hypothesis has nothing. Lines that are hardly legible, or in a script that the decoder is
not trusted with, keep their hypothesis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from models.compact.decode.changes import ChangeRules
from models.compact.decode.decoder import END_CLASS, CompactDecoder
from models.compact.decode.kv_cache import DecoderOutput
from models.compact.decode.line_batch import LineBatch
from models.compact.decode.word_memory import WordTokens
from models.sr_swa.pages import EncodedLine

Why = Literal["sure", "verified", "no text", "unreadable", "too many passes", "other script", "no hypothesis"]
"""Why a line reads as it does: the hypothesis was sure; decoder and margin decided; the decoder saw no text; it was
kept because the line is hardly legible, because it did not settle, or because of its script; no hypothesis."""

BATCH_LINES = 16
"""Lines of like width that are decoded together: wider batches gain nothing on a CPU."""
PADDING = -1
LATIN_RANGES = ((0x20, 0x24F), (0x2010, 0x2044))
"""Latin letters with their accents, digits and punctuation: the alphabet of a decoded line."""


@dataclass(frozen=True)
class VerifierThresholds:
    """When a line is decoded and what a change must overcome; fitted on generated pages (``training/evaluate.py``).

    ``sure_above``: a line whose least sure character reaches it keeps its hypothesis. ``unreadable_below``: so does one
    whose characters are less sure in the mean. ``margin``, ``end_margin`` [log-probability]: what another letter, or an
    earlier or later end of the line, must be ahead by. ``no_text_above``: how sure the decoder must be that a crop
    holds no text. ``passes`` at most. ``sure_digit``: a figure, bracket or symbol of the hypothesis that reaches it
    stays, and ``sure_mark``: another mark, of which language knows more. ``pay``: what a change must be ahead by,
    beyond the margin, for each unit of what the picture has against it, such as how sure the hypothesis is of what
    goes.
    """

    sure_above: float = 0.99
    unreadable_below: float = 0.5
    margin: float = 1.5
    end_margin: float = 3.0
    no_text_above: float = 0.95
    passes: int = 8
    sure_digit: float = 0.5
    sure_mark: float = 0.9
    pay: float = 0.05


@dataclass(frozen=True, eq=False)
class Reading:
    """What a line says: ``ids``, ``confidence`` and ``frames`` of its characters [characters].

    ``passes`` of the decoder, 0 where the hypothesis was kept without one; ``weights``: the language of those that read
    it.
    """

    ids: npt.NDArray[np.int32]
    confidence: npt.NDArray[np.float32]
    frames: npt.NDArray[np.int32]
    changed: bool
    why: Why
    passes: int = 0
    weights: str = ""

    def as_line(self, line: EncodedLine) -> EncodedLine:
        """Return ``line`` with this reading as its hypothesis, for whatever works on hypotheses."""
        return replace(line, ctc_ids=self.ids, ctc_posteriors=self.confidence, ctc_frames=self.frames)


@dataclass
class _Writing:
    """A line on its way: the first ``settled`` of ``text`` are decided, the rest of it is what the hypothesis suggests.

    ``places`` [characters + 1]: how many characters of the hypothesis are used up before each step.
    """

    line: EncodedLine
    text: list[int]
    places: list[int]
    confidence: list[float]
    frames: list[int]
    settled: int = 0
    passes: int = 0
    done: bool = False
    is_no_text: bool = False


class Verifier:
    """Reads lines with a decoder. Invariant: a line's reading does not depend on which lines are read with it."""

    def __init__(
        self, model: CompactDecoder, characters: Sequence[str], thresholds: VerifierThresholds | None = None
    ) -> None:
        """Take ``model`` (already in evaluation mode) and the ``characters`` of the head's classes."""
        self._model = model
        self._thresholds = thresholds or VerifierThresholds()
        letters = [i for i, c in enumerate(characters) if c and any(a <= ord(c) <= b for a, b in LATIN_RANGES)]
        self._classes = torch.tensor([END_CLASS, *letters])
        self._rules = ChangeRules(characters, END_CLASS, self._thresholds.sure_digit, self._thresholds.sure_mark)
        self._place_of = {index: place for place, index in enumerate(self._classes.tolist())}

    def read_lines(
        self, lines: Sequence[EncodedLine], before: Sequence[int] = (), words: WordTokens | None = None
    ) -> list[Reading]:
        """Return the readings of ``lines`` of one page, in their order.

        ``before`` are the last ids before the first line; a later line follows the *hypothesis* of the line before it,
        so that all contexts are known beforehand. ``words`` are those of earlier pages.
        """
        contexts = _contexts(lines, before)
        readings: list[Reading | None] = [self._without_decoder(line) for line in lines]
        left = sorted((i for i, reading in enumerate(readings) if reading is None), key=lambda i: len(lines[i].frames))
        for start in range(0, len(left), BATCH_LINES):
            rows = left[start : start + BATCH_LINES]
            read = self._verify([lines[i] for i in rows], [contexts[i] for i in rows], words)
            for row, reading in zip(rows, read, strict=True):
                readings[row] = reading
        return [reading for reading in readings if reading is not None]

    def read_plainly(self, line: EncodedLine, context: Sequence[int] = (), words: WordTokens | None = None) -> Reading:
        """Return the reading of one line, decoded letter by letter, whatever its hypothesis is worth.

        The definition that ``read_lines`` accelerates. A line is given up when it has more characters than
        frames.
        """
        with torch.inference_mode():
            encoder_output = self._model.encode(LineBatch.of([line], [context]), words)
            writing = _begin(line)
            while not writing.done and writing.settled <= len(line.frames):
                prefix = torch.tensor([writing.text[: writing.settled]], dtype=torch.long)
                places = torch.tensor([writing.places[: writing.settled + 1]], dtype=torch.long)
                decoder_output = self._model.decode(encoder_output, prefix, places)
                self._decide([writing], decoder_output.since(writing.settled), steps=1)
        return _finish(writing)

    def _without_decoder(self, line: EncodedLine) -> Reading | None:
        """Return the hypothesis as reading where no decoding is worth it."""
        why: Why | None = None
        if not len(line.ctc_ids):
            why = "no hypothesis"
        elif float(line.ctc_posteriors.min()) >= self._thresholds.sure_above:
            why = "sure"
        elif float(line.ctc_posteriors.mean()) < self._thresholds.unreadable_below:
            why = "unreadable"
        elif not all(int(index) in self._place_of for index in line.ctc_ids):
            why = "other script"
        return hypothesis_reading(line, why) if why else None

    def _verify(
        self, lines: Sequence[EncodedLine], contexts: Sequence[Sequence[int]], words: WordTokens | None
    ) -> list[Reading]:
        with torch.inference_mode():
            encoder_output = self._model.encode(LineBatch.of(lines, contexts, with_words=words is not None), words)
            writings = [_begin(line) for line in lines]
            active = writings
            cache = self._model.empty_cache(len(lines), _most_characters(lines) + self._thresholds.passes)
            for _ in range(self._thresholds.passes):
                texts = _padded([writing.text for writing in active], PADDING)
                places = _padded([writing.places for writing in active], 0)
                decoder_output = self._model.decode(encoder_output, texts, places, cache)
                self._decide(active, decoder_output)
                left = [row for row, writing in enumerate(active) if not writing.done]
                if not left:
                    break
                active = [active[row] for row in left]
                encoder_output = encoder_output.rows(left)
                cache.keep(left, [writing.settled for writing in active])
        return [_finish(writing) for writing in writings]

    def _decide(self, writings: Sequence[_Writing], decoder_output: DecoderOutput, steps: int | None = None) -> None:
        """Settle characters of each of ``writings``, up to the first change; at most so many ``steps``.

        ``decoder_output`` of a line begin at its first character that is not settled.
        """
        logs = self._model.log_probabilities(decoder_output, self._classes).numpy()
        best, pointed = logs.argmax(axis=-1).tolist(), decoder_output.pointing.argmax(dim=-1).tolist()
        for row, writing in enumerate(writings):
            writing.passes += 1
            for step in range(steps or len(writing.text) + 1 - writing.settled):
                if not self._settle(writing, logs[row, step], best[row][step], pointed[row][step]):
                    break

    def _settle(self, writing: _Writing, logs: npt.NDArray[np.float32], best: int, frame: int) -> bool:
        """Decide one character, given log-probabilities [classes]; return whether suggested ones behind it stand."""
        place = writing.settled
        suggested = writing.text[place] if place < len(writing.text) else END_CLASS
        chosen = self._choose(writing, logs, best, suggested, frame)
        if chosen == END_CLASS:
            writing.is_no_text = place == 0
            del writing.text[place:]
            writing.done = True
            return False
        confidence = float(np.exp(logs[self._place_of[chosen]]))
        if chosen != suggested:
            change = self._rules.change(writing.line, writing.places[place], chosen, frame)
            confidence = min(confidence, self._rules.most_sure(change))
            _go_on_behind(writing, place, chosen, change.removed.stop)
        writing.confidence.append(confidence)
        writing.frames.append(frame)
        writing.settled += 1
        return chosen == suggested

    def _choose(self, writing: _Writing, logs: npt.NDArray[np.float32], best: int, suggested: int, frame: int) -> int:
        """Return what to write, given log-probabilities [classes]: the best if it pays, else what is suggested."""
        place, chosen = writing.settled, int(self._classes[best])
        if chosen == suggested:
            return chosen
        change = self._rules.change(writing.line, writing.places[place], chosen, frame)
        seen_to = writing.frames[-1] if writing.frames else -1
        if self._rules.forbids(change, writing.text[max(0, place - 2) : place], seen_to):
            return suggested
        if chosen == END_CLASS and not place:
            return chosen if np.exp(logs[best]) >= self._thresholds.no_text_above else suggested
        margin = self._thresholds.end_margin if END_CLASS in (chosen, suggested) else self._thresholds.margin
        price = margin + self._thresholds.pay * self._rules.against(change)
        return chosen if logs[best] - logs[self._place_of[suggested]] >= price else suggested


def _contexts(lines: Sequence[EncodedLine], before: Sequence[int]) -> list[Sequence[int]]:
    return [before, *(line.ctc_ids.tolist() for line in lines[:-1])][: len(lines)]


def _begin(line: EncodedLine) -> _Writing:
    return _Writing(line, line.ctc_ids.tolist(), list(range(len(line.ctc_ids) + 1)), [], [])


def _go_on_behind(writing: _Writing, step: int, chosen: int, used: int) -> None:
    """Write ``chosen`` at ``step`` and suggest behind it what the hypothesis has from its character ``used`` on."""
    rest = writing.line.ctc_ids[used:].tolist()
    writing.text[step:] = [chosen, *rest]
    writing.places[step + 1 :] = range(used, used + len(rest) + 1)


def _finish(writing: _Writing) -> Reading:
    if not writing.done:
        return replace(hypothesis_reading(writing.line, "too many passes"), passes=writing.passes)
    ids = np.asarray(writing.text, np.int32)
    return Reading(
        ids=ids,
        confidence=np.asarray(writing.confidence, np.float32),
        frames=np.maximum.accumulate(np.asarray(writing.frames, np.int32)),
        changed=not np.array_equal(ids, writing.line.ctc_ids),
        why="no text" if writing.is_no_text else "verified",
        passes=writing.passes,
    )


def hypothesis_reading(line: EncodedLine, why: Why = "sure") -> Reading:
    """Return the hypothesis of ``line`` as its reading."""
    return Reading(line.ctc_ids, line.ctc_posteriors, line.ctc_frames, changed=False, why=why)


def _most_characters(lines: Sequence[EncodedLine]) -> int:
    return max(len(line.ctc_ids) for line in lines)


def _padded(rows: Sequence[Sequence[int]], padding: int) -> torch.Tensor:
    padded = np.full((len(rows), max(map(len, rows))), padding, np.int64)
    for row, values in enumerate(rows):
        padded[row, : len(values)] = values
    return torch.from_numpy(padded)
