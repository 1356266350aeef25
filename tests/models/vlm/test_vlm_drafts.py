"""A draft saves forward passes and changes nothing else: not a token, not a fetch, not what later pages see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from support.reference_transformer import written
from support.tiny_vlm import FeaturePages, tiny_reader, tiny_unlimited_ocr

from data_contracts.config import SrSwaConfig
from data_contracts.result import PageResult
from models.sr_swa.continuous import ContinuousDecoder
from models.sr_swa.pages import EncodedPage
from models.vlm.drafts import Draft

PAGES = FeaturePages()
CONFIG = SrSwaConfig(
    window_pages=2,
    max_window_pages=2,
    top_k=2,
    reference_tokens=3,
    reference_pages=4,
    tail_tokens=5,
    gate_uncertainty=0.05,
)
OUTPUTS = 17


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny_unlimited_ocr()


@pytest.fixture(scope="module")
def plain(model: Any) -> list[PageResult]:
    return list(read(model, {}, draft_tokens=0)[0])


def read(
    model: Any, drafts: dict[int, Sequence[int]], config: SrSwaConfig = CONFIG, **changes: Any
) -> tuple[list[PageResult], list[int], ContinuousDecoder]:
    """Return pages 1 to 4, the forward passes of each, and the decoder."""

    def drafter(page: EncodedPage) -> Sequence[int]:
        return drafts.get(page.page_number, ())

    options = {"max_new_tokens": OUTPUTS, "drafter": drafter, **changes}
    reader = tiny_reader(model, **options)
    decoder = ContinuousDecoder(reader, config)
    results, passes = [], []
    for result in decoder.decode(PAGES.page(number) for number in range(1, 5)):
        results.append(result)
        passes.append(reader.passes)
    return results, passes, decoder


def spoilt(ids: Sequence[int], every: int) -> list[int]:
    """Replace every ``every``-th id by another."""
    return [token + 1 if index % every == every - 1 else token for index, token in enumerate(ids)]


@pytest.mark.parametrize("draft_tokens", [1, 4, 8])
@pytest.mark.parametrize("every", [1000, 5, 2, 1], ids=["perfect", "a fifth wrong", "half wrong", "all wrong"])
def test_a_drafted_reading_equals_plain_greedy(
    model: Any, plain: list[PageResult], draft_tokens: int, every: int
) -> None:
    drafts = {result.page_number: spoilt(written(result), every) for result in plain}
    results, passes, _ = read(model, drafts, draft_tokens=draft_tokens)
    assert [written(result) for result in results] == [written(result) for result in plain]
    assert [result.metrics.gate_fired for result in results] == [result.metrics.gate_fired for result in plain]
    assert [result.metrics.references_hit for result in results] == [r.metrics.references_hit for r in plain]
    assert max(passes) <= OUTPUTS + 1


def test_a_good_draft_saves_forward_passes(model: Any) -> None:
    sure = CONFIG.model_copy(update={"gate_uncertainty": 1.0})  # every firing of the gate ends a pass
    plain, plain_passes, _ = read(model, {}, sure, draft_tokens=0)
    results, passes, _ = read(model, {r.page_number: written(r) for r in plain}, sure, draft_tokens=8)
    assert [written(result) for result in results] == [written(result) for result in plain]
    assert plain_passes == [OUTPUTS + 1] * 4
    assert max(passes) <= 6


def test_memory_after_a_drafted_reading_is_that_of_a_plain_one(model: Any) -> None:
    plain, _, alone = read(model, {}, draft_tokens=0)
    _, _, drafted = read(model, {r.page_number: spoilt(written(r), 4) for r in plain}, draft_tokens=6)
    wanted, found = alone.state(), drafted.state()
    assert sorted(found.tensors) == sorted(wanted.tensors)
    for name, tensor in wanted.tensors.items():
        if not name.startswith("tail/"):  # the ring is turned; what it shows is compared by what is written next
            assert torch.allclose(found.tensors[name].float(), tensor.float(), atol=1e-4), name


def test_the_place_in_a_draft_is_found_again_behind_what_no_draft_has() -> None:
    draft = Draft([10, 11, 12, 13, 14])
    assert draft.continuation([], 2) == [10, 11]
    assert draft.continuation([10, 11], 2) == [12, 13]
    assert draft.continuation([10, 11, 99], 2) == []
    assert draft.continuation([99, 12], 3) == [13, 14]
    assert draft.continuation([12, 13, 14], 3) == []


def test_of_two_equal_places_the_next_one_is_taken() -> None:
    draft = Draft([1, 2, 7, 1, 2, 8])
    assert draft.continuation([1, 2], 1) == [7]
    assert draft.continuation([7, 9, 1, 2], 1) == [8]
