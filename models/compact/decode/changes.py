"""What a change of a hypothesis takes away, what speaks against it, and how sure it can be.

A figure, a bracket or another mark stays where the hypothesis is sure of it, since what stands beside it does not tell
it; only a space may come before it. No figure is invented where the hypothesis has nothing, and no character is written
twice from one picture of it. Knows nothing of the decoder.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from models.sr_swa.pages import EncodedLine

UNTOLD = frozenset(("Nd", "No", "Ps", "Pe", "Sc", "Sm", "So"))
"""Categories of characters that what stands beside them does not tell: figures, brackets, symbols."""
QUOTES = ('"“”„', "'‘’‚")
"""Marks of one kind: which of its shapes stands there, language does tell."""
SUREST = 0.9999
"""No character of a hypothesis counts as surer: the head's last digits say nothing."""


@dataclass(frozen=True, eq=False)
class Change:
    """``chosen``, a class or the end, at ``frame`` of ``line``, in place of the ``removed`` characters."""

    line: EncodedLine
    chosen: int
    frame: int
    removed: range

    @property
    def sureness(self) -> npt.NDArray[np.float32]:
        """Posterior [removed characters] of each character of the hypothesis that goes."""
        return self.line.ctc_posteriors[self.removed.start : self.removed.stop]


class ChangeRules:
    """Judges changes. Invariant: what it says depends on the change alone."""

    def __init__(self, characters: Sequence[str], end_class: int, sure_digit: float, sure_mark: float) -> None:
        """Keep what is known of each class; from which posterior characters stay, ``stays_above`` says."""
        self._end_class, self._sure_mark = end_class, sure_mark
        self._stays_above = np.array([stays_above(c, sure_digit, sure_mark) for c in characters])
        self._is_space = np.array([c.isspace() for c in characters])
        self._is_digit = np.array([c.isdecimal() for c in characters])
        self._quotes = [{index for index, c in enumerate(characters) if c and c in marks} for marks in QUOTES]

    def change(self, line: EncodedLine, used: int, chosen: int, frame: int) -> Change:
        """Return what writing ``chosen`` at ``frame`` is, when ``used`` characters of the hypothesis are used up.

        All that has its peak up to that frame goes, but a space leaves what stays behind it. The end takes all. A
        quotation mark just before another is that one in another shape.
        """
        if chosen == self._end_class:
            return Change(line, chosen, frame, range(used, len(line.ctc_ids)))
        stop = max(used, int(np.searchsorted(line.ctc_frames, frame, side="right")))
        if self._is_space[chosen]:
            stays = np.flatnonzero(self._stays(line, range(used, stop)))
            stop = used + int(stays[0]) if len(stays) else stop
        elif stop == used < len(line.ctc_ids) and self._is_same_mark(chosen, int(line.ctc_ids[used])):
            stop += 1
        return Change(line, chosen, frame, range(used, stop))

    def forbids(self, change: Change, before: Sequence[int], seen_to: int) -> bool:
        """Tell whether what stays would go, or something come where nothing is missing: no letter stands thrice.

        ``before`` are the last two classes written, fewer at the beginning of the line; ``seen_to`` is the frame that
        the last of them was read at, -1 there.
        """
        if not before and change.chosen == self._end_class:  # a smudge reads as a figure now and then
            return bool((self._stays(change.line, change.removed) & (change.sureness >= self._sure_mark)).any())
        if change.removed or change.chosen == self._end_class:
            return not self._is_shape(change) and bool(self._stays(change.line, change.removed).any())
        if self._is_space[change.chosen]:
            return not before or bool(self._is_space[before[-1]])
        again = list(before[-1:]) == [change.chosen] and self._is_seen(change, seen_to)
        return bool(self._is_digit[change.chosen]) or list(before) == [change.chosen] * 2 or again

    def against(self, change: Change) -> float:
        """Return what the picture has against ``change`` [log-probability].

        That is how sure the hypothesis is of what goes; where nothing goes, how far what is best at the frame is ahead.
        Of spaces and the end the picture of characters says nothing.
        """
        if change.removed:
            bounded = np.clip(change.sureness.astype(np.float64), 0.5, SUREST)
            return float(np.log(bounded / (1 - bounded)).sum())
        if change.chosen == self._end_class or self._is_space[change.chosen]:
            return 0.0
        posteriors = change.line.top_posteriors[change.frame].astype(np.float64)
        own = posteriors[change.line.top_ids[change.frame] == change.chosen].max(initial=1 - SUREST)
        return float(np.log(posteriors[0] / max(own, 1 - SUREST)))

    def most_sure(self, change: Change) -> float:
        """Return the most that the picture leaves for what is written: what it does not give to what stood there."""
        if self._is_shape(change):
            return float(change.sureness[0])
        if change.removed:
            return 1 - float(change.sureness.max())
        if self._is_space[change.chosen]:
            return 1.0
        best, posterior = change.line.top_ids[change.frame, 0], float(change.line.top_posteriors[change.frame, 0])
        return posterior if best == change.chosen else 1 - posterior

    def _is_shape(self, change: Change) -> bool:
        """Tell whether one quotation mark gives way to another shape of it."""
        one, hypothesis = len(change.removed) == 1, change.line.ctc_ids
        return one and self._is_same_mark(change.chosen, int(hypothesis[change.removed.start]))

    def _is_seen(self, change: Change, seen_to: int) -> bool:
        """Tell whether the picture of a character that comes is that of the same one before it, as in CTC.

        It is unless the frame lies behind the one before, and on the way there is one that shows something else.
        """
        line, used = change.line, change.removed.start
        seen_to = max(seen_to, int(line.ctc_frames[used - 1]) if used else -1)
        way = line.top_ids[seen_to + 1 : change.frame + 1, 0]
        return not bool((way != change.chosen).any())

    def _is_same_mark(self, one: int, other: int) -> bool:
        return any({one, other} <= marks for marks in self._quotes)

    def _stays(self, line: EncodedLine, places: range) -> npt.NDArray[np.bool_]:
        """Return which characters of the hypothesis [places] stay."""
        some = slice(places.start, places.stop)
        return np.asarray(line.ctc_posteriors[some] >= self._stays_above[line.ctc_ids[some]], np.bool_)


def stays_above(character: str, sure_digit: float, sure_mark: float) -> float:
    """Return the posterior from which ``character`` of a hypothesis stays; letters and spaces never stay for sure."""
    if not character or character.isalpha() or character.isspace():
        return np.inf
    return sure_digit if unicodedata.category(character) in UNTOLD else sure_mark
