"""Page slots that documents read side by side share: allocated once, lent to as many documents as they suffice for.

A document borrows all the slots it may ever need before it reads its first page, so that no document waits for one
that waits for it, and many at once end in a queue, not in a lack of memory. Memory that is never freed is never
fragmented.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from data_contracts.config import SrSwaConfig
from data_contracts.errors import ConfigError
from models.sr_swa.geometry import Geometry
from models.sr_swa.memory.window import Slot, new_slot
from models.sr_swa.protocol import OcrModel


def borrowed_slots(model: OcrModel, config: SrSwaConfig) -> AbstractContextManager[SlotLease | None]:
    """Lend from the pool of ``model`` for the body; None, and no waiting, when it has none."""
    pool: SlotPool | None = getattr(model, "pool", None)
    return nullcontext(None) if pool is None else pool.lend(config)


class SlotLease:
    """What one document has borrowed; a ``SlotSource``."""

    def __init__(self, slots: list[Slot]) -> None:
        """Hold ``slots``."""
        self._free = slots

    def take(self) -> Slot:
        """Return a slot that is not in use."""
        assert self._free, "a window wider than its document has borrowed for"
        return self._free.pop()

    def give_back(self, slot: Slot) -> None:
        """Take a slot back from the window; it stays borrowed."""
        self._free.append(slot)


class SlotPool:
    """Slots for ``capacity_pages`` pages. Invariant: no slot is lent twice at a time, none is allocated later."""

    def __init__(self, geometry: Geometry, capacity_pages: int) -> None:
        """Allocate all slots."""
        self.capacity_pages = capacity_pages
        self._slots = [new_slot(geometry) for _ in range(capacity_pages)]
        self._free = list(self._slots)
        self._returned = threading.Condition()

    @property
    def nbytes(self) -> int:
        """Bytes of all slots, lent or not."""
        return sum(slot.buffer.nbytes for slot in self._slots)

    @property
    def free_pages(self) -> int:
        """Slots that nobody has borrowed."""
        return len(self._free)

    @contextmanager
    def lend(self, config: SrSwaConfig) -> Iterator[SlotLease]:
        """Lend a document the slots of its widest window, for the body; wait until so many are free.

        The widest window, since recall may widen it at any page and must not depend on what other documents do.

        Raises:
            ConfigError: the pool is smaller than one document's window.
        """
        pages = max(config.window_pages, config.max_window_pages)
        if pages > self.capacity_pages:
            raise ConfigError(
                f"one document needs {pages} page slots, the pool has {self.capacity_pages}: "
                "lower max_window_pages or enlarge the pool"
            )
        with self._returned:
            self._returned.wait_for(lambda: len(self._free) >= pages)
            lent, self._free = self._free[:pages], self._free[pages:]
        try:
            yield SlotLease(list(lent))
        finally:
            with self._returned:
                self._free += lent
                self._returned.notify_all()
