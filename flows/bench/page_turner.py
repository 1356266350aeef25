"""Made-up pages read through the ``AttentionContext`` that reads documents, with the bytes held after every update."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Self, TypeAlias

import torch

from data_contracts.config import SrSwaConfig
from models.sr_swa.attention import Step
from models.sr_swa.baselines import Workload
from models.sr_swa.context import AttentionContext
from models.sr_swa.geometry import Geometry
from models.sr_swa.memory.kv import KVBlock
from models.sr_swa.pages import Decoding

PROMPT_TOKENS = 16
SEED = 1
LOST = 1.0
"""An uncertainty at which the gate fires: every page fetches, the most that a document can ask for."""

GEOMETRIES = {
    "7b-mha": Geometry(32, 32, 128, 256, torch.float16, query_heads=32, prompt_tokens=PROMPT_TOKENS),
    "7b-gqa": Geometry(32, 8, 128, 256, torch.float16, query_heads=32, prompt_tokens=PROMPT_TOKENS),
    "unlimited-ocr": Geometry(12, 10, 128, 273, torch.bfloat16, query_heads=10, prompt_tokens=PROMPT_TOKENS),
}
"""Unlimited-OCR makes 16 x 17 + 1 visual tokens of a page; the 7B decoders are given 256."""

Draw: TypeAlias = Callable[..., torch.Tensor]


@dataclass(frozen=True)
class Setup:
    """What is measured: ``layers`` of SR-SWA, at most ``baseline_bytes`` of a baseline, steps at pages ``depths``."""

    geometry_name: str
    pages: int
    config: SrSwaConfig
    text_tokens: int
    layers: int
    depths: tuple[int, ...]
    latency_pairs: int
    baseline_bytes: int
    device: str = "cpu"

    @property
    def geometry(self) -> Geometry:
        """The whole geometry, on the device."""
        return replace(GEOMETRIES[self.geometry_name], device=self.device)

    @property
    def full_page(self) -> int:
        """The page from which live and store bytes may not change: window and store are full, all is fetched."""
        return self.config.window_pages + self.config.reference_pages + self.config.top_k

    @property
    def live_tokens(self) -> int:
        """The formula: window, tail, fetched references and prompt [tokens]."""
        config = self.config
        window_tokens = config.window_pages * self.geometry.page_tokens
        references_tokens = config.top_k * config.reference_tokens
        return window_tokens + config.tail_tokens + references_tokens + self.geometry.prompt_tokens

    @property
    def live_bytes(self) -> int:
        """The formula in bytes, all layers."""
        return self.live_tokens * self.geometry.bytes_per_token

    @property
    def store_bytes(self) -> int:
        """The formula: a reference and half a token's landmark a page that has left, up to the capacity, all layers."""
        left_pages = min(max(0, self.pages - self.config.window_pages), self.config.reference_pages)
        token_bytes = self.geometry.bytes_per_token
        return left_pages * (self.config.reference_tokens * token_bytes + token_bytes // 2)

    @property
    def workload(self) -> Workload:
        """The same pages, for the baselines."""
        return Workload(self.geometry, self.text_tokens, self.config.tail_tokens, self.live_tokens)


@dataclass(frozen=True)
class Tokens:
    """New tokens of one layer: ``query`` [query_heads, tokens, head_dim], ``keys``, ``values`` [kv_heads, ...]."""

    query: torch.Tensor
    keys: torch.Tensor
    values: torch.Tensor

    @classmethod
    def of(cls, geometry: Geometry, tokens: int, draw: Draw) -> Self:
        """Draw ``tokens`` tokens."""
        heads = (geometry.query_heads or geometry.kv_heads, geometry.kv_heads, geometry.kv_heads)
        return cls(*(draw(count, tokens, geometry.head_dim) for count in heads))

    def attend(self, step: Step) -> None:
        """Go through the first layer of ``step``."""
        step.attend(0, self.query, self.keys, self.values)


@dataclass
class HighWater:
    """The most bytes held at any update: live, store, and both at one time by page (``both[page - 1]``)."""

    live: int = 0
    store: int = 0
    bookkeeping: int = 0
    both: list[int] = field(default_factory=list)
    _store_now: int = 0

    def note(self, context: AttentionContext, *, store_touched: bool) -> None:
        """Count what is held now; the store's tensors only when they may have changed."""
        live = context.live_kv_bytes
        self._store_now = context.store.nbytes if store_touched else self._store_now
        self.live, self.store = max(self.live, live), max(self.store, self._store_now)
        self.both[-1] = max(self.both[-1], live + self._store_now)


class PageTurner:
    """Reads pages as the loop does, the same made-up page each time, and counts bytes after every update."""

    def __init__(self, setup: Setup, layers: int) -> None:
        """Allocate the context for ``layers`` layers; draw one page, one prompt, one output token and one query."""
        geometry = replace(setup.geometry, layers=layers)
        draw = drawing(geometry)
        self.context = AttentionContext(geometry, setup.config)
        self.high_water = HighWater()
        self.page_number = 0
        self._text_tokens = setup.text_tokens
        self._page = KVBlock(
            page_number=0,
            keys=draw(layers, geometry.kv_heads, geometry.page_tokens, geometry.head_dim),
            values=draw(layers, geometry.kv_heads, geometry.page_tokens, geometry.head_dim),
            positions=torch.arange(geometry.page_tokens, device=geometry.device),
        )
        self._output = self._page.slice(0, 1)
        self._prompt = Tokens.of(geometry, geometry.prompt_tokens, draw)
        self._token = Tokens.of(geometry, 1, draw)
        self._query = draw(layers, geometry.kv_heads, 1, geometry.head_dim)

    def read_to(self, page_number: int) -> Self:
        """Read on until ``page_number`` has been read."""
        while self.page_number < page_number:
            self.page_number += 1
            self.high_water.both.append(0)
            for store_touched in self._updates():
                self.high_water.note(self.context, store_touched=store_touched)
            self.high_water.bookkeeping = max(self.high_water.bookkeeping, self.context.bookkeeping_bytes)
        return self

    def step(self) -> None:
        """Decode one more output token of the page through one layer."""
        self._token.attend(self.context.open_text())

    def _updates(self) -> Iterator[bool]:
        """Turn one page; yield after each update whether it touched the store.

        The first output attends, the others only enter the tail.
        """
        context = self.context
        context.begin_page(self.page_number)
        context.make_room()
        yield True
        context.window.admit(replace(self._page, page_number=self.page_number))
        yield True
        self._prompt.attend(context.open_prompt(self._prompt.query.shape[1]))
        yield True
        context.fetch(self._query, LOST)
        self.step()
        yield True
        for _ in range(self._text_tokens - 1):
            context.tail.buffer.write(self._output, context.tail.append())
            yield False
        context.finish_page(Decoding(lines=(), window_mass=context.window_mass()))
        yield True


def drawing(geometry: Geometry) -> Draw:
    """Return a function shape -> normally distributed numbers of the geometry's dtype, the same in every run."""
    generator = torch.Generator().manual_seed(SEED)
    return lambda *shape: torch.randn(shape, generator=generator).to(geometry.device, geometry.dtype)
