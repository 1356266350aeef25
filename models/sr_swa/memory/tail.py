"""The output tail: keys and values of the last output tokens, sliding across page borders.

A ring written in place. A key is rotated once, by the running number of its output since the ring's frame
began; the query takes into account where the frame stands (``attention.py``), so a page turn costs nothing. The frame
begins again, with one rotation of the ring, before its numbers could leave the model's range of positions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

import torch

from models.sr_swa.geometry import Geometry
from models.sr_swa.memory.kv import KVBlock, SlotBuffer
from models.sr_swa.memory.state import JSON, Snapshot
from models.sr_swa.rotary import rotate_in_place

RECENT_IDS = 1024
"""Output ids kept for the repetition guards: a full page of a dense book."""


@dataclass
class _Counts:
    """Running numbers of outputs: the ring holds ``oldest`` to ``written``, from output ``ring_start`` on.

    ``top`` is the highest number the ring was written to: above ``written`` lies what was taken back.
    """

    written: int = 0
    held: int = 0
    page_start: int = 0
    frame_start: int = 0
    ring_start: int = 0
    top: int = 0

    @property
    def oldest(self) -> int:
        return self.written - self.held


class OutputTail:
    """The newest outputs. Invariant: at most ``capacity_tokens``, in one ring whose first ``held_tokens`` are valid.

    A token attends to itself, so the ring holds one token even when ``tail_tokens`` is 0. Where outputs are drafted,
    ``spare_tokens`` of it are room for those that may be taken back; what an output does not see is then ``hidden``.
    """

    def __init__(self, geometry: Geometry, tail_tokens: int, spare_tokens: int = 0) -> None:
        """Allocate the ring."""
        self._theta = geometry.rope_theta
        self._counts = _Counts()
        self._shown_tokens = max(1, tail_tokens)
        self._spare_tokens = spare_tokens
        self.buffer = SlotBuffer(geometry, self._shown_tokens + spare_tokens)
        self.recent_ids: deque[int] = deque(maxlen=RECENT_IDS)

    @property
    def capacity_tokens(self) -> int:
        """How many outputs fit."""
        return self.buffer.capacity_tokens

    @property
    def held_tokens(self) -> int:
        """How many outputs are held."""
        return self._counts.held

    @property
    def page_tokens(self) -> int:
        """Outputs written on the current page so far."""
        return self._counts.written - self._counts.page_start

    @property
    def frame_offset(self) -> int:
        """How far the current page's first output stands from the start of the frame."""
        return self._counts.page_start - self._counts.frame_start

    @property
    def block(self) -> KVBlock:
        """The held outputs as a view in ring order, keys rotated within the frame; some of them ``hidden``."""
        counts = self._counts
        return self.buffer.view(0, min(self.capacity_tokens, counts.top - counts.ring_start))

    def append(self) -> int:
        """Make place for one more output, over the oldest one if the ring is full; return where to write it."""
        counts = self._counts
        place = (counts.written - counts.ring_start) % self.capacity_tokens
        counts.written += 1
        counts.top = max(counts.top, counts.written)
        counts.held = min(counts.held + 1, self.capacity_tokens)
        return place

    def take_back(self, tokens: int) -> None:
        """Forget the last ``tokens`` outputs: drafted ones that were not confirmed. At most ``spare_tokens``."""
        assert tokens <= self._spare_tokens, f"{tokens} outputs to take back, room for {self._spare_tokens}"
        self._counts.written -= tokens
        self._counts.held -= tokens

    def hidden(self, tokens: int) -> torch.Tensor | None:
        """Return what the last ``tokens`` outputs do not see of ``block``, bool [tokens, block]; None: they see all."""
        if not self._spare_tokens:
            return None
        counts, device = self._counts, self.buffer.keys.device
        places = torch.arange(self.block.tokens, device=device)
        numbers = counts.top - 1 - (counts.top - 1 - counts.ring_start - places) % self.capacity_tokens
        asking = torch.arange(counts.written - tokens, counts.written, device=device)[:, None]
        return (numbers > asking) | (numbers <= asking - self._shown_tokens)

    def begin_page(self, frame_limit_tokens: int) -> None:
        """Let what is held be carried text; begin a new frame if this one is over ``frame_limit_tokens`` long."""
        counts = self._counts
        self._drop_spare()
        counts.page_start = counts.written
        if counts.written - counts.frame_start > frame_limit_tokens:
            shift = torch.full((counts.held,), counts.frame_start - counts.oldest, device=self.buffer.keys.device)
            rotate_in_place(self.block.keys, shift, self._theta)
            counts.frame_start = counts.oldest

    def rewind_page(self) -> None:
        """Take back the outputs of the current page; carried text that they have overwritten is gone."""
        counts = self._counts
        counts.held = max(0, counts.page_start - counts.oldest)
        counts.written = counts.page_start
        counts.top = counts.written
        self._move_to_front(counts.oldest)

    def remember(self, token_ids: Iterable[int]) -> None:
        """Keep the last ids of a finished page for the repetition guards."""
        self.recent_ids.extend(token_ids)

    def snapshot(self) -> Snapshot:
        """Return the ring as it lies, so that sums are formed in the same order after a resume."""
        self._drop_spare()
        block = self.block.owned()
        return {"keys": block.keys, "values": block.values}, asdict(self._counts) | {"recent_ids": [*self.recent_ids]}

    def restore(self, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, JSON]) -> None:
        """Hold the outputs of a snapshot."""
        counts = dict(metadata)
        self.recent_ids = deque(counts.pop("recent_ids"), maxlen=RECENT_IDS)
        self._counts = _Counts(**counts)
        self.buffer.keys[:, :, : self.held_tokens] = tensors["keys"]
        self.buffer.values[:, :, : self.held_tokens] = tensors["values"]

    def _drop_spare(self) -> None:
        """Keep what the next output may see, in one piece; only where outputs are drafted is there anything else."""
        counts = self._counts
        if self._spare_tokens:
            first = counts.written - min(counts.held, self._shown_tokens)
            self._move_to_front(first)
            counts.held, counts.top = counts.written - first, counts.written

    def _move_to_front(self, first: int) -> None:
        """Turn the ring so that output ``first`` lies at its start: a ring that is not full is one piece again."""
        places = (first - self._counts.ring_start) % self.capacity_tokens
        self._counts.ring_start = first
        if places and self.held_tokens:
            for layer in (*self.buffer.keys, *self.buffer.values):
                layer.copy_(layer.roll(-places, dims=1))
