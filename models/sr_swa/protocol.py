"""The seam between the loop and a model: what a model is given and what it owes.

The loop (``continuous.py``), window, store, gate, controller and state know nothing of the
implementations behind ``OcrModel``; a model knows nothing of files, PDFs or Prefect.
"""

from __future__ import annotations

from typing import Protocol

from models.sr_swa.context import AttentionContext
from models.sr_swa.geometry import Geometry
from models.sr_swa.memory.kv import KVBlock
from models.sr_swa.pages import Decoding, EncodedPage, PageImage


class OcrModel(Protocol):
    """A reader of pages."""

    @property
    def fingerprint(self) -> str:
        """Weights, device class and dtype: two models with one fingerprint read alike."""

    @property
    def geometry(self) -> Geometry:
        """The shape of its key-value memory."""

    def encode_visual(self, image: PageImage) -> EncodedPage:
        """Encode one page; a pure function of it, called by the encode task only."""

    def prefill(self, page: EncodedPage, context: AttentionContext) -> KVBlock:
        """Return the page's keys and values [layers, kv_heads, tokens, head_dim].

        Either a block of the model's own, keys un-rotated, which the loop copies into a window slot and forgets;
        or ``context.page_block(page.page_number)``, the slot that the model has filled through
        ``context.open_page``. May be called again for the same page, and must then return the same.

        Raises:
            DecodeFailed: the page cannot be read.
        """

    def decode(self, page: EncodedPage, context: AttentionContext) -> Decoding:
        """Read the page within ``context``; the model fetches references through it.

        Raises:
            DecodeFailed: the page cannot be read.
        """
