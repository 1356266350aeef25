"""The sparse reference store: a few tokens of each page that has left the window, bounded always.

A reference keeps the tokens that the decoder itself used most while the page was in the window, un-rotated, and
is found again by a landmark. Lives in host memory; what the decoder attends to is a copy, fetched on demand.
Knows nothing of windows and gates, and never asks what a page says.

Nearest relatives: ReKV (arXiv 2503.00540), whose landmark is the mean key but whose store grows with the pages;
InfLLM (arXiv 2402.04617), which keeps all tokens of all blocks.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch

from models.sr_swa.geometry import Geometry
from models.sr_swa.memory.kv import KVBlock, storage_bytes
from models.sr_swa.memory.state import JSON, Snapshot

RARITY = "rarity"
"""The payload that decides between tokens of equal mass: higher is rarer."""
USE_HALF_LIFE_PAGES = 32
"""A use this long ago counts half: a name that the last chapter needed, this one may not."""
INT8_MAX = 127


@dataclass(frozen=True, eq=False)
class Packed:
    """A tensor [..., head_dim], as it is or in 8 bits with one scale [..., 1] a token, layer and head."""

    data: torch.Tensor
    scale: torch.Tensor | None = None

    @classmethod
    def of(cls, tensor: torch.Tensor, *, int8: bool) -> Packed:
        """Pack ``tensor``; in 8 bits its error is at most half a step: the largest entry of the token / 254."""
        if not int8:
            return cls(tensor)
        exact = tensor.float()
        scale = exact.abs().amax(-1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny) / INT8_MAX
        return cls((exact / scale).round().to(torch.int8), scale)

    def unpack(self, dtype: torch.dtype) -> torch.Tensor:
        """Return the tensor as ``dtype``."""
        return self.data if self.scale is None else (self.data * self.scale).to(dtype)

    def parts(self, name: str) -> dict[str, torch.Tensor]:
        """Return the tensors by name."""
        return {name: self.data} if self.scale is None else {name: self.data, f"{name}_scale": self.scale}


@dataclass(eq=False)
class Reference:
    """What is kept of one page. Tokens lie most-used first, so that the first n are the best reference of n tokens.

    ``landmark`` [layers, kv_heads, head_dim] is None where every token is a landmark. ``last_use`` is the page
    during which it was last a hit, and ``uses`` how often.
    """

    page_number: int
    keys: Packed
    values: Packed
    positions: torch.Tensor
    payload: Mapping[str, torch.Tensor]
    landmark: torch.Tensor | None
    uses: int = 0
    last_use: int = 0

    @property
    def tokens(self) -> int:
        """How many tokens are kept."""
        return self.positions.shape[0]

    @property
    def nbytes(self) -> int:
        """Bytes of keys, values, scales, payload and landmark, as allocated."""
        return storage_bytes(part for name, part in self.parts().items() if name != "positions")

    def block(self, dtype: torch.dtype, tokens: int | None = None) -> KVBlock:
        """Return the ``tokens`` most used tokens (default: all) in the order of the page, keys un-rotated, a copy."""
        order = self.positions[:tokens].argsort(stable=True)
        block = KVBlock(
            self.page_number, self.keys.unpack(dtype), self.values.unpack(dtype), self.positions, self.payload
        )
        return block.take(order)

    def landmarks(self, layer: int) -> torch.Tensor:
        """Return what a query is compared with in one layer: unit length, float32 [kv_heads, landmarks, head_dim]."""
        if self.landmark is not None:
            return _directions(self.landmark[layer].unsqueeze(1))
        return _directions(self.keys.unpack(torch.float32)[layer])

    def parts(self) -> dict[str, torch.Tensor]:
        """Return all tensors by name."""
        landmark = {} if self.landmark is None else {"landmark": self.landmark}
        return {
            **self.keys.parts("keys"),
            **self.values.parts("values"),
            "positions": self.positions,
            **self.payload,
            **landmark,
        }


class SparseReferenceStore:
    """References by page number. Invariants: at most ``capacity_pages``; one a page, the latest.

    Memory grows by one reference a page until the capacity is reached, and stays there: what goes is released
    before what comes is allocated.
    """

    def __init__(self, geometry: Geometry, capacity_pages: int, reference_tokens: int, *, int8: bool = False) -> None:
        """Hold nothing. ``reference_tokens`` may be changed; it applies to pages that come after."""
        self.capacity_pages = capacity_pages
        self.reference_tokens = reference_tokens
        self._geometry = geometry
        self._int8 = int8
        self._references: dict[int, Reference] = {}

    def __len__(self) -> int:
        """Return how many pages are held."""
        return len(self._references)

    def __contains__(self, page_number: int) -> bool:
        """Return whether a page is held."""
        return page_number in self._references

    def __getitem__(self, page_number: int) -> Reference:
        """Return the reference of a page."""
        return self._references[page_number]

    @property
    def page_numbers(self) -> tuple[int, ...]:
        """The pages held, in order."""
        return tuple(sorted(self._references))

    @property
    def nbytes(self) -> int:
        """Bytes of all references, landmarks and payload included, as allocated."""
        return sum(reference.nbytes for reference in self._references.values())

    @property
    def bookkeeping_bytes(self) -> int:
        """Bytes of the positions of all references."""
        return sum(storage_bytes((reference.positions,)) for reference in self._references.values())

    def compress_and_store(self, block: KVBlock, mass: torch.Tensor | None = None) -> None:
        """Keep the tokens of ``block``, keys un-rotated, that received most ``mass`` [tokens]; copies, keeps no view.

        Ties, and a page without mass, go by the payload ``rarity`` (rarer first), then by position. A full store
        first gives up the reference with the least ``retention``. A page without tokens is not kept.
        """
        self._references.pop(block.page_number, None)
        if not self.capacity_pages or not block.tokens:
            return
        order = _most_used(block, mass)[: self.reference_tokens]
        landmark = self._landmark(block)
        while len(self._references) >= self.capacity_pages:
            marks = block.keys[:, :, order] if landmark is None else landmark.unsqueeze(2)
            del self._references[self._least_worth_keeping(marks, block.page_number)]
        kept = block.take(order)
        self._references[block.page_number] = Reference(
            page_number=block.page_number,
            keys=Packed.of(self._to_host(kept.keys), int8=self._int8),
            values=Packed.of(self._to_host(kept.values), int8=self._int8),
            positions=self._to_host(kept.positions),
            payload={name: self._to_host(part) for name, part in kept.payload.items()},
            landmark=landmark,
            last_use=block.page_number,
        )

    def similarities(self, query: torch.Tensor) -> dict[int, float]:
        """Return cosine of ``query`` and each page's landmark, by page number, one figure for all layers.

        ``query`` [layers, kv_heads, steps, head_dim] carries no position. A page counts by its best landmark for the
        best step; of these each is the mean over layers and heads. One layer at a time, to spare memory.

        Raises:
            ValueError: ``query`` has another shape.
        """
        wanted = (self._geometry.layers, self._geometry.kv_heads, self._geometry.head_dim)
        if query.ndim != 4 or (*query.shape[:2], query.shape[3]) != wanted:
            raise ValueError(
                f"query {list(query.shape)}, expected [layers, kv_heads, steps, head_dim] with {wanted} but for steps: "
                "average the query heads of a group (group_query)"
            )
        if not self._references:
            return {}
        sizes = [reference.tokens if reference.landmark is None else 1 for reference in self._references.values()]
        cosines = torch.zeros(query.shape[2], sum(sizes))
        for layer, asked in enumerate(_directions(self._to_host(query))):
            landmarks = torch.cat([reference.landmarks(layer) for reference in self._references.values()], dim=1)
            cosines += (asked @ landmarks.mT).mean(0) / self._geometry.layers
        best = [float(part.max()) for part in torch.split(cosines, sizes, dim=1)]
        return dict(zip(self._references, best, strict=True))

    def select_relevant(self, query: torch.Tensor, top_k: int) -> list[Reference]:
        """Return the ``top_k`` pages most similar to ``query`` [layers, kv_heads, steps, head_dim], best first."""
        ranked = sorted(self.similarities(query).items(), key=lambda entry: (-entry[1], entry[0]))
        return [self._references[page_number] for page_number, _ in ranked[:top_k]]

    def record_use(self, page_number: int, during_page: int) -> None:
        """Note that the decoder made use of a reference while it read ``during_page``."""
        if page_number in self._references:
            self._references[page_number].uses += 1
            self._references[page_number].last_use = during_page

    def retention(self, newcomer: torch.Tensor, now_page: int) -> dict[int, float]:
        """Return what each reference is worth keeping beside a ``newcomer``.

        Novelty, 1 - cosine with its nearest neighbour (newcomer included), times 1 + its uses, which fade with
        their age. So of two near-duplicates one goes first, whatever its age; a used page outlasts an unused one;
        and of pages that are new and unused those go that resemble others: the document is thinned, its head not
        cut off. ``newcomer`` [layers, kv_heads, landmarks, head_dim] are its landmarks.
        """
        cosines = torch.zeros(len(self), len(self) + 1)
        for layer, marks in enumerate(newcomer):
            held = [reference.landmarks(layer) for reference in self._references.values()]
            centres = _directions(
                torch.stack([part.mean(1) for part in (*held, _directions(self._to_host(marks)))], dim=1)
            )
            cosines += (centres[:, :-1] @ centres.mT).mean(0) / self._geometry.layers
        novelty = (1 - cosines.fill_diagonal_(-1.0).amax(1)).clamp(min=0).tolist()
        return {
            page_number: new * (1 + reference.uses * 0.5 ** ((now_page - reference.last_use) / USE_HALF_LIFE_PAGES))
            for new, (page_number, reference) in zip(novelty, self._references.items(), strict=True)
        }

    def snapshot(self) -> Snapshot:
        """Return all references with their bookkeeping."""
        tensors = {
            f"{page_number}/{name}": part.clone(memory_format=torch.contiguous_format)
            for page_number, reference in sorted(self._references.items())
            for name, part in reference.parts().items()
        }
        pages = [[reference.page_number, reference.uses, reference.last_use] for reference in self._references.values()]
        return tensors, {"pages": pages, "reference_tokens": self.reference_tokens}

    def restore(self, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, JSON]) -> None:
        """Hold the references of a snapshot."""
        self.reference_tokens = metadata["reference_tokens"]
        self._references = {}
        for page_number, uses, last_use in metadata["pages"]:
            part = {
                name: self._to_host(tensors[f"{page_number}/{name}"])
                for name in (*_PARTS, *self._geometry.payload)
                if f"{page_number}/{name}" in tensors
            }
            self._references[page_number] = Reference(
                page_number=page_number,
                keys=Packed(part["keys"], part.get("keys_scale")),
                values=Packed(part["values"], part.get("values_scale")),
                positions=part["positions"],
                payload={name: part[name] for name in self._geometry.payload},
                landmark=part.get("landmark"),
                uses=uses,
                last_use=last_use,
            )

    def _landmark(self, block: KVBlock) -> torch.Tensor | None:
        """Return the mean key of the page [layers, kv_heads, head_dim], layer by layer to spare memory."""
        if self._geometry.landmarks == "tokens":
            return None
        means = [layer.mean(1, dtype=torch.float32) for layer in block.keys]
        return self._to_host(torch.stack(means).to(block.keys.dtype))

    def _least_worth_keeping(self, newcomer: torch.Tensor, page_number: int) -> int:
        """Return the page to give up: least retention, then fewest uses, then oldest."""
        now_page = max(page_number, *(reference.last_use for reference in self._references.values()))
        worth = self.retention(newcomer, now_page)
        return min(worth, key=lambda number: (worth[number], self._references[number].uses, number))

    def _to_host(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return ``tensor`` in host memory, pinned where a GPU will fetch it."""
        host = tensor.detach().to("cpu")
        return host.pin_memory() if torch.device(self._geometry.device).type == "cuda" else host


