"""The compact reader: writes a line character by character from the recogniser's frames, with words of earlier pages.

Four parts, each a class: ``FrozenHead`` (PP-OCRv6's own character head, taken from the installed package),
``WordMemory`` (words of earlier pages, found by their pictures), ``ReaderLayer``, and ``CompactDecoder`` around them.
Knows nothing of hypotheses to be verified, pages or files other than its weights.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from data_contracts.errors import ModelUnavailable
from models.compact.decode.half_linear import HalfLinear
from models.compact.decode.kv_cache import DecoderOutput, Extend, KVCache, without_cache
from models.compact.decode.line_batch import CONTEXT_CHARACTERS, LineBatch, waves
from models.compact.decode.word_memory import DecoderShape, WordMemory, WordTokens
from models.compact.onnx_weights import BLANK_CLASS, FEATURE_DIM, RECOGNIZER, find_weights

END_CLASS = BLANK_CLASS
"""The blank never stands in a text, so its class says that the line is over."""
DISTANCE_CAP = 8
"""Farther than this from its expected place a character is as unlikely as at this distance."""
END_LOGIT = 18.0
"""What an untrained decoder gives to the end where the hypothesis ends, and takes elsewhere: above any character."""
OUT_OF_SIGHT = 1e9
"""Distance of a frame that is padding: no slope lets a step attend so far."""


@dataclass(frozen=True, eq=False)
class FrozenHead:
    """The recogniser's character head: ``weight`` [classes, 120], ``bias`` [classes], ``embeddings`` [classes, 120].

    ``embeddings`` are the weights at unit length: what the recogniser compares a character with; the decoder's input
    alphabet.
    """

    weight: torch.Tensor
    bias: torch.Tensor
    embeddings: torch.Tensor

    @classmethod
    def load(cls, folder: Path | None = None) -> FrozenHead:
        """Take the head from the installed package.

        Raises:
            ModelUnavailable: the package or its weights are not the expected ones.
        """
        import onnx
        from onnx import numpy_helper

        graph = onnx.load(find_weights(RECOGNIZER, folder)).graph
        tensors = {t.name: t for t in graph.initializer if t.name in ("linear_8.w_0", "linear_8.b_0")}
        weight = torch.tensor(numpy_helper.to_array(tensors["linear_8.w_0"]).T.copy())
        return cls.of(weight, torch.tensor(numpy_helper.to_array(tensors["linear_8.b_0"]).copy()))

    @classmethod
    def of(cls, weight: torch.Tensor, bias: torch.Tensor) -> FrozenHead:
        """Build a head from ``weight`` [classes, 120] and ``bias`` [classes]."""
        return cls(weight, bias, F.normalize(weight, dim=1) * FEATURE_DIM**0.5)


@dataclass(frozen=True, eq=False)
class EncoderOutput:
    """An encoded batch, as every pass over its lines needs it.

    ``seen``: keys and values of its frames for each layer, both [lines, heads, frames, width / heads]. ``targets``
    [lines, frames, pointer_dim] are pointed at. ``recall`` [words, memory words + 1]: where each word of the batch
    looked; the last column is "nowhere".
    """

    batch: LineBatch
    seen: tuple[tuple[torch.Tensor, torch.Tensor], ...]
    targets: torch.Tensor
    recall: torch.Tensor | None = None

    def rows(self, lines: Sequence[int]) -> EncoderOutput:
        """Return some of the lines, as far as writing needs them."""
        if len(lines) == len(self.targets):
            return self
        seen = tuple((key[lines], value[lines]) for key, value in self.seen)
        return EncoderOutput(self.batch.rows(lines), seen, self.targets[lines])


class ReaderLayer(nn.Module):
    """Attention to what is written, attention to the frames, a feed-forward part; each on a normalised residual."""

    def __init__(self, shape: DecoderShape) -> None:
        """Make untrained weights."""
        super().__init__()
        width = shape.width
        self.heads, self.dropout = shape.heads, shape.dropout
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.own = HalfLinear(width, 3 * width)
        self.own_out = HalfLinear(width, width)
        self.ask = HalfLinear(width, width)
        self.see = HalfLinear(width, 2 * width)
        self.see_out = HalfLinear(width, width)
        self.steepness = nn.Parameter(torch.linspace(-1.0, 1.0, shape.heads))
        self.mix = nn.Sequential(HalfLinear(width, shape.hidden), nn.GELU(), HalfLinear(shape.hidden, width))

    def encode(self, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return keys and values [lines, heads, frames, dim] of frames with ``states`` [lines, frames, width]."""
        key, value = self.see(states).chunk(2, dim=-1)
        return self._split(key), self._split(value)

    def forward(
        self,
        text: torch.Tensor,
        seen: tuple[torch.Tensor, torch.Tensor],
        causal: torch.Tensor,
        distance: torch.Tensor,
        extend: Extend,
    ) -> torch.Tensor:
        """Return ``text`` [lines, steps, width] after one layer.

        ``seen`` as ``encode`` gives it; ``causal`` [lines, 1, steps, slots] is True where a step may attend;
        ``distance`` [lines, steps, frames] characters from where a step expects to be. ``extend`` puts the keys and
        values of the steps behind those written earlier.
        """
        query, key, value = (self._split(part) for part in self.own(self.norms[0](text)).chunk(3, dim=-1))
        found = F.scaled_dot_product_attention(query, *extend(key, value), attn_mask=causal)
        text = text + self._thinned(self.own_out(self._merged(found)))
        bias = -F.softplus(self.steepness)[:, None, None] * distance[:, None]
        found = F.scaled_dot_product_attention(self._split(self.ask(self.norms[1](text))), *seen, attn_mask=bias)
        text = text + self._thinned(self.see_out(self._merged(found)))
        return text + self._thinned(self.mix(self.norms[2](text)))

    def _thinned(self, x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x, self.dropout, self.training)

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(*x.shape[:-1], self.heads, -1).transpose(1, 2)

    def _merged(self, x: torch.Tensor) -> torch.Tensor:
        return x.transpose(1, 2).flatten(-2)


