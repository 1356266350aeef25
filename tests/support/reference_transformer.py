"""A small decoder with random weights and rotary positions, reading pages through ``AttentionContext``.

It stands for any large model: what it writes is nonsense, but every logit depends on every key it may see, so a
token too many, too few or in the wrong place shows. Features of a page are random vectors, its output is greedy.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import torch

from data_contracts.geometry import Box
from data_contracts.result import Line, PageResult, Word
from models.sr_swa.attention import Step
from models.sr_swa.context import AttentionContext
from models.sr_swa.gate import entropy_uncertainty
from models.sr_swa.geometry import Geometry
from models.sr_swa.memory.kv import KVBlock
from models.sr_swa.memory.store import group_query
from models.sr_swa.pages import Decoding, EncodedPage, PageImage

VOCABULARY = 48
PROMPT_IDS = (1, 2, 3)
SINK_IDS = (0, 4)
WEIGHT_GAIN = 1.6
"""Weights this large make logits with a standard deviation above 2: flat logits would notice nothing."""
ASK_EVERY_STEPS = 3
"""The gate is asked after the prompt and again at every third output, so that references change within a page."""


@dataclass(frozen=True)
class Layer:
    """Weights of one layer, each [in, out]."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    output: torch.Tensor
    up: torch.Tensor
    down: torch.Tensor


def normalize(hidden: torch.Tensor) -> torch.Tensor:
    return hidden / hidden.pow(2).mean(-1, keepdim=True).add(1e-6).sqrt()


class ReferenceTransformer:
    """An ``OcrModel``. ``logits`` [outputs + 1, vocabulary] by page, and ``fetched`` pages, are what tests compare."""

    def __init__(
        self,
        *,
        layers: int = 2,
        query_heads: int = 4,
        kv_heads: int = 2,
        head_dim: int = 8,
        page_tokens: int = 6,
        sink: bool = True,
        rope_theta: float | None = 100.0,
        max_positions: int = 512,
        dtype: torch.dtype = torch.float32,
        device: str = "cpu",
        seed: int = 0,
    ) -> None:
        self.geometry = Geometry(
            layers=layers,
            kv_heads=kv_heads,
            head_dim=head_dim,
            page_tokens=page_tokens,
            dtype=dtype,
            device=device,
            query_heads=query_heads,
            rope_theta=rope_theta,
            max_positions=max_positions,
            sink_tokens=len(SINK_IDS) if sink else 0,
            prompt_tokens=len(PROMPT_IDS),
        )
        self.dim = query_heads * head_dim
        self.logits: dict[int, torch.Tensor] = {}
        self.fetched: list[tuple[int, ...]] = []
        draw = torch.Generator().manual_seed(seed)

        def weight(rows: int, columns: int) -> torch.Tensor:
            drawn = torch.randn(rows, columns, generator=draw, dtype=torch.float64) * WEIGHT_GAIN / rows**0.5
            return drawn.to(device, dtype)

        self.embedding = weight(VOCABULARY, self.dim) * VOCABULARY**0.5
        self.layers = [
            Layer(
                query=weight(self.dim, self.dim),
                key=weight(self.dim, kv_heads * head_dim),
                value=weight(self.dim, kv_heads * head_dim),
                output=weight(self.dim, self.dim),
                up=weight(self.dim, 2 * self.dim),
                down=weight(2 * self.dim, self.dim),
            )
            for _ in range(layers)
        ]
        self.head = weight(self.dim, VOCABULARY)

    @property
    def fingerprint(self) -> str:
        bits = self.head.double().cpu().numpy().tobytes()
        return f"reference-{hashlib.sha256(bits).hexdigest()[:12]}-{self.geometry.dtype}"

    def encode_visual(self, image: PageImage) -> EncodedPage:
        return self.page(image.page_number)

    def page(self, page_number: int, tokens: int | None = None) -> EncodedPage:
        """Return page ``page_number`` of the document that every test reads: a pure function of the number."""
        draw = torch.Generator().manual_seed(1000 + page_number)
        shape = (self.geometry.page_tokens if tokens is None else tokens, self.dim)
        features = torch.randn(shape, generator=draw, dtype=torch.float64) * WEIGHT_GAIN
        return EncodedPage(page_number, 10, 10, 72.0, features=features.to(self.geometry.device, self.geometry.dtype))

    @staticmethod
    def outputs(page_number: int) -> int:
        """How many tokens are written of a page."""
        return 4 + page_number % 3

    def prefill(self, page: EncodedPage, context: AttentionContext) -> KVBlock:
        if context.needs_sink:
            self._run(self._embed(SINK_IDS), context.open_sink(len(SINK_IDS)))
        assert page.features is not None
        self._run(page.features, context.open_page(page.page_number, len(page.features)))
        return context.page_block(page.page_number)

    def decode(self, page: EncodedPage, context: AttentionContext) -> Decoding:
        hidden, queries = self._run(self._embed(PROMPT_IDS), context.open_prompt(len(PROMPT_IDS)))
        logits, written = [], []
        for index in range(self.outputs(page.page_number)):
            logits.append(normalize(hidden[-1]) @ self.head)
            written.append(int(logits[-1].argmax()))
            if index % ASK_EVERY_STEPS == 0:
                query = group_query(queries[:, :, -1:], self.geometry.kv_heads)
                fetch = context.fetch(query, float(entropy_uncertainty(logits[-1])))
                self.fetched += [fetch.page_numbers] if fetch else []
            hidden, queries = self._run(self._embed(written[-1:]), context.open_text())
        self.logits[page.page_number] = torch.stack([*logits, normalize(hidden[-1]) @ self.head])
        return Decoding(lines=(line(written),), token_ids=tuple(written), window_mass=context.window_mass())

    def _embed(self, token_ids: list[int] | tuple[int, ...]) -> torch.Tensor:
        return self.embedding[list(token_ids)]

    def _run(self, hidden: torch.Tensor, step: Step) -> tuple[torch.Tensor, torch.Tensor]:
        """Return hidden states [tokens, dim] and un-rotated queries [layers, query_heads, tokens, head_dim]."""
        queries = []
        for index, layer in enumerate(self.layers):
            normal = normalize(hidden)
            query, key, value = (self._heads(normal @ part) for part in (layer.query, layer.key, layer.value))
            attended = step.attend(index, query, key, value)
            hidden = hidden + attended.transpose(0, 1).flatten(1) @ layer.output
            hidden = hidden + torch.tanh(normalize(hidden) @ layer.up) @ layer.down
            queries.append(query)
        return hidden, torch.stack(queries)

    def _heads(self, projected: torch.Tensor) -> torch.Tensor:
        """[tokens, heads x head_dim] -> [heads, tokens, head_dim]."""
        return projected.unflatten(-1, (-1, self.geometry.head_dim)).transpose(0, 1)


def line(token_ids: list[int]) -> Line:
    """Return a line whose words are the token ids."""
    box = Box(left=0, top=0, right=10, bottom=1)
    words = tuple(Word(text=f"w{token_id}", box=box, confidence=1.0) for token_id in token_ids)
    quad = ((0.0, 0.0), (10.0, 0.0), (10.0, 1.0), (0.0, 1.0))
    return Line(text=" ".join(word.text for word in words), box=box, quad=quad, confidence=1.0, words=words)


def written(result: PageResult) -> list[int]:
    """Return the token ids that a page's line was made of."""
    return [int(word.text[1:]) for word in result.lines[0].words]