Selector: TypeAlias = Callable[[SparseReferenceStore, torch.Tensor, int], Sequence[Reference]]
"""How pages are chosen: (store, query, top_k) -> references, best first."""


def random_selection(seed: int) -> Selector:
    """Return the control for every selection: ``top_k`` pages drawn at random, whatever is asked."""
    draw = random.Random(seed)

    def select(store: SparseReferenceStore, query: torch.Tensor, top_k: int) -> Sequence[Reference]:
        del query
        return [store[number] for number in draw.sample(store.page_numbers, min(top_k, len(store)))]

    return select


def group_query(query: torch.Tensor, kv_heads: int) -> torch.Tensor:
    """Return ``query`` [layers, query_heads, steps, head_dim] as mean over the heads that share a kv head."""
    layers, _, steps, head_dim = query.shape
    return query.reshape(layers, kv_heads, -1, steps, head_dim).mean(2)


_PARTS = ("keys", "keys_scale", "values", "values_scale", "positions", "landmark")


def _most_used(block: KVBlock, mass: torch.Tensor | None) -> torch.Tensor:
    """Return the tokens' indices: most mass first, then rarer, then earlier. Stable sorts, last key first."""
    order = block.positions.argsort(stable=True)
    for key in (block.payload.get(RARITY), mass):
        if key is not None:
            order = order[key[order].argsort(descending=True, stable=True)]
    return order


def _directions(states: torch.Tensor) -> torch.Tensor:
    """Return ``states`` [..., head_dim] as float32 of unit length."""
    return torch.nn.functional.normalize(states.float(), dim=-1)
