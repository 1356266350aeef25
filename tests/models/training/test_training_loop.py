"""Alignment, shards, training_batches and the training loop: exact, complete, resumable."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from support.hypothesis_lines import ALPHABET, hypothesis_line, small_head

from models.compact.decode.decoder import END_CLASS, CompactDecoder, save_weights
from models.compact.decode.line_batch import SPACE_CLASS
from models.compact.decode.word_memory import DecoderShape
from models.training import batches as training_batches
from models.training import train
from models.training.drawing import shards
from models.training.drawing.align import align

SHAPE = DecoderShape(width=32, heads=4, layers=2, hidden=48, pointer_dim=16, memory_dim=16)
TEXTS = ("harlan came home", "the old mill", "of harlan and harlow", "nobody knew", "harlan again")


def sample(text: str, page: int, seed: int, noise: float = 0.1) -> shards.Sample:
    line = hypothesis_line(text, seed, noise)
    ids = np.asarray([ALPHABET.index(character) for character in text], np.int32)
    frames = 1 + 3 * np.arange(len(ids), dtype=np.int32)
    return shards.Sample(line, ids, frames, page, 0.25 * page, "running", usable=True)


def document(number: int = 1, noise: float = 0.1) -> shards.Document:
    samples = tuple(sample(text, at // 2, 10 * number + at, noise) for at, text in enumerate(TEXTS))
    return shards.Document(number, "en", historical=False, style="grey", samples=samples)


@pytest.fixture
def small_training(monkeypatch: pytest.MonkeyPatch) -> train.Training:
    monkeypatch.setattr(training_batches, "HEAD_CLASSES", len(ALPHABET))
    monkeypatch.setattr(train, "DecoderShape", lambda: SHAPE)
    return train.Training(small_head(), steps=200)


def training_batch(number: int = 1, noisy: bool = False, noise: float = 0.1) -> training_batches.TrainingBatch:
    made = training_batches.prepare(
        document(number, noise), None, np.random.default_rng(0), noisy=noisy, frequent=range(1, 38)
    )
    assert made is not None
    return made


def test_alignment_is_the_best_of_all_paths() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        scores = rng.normal(size=(5, 5)).astype(np.float32)
        best = max(
            (path for path in itertools.product(range(5), repeat=5) if is_ctc_path(path)),
            key=lambda path: scores[np.arange(5), list(path)].sum(),
        )
        frames = align(scores)
        for character, frame in enumerate(frames):
            stay = [at for at, state in enumerate(best) if state == 1 + 2 * character]
            assert frame == max(stay, key=lambda at: scores[at, 1 + 2 * character] - scores[at, 0])


def is_ctc_path(path: tuple[int, ...]) -> bool:
    steps = np.diff(path)
    return (
        path[0] < 2
        and path[-1] > 2
        and all(step in (0, 1) or (step == 2 and path[at] % 2 == 1) for at, step in enumerate(steps))
    )


def test_alignment_ignores_what_is_added_to_all_states_of_a_frame_and_needs_room() -> None:
    rng = np.random.default_rng(2)
    scores = rng.normal(size=(9, 7)).astype(np.float32)
    assert align(scores).tolist() == align(scores + rng.normal(size=(9, 1)).astype(np.float32) * 50).tolist()
    assert align(scores[:, :1]).tolist() == []
    with pytest.raises(ValueError, match="3 characters cannot stand in 2 frames"):
        align(scores[:2])


def test_a_document_comes_back_from_disk_as_it_was(tmp_path: Path) -> None:
    before = document()
    shards.save(before, tmp_path / "d.safetensors")
    after = shards.load(tmp_path / "d.safetensors")
    assert (after.number, after.language, after.style) == (1, "en", "grey")
    for one, other in zip(before.samples, after.samples, strict=True):
        assert np.array_equal(one.target_ids, other.target_ids)
        assert np.array_equal(one.line.frames, other.line.frames)
        assert np.array_equal(one.line.ctc_ids, other.line.ctc_ids)
        assert np.array_equal(one.line.ctc_posteriors, other.line.ctc_posteriors)
        assert (one.page, one.kind, one.usable) == (other.page, other.kind, other.usable)


def test_a_document_of_another_schema_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SCHEMA", 0)
    shards.save(document(), tmp_path / "d.safetensors")
    monkeypatch.undo()
    with pytest.raises(ValueError, match=f"schema 0, expected {shards.SCHEMA}"):
        shards.load(tmp_path / "d.safetensors")


def test_a_lesson_asks_for_the_truth_and_its_end_and_knows_how_much_of_the_draft_is_used_up() -> None:
    made = training_batch()
    for row, text in enumerate(TEXTS):
        asked = made.target[row][made.target[row] != training_batches.PADDING].tolist()
        assert asked == [*(ALPHABET.index(character) for character in text), END_CLASS]
        assert made.prefix[row, : len(text)].tolist() == asked[:-1]
        assert made.places[row, 0] == 0
        hypothesis = document().samples[row].line.ctc_ids
        if hypothesis.tolist() == asked[:-1]:
            assert made.places[row, : len(text) + 1].tolist() == list(range(len(text) + 1))


def test_prefixes_of_a_noisy_lesson_hold_mistakes_but_its_targets_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_batches, "SLIP_RATE", 1.0)
    clean, noisy = training_batch(), training_batch(noisy=True)
    assert torch.equal(clean.target, noisy.target)
    assert (clean.prefix != noisy.prefix).any()


def test_equal_words_of_earlier_pages_are_what_memory_should_find() -> None:
    spaced = document()
    lines = [
        replace(s.line, ctc_ids=np.where(s.line.ctc_ids == 27, SPACE_CLASS, s.line.ctc_ids)) for s in spaced.samples
    ]
    spaced = replace(
        spaced, samples=tuple(replace(s, line=line) for s, line in zip(spaced.samples, lines, strict=True))
    )
    made = training_batches.prepare(spaced, None, np.random.default_rng(0), noisy=False, frequent=())
    assert made is not None
    assert made.memory is not None
    same = (made.identity[:, None] == made.memory.identity) & (made.pages[:, None] > made.memory.pages)
    assert same.any()
    assert not same[made.pages == 0].any()
    first_word_of_last_line = len(made.identity) - 2
    assert same[first_word_of_last_line].sum() >= 2


def test_training_lowers_the_loss(small_training: train.Training, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "WARM_UP_STEPS", 1)
    hard = training_batch(noisy=True, noise=0.35)
    before = [small_training.learn(hard).character for _ in range(3)]
    for _ in range(40):
        small_training.learn(hard)
    after = [small_training.learn(hard).character for _ in range(3)]
    assert np.mean(after) < 0.8 * np.mean(before)


def test_a_resumed_training_goes_on_to_the_same_weights(small_training: train.Training, tmp_path: Path) -> None:
    for _ in range(3):
        small_training.learn(training_batch())
    small_training.save(tmp_path / "c.pt")
    resumed = train.Training(small_head(), steps=200)
    resumed.restore(tmp_path / "c.pt")
    for training in (small_training, resumed):
        torch.set_rng_state(torch.load(tmp_path / "c.pt", weights_only=True)["torch"])
        for number in (2, 3):
            training.learn(training_batch(number))
    assert resumed.step == small_training.step == 5
    for one, other in zip(small_training.model.parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(one, other)
    for one, other in zip(small_training.average.parameters(), resumed.average.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_run_keeps_curves_and_a_checkpoint_and_stops_at_its_last_step(
    small_training: train.Training, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train, "CHECKPOINT_STEPS", 2)
    monkeypatch.setattr(train, "CURVE_STEPS", 2)
    monkeypatch.setattr(train, "VALIDATION_STEPS", 2)
    (tmp_path / "documents").mkdir()
    shards.save(document(), tmp_path / "documents" / "000001.safetensors")
    small_training.steps = 4
    train.run(small_training, tmp_path, tmp_path, [document(2)], range(1, 38), deadline=float("inf"))
    assert small_training.step == 4
    assert (tmp_path / "checkpoint.pt").exists()
    assert (tmp_path / "train.csv").read_text().splitlines()[0] == "step,seconds,characters,character,pointer,recall"
    assert len((tmp_path / "validation.csv").read_text().splitlines()) == 3


def test_a_training_that_begins_with_weights_has_them_learns_from_there_and_at_a_lower_rate(
    small_training: train.Training, tmp_path: Path
) -> None:
    for _ in range(3):
        small_training.learn(training_batch())
    save_weights(small_training.model, tmp_path / "first.safetensors", "first")
    second = train.Training(small_head(), 200, tmp_path / "first.safetensors")
    taken = [value.detach().clone() for value in second.model.parameters()]
    for one, other in zip(small_training.model.parameters(), taken, strict=True):
        torch.testing.assert_close(one.detach(), other, atol=1e-3, rtol=1e-3)  # kept in half precision
    second.learn(training_batch())
    assert second.step == 1
    assert any(not torch.equal(one, other) for one, other in zip(second.model.parameters(), taken, strict=True))
    assert second.optimizer.param_groups[0]["lr"] < small_training.optimizer.param_groups[0]["lr"]


def test_the_learning_rate_rises_and_falls_by_step() -> None:
    rates = [train._rate(step, 1000, train.RATE) for step in range(1000)]
    assert rates[0] < rates[50] < max(rates) <= train.RATE
    assert rates[-1] == pytest.approx(train.LAST_RATE, rel=0.01)


def test_an_untrained_decoder_is_as_good_as_the_draft(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_batches, "HEAD_CLASSES", len(ALPHABET))
    torch.manual_seed(0)
    model = CompactDecoder(SHAPE, small_head()).eval()
    _, accuracy = train.validate(model, [document()])
    assert accuracy > 0.95
