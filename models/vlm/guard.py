"""The repetition guard: no n-gram of the output twice within a window, as the model's own generation does it.

The window reaches across pages: what earlier pages ended with travels in the state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import torch


class NgramGuard:
    """Bans what would repeat an n-gram of the last ``window_tokens`` outputs; ``ngram_tokens`` 0 bans nothing."""

    def __init__(self, ngram_tokens: int, window_tokens: int, history: Iterable[int] = ()) -> None:
        """Begin after ``history``, the last outputs of earlier pages."""
        self._ngram_tokens = ngram_tokens
        self._written: deque[int] = deque(history, maxlen=window_tokens)

    def add(self, token_id: int) -> None:
        """Note an output."""
        self._written.append(token_id)

    def banned(self) -> list[int]:
        """Return the ids that may not come next, each once, in no order."""
        size = self._ngram_tokens
        written = list(self._written)
        if not size or len(written) + 1 < size:
            return []
        begun = written[len(written) - size + 1 :]
        starts = range(len(written) - size + 1)
        return list({written[start + size - 1] for start in starts if written[start : start + size - 1] == begun})

    def choose(self, logits: torch.Tensor) -> int:
        """Return the best id of ``logits`` [vocabulary] that is not banned."""
        banned = self.banned()
        if banned:
            logits = logits.clone()
            logits[banned] = -torch.inf
        return int(logits.argmax())
