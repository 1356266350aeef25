"""Full attention over everything that was ever seen, with a mask: what SR-SWA must equal, by its definition.

Keeps every token of the document and, for each, one row: at which position it sees which earlier token, or not
at all. All layers are then computed from scratch in float64, in one pass. Shares the weights with the reference
transformer and nothing else: no window, no slots, no ring, no frames; rotation by complex numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from support.reference_transformer import ASK_EVERY_STEPS, PROMPT_IDS, SINK_IDS, ReferenceTransformer, normalize

from data_contracts.config import SrSwaConfig

INVISIBLE = math.nan


@dataclass(frozen=True)
class Token:
    """``index`` counts within the sink, the page or the prompt; for an output within all outputs."""

    kind: str
    page: int
    index: int


@dataclass
class Pass:
    """Everything that one computation from scratch yields."""

    logits: torch.Tensor
    weights: torch.Tensor
    queries: torch.Tensor
    keys: torch.Tensor


@dataclass
class Oracle:
    """``pages`` are the pages that can be read, in order. ``chosen`` notes each fetch: page -> pages fetched."""

    model: ReferenceTransformer
    config: SrSwaConfig
    pages: Sequence[int]
    tail_tokens: int | None = None
    tokens: list[Token] = field(default_factory=list)
    chosen: list[tuple[int, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        geometry, config = self.model.geometry, self.config
        self.tail_tokens = config.tail_tokens if self.tail_tokens is None else self.tail_tokens
        self.rows: list[list[float]] = []
        self.places: list[int] = []
        self.embeddings: list[torch.Tensor] = []
        self.first_output = 0
        self.references: dict[int, int] = {}
        self.references_from = geometry.sink_tokens
        reserved = 2 * config.top_k * config.reference_tokens
        window = max(config.window_pages, config.max_window_pages) * geometry.page_tokens
        self.window_end = geometry.sink_tokens + reserved + window
        self.text_start = self.window_end + geometry.prompt_tokens + config.tail_tokens

    def read(
        self, outputs: Mapping[int, Sequence[int]], tokens_of: Mapping[int, int] | None = None
    ) -> dict[int, torch.Tensor]:
        """Return logits [outputs, vocabulary] by page, given the tokens written on each page."""
        ahead, prefilled = self.config.lookahead_pages, 0
        self._add("sink", 0, [self.model.embedding[i] for i in (SINK_IDS if self.model.geometry.sink_tokens else ())])
        logits: dict[int, torch.Tensor] = {}
        for number, page in enumerate(self.pages):
            for coming in self.pages[prefilled : number + 1 + ahead]:
                features = self.model.page(coming, (tokens_of or {}).get(coming)).features
                self._add("page", coming, list(features))
            prefilled = max(prefilled, number + 1 + ahead)
            logits[page] = self._write(page, outputs[page])
        return logits

    def _write(self, page: int, outputs: Sequence[int]) -> torch.Tensor:
        self.references = {}
        self.first_output = sum(token.kind == "text" for token in self.tokens)
        self._add("prompt", page, [self.model.embedding[i] for i in PROMPT_IDS])
        steps = [len(self.tokens) - 1]
        for index, token_id in enumerate(outputs):
            if index % ASK_EVERY_STEPS == 0:
                self._ask(page)
            self._add("text", page, [self.model.embedding[token_id]])
            steps.append(len(self.tokens) - 1)
        return self._compute().logits[steps]

    def _add(self, kind: str, page: int, embeddings: Sequence[torch.Tensor]) -> None:
        first = self.first_output + sum(token.kind == "text" and token.page == page for token in self.tokens)
        start = first if kind == "text" else 0
        for offset, embedding in enumerate(embeddings):
            token = Token(kind, page, start + offset)
            self.tokens.append(token)
            self.embeddings.append(embedding.double().cpu())
            self.places.append(self._place(token))
            self.rows.append([self._seen(token, other, i) for i, other in enumerate(self.tokens)])

    def _place(self, token: Token) -> int:
        """Where a token stands when it is made."""
        geometry = self.model.geometry
        return {
            "sink": token.index,
            "page": self.window_end - geometry.page_tokens + token.index,
            "prompt": self.window_end + token.index,
            "text": self.text_start + token.index - self.first_output,
        }[token.kind]

    def _seen(self, token: Token, other: Token, number: int) -> float:
        """At which position ``token`` sees the earlier ``other``, the ``number``-th; INVISIBLE if it does not."""
        if other.kind == "sink":
            return other.index
        if token.kind == "sink":
            return INVISIBLE
        if other.kind == "page":
            pages_between = self._newest_for(token) - self.pages.index(other.page)
            if 0 <= pages_between <= self._reach(token):
                return self.window_end - (pages_between + 1) * self.model.geometry.page_tokens + other.index
            return self.references.get(number, INVISIBLE) if token.kind != "page" else INVISIBLE
        if other.kind == "prompt":
            return self.window_end + other.index if other.page == token.page and token.kind != "page" else INVISIBLE
        if token.kind == "text" and token.index - other.index < max(1, self.tail_tokens):
            return self.text_start + other.index - self.first_output
        return INVISIBLE

    def _newest_for(self, token: Token) -> int:
        """Index of the page at the end of the window: the page itself in prefill, the last lookahead page in decode."""
        own = self.pages.index(token.page)
        return own if token.kind == "page" else min(own + self.config.lookahead_pages, len(self.pages) - 1)

    def _reach(self, token: Token) -> int:
        """How many pages before the newest one are seen."""
        others = self.config.window_pages - 1
        return others - self.config.lookahead_pages if token.kind == "page" else others

    def _ask(self, page: int) -> None:
        """Fetch, if the last token is unsure, the most similar pages that have left the window."""
        done = self._compute()
        probabilities = done.logits[-1].softmax(-1)
        entropy = -(probabilities * probabilities.log()).nansum() / math.log(len(probabilities))
        newest = self._newest_for(self.tokens[-1])
        left = self.pages[: max(0, newest - self.config.window_pages + 1)]
        if entropy <= self.config.gate_uncertainty or not left or not self.config.top_k:
            return
        query = done.queries[:, :, -1].unflatten(1, (self.model.geometry.kv_heads, -1)).mean(2)
        cosine = {
            number: torch.cosine_similarity(query, done.keys[:, :, self._numbers(number)].mean(2), dim=-1).mean()
            for number in left
        }
        best = sorted(left, key=lambda number: -cosine[number])[: self.config.top_k]
        self.chosen.append(tuple(best))
        self.references = {}
        for number in best:
            for token_number in self._kept(number, done.weights):
                self.references[token_number] = self.references_from + len(self.references)

    def _kept(self, page: int, weights: torch.Tensor) -> list[int]:
        """The tokens of a page that later prompts and outputs attended to most while it was in the window, in order."""
        readers = [
            i for i, token in enumerate(self.tokens) if token.kind in ("prompt", "text") and self._held(page, token)
        ]
        mass = weights[:, :, readers].mean((0, 1)).sum(0)
        most = sorted(self._numbers(page), key=lambda number: -mass[number])[: self.config.reference_tokens]
        return sorted(most)

    def _held(self, page: int, token: Token) -> bool:
        between = self._newest_for(token) - self.pages.index(page)
        return token.page >= page and between < self.config.window_pages

    def _numbers(self, page: int) -> list[int]:
        return [i for i, token in enumerate(self.tokens) if token.kind == "page" and token.page == page]

    def _compute(self) -> Pass:
        """Run all layers over all tokens from scratch."""
        geometry, count = self.model.geometry, len(self.tokens)
        positions = torch.full((count, count), INVISIBLE, dtype=torch.float64)
        for number, row in enumerate(self.rows):
            positions[number, : len(row)] = torch.tensor(row, dtype=torch.float64)
        distance = positions - torch.tensor(self.places, dtype=torch.float64)[:, None]
        speed = (geometry.rope_theta or 1.0) ** -(
            torch.arange(0, geometry.head_dim, 2, dtype=torch.float64) / geometry.head_dim
        )
        turn = torch.exp(1j * distance.nan_to_num()[..., None] * speed) if geometry.rope_theta else None
        hidden = torch.stack(self.embeddings)
        weights, queries, keys = [], [], []
        for layer in self.model.layers:
            normal = normalize(hidden)
            query, key, value = (
                (normal @ part.double().cpu()).unflatten(-1, (-1, geometry.head_dim)).transpose(0, 1)
                for part in (layer.query, layer.key, layer.value)
            )
            group = len(query) // len(key)
            scores = _scores(query, key.repeat_interleave(group, 0), turn) / geometry.head_dim**0.5
            weight = scores.masked_fill(positions.isnan(), -math.inf).softmax(-1)
            attended = (weight @ value.repeat_interleave(group, 0)).transpose(0, 1).flatten(1)
            hidden = hidden + attended @ layer.output.double().cpu()
            hidden = hidden + torch.tanh(normalize(hidden) @ layer.up.double().cpu()) @ layer.down.double().cpu()
            for collected, part in ((weights, weight), (queries, query), (keys, key)):
                collected.append(part)
        logits = normalize(hidden) @ self.model.head.double().cpu()
        return Pass(logits, torch.stack(weights), torch.stack(queries), torch.stack(keys))


def _scores(query: torch.Tensor, key: torch.Tensor, turn: torch.Tensor | None) -> torch.Tensor:
    """Real part of conj(q) k e^(i angle), summed over pairs: [heads, queries, keys]."""
    if turn is None:
        return query @ key.mT
    q, k = (torch.complex(*part.chunk(2, dim=-1)) for part in (query, key))
    return torch.einsum("haf,hbf,abf->hab", q.conj(), k, turn).real
