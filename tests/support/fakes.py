"""A scripted model: a function page -> what is written, and everything else as dull as possible.

Like a transport that takes a function: no mock library. What it writes depends on its memory (window, tail,
references), so that a loop that loses or doubles any of it writes something else.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from support.reference_transformer import line

from data_contracts.result import BlankReason
from models.sr_swa.context import AttentionContext
from models.sr_swa.geometry import Geometry
from models.sr_swa.memory.kv import KVBlock
from models.sr_swa.pages import Decoding, EncodedPage, FailedPage, PageImage

Script = Callable[[int], Sequence[int] | BlankReason | Exception]

FAKE_GEOMETRY = Geometry(
    layers=1,
    kv_heads=1,
    head_dim=4,
    page_tokens=8,
    rope_theta=None,
    landmarks="tokens",
    payload={"ids": ((2,), torch.int32), "rarity": ((), torch.float32)},
)


def write_the_page_number(page_number: int) -> Sequence[int]:
    return [page_number, page_number + 1]


@dataclass
class ScriptedModel:
    """An ``OcrModel`` of words without positions. ``script`` gives the tokens of a page, or why there are none.

    An exception is raised each time the page is decoded (``prefill_script``: prefilled). ``uncertainty`` is what the
    gate is asked with; what it fetches is a hit if the model ``uses_references``. ``seen`` notes (stage, page number,
    window pages) of every call.
    """

    script: Script = write_the_page_number
    prefill_script: Script = write_the_page_number
    uncertainty: float = 1.0
    uses_references: bool = True
    geometry: Geometry = FAKE_GEOMETRY
    fingerprint: str = "scripted"
    seen: list[tuple[str, int, tuple[int, ...]]] = field(default_factory=list)

    def encode_visual(self, image: PageImage) -> EncodedPage:
        height_px, width_px, _ = image.pixels.shape
        return EncodedPage(image.page_number, width_px, height_px, image.dpi)

    def prefill(self, page: EncodedPage, context: AttentionContext) -> KVBlock:
        self.seen.append(("prefill", page.page_number, context.window.page_numbers))
        _raise_if_error(self.prefill_script(page.page_number))
        tokens, shape = self.geometry.page_tokens, (self.geometry.layers, self.geometry.kv_heads)
        draw = torch.Generator().manual_seed(page.page_number)
        keys = torch.randn(*shape, tokens, self.geometry.head_dim, generator=draw)
        ids = torch.full((tokens, 2), page.page_number, dtype=torch.int32)
        payload = {"ids": ids, "rarity": torch.rand(tokens, generator=draw)}
        return KVBlock(page.page_number, keys, -keys, torch.arange(tokens), payload)

    def decode(self, page: EncodedPage, context: AttentionContext) -> Decoding:
        self.seen.append(("decode", page.page_number, context.window.page_numbers))
        written = _raise_if_error(self.script(page.page_number))
        if isinstance(written, BlankReason):
            return Decoding(lines=(), blank_reason=written)
        before = context.window_blocks(before=page.page_number)
        query = torch.ones(self.geometry.layers, self.geometry.kv_heads, 1, self.geometry.head_dim)
        fetch = context.fetch(query, self.uncertainty)
        if fetch is not None and self.uses_references:
            fetch.note_mass({fetch.page_numbers[0]: 1.0})
        parts = [block.payload["ids"] for block in before]
        parts += [block.payload["ids"] for block in (fetch.blocks if fetch else ())]
        memory = [*(part.flatten().tolist() for part in parts), list(context.tail.recent_ids), context.notes]
        digest = zlib.crc32(repr(memory).encode())
        context.notes["pages"] = context.notes.get("pages", 0) + 1
        mass = {block.page_number: torch.linspace(0, page.page_number, block.tokens) for block in before}
        return Decoding(lines=(line([*written, digest]),), token_ids=(*written, digest), window_mass=mass)


def _raise_if_error(
    scripted: Sequence[int] | BlankReason | Exception,
) -> Sequence[int] | BlankReason:
    if isinstance(scripted, Exception):
        raise scripted
    return scripted


def scripted_pages(
    last: int, first: int = 1, failed: Sequence[int] = (), blank: Sequence[int] = ()
) -> Iterator[EncodedPage | FailedPage]:
    """Yield pages ``first`` to ``last``; some failed to render, some are blank."""
    for page_number in range(first, last + 1):
        if page_number in failed:
            yield FailedPage(page_number, "the image is torn")
        else:
            reason = BlankReason.EMPTY if page_number in blank else None
            yield EncodedPage(page_number, 100, 200, 72.0, blank_reason=reason)
