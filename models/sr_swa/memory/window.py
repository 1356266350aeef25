"""The sliding window: the pages held at full resolution, in fixed slots.

A page turn is ``evict_oldest`` and only then the prefill of the new page into the slot that became free: there
is never memory for one page more than the window is wide. A slot is allocated when the window widens and given
back when it shrinks, never by a page. Knows nothing of the store, of attention or of where a page stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch

from models.sr_swa.geometry import Geometry
from models.sr_swa.memory.kv import KVBlock, SlotBuffer, storage_bytes
from models.sr_swa.memory.state import JSON, Snapshot
from models.sr_swa.rotary import rotate_in_place


@dataclass(eq=False)
class Slot:
    """Room for one page. ``mass`` float32 [page_tokens] is the attention its tokens received so far."""

    buffer: SlotBuffer
    mass: torch.Tensor
    tokens: int = 0


class SlotSource(Protocol):
    """Where slots come from when they are not the window's own: memory that several documents share."""

    def take(self) -> Slot:
        """Return a slot of the geometry; what lies in it is of no meaning."""

    def give_back(self, slot: Slot) -> None:
        """Take a slot back."""


def new_slot(geometry: Geometry) -> Slot:
    """Allocate room for one page."""
    return Slot(SlotBuffer(geometry, geometry.page_tokens), torch.zeros(geometry.page_tokens, device=geometry.device))