class CompactDecoder(nn.Module):
    """Autoregressive decoder on frozen frames.

    It knows how many characters of the hypothesis are used up before each step (``places``), expects the next one at
    the peak of the next, and the end where none is left. Untrained it writes the hypothesis; it learns where not to.

    Invariant: the row of a line in any output depends on that line, its context, its prefix and the memory alone.
    """

    def __init__(self, shape: DecoderShape, head: FrozenHead) -> None:
        """Make an untrained decoder on ``head``."""
        super().__init__()
        width = shape.width
        self.shape, self.head = shape, head
        self.frame = HalfLinear(FEATURE_DIM, width)
        self.signal = HalfLinear(3, width)
        self.frame_norm = nn.LayerNorm(width)
        self.smooth = nn.Conv1d(width, width, 5, padding=2)
        self.memory = WordMemory(shape)
        self.character = HalfLinear(FEATURE_DIM, width)
        self.begin = nn.Parameter(torch.zeros(width))
        self.before = nn.Parameter(torch.zeros(width))
        self.remaining = HalfLinear(width, width)
        self.layers = nn.ModuleList(ReaderLayer(shape) for _ in range(shape.layers))
        self.point_from = HalfLinear(width, shape.pointer_dim)
        self.point_to = HalfLinear(width, shape.pointer_dim)
        self.point_steepness = nn.Parameter(torch.tensor(4.0))
        self.peak = nn.Parameter(torch.tensor(6.0))
        self.pointed = HalfLinear(FEATURE_DIM, width)
        self.last_norm = nn.LayerNorm(width)
        self.change = HalfLinear(width, FEATURE_DIM)
        self.trust = nn.Parameter(torch.tensor(1.0))
        self.end = HalfLinear(width, 1)
        self.end_trust = nn.Parameter(torch.tensor(END_LOGIT))
        with torch.no_grad():
            for layer in (self.point_from, self.end):
                layer.weight.mul_(0.1)
        nn.init.zeros_(self.change.weight)
        nn.init.zeros_(self.change.bias)

    def encode(self, batch: LineBatch, words: WordTokens | None = None) -> EncoderOutput:
        """Encode ``batch``, with the ``words`` of earlier pages if there are any."""
        width = self.shape.width
        place = torch.arange(batch.frames.shape[1]).expand_as(batch.counts)
        states = self.frame(batch.frames) + self.signal(batch.signals)
        states = states + waves(place, width) + waves(2 * batch.counts, width)
        states = states * batch.real[..., None]
        states = states + F.gelu(self.smooth(self.frame_norm(states).mul(batch.real[..., None]).mT).mT)
        recall = None
        if words is not None and len(words.keys) and len(batch.word_pictures):
            states, recall = self.memory(batch, states, words, self.head.embeddings)
        seen = tuple(layer.encode(states) for layer in self._readers)
        return EncoderOutput(batch, seen, self.point_to(states), recall)

    @property
    def _readers(self) -> Sequence[ReaderLayer]:
        return cast("Sequence[ReaderLayer]", self.layers)

    def empty_cache(self, lines: int, characters: int) -> KVCache:
        """Return room for so many ``lines`` of at most so many ``characters``, for ``write``."""
        heads, width = self.shape.heads, self.shape.width
        return KVCache(self.shape.layers, lines, heads, CONTEXT_CHARACTERS + 1 + characters, width // heads)

    def decode(
        self, encoder_output: EncoderOutput, prefix: torch.Tensor, places: torch.Tensor, cache: KVCache | None = None
    ) -> DecoderOutput:
        """Return what follows each prefix of ``prefix`` [lines, steps], the empty and the whole one included.

        Ids -1 are padding behind the text. Step n says what follows prefix[:n], when ``places``[n] characters of the
        hypothesis are used up [lines, steps + 1]. With ``cache``, the outputs of a line begin behind what is known
        of it.
        """
        batch, width = encoder_output.batch, self.shape.width
        text, places, slots = self._steps(batch, prefix, places, cache)
        before = max(0, batch.context.shape[1] - int(slots[:, 0].min()))
        shown = torch.arange(cache.slots if cache else slots.shape[1])
        is_text = F.pad(batch.context >= 0, (0, len(shown) - batch.context.shape[1]), value=True)
        causal = (shown <= slots[..., None]) & is_text[:, None] | (shown == slots[..., None])
        distance = (places[:, :, None] + 1 - batch.counts[:, None, :]).abs().clamp_max(DISTANCE_CAP).float()
        distance = distance.masked_fill(~batch.real[:, None], OUT_OF_SIGHT)
        text = text + waves(2 * places, width)
        text = text + self.remaining(waves(2 * (batch.totals[:, None] - places), width))
        for number, layer in enumerate(self._readers):
            if number == len(self.layers) - 1:
                pointing = self._point(text, encoder_output, distance)
                glance = pointing.exp() @ batch.frames
                text = text + self.pointed(glance)
            extend = partial(cache.extend, number, slots) if cache else without_cache
            text = layer(text, encoder_output.seen[number], causal[:, None], distance, extend)
        text, glance = self.last_norm(text[:, before:]), glance[:, before:]
        used_up = (places[:, before:] >= batch.totals[:, None]).float() * 2 - 1
        ends = self.end(text).squeeze(-1) + self.end_trust * used_up
        return DecoderOutput(self.change(text) + self.trust * glance, ends, pointing[:, before:])

    def _point(self, text: torch.Tensor, encoder_output: EncoderOutput, distance: torch.Tensor) -> torch.Tensor:
        """Return the log-probability [lines, steps, frames] of the frame at which each step points."""
        scores = self.point_from(text) @ encoder_output.targets.mT * self.shape.pointer_dim**-0.5
        scores = scores - F.softplus(self.point_steepness) * distance
        return torch.log_softmax(scores + self.peak * encoder_output.batch.signals[:, None, :, 2], dim=-1)

    def log_probabilities(self, decoder_output: DecoderOutput, classes: torch.Tensor) -> torch.Tensor:
        """Return log-probabilities [lines, steps, len(classes)] among ``classes``, of which the first is the end."""
        logits = decoder_output.states @ self.head.weight[classes].T + self.head.bias[classes]
        return torch.log_softmax(torch.cat((decoder_output.ends[..., None], logits[..., 1:]), dim=-1), dim=-1)

    def _steps(
        self, batch: LineBatch, prefix: torch.Tensor, places: torch.Tensor, cache: KVCache | None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return states [lines, steps, width], places and slots [lines, steps] of the steps that are not known yet."""
        before = batch.context.shape[1]
        context = self.character(self.head.embeddings[batch.context.clamp_min(0)]) + self.before
        begin = self.begin.expand(len(prefix), 1, -1)
        text = torch.cat((context, begin, self.character(self.head.embeddings[prefix.clamp_min(0)])), dim=1)
        places = torch.cat((torch.arange(-before, 0).expand(len(prefix), -1), places), dim=1)
        slots = torch.arange(text.shape[1]).expand(len(prefix), -1)
        if cache is None or not int(cache.known.max()):
            return text, places, slots
        ends = before + 1 + (prefix >= 0).sum(dim=1)
        slots = cache.known[:, None] + torch.arange(int((ends - cache.known).max()))
        row = slots.clamp_max(text.shape[1] - 1)
        slots = torch.where(slots < ends[:, None], slots, cache.slots - 1)
        return text.gather(1, row[..., None].expand(-1, -1, text.shape[2])), places.gather(1, row), slots


def save_weights(model: CompactDecoder, path: Path, about: str) -> str:
    """Write the weights as float16 with their shape and ``about``, and return the file's sha256."""
    import json

    from safetensors.torch import save_file

    tensors = {name: value.half().contiguous() for name, value in model.state_dict().items()}
    save_file(tensors, path, {"shape": json.dumps(asdict(model.shape)), "about": about})
    return hashlib.sha256(path.read_bytes()).hexdigest()


def load_weights(path: Path, sha256: str, head: FrozenHead) -> CompactDecoder:
    """Open a decoder for reading.

    Raises:
        ModelUnavailable: the file is missing or is not the expected one.
    """
    import json

    from safetensors import safe_open

    if not path.is_file():
        raise ModelUnavailable(f"{path} does not exist; the weights are part of the package, install it again")
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != sha256:
        raise ModelUnavailable(f"{path} has sha256 {found}, expected {sha256}; install the package again")
    with safe_open(path, framework="pt") as file:
        shape = DecoderShape(**json.loads(file.metadata()["shape"]))
        tensors = {name: file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118
    model = CompactDecoder(shape, head)
    model.load_state_dict(tensors)
    return model.eval().requires_grad_(False)
