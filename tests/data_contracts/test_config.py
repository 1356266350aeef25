from __future__ import annotations

import json
from typing import Any

import pytest

from data_contracts.config import PLACES, DigitizeConfig, ReadingConfig

CHANGES: list[dict[str, Any]] = [
    {"model": "unlimited-ocr"},
    {"render": {"dpi": 300}},
    {"sr_swa": {"window_pages": 4}},
    {"compact": {"lexicon_rescoring": False}},
    {"vlm": {"max_new_tokens": 100}},
]
MOVES: list[dict[str, Any]] = [{"model_path": "weights"}, {"device": "cpu"}, {"pool_pages": 8}]


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_can_change_a_reading_changes_the_digest(change: dict[str, Any]) -> None:
    assert ReadingConfig.model_validate(change).sha256 != ReadingConfig().sha256


@pytest.mark.parametrize("move", MOVES)
def test_where_weights_lie_is_part_of_no_digest(move: dict[str, Any]) -> None:
    assert ReadingConfig.model_validate({"vlm": move}).sha256 == ReadingConfig().sha256


def test_what_is_left_out_of_the_digest_exists() -> None:
    fields = ReadingConfig().model_dump()
    assert [name for section, names in PLACES.items() for name in names if name not in fields[section]] == []


def test_a_configuration_survives_json() -> None:
    config = DigitizeConfig(pages="1-3", formats=("txt",))
    assert DigitizeConfig.model_validate(json.loads(config.model_dump_json())) == config
