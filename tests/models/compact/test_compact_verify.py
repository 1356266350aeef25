"""Draft and verify: equal to reading letter by letter, cautious, and bounded."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from support.hypothesis_lines import ALPHABET, hypothesis_line, small_head

from models.compact.decode.decoder import CompactDecoder
from models.compact.decode.verify import Reading, Verifier, VerifierThresholds
from models.compact.decode.word_memory import DecoderShape
from models.sr_swa.pages import EncodedLine

SHAPE = DecoderShape(width=32, heads=4, layers=3, hidden=48, pointer_dim=16, memory_dim=16)
ALWAYS = VerifierThresholds(
    sure_above=1.01,
    unreadable_below=0.0,
    margin=0.0,
    end_margin=0.0,
    no_text_above=0.0,
    passes=60,
    sure_digit=1.01,
    sure_mark=1.01,
    pay=0.0,
)
"""Decodes every line and believes the decoder in everything."""
SURE, PAYS = replace(ALWAYS, sure_digit=0.9, sure_mark=0.9), replace(ALWAYS, pay=1.0)
SPACE = ALPHABET.index(" ")
NUMBERS = ("12", "1 876", "page 17", "17 men", "6", "a 3 b 4 c 5", "1876 1877", "no 90 of 1234")
TEXTS = (
    "the quick brown fox",
    "a",
    "jumps over the lazy dog 1876",
    "no",
    "harlan and harlow",
    "seventeen",
    "x y z",
    "end",
)


def opinionated(strength: float = 0.25) -> CompactDecoder:
    """A decoder that knows nothing and contradicts the hypothesis often."""
    torch.manual_seed(5)
    model = CompactDecoder(SHAPE, small_head()).eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.add_(torch.randn_like(parameter) * strength * (parameter.abs().mean() + 0.1))
    model.change.weight.copy_(torch.randn_like(model.change.weight) * 0.05)
    return model


def lines(noise: float = 0.15) -> list[EncodedLine]:
    return [hypothesis_line(text, seed=at, noise=noise) for at, text in enumerate(TEXTS)]


def verifier(thresholds: VerifierThresholds, strength: float = 0.25) -> Verifier:
    return Verifier(opinionated(strength), ALPHABET, thresholds)


def contexts(page: list[EncodedLine]) -> list[list[int]]:
    return [[], *(line.ctc_ids.tolist() for line in page[:-1])]


@pytest.mark.parametrize(
    "thresholds", [ALWAYS, replace(ALWAYS, margin=1.5, end_margin=1.5), SURE, replace(SURE, pay=0.25)]
)
@pytest.mark.parametrize("size", [1, 3, 8])
def test_it_reads_what_reading_letter_by_letter_reads(size: int, thresholds: VerifierThresholds) -> None:
    reader = verifier(thresholds)
    page = lines()
    plain = [reader.read_plainly(line, before) for line, before in zip(page, contexts(page), strict=True)]
    before: list[int] = []
    fast: list[Reading] = []
    for start in range(0, len(page), size):
        fast += reader.read_lines(page[start : start + size], before)
        before = page[min(start + size, len(page)) - 1].ctc_ids.tolist()
    assert any(reading.changed for reading in plain)
    assert any(reading.passes > 1 for reading in fast)
    for one, other in zip(plain, fast, strict=True):
        if other.why != "too many passes":
            assert one.ids.tolist() == other.ids.tolist()
            assert one.confidence == pytest.approx(other.confidence, abs=1e-4)
            assert one.frames.tolist() == other.frames.tolist()
    assert sum(reading.why != "too many passes" for reading in fast) >= len(page) - 2


def test_an_untrained_decoder_changes_nothing_and_needs_one_pass() -> None:
    torch.manual_seed(1)
    model = CompactDecoder(SHAPE, small_head()).eval()
    page = lines(noise=0.05)
    for line, reading in zip(page, Verifier(model, ALPHABET, ALWAYS).read_lines(page), strict=True):
        assert reading.ids.tolist() == line.ctc_ids.tolist()
        assert (reading.changed, reading.passes, reading.why) == (False, 1, "verified")


def test_every_character_has_a_confidence_and_a_frame_in_reading_order() -> None:
    for line, reading in zip(lines(), verifier(ALWAYS).read_lines(lines()), strict=True):
        assert len(reading.ids) == len(reading.confidence) == len(reading.frames)
        assert all(0 < confidence <= 1 for confidence in reading.confidence)
        assert (np.diff(reading.frames) >= 0).all()
        assert reading.as_line(line).ctc_ids is reading.ids


def test_an_unlimited_margin_keeps_every_draft() -> None:
    reader = verifier(replace(ALWAYS, margin=1e9, end_margin=1e9, no_text_above=1.0))
    assert not any(reading.changed for reading in reader.read_lines(lines()))


def test_a_larger_margin_allows_no_more_changed_lines() -> None:
    changed = [
        sum(reading.changed for reading in verifier(replace(ALWAYS, margin=m, end_margin=m)).read_lines(lines()))
        for m in (0.0, 2.0, 20.0)
    ]
    assert changed[0] > changed[2]
    assert changed == sorted(changed, reverse=True)


def test_a_line_that_does_not_settle_keeps_its_draft_and_says_so() -> None:
    page = lines()
    readings = verifier(replace(ALWAYS, passes=1)).read_lines(page)
    unsettled = [
        (line, reading) for line, reading in zip(page, readings, strict=True) if reading.why == "too many passes"
    ]
    assert unsettled
    for line, reading in unsettled:
        assert reading.ids.tolist() == line.ctc_ids.tolist()
        assert not reading.changed


def test_a_sure_line_is_not_decoded() -> None:
    line = hypothesis_line("certain", seed=1, noise=0.0)
    reading = verifier(replace(ALWAYS, sure_above=0.9)).read_lines([line])[0]
    assert (reading.why, reading.passes, reading.changed) == ("sure", 0, False)


def test_a_line_that_is_hardly_legible_keeps_its_draft_and_says_so() -> None:
    line = hypothesis_line("certain", seed=1)
    doubtful = replace(line, ctc_posteriors=np.full(len(line.ctc_ids), 0.4, np.float32))
    reading = verifier(replace(ALWAYS, unreadable_below=0.5)).read_lines([doubtful])[0]
    assert reading.why == "unreadable"
    assert reading.ids.tolist() == line.ctc_ids.tolist()


def test_letters_that_the_decoder_was_not_taught_are_left_to_the_draft() -> None:
    characters = tuple("字" if character == "q" else character for character in ALPHABET)
    readings = Verifier(opinionated(), characters, ALWAYS).read_lines(lines())
    assert readings[0].why == "other script"
    assert readings[1].why != "other script"


def test_a_crop_in_which_the_decoder_sees_no_text_reads_as_nothing() -> None:
    model = opinionated(0.0)
    model.end.bias.fill_(1000.0)
    reading = Verifier(model, ALPHABET, ALWAYS).read_lines([hypothesis_line("smudge", seed=2)])[0]
    assert (len(reading.ids), reading.why, reading.changed) == (0, "no text", True)


def test_no_text_is_believed_only_above_its_threshold() -> None:
    model = opinionated(0.0)
    model.end_trust.fill_(0.0)
    (reading,) = Verifier(model, ALPHABET, replace(ALWAYS, no_text_above=1.1)).read_lines(
        [hypothesis_line("ab", seed=2)]
    )
    assert (reading.why, reading.ids.tolist(), reading.changed) == ("verified", [1, 2], False)


@pytest.mark.parametrize("text", ["a", "ab", "all"])
def test_a_decoder_that_sees_no_end_writes_no_letter_twice_from_one_picture(text: str) -> None:
    model = opinionated(0.0)
    model.end_trust.fill_(0.0)
    (reading,) = Verifier(model, ALPHABET, ALWAYS).read_lines([hypothesis_line(text, seed=2)])
    assert (reading.why, text_of(reading.ids)) == ("verified", text)


def test_an_empty_draft_and_an_empty_page_are_read_as_such() -> None:
    empty = hypothesis_line("", seed=1, noise=0.0)
    assert verifier(ALWAYS).read_lines([empty])[0].why == "no hypothesis"
    assert verifier(ALWAYS).read_lines([]) == []


def test_what_stands_before_a_line_is_the_draft_of_the_line_before_and_not_its_reading() -> None:
    page = lines()[:2]
    reader = verifier(ALWAYS)
    read = reader.read_lines(page)
    assert read[0].changed
    assert read[1].ids.tolist() == reader.read_plainly(page[1], page[0].ctc_ids.tolist()).ids.tolist()


def numbered(noise: float = 0.05) -> list[EncodedLine]:
    return [hypothesis_line(text, seed=at, noise=noise) for at, text in enumerate(NUMBERS)]


def text_of(ids: np.ndarray) -> str:
    return "".join(ALPHABET[index] for index in ids)


def is_within(part: str, whole: str) -> bool:
    rest = iter(whole)
    return all(character in rest for character in part)


@pytest.mark.parametrize("strength", [0.25, 0.5])
def test_a_figure_of_which_the_draft_is_sure_stays_whatever_the_decoder_thinks(strength: float) -> None:
    page = numbered()
    sure = ["".join(filter(str.isdigit, text_of(line.ctc_ids[line.ctc_posteriors >= 0.9]))) for line in page]
    assert sum(map(len, sure)) > 25
    believed, careful = (verifier(thresholds, strength).read_lines(page) for thresholds in (ALWAYS, SURE))
    assert not all(is_within(part, text_of(reading.ids)) for part, reading in zip(sure, believed, strict=True))
    for part, reading in zip(sure, careful, strict=True):
        assert is_within(part, text_of(reading.ids)), (part, text_of(reading.ids))


def test_a_crop_with_a_sure_figure_is_never_without_text() -> None:
    model = opinionated(0.0)
    model.end.bias.fill_(1000.0)
    (reading,) = Verifier(model, ALPHABET, SURE).read_lines([hypothesis_line("7", seed=2)])
    assert (text_of(reading.ids), reading.why, reading.changed) == ("7", "verified", False)


def test_a_smudge_that_reads_as_a_figure_by_chance_is_without_text() -> None:
    model = opinionated(0.0)
    model.end.bias.fill_(1000.0)
    line = hypothesis_line("7", seed=2)
    smudge = replace(line, ctc_posteriors=np.full(1, 0.7, np.float32))
    thresholds = replace(ALWAYS, sure_digit=0.5, sure_mark=0.9)
    assert Verifier(model, ALPHABET, thresholds).read_lines([smudge])[0].why == "no text"


def test_a_figure_of_which_the_draft_is_not_sure_may_go() -> None:
    page = [replace(line, ctc_posteriors=np.full(len(line.ctc_ids), 0.6, np.float32)) for line in numbered(noise=0.15)]
    unsure, believed = (verifier(thresholds).read_lines(page) for thresholds in (SURE, ALWAYS))
    assert [reading.ids.tolist() for reading in unsure] == [reading.ids.tolist() for reading in believed]
    assert any(reading.changed for reading in unsure)


def test_a_change_pays_for_what_it_removes() -> None:
    page = lines()
    free, paying, dear = (
        verifier(thresholds).read_lines(page) for thresholds in (ALWAYS, PAYS, replace(ALWAYS, pay=1e9))
    )
    changed = [sum(reading.changed for reading in readings) for readings in (free, paying, dear)]
    assert changed[0] > changed[1] > 0
    for line, reading in zip(page, dear, strict=True):
        assert is_within(text_of(line.ctc_ids[line.ctc_posteriors > 0.5]), text_of(reading.ids))


def test_no_change_is_surer_than_what_the_picture_leaves_for_it() -> None:
    changes = 0
    for line, reading in zip(lines(), verifier(ALWAYS).read_lines(lines()), strict=True):
        hypotheses = zip(line.ctc_ids.tolist(), line.ctc_posteriors.tolist(), strict=True)
        drafted = dict(zip(line.ctc_frames.tolist(), hypotheses, strict=True))
        before = -1
        for index, frame, confidence in zip(reading.ids, reading.frames, reading.confidence, strict=True):
            if before < frame and frame in drafted and index not in (drafted[frame][0], SPACE):
                assert confidence <= 1 - drafted[frame][1] + 1e-3
                changes += 1
            before = frame
    assert changes > 5