class SlidingWindow:
    """Pages by number, oldest first. Invariants: at most ``window_pages``; as many slots, whatever they hold.

    Keys in a slot are rotated by their offset within the page, once; values are as given. Pages after
    ``current_page`` are lookahead: they receive no mass and are in no snapshot, since the next chunk
    prefills them again.
    """

    def __init__(self, geometry: Geometry, window_pages: int, slots: SlotSource | None = None) -> None:
        """Allocate one slot a page, or take them from ``slots``."""
        self._geometry = geometry
        self._source = slots
        self._held: dict[int, Slot] = {}
        self._free: list[Slot] = []
        self.current_page = 0
        self.resize(window_pages)

    def __contains__(self, page_number: int) -> bool:
        """Return whether the page is held."""
        return page_number in self._held

    @property
    def window_pages(self) -> int:
        """How many pages fit now."""
        return len(self._held) + len(self._free)

    @property
    def page_numbers(self) -> tuple[int, ...]:
        """The pages held, oldest first."""
        return tuple(self._held)

    @property
    def is_full(self) -> bool:
        """Whether a page has to leave before another may enter."""
        return not self._free

    @property
    def nbytes(self) -> int:
        """Bytes of keys, values and payload of all slots, as allocated."""
        return sum(slot.buffer.nbytes for slot in self._slots)

    @property
    def bookkeeping_bytes(self) -> int:
        """Bytes of positions and attention mass of all slots, as allocated."""
        return sum(slot.buffer.bookkeeping_bytes + storage_bytes((slot.mass,)) for slot in self._slots)

    def open(self, page_number: int, tokens: int) -> SlotBuffer:
        """Give the page a free slot, to be written from position 0 on; a page held already is begun again.

        Raises:
            ValueError: the window is full, the page is older than one held, or has more tokens than a slot.
        """
        if tokens > self._geometry.page_tokens:
            raise ValueError(
                f"page {page_number} has {tokens} tokens, a slot {self._geometry.page_tokens}: "
                "give the geometry more page_tokens or the page fewer tokens"
            )
        slot = self._held.get(page_number) or self._take_free(page_number)
        slot.tokens = tokens
        slot.mass.zero_()
        slot.buffer.positions.copy_(torch.arange(self._geometry.page_tokens))
        return slot.buffer

    def admit(self, block: KVBlock) -> None:
        """Copy ``block``, keys un-rotated, into a free slot; the block may be released.

        A page that is held already is replaced and keeps its mass. The view of a slot that was written in
        place (``open``) is accepted as it is.

        Raises:
            ValueError: as ``open``; or a position is no offset within the page.
        """
        held = self._held.get(block.page_number)
        if held is not None and block.keys.data_ptr() == held.buffer.keys.data_ptr():
            return
        if block.tokens and not 0 <= int(block.positions.min()) <= int(block.positions.max()) < self._page_tokens:
            raise ValueError(
                f"page {block.page_number}: positions {int(block.positions.min())} to {int(block.positions.max())} "
                f"are no offsets within a page of {self._page_tokens} tokens"
            )
        mass = held.mass.clone() if held is not None and held.tokens == block.tokens else None
        buffer = self.open(block.page_number, block.tokens)
        buffer.write(block)
        rotate_in_place(self.block(block.page_number).keys, block.positions, self._geometry.rope_theta)
        if mass is not None:
            self._held[block.page_number].mass.copy_(mass)

    def block(self, page_number: int) -> KVBlock:
        """Return a page as a view, keys rotated by their offset within the page."""
        slot = self._held[page_number]
        return slot.buffer.view(0, slot.tokens, page_number)

    def mass(self, page_number: int) -> torch.Tensor:
        """Return the attention mass [tokens] that a page has received, as a view."""
        slot = self._held[page_number]
        return slot.mass[: slot.tokens]

    def add_mass(self, mass: Mapping[int, torch.Tensor]) -> None:
        """Add attention mass [tokens] by page number; lookahead pages and pages that have left take none."""
        for page_number, received in mass.items():
            if page_number <= self.current_page and page_number in self._held:
                self.mass(page_number).add_(received.to(self._geometry.device))

    def evict_oldest(self) -> tuple[KVBlock, torch.Tensor]:
        """Free the oldest page's slot; return the page, keys un-rotated, and its mass [tokens].

        Both are views of the slot, valid until another page is written into it.
        """
        page_number = next(iter(self._held))
        block, mass = self.block(page_number), self.mass(page_number)
        rotate_in_place(block.keys, -block.positions, self._geometry.rope_theta)
        self._free.append(self._held.pop(page_number))
        return block, mass

    def discard_from(self, page_number: int) -> None:
        """Forget that page and all after it: those were prefilled with it in sight."""
        for held in [number for number in self._held if number >= page_number]:
            self._free.append(self._held.pop(held))

    def resize(self, window_pages: int) -> None:
        """Allocate or give back free slots, so that ``window_pages`` fit.

        Raises:
            ValueError: more pages are held than would fit.
        """
        if len(self._held) > window_pages:
            raise ValueError(f"{len(self._held)} pages are held, {window_pages} would fit: evict the oldest first")
        for slot in self._free[window_pages - len(self._held) :]:
            self._free.remove(slot)
            if self._source:
                self._source.give_back(slot)
        while self.window_pages < window_pages:
            self._free.append(self._new_slot())

    def snapshot(self) -> Snapshot:
        """Return the pages up to the current one, as they lie in their slots, with their mass."""
        tensors: dict[str, torch.Tensor] = {}
        pages = [number for number in self._held if number <= self.current_page]
        for page_number in pages:
            block = self.block(page_number).owned()
            parts = {"keys": block.keys, "values": block.values, "positions": block.positions, **block.payload}
            parts["mass"] = self.mass(page_number).clone()
            tensors |= {f"{page_number}/{name}": part for name, part in parts.items()}
        return tensors, {"pages": pages, "current_page": self.current_page, "window_pages": self.window_pages}

    def restore(self, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, JSON]) -> None:
        """Hold the pages of a snapshot, in their order, at its width."""
        self.discard_from(0)
        self.resize(metadata["window_pages"])
        self.current_page = metadata["current_page"]
        for page_number in metadata["pages"]:
            part = {name: tensors[f"{page_number}/{name}"] for name in ("keys", "values", "positions", "mass")}
            payload = {name: tensors[f"{page_number}/{name}"] for name in self._geometry.payload}
            block = KVBlock(page_number, part["keys"], part["values"], part["positions"], payload)
            self.open(page_number, block.tokens).write(block)
            self.mass(page_number).copy_(part["mass"])

    @property
    def _slots(self) -> list[Slot]:
        return [*self._held.values(), *self._free]

    @property
    def _page_tokens(self) -> int:
        return self._geometry.page_tokens

    def _new_slot(self) -> Slot:
        return self._source.take() if self._source else new_slot(self._geometry)

    def _take_free(self, page_number: int) -> Slot:
        if self.is_full:
            raise ValueError(f"page {page_number}: the window holds {self.window_pages} pages; evict the oldest first")
        if self._held and page_number < max(self._held):
            raise ValueError(f"page {page_number} comes after page {max(self._held)}: pages enter in order")
        slot = self._held[page_number] = self._free.pop()
        return slot
