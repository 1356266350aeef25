"""Which of several words stands on a stretch of a line, given what speaks for each.

The choice is a conditional logit: a weighted sum of log-probabilities and counts, fitted on generated pages
(``training/fit_rescoring.py``), never on a book that is measured. Knows nothing of lines, memory or lists.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

MOST_TIMES = 4
"""A word that stands so often is known; without a bound ``the`` and ``and`` swallow every rare short word like them."""


@dataclass(frozen=True)
class Evidence:
    """What speaks for each text that a word might be; the hypothesis is the first. All arrays [texts].

    ``picture``: log P of the text on the frames, but for a constant. ``times``: how often the document has the word.
    ``listed``: whether a general list of the document's language has it, if there is one (``has_list``).
    ``remembered``: whether it stands in the window or in a fetched reference. ``letters``: how many the word has.
    """

    picture: npt.NDArray[np.float64]
    times: npt.NDArray[np.float64]
    listed: npt.NDArray[np.bool_]
    remembered: npt.NDArray[np.bool_]
    letters: npt.NDArray[np.int64]
    has_list: bool


@dataclass(frozen=True)
class Thresholds:
    """Which words are rescored, and what a change must overcome.

    All weights are of log-probabilities. ``picture_weight`` is below 1, since frames of a bad scan are surer than they
    should be. ``listed_times`` is what a word of the general list counts beside its times in the document,
    ``unlisted_times`` one that the list lacks, ``unknown_times`` any where there is no list. ``letter_weight`` is for
    each letter of a word: bad scans hide letters and seldom add one. A change needs ``margin``; words of up to
    ``short_letters`` letters have more neighbours by chance and need ``short_margin``. A letter that is surer than
    ``sure_letter`` stays, and so does a figure or mark that is surer than ``sure_mark``: of these a list knows nothing.
    Below ``unreadable_below``, the mean posterior of a line, a line is noise on which every word
    fits.
    """

    uncertain_below: float = 0.99
    least_letters: int = 3
    short_letters: int = 4
    picture_weight: float = 0.5
    times_weight: float = 0.5
    listed_times: float = 1.0
    unlisted_times: float = 0.01
    unknown_times: float = 0.1
    remembered_weight: float = 1.35
    letter_weight: float = 1.25
    margin: float = 0.0
    short_margin: float = 1.0
    sure_letter: float = 0.98
    sure_mark: float = 0.9
    unreadable_below: float = 0.5


def scores(evidence: Evidence, thresholds: Thresholds) -> npt.NDArray[np.float64]:
    """Return the log-probability [texts] of each text, but for a constant."""
    unseen = np.where(evidence.listed, thresholds.listed_times, thresholds.unlisted_times)
    times = np.minimum(evidence.times, MOST_TIMES) + (unseen if evidence.has_list else thresholds.unknown_times)
    return np.asarray(
        thresholds.picture_weight * evidence.picture
        + thresholds.times_weight * np.log(times)
        + thresholds.remembered_weight * evidence.remembered
        + thresholds.letter_weight * evidence.letters,
        np.float64,
    )


def choose(evidence: Evidence, letters: int, thresholds: Thresholds) -> tuple[int, float]:
    """Return which text stands there, and its posterior among all; that of ``letters`` unless another is ahead."""
    found = scores(evidence, thresholds)
    best = int(found.argmax())
    if found[best] - found[0] <= (
        thresholds.short_margin if letters <= thresholds.short_letters else thresholds.margin
    ):
        best = 0
    return best, float(1 / np.exp(found - found[best]).sum())
