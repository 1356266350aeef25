"""The decoder itself: what it depends on, what it knows untrained, and what its weights file refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from support.hypothesis_lines import ALPHABET, hypothesis_line, small_head

from data_contracts.errors import ModelUnavailable
from models.compact.decode.decoder import END_CLASS, CompactDecoder, load_weights, save_weights
from models.compact.decode.line_batch import SPACE_CLASS, LineBatch
from models.compact.decode.word_memory import DecoderShape, WordTokens
from models.compact.words.split import split_tokens
from models.compact.words.word_tokens import word_ids, word_picture

SHAPE = DecoderShape(width=32, heads=4, layers=3, hidden=48, pointer_dim=16, memory_dim=16)
TOLERANCE = 1e-4
"""Float32 rounding of another batch shape, on logits of about 10."""
CLASSES = torch.arange(len(ALPHABET))


@pytest.fixture
def decoder() -> CompactDecoder:
    torch.manual_seed(1)
    return CompactDecoder(SHAPE, small_head()).eval()


def wobbling(decoder: CompactDecoder, size: float = 0.3) -> CompactDecoder:
    """A decoder whose every weight has moved, so that every path from input to output is open."""
    torch.manual_seed(2)
    with torch.no_grad():
        for parameter in decoder.parameters():
            parameter.add_(torch.randn_like(parameter) * size * (parameter.abs().mean() + 0.1))
    return decoder


def logs(
    decoder: CompactDecoder, batch: LineBatch, text: torch.Tensor, words: WordTokens | None = None
) -> torch.Tensor:
    places = torch.arange(text.shape[1] + 1).expand(len(text), -1)
    with torch.no_grad():
        return decoder.log_probabilities(decoder.decode(decoder.encode(batch, words), text, places), CLASSES)


def memory_of(decoder: CompactDecoder, *texts: str) -> WordTokens:
    lines = [hypothesis_line(text, seed=90 + at) for at, text in enumerate(texts)]
    pairs = [(line, word) for line in lines for word in split_tokens(line.ctc_ids.tolist(), SPACE_CLASS)]
    pictures = torch.from_numpy(np.stack([word_picture(line, word) for line, word in pairs]))
    with torch.no_grad():
        return decoder.memory.tokens(pictures, torch.from_numpy(np.stack([word_ids(*pair) for pair in pairs])).long())


def test_untrained_it_writes_the_hypothesis_and_ends_where_the_hypothesis_ends(decoder: CompactDecoder) -> None:
    line = hypothesis_line("the quick brown fox", seed=3)
    hypothesis = torch.from_numpy(line.ctc_ids.astype(np.int64))[None]
    best = logs(decoder, LineBatch.of([line], [[]]), hypothesis).argmax(dim=-1)[0]
    assert best.tolist() == [*line.ctc_ids.tolist(), END_CLASS]


def test_a_step_depends_on_what_is_written_before_it_and_on_nothing_behind_it(decoder: CompactDecoder) -> None:
    decoder = wobbling(decoder)
    batch = LineBatch.of([hypothesis_line("hallo welt", seed=4)], [[5, 6]])
    text = torch.randint(1, len(ALPHABET), (1, 10), generator=torch.Generator().manual_seed(0))
    other = text.clone()
    other[0, 6] = other[0, 6] % (len(ALPHABET) - 1) + 1
    first, second = logs(decoder, batch, text), logs(decoder, batch, other)
    assert torch.allclose(first[0, :7], second[0, :7], atol=TOLERANCE)
    assert not torch.allclose(first[0, 7], second[0, 7], atol=TOLERANCE)


@pytest.mark.parametrize("beside", [1, 8])
def test_a_line_reads_alike_whatever_lines_are_read_with_it(decoder: CompactDecoder, beside: int) -> None:
    decoder = wobbling(decoder)
    line = hypothesis_line("seul", seed=5)
    others = [hypothesis_line("an entirely different and longer line"[: 9 + 3 * at], seed=at) for at in range(beside)]
    text = torch.from_numpy(line.ctc_ids.astype(np.int64))[None]
    wide = torch.full((1 + beside, 20), -1, dtype=torch.long)
    wide[0, : text.shape[1]], wide[1:] = text, 7
    alone = logs(decoder, LineBatch.of([line], [[3, 4]]), text)[0]
    among = logs(decoder, LineBatch.of([line, *others], [[3, 4], *[[9] * 12] * beside]), wide)[0, : len(alone)]
    assert torch.allclose(alone, among, atol=TOLERANCE)


def test_what_stood_before_the_line_is_seen(decoder: CompactDecoder) -> None:
    decoder = wobbling(decoder)
    line = hypothesis_line("wort", seed=6)
    text = torch.from_numpy(line.ctc_ids.astype(np.int64))[None]
    first, second = (logs(decoder, LineBatch.of([line], [before]), text) for before in ([1, 2, 3], [4, 5, 6]))
    assert not torch.allclose(first, second, atol=TOLERANCE)


def test_memory_is_silent_until_it_has_learnt_and_is_heard_afterwards(decoder: CompactDecoder) -> None:
    batch = LineBatch.of([hypothesis_line("harlan came", seed=7)], [[]])
    text = torch.randint(1, len(ALPHABET), (1, 11), generator=torch.Generator().manual_seed(1))
    words = memory_of(decoder, "harlan", "went away")
    assert torch.allclose(logs(decoder, batch, text), logs(decoder, batch, text, words), atol=TOLERANCE)
    decoder = wobbling(decoder)
    assert not torch.allclose(logs(decoder, batch, text), logs(decoder, batch, text, words), atol=TOLERANCE)


def test_a_word_looks_at_the_equal_picture_before_any_letter_is_written(decoder: CompactDecoder) -> None:
    with torch.no_grad():
        decoder.memory.key.load_state_dict(decoder.memory.query.state_dict())
    line = hypothesis_line("harlan", seed=90)
    words = memory_of(decoder, "harlan", "quite other words")
    recall = decoder.encode(LineBatch.of([line], [[]]), words).recall
    assert recall is not None
    assert int(recall[0].argmax()) == 0
    assert float(recall.detach().sum()) == pytest.approx(1.0)


def test_the_null_key_takes_all_where_no_word_may_be_seen(decoder: CompactDecoder) -> None:
    words = memory_of(decoder, "harlan")
    hidden = replace(words, visible=torch.zeros(1, 1, dtype=torch.bool))
    recall = decoder.encode(LineBatch.of([hypothesis_line("harlan", seed=90)], [[]]), hidden).recall
    assert recall is not None
    assert float(recall[0, -1].detach()) == pytest.approx(1.0)


def test_weights_come_back_as_they_were_saved_but_for_half_precision(decoder: CompactDecoder, tmp_path: Path) -> None:
    digest = save_weights(decoder, tmp_path / "w.safetensors", "a test")
    again = load_weights(tmp_path / "w.safetensors", digest, small_head())
    assert again.shape == SHAPE
    for name, value in decoder.state_dict().items():
        assert torch.equal(again.state_dict()[name], value.half().float()), name
    assert not any(parameter.requires_grad for parameter in again.parameters())


def test_weights_that_are_not_the_expected_ones_are_refused(decoder: CompactDecoder, tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    digest = save_weights(decoder, path, "a test")
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    with pytest.raises(ModelUnavailable, match=digest):
        load_weights(path, digest, small_head())
    with pytest.raises(ModelUnavailable, match="does not exist"):
        load_weights(tmp_path / "absent.safetensors", digest, small_head())
