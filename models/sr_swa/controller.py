"""How the attention set gives way when memory runs short and reaches out when recall is poor.

Two ladders from the configured window. Memory goes down it: every step halves the window (8 -> 4 -> 2 -> 1
pages). Recall goes up: 12 pages, 16 pages, then references of twice the tokens. Memory wins: its first step
takes back whatever recall was granted, and recall is granted nothing before memory has returned.

Going back needs calm: so many pages in a row without cause. Each time a way back is followed by another
step, twice as many are asked for: changes grow with the logarithm of the pages, up to ``MAX_CALM_PAGES``.

Decides only; the loop applies ``window_pages`` and ``reference_tokens`` to window and store. Recall is
judged from what the decoder did, never from a clock or a reading, so that equal pages give equal steps.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Literal, Self

import torch

from data_contracts.config import SrSwaConfig
from data_contracts.errors import ConfigError
from data_contracts.result import Event
from models.process_memory import container_used_ratio, process_bytes
from models.sr_swa.memory.state import JSON, Snapshot

HIGH_RATIO = 0.85
"""Above it the window shrinks: one page of a 7B decoder and a rendered scan still fit into the rest of 8 GB."""
CRITICAL_RATIO = 0.95
"""Above it nothing is loaded: the kernel kills at 1."""
LOW_RATIO = 0.70
"""At or below it memory is calm. A step down frees at most half the window; the distance to high absorbs it."""
CALM_PAGES = 8
"""Pages in a row without cause before a step is taken back: one full turn of the default window."""
MAX_CALM_PAGES = 512
"""Patience ends somewhere: even the most restless document gets another try every few hundred pages."""
RECALL_PAGES = 8
"""Pages over which recall is judged; after each step as many new ones are waited for."""
GATE_OFTEN_RATIO = 0.5
"""Share of pages on which the gate fired that counts as often: every other page lacks context."""
GATE_SELDOM_RATIO = 0.25
"""Share at which the window suffices again; half of the above, so that one page does not tip the balance."""
HIT_LOW_RATIO = 0.2
"""Fewer hits a fetch: four of five references fetched were of no use to the decoder."""
HIT_GOOD_RATIO = 0.4
"""More hits a fetch and what is fetched serves again; twice the above, for the same reason."""
DENSER_FACTOR = 2
PAUSE_SECONDS = 5.0
MAX_PAUSES = 12
"""A minute in all, until memory falls again: other work has ended by then or will not end soon."""


@dataclass(frozen=True)
class MemoryWatermark:
    """Three marks on a memory gauge. Invariant: 0 < low < high < critical <= 1.

    ``read`` returns the used share of the limit, 0 to 1 or a little above.
    """

    read: Callable[[], float]
    high: float = HIGH_RATIO
    critical: float = CRITICAL_RATIO
    low: float = LOW_RATIO

    def __post_init__(self) -> None:
        """Refuse marks out of order.

        Raises:
            ConfigError: the marks do not rise from low over high to critical.
        """
        if not 0 < self.low < self.high < self.critical <= 1:
            raise ConfigError(
                f"memory marks low {self.low}, high {self.high}, critical {self.critical} are out of order: "
                "choose them so that 0 < low < high < critical <= 1"
            )

    @classmethod
    def for_process(cls, limit_bytes: int | None = None) -> Self:
        """Watch this process against ``limit_bytes``, or without one the container or machine it runs in."""
        if limit_bytes is None:
            return cls(read=container_used_ratio)
        if limit_bytes <= 0:
            raise ConfigError(f"memory limit {limit_bytes} bytes: give a positive number, or none for the container's")
        return cls(read=lambda: process_bytes() / limit_bytes)

    @classmethod
    def for_cuda(cls, device: str = "cuda") -> Self:
        """Watch a GPU: what others and this process use; blocks that torch keeps for reuse count as free."""
        return cls(read=lambda: _cuda_used_ratio(torch.device(device)))


@dataclass
class Patience:
    """Counts calm pages; asks for twice as many each time a way back was followed by another step."""

    needed_pages: int = CALM_PAGES
    calm_pages: int = 0
    went_back: bool = False

    def over_after_calm_page(self) -> bool:
        """Count a calm page; return whether it was the last one needed to go back one step."""
        self.calm_pages += 1
        if self.calm_pages < self.needed_pages:
            return False
        self.calm_pages, self.went_back = 0, True
        return True

    def disturbed(self) -> None:
        """Start counting again."""
        self.calm_pages = 0

    def stepped(self) -> None:
        """Start counting again, and ask for more if there was a way back before."""
        if self.went_back:
            self.needed_pages = min(2 * self.needed_pages, MAX_CALM_PAGES)
        self.calm_pages, self.went_back = 0, False


@dataclass(frozen=True)
class _Page:
    """What one page says about recall."""

    gate_fired: int
    references_fetched: int
    references_hit: int


class ContextController:
    """Decides how many pages and tokens the attention set may hold.

    Invariant: 1 <= ``window_pages`` <= ``max_window_pages``, whatever happens. Without a ``watermark`` only a
    real lack of memory takes pages away. ``wait`` is called with seconds while loading pauses.
    """

    def __init__(
        self,
        config: SrSwaConfig,
        watermark: MemoryWatermark | None = None,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        """Start at the configured window."""
        self._config = config
        self._watermark = watermark
        self._wait = wait
        self._widths = _recall_ladder(config)
        self._memory_steps = 0
        self._recall_steps = 0
        self._memory_patience = Patience()
        self._recall_patience = Patience()
        self._recent: deque[_Page] = deque(maxlen=RECALL_PAGES)
        self._pauses = 0

    @property
    def window_pages(self) -> int:
        """Pages that may be held at full resolution now."""
        return max(1, self._config.window_pages >> self._memory_steps) if self._memory_steps else self._granted[0]

    @property
    def reference_tokens(self) -> int:
        """Tokens that a page leaving the window keeps now."""
        return self._granted[1]

    @property
    def top_k(self) -> int:
        """References fetched when the gate fires; never changed."""
        return self._config.top_k

    @property
    def max_window_pages(self) -> int:
        """The widest window this controller can ask for: buffers and positions are sized for it at load."""
        return max(window_pages for window_pages, _ in self._widths)

    @property
    def degraded_by(self) -> Literal["memory", "recall"] | None:
        """Why the attention set is not the configured one; None when it is."""
        if self._memory_steps:
            return "memory"
        return "recall" if self._recall_steps else None

    def before_page(self, page_number: int) -> list[Event]:
        """Read the watermark: shrink above high, pause above critical, go back after calm below low."""
        if self._watermark is None:
            return self._grow_back_if_calm(page_number)
        used_ratio = self._watermark.read()
        if used_ratio > self._watermark.high:
            cause = f"memory at {used_ratio:.3f} of its limit, above {self._watermark.high}"
            return self._shrink(page_number, cause) + self._pause(page_number, used_ratio, self._watermark)
        self._pauses = 0
        if used_ratio <= self._watermark.low:
            return self._grow_back_if_calm(page_number)
        self._memory_patience.disturbed()
        return []

    def after_page(
        self, page_number: int, *, gate_fired: int, references_fetched: int, references_hit: int
    ) -> list[Event]:
        """Judge recall over the last pages: widen when the gate fires often in vain, go back when it recovered."""
        if self._memory_steps:
            return []
        self._recent.append(_Page(gate_fired, references_fetched, references_hit))
        if len(self._recent) < RECALL_PAGES:
            return []
        gate_ratio = sum(page.gate_fired > 0 for page in self._recent) / RECALL_PAGES
        fetched = sum(page.references_fetched for page in self._recent)
        hit_ratio = sum(page.references_hit for page in self._recent) / fetched if fetched else None
        cause = f"over {RECALL_PAGES} pages the gate fired on {gate_ratio:.2f} of them, hit ratio {_shown(hit_ratio)}"
        if gate_ratio >= GATE_OFTEN_RATIO and hit_ratio is not None and hit_ratio < HIT_LOW_RATIO:
            return self._reach_out(page_number, cause)
        if gate_ratio <= GATE_SELDOM_RATIO or (hit_ratio is not None and hit_ratio >= HIT_GOOD_RATIO):
            return self._draw_in_if_calm(page_number, cause)
        self._recall_patience.disturbed()
        return []

    def out_of_memory(self, page_number: int) -> list[Event]:
        """Shrink at once: memory ran out while the page was read, whatever the watermark said."""
        return self._shrink(page_number, "memory ran out")

    def snapshot(self) -> Snapshot:
        """Return the counters; there are no tensors."""
        return {}, {
            "memory_steps": self._memory_steps,
            "recall_steps": self._recall_steps,
            "memory_patience": asdict(self._memory_patience),
            "recall_patience": asdict(self._recall_patience),
            "pauses": self._pauses,
            "recent": [asdict(page) for page in self._recent],
        }

    def restore(self, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, JSON]) -> None:
        """Continue from a snapshot taken under the same configuration."""
        assert not tensors, f"a controller has no tensors: {sorted(tensors)}"
        self._memory_steps = metadata["memory_steps"]
        self._recall_steps = metadata["recall_steps"]
        self._memory_patience = Patience(**metadata["memory_patience"])
        self._recall_patience = Patience(**metadata["recall_patience"])
        self._pauses = metadata["pauses"]
        self._recent = deque((_Page(**page) for page in metadata["recent"]), maxlen=RECALL_PAGES)

    @property
    def _granted(self) -> tuple[int, int]:
        """(window pages, reference tokens) that recall has been granted."""
        return self._widths[self._recall_steps]

    def _shrink(self, page_number: int, cause: str) -> list[Event]:
        """Take one memory step, if there is one left, and whatever recall had been granted."""
        before = self.window_pages
        self._memory_patience.stepped()
        if self._memory_steps >= max(1, self._config.window_pages.bit_length() - 1):
            return []
        self._memory_steps += 1
        self._recall_steps = 0
        self._recall_patience.disturbed()
        self._recent.clear()
        return [Event(kind="window_shrunk", page_number=page_number, detail=self._change(cause, before))]

    def _pause(self, page_number: int, used_ratio: float, watermark: MemoryWatermark) -> list[Event]:
        """Wait, if memory is critical, until it falls to the high mark; after ``MAX_PAUSES`` go on anyway."""
        events: list[Event] = []
        if used_ratio <= watermark.critical:
            return events
        while used_ratio > watermark.high and self._pauses < MAX_PAUSES:
            self._pauses += 1
            detail = f"memory at {used_ratio:.3f} of its limit: waited {PAUSE_SECONDS} s ({self._pauses}/{MAX_PAUSES})"
            events.append(Event(kind="loading_paused", page_number=page_number, detail=detail))
            self._wait(PAUSE_SECONDS)
            used_ratio = watermark.read()
        return events

    def _grow_back_if_calm(self, page_number: int) -> list[Event]:
        if not self._memory_steps or not self._memory_patience.over_after_calm_page():
            return []
        before = self.window_pages
        self._memory_steps -= 1
        cause = f"memory was calm for {self._memory_patience.needed_pages} pages"
        return [Event(kind="window_restored", page_number=page_number, detail=self._change(cause, before))]

    def _reach_out(self, page_number: int, cause: str) -> list[Event]:
        self._recall_patience.stepped()
        if self._recall_steps == len(self._widths) - 1:
            return []
        return self._move_recall(page_number, +1, cause)

    def _draw_in_if_calm(self, page_number: int, cause: str) -> list[Event]:
        if not self._recall_steps or not self._recall_patience.over_after_calm_page():
            return []
        return self._move_recall(page_number, -1, cause)

    def _move_recall(self, page_number: int, step: Literal[1, -1], cause: str) -> list[Event]:
        before, tokens_before = self._granted
        self._recall_steps += step
        self._recent.clear()
        denser = self.reference_tokens != tokens_before
        kind = ("references_" if denser else "window_") + (
            ("denser" if denser else "widened") if step > 0 else ("thinned" if denser else "narrowed")
        )
        return [Event(kind=kind, page_number=page_number, detail=self._change(cause, before))]

    def _change(self, cause: str, before_pages: int) -> str:
        return (
            f"{cause}: window {before_pages} -> {self.window_pages} pages, {self.reference_tokens} tokens a reference"
        )


def _recall_ladder(config: SrSwaConfig) -> tuple[tuple[int, int], ...]:
    """Return (window pages, reference tokens) per recall step: half as wide again, twice as wide, denser."""
    base, tokens = config.window_pages, config.reference_tokens
    widest = max(base, config.max_window_pages)
    widths = sorted({base, min(base + (base + 1) // 2, widest), min(2 * base, widest)})
    return (*((width, tokens) for width in widths), (widths[-1], DENSER_FACTOR * tokens))


def _shown(ratio: float | None) -> str:
    return "unknown" if ratio is None else f"{ratio:.2f}"


def _cuda_used_ratio(device: torch.device) -> float:
    free_bytes, total_bytes = torch.cuda.mem_get_info(device)
    reusable_bytes = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return (total_bytes - free_bytes - reusable_bytes) / total_bytes
