"""Drafts: what another reader thinks the page says, offered token by token to a decoder that verifies it.

A draft can only save forward passes: what is written is what the decoder would have written alone. Nearest relative:
CTC-drafted self-speculative decoding (arXiv 2603.11243), which resumes its draft by position; here it is found
again by the last tokens written, since the decoder also writes layout that no draft has.
"""

from __future__ import annotations

from collections.abc import Sequence

MATCH_TOKENS = 3
"""So many written tokens, or as few as one, find the place in the draft; longer matches win."""


class Draft:
    """The drafted ids of one page, with a place up to which they are used up."""

    def __init__(self, token_ids: Sequence[int] = ()) -> None:
        """Begin at the start of the draft."""
        self._ids = list(token_ids)
        self._next = 0

    def continuation(self, written: Sequence[int], tokens: int) -> list[int]:
        """Return at most ``tokens`` ids that may follow ``written``; none when the draft has no such place."""
        if not self._ids or not tokens:
            return []
        for length in range(min(MATCH_TOKENS, len(written)), 0, -1):
            place = self._find(list(written[-length:]))
            if place is not None:
                self._next = place
                return self._ids[place : place + tokens]
        return self._ids[:tokens] if not written else []

    def _find(self, suffix: list[int]) -> int | None:
        """Return the place behind ``suffix``: the first past where the draft stands, else the first of all."""
        size = len(suffix)
        ends = [end for end in range(size, len(self._ids) + 1) if self._ids[end - size : end] == suffix]
        return next((end for end in ends if end > self._next), ends[0] if ends else None)
