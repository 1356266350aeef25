from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load as load_safetensors
from safetensors.torch import save as save_safetensors

from data_contracts.config import SrSwaConfig
from data_contracts.errors import (
    BrokenChecksum,
    StateRefused,
    TomeflowError,
    WrongModel,
    WrongSchema,
)
from models.sr_swa.context import AttentionContext
from models.sr_swa.controller import ContextController
from models.sr_swa.geometry import Geometry
from models.sr_swa.memory.kv import KVBlock
from models.sr_swa.memory.state import (
    METADATA_KEY,
    REQUIRED_PARTS,
    SCHEMA_VERSION,
    ReferenceState,
    Snapshot,
    StatefulPart,
    load_state,
    state_bytes,
)
from models.sr_swa.pages import Decoding

MODEL = "compact:1f2e:cpu:float32"
CONFIG = "c0ffee"


class Part:
    """A stateful part with given tensors and metadata."""

    def __init__(self, tensors: dict[str, torch.Tensor] | None = None, metadata: dict[str, Any] | None = None) -> None:
        self.tensors = tensors or {}
        self.metadata = metadata or {}

    def snapshot(self) -> Snapshot:
        return self.tensors, self.metadata

    def restore(self, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, Any]) -> None:
        self.tensors, self.metadata = dict(tensors), dict(metadata)


def parts() -> dict[str, Part]:
    generator = torch.Generator().manual_seed(3)
    return {
        "window": Part(
            {
                "keys": torch.randn(2, 3, 5, 4, generator=generator).to(torch.bfloat16),
                "values": torch.randn(2, 3, 5, 4, generator=generator).to(torch.float16),
            },
            {"page_numbers": [3, 4], "mass": [0.1, 1 / 3]},
        ),
        "store": Part({"keys": torch.zeros(0, 4), "int8": torch.arange(-8, 8, dtype=torch.int8)}, {"uses": {"3": 1}}),
        "tail": Part({"ids": torch.tensor([5, 6, 7]), "wrapped": torch.tensor(True)}, {}),
        "controller": Part({}, {"memory_steps": 1, "recent": []}),
        "context": Part({"keys": torch.zeros(2, 3, 0, 4)}, {"notes": {}}),
    }


def a_state(**changes: Any) -> ReferenceState:
    state = ReferenceState.of(parts(), model_fingerprint=MODEL, config_sha256=CONFIG, next_page_number=5)
    return replace(state, **changes)


def loaded(data: bytes | Path, **changes: Any) -> ReferenceState:
    return load_state(data, **{"fingerprint": MODEL, "config_sha256": CONFIG, **changes})


def without_part(state: ReferenceState, part: str) -> ReferenceState:
    return replace(
        state,
        tensors={name: tensor for name, tensor in state.tensors.items() if not name.startswith(f"{part}/")},
        metadata={name: metadata for name, metadata in state.metadata.items() if name != part},
    )


def assert_bit_identical(left: Mapping[str, torch.Tensor], right: Mapping[str, torch.Tensor]) -> None:
    assert sorted(left) == sorted(right)
    for name, tensor in left.items():
        assert tensor.dtype == right[name].dtype
        assert tensor.shape == right[name].shape
        assert torch.equal(tensor, right[name])


# Round trip


def test_a_state_survives_writing_and_loading_bit_for_bit() -> None:
    state = a_state()
    again = loaded(state_bytes(state))
    assert_bit_identical(again.tensors, state.tensors)
    assert again.metadata == state.metadata
    assert (again.schema_version, again.next_page_number) == (SCHEMA_VERSION, 5)


def test_save_load_save_gives_the_same_bytes_every_time() -> None:
    first = state_bytes(a_state())
    assert {state_bytes(loaded(first)) for _ in range(20)} == {first}


def test_the_order_in_which_parts_and_tensors_are_named_does_not_matter() -> None:
    state = a_state()
    backwards = replace(
        state,
        tensors=dict(reversed(state.tensors.items())),
        metadata=dict(reversed(state.metadata.items())),
    )
    assert state_bytes(backwards) == state_bytes(state)


def test_every_part_gets_back_its_own_tensors_and_metadata() -> None:
    blank = {name: Part() for name in parts()}
    loaded(state_bytes(a_state())).restore_into(blank)
    for name, part in parts().items():
        assert_bit_identical(blank[name].tensors, part.tensors)
        assert blank[name].metadata == part.metadata


def test_a_state_in_memory_reads_as_it_will_after_loading() -> None:
    """A tuple or an integer key would come back as another type from a file only."""
    state = ReferenceState.of(
        {"tail": Part({}, {"ids": (1, 2), "uses": {3: 4}})},
        model_fingerprint=MODEL,
        config_sha256=CONFIG,
        next_page_number=1,
    )
    assert state.metadata == {"tail": {"ids": [1, 2], "uses": {"3": 4}}}


def test_a_value_that_json_does_not_know_is_refused_when_the_state_is_made() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        ReferenceState.of(
            {"tail": Part({}, {"mass": float("nan")})}, model_fingerprint="", config_sha256="", next_page_number=1
        )


def test_loaded_tensors_have_storage_of_their_own() -> None:
    tensors = loaded(state_bytes(a_state())).tensors
    for tensor in tensors.values():
        assert tensor.untyped_storage().nbytes() == tensor.numel() * tensor.itemsize


def test_the_file_holds_one_metadata_string_and_no_pickle() -> None:
    data = state_bytes(a_state())
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    assert list(header["__metadata__"]) == [METADATA_KEY]
    assert set(load_safetensors(data)) == set(a_state().tensors)


def test_the_state_says_nothing_of_the_clock_the_host_or_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    before = state_bytes(a_state())
    monkeypatch.setenv("HOSTNAME", "elsewhere")
    monkeypatch.setattr("time.time", lambda: 0.0)
    monkeypatch.setattr("os.getpid", lambda: 1)
    assert state_bytes(a_state()) == before


def real_parts(dtype: torch.dtype, *, int8: bool, pages: int) -> dict[str, StatefulPart]:
    """The parts of a real attention set after some made-up pages, each with one step and one fetch."""
    geometry = Geometry(2, 2, 8, page_tokens=6, dtype=dtype, query_heads=4)
    config = SrSwaConfig(window_pages=2, reference_pages=3, reference_tokens=2, top_k=2, tail_tokens=3, store_int8=int8)
    context, controller = AttentionContext(geometry, config), ContextController(config)
    draw = torch.Generator().manual_seed(5)
    for page_number in range(1, pages + 1):
        keys, values = torch.randn(2, 2, 2, 6, 8, generator=draw).to(dtype)
        context.begin_page(page_number)
        context.make_room()
        context.window.admit(KVBlock(page_number, keys, values, torch.arange(6)))
        context.fetch(keys[:, :, :1], uncertainty=1.0)
        step = context.open_text()
        for layer in range(2):
            step.attend(layer, keys[layer, :, :1].repeat(2, 1, 1), keys[layer, :, :1], values[layer, :, :1])
        context.finish_page(Decoding(lines=(), token_ids=(page_number,), window_mass=context.window_mass()))
        controller.after_page(page_number, gate_fired=1, references_fetched=2, references_hit=0)
    parts: dict[str, StatefulPart] = {"window": context.window, "store": context.store, "tail": context.tail}
    return parts | {"context": context, "controller": controller}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("int8", [False, True])
def test_real_parts_restored_from_a_file_give_the_same_file_again(dtype: torch.dtype, int8: bool) -> None:
    def packed(given: Mapping[str, StatefulPart]) -> bytes:
        return state_bytes(ReferenceState.of(given, model_fingerprint=MODEL, config_sha256=CONFIG, next_page_number=8))

    written = packed(real_parts(dtype, int8=int8, pages=7))
    resumed = real_parts(dtype, int8=int8, pages=0)
    assert packed(resumed) != written
    loaded(written).restore_into(resumed)
    assert packed(resumed) == written


TENSORS = st.dictionaries(
    st.text("abcdefghij_0123", min_size=1, max_size=6),
    st.tuples(
        st.sampled_from([torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.int64, torch.bool]),
        st.lists(st.integers(0, 4), max_size=4),
    ),
    max_size=5,
)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=50)
@given(TENSORS, st.dictionaries(st.text(max_size=5), JSON_VALUES, max_size=4))
def test_any_tensors_and_any_json_survive_the_round_trip(
    shapes: dict[str, tuple[torch.dtype, list[int]]], metadata: dict[str, Any]
) -> None:
    tensors = {name: torch.ones(shape).to(dtype) for name, (dtype, shape) in shapes.items()}
    given_parts = {**{name: Part() for name in REQUIRED_PARTS}, "words": Part(tensors, metadata)}
    state = ReferenceState.of(given_parts, model_fingerprint=MODEL, config_sha256=CONFIG, next_page_number=2)
    data = state_bytes(state)
    again = loaded(data)
    assert_bit_identical(again.part("words")[0], tensors)
    assert again.part("words")[1] == metadata
    assert state_bytes(again) == data


# Refusals: what disagrees, and the remedy


def refused(error: type[TomeflowError], *saying: str) -> Any:
    """Expect exactly ``error``, with each of ``saying`` and the remedy in its message."""
    pattern = "".join(f"(?=.*{re.escape(part)})" for part in (*saying, "--fresh"))
    return pytest.raises(error, match=f"(?s){pattern}", check=lambda raised: type(raised) is error)


def test_a_truncated_file_is_refused_with_both_lengths() -> None:
    data = state_bytes(a_state())
    with refused(BrokenChecksum, "truncated", f"{len(data) - 10:,}", f"{len(data):,}"):
        loaded(data[:-10])


@pytest.mark.parametrize("kept_bytes", [0, 1, 7, 8, 9, 100])
def test_a_file_that_ends_in_its_header_is_refused_as_truncated(kept_bytes: int) -> None:
    with refused(BrokenChecksum, "truncated", f"it has {kept_bytes} bytes"):
        loaded(state_bytes(a_state())[:kept_bytes])


def test_a_torn_file_whose_start_was_never_written_is_refused() -> None:
    data = state_bytes(a_state())
    header_end = 8 + int.from_bytes(data[:8], "little")
    with refused(BrokenChecksum, "header", "cannot be read"):
        loaded(data[:8] + bytes(header_end - 8) + data[header_end:])


def test_a_torn_file_whose_end_was_never_written_is_refused() -> None:
    data = state_bytes(a_state())
    with refused(BrokenChecksum, "altered after it was written"):
        loaded(data[:-64] + bytes(64))


def test_bytes_appended_to_a_file_are_refused() -> None:
    with refused(BrokenChecksum, "foreign bytes"):
        loaded(state_bytes(a_state()) + b"\0")


def test_a_flipped_bit_in_a_tensor_is_refused_by_the_checksum_inside() -> None:
    data = bytearray(state_bytes(a_state()))
    data[-1] ^= 0b100
    with refused(BrokenChecksum, "checksum", "altered after it was written"):
        loaded(bytes(data))


def test_a_flipped_bit_is_refused_by_the_outer_sha256_before_anything_is_read() -> None:
    data = state_bytes(a_state())
    sha256 = hashlib.sha256(data).hexdigest()
    with refused(BrokenChecksum, "altered or replaced", sha256):
        loaded(data[:-1] + bytes([data[-1] ^ 1]), expected_sha256=sha256)


def test_another_valid_state_in_the_place_of_the_expected_one_is_refused() -> None:
    expected = hashlib.sha256(state_bytes(a_state())).hexdigest()
    with refused(BrokenChecksum, "altered or replaced", expected):
        loaded(state_bytes(a_state(next_page_number=6)), expected_sha256=expected)


@settings(max_examples=300)
@given(st.data())
def test_no_single_flipped_bit_anywhere_in_the_file_gets_through(data: st.DataObject) -> None:
    content = bytearray(state_bytes(a_state()))
    position = data.draw(st.integers(0, 8 * len(content) - 1))
    content[position // 8] ^= 1 << position % 8
    with pytest.raises(StateRefused):
        loaded(bytes(content))


def test_altered_metadata_is_refused_even_though_every_tensor_is_whole() -> None:
    state = a_state()
    data = state_bytes(state)
    head = json.loads(json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"][METADATA_KEY])
    head["next_page_number"] = 50
    forged = save_safetensors(dict(state.tensors), {METADATA_KEY: json.dumps(head)})
    with refused(BrokenChecksum, "checksum"):
        loaded(forged)


def test_the_state_of_another_model_is_refused_with_both_fingerprints() -> None:
    with refused(WrongModel, MODEL, "compact:9999:cuda:float16"):
        loaded(state_bytes(a_state()), fingerprint="compact:9999:cuda:float16")


def test_the_state_of_another_configuration_is_refused_with_both_digests() -> None:
    with refused(StateRefused, "reading configuration", CONFIG, "decade"):
        loaded(state_bytes(a_state()), config_sha256="decade")


def test_another_schema_version_is_refused_with_both_versions() -> None:
    with refused(WrongSchema, f"schema version {SCHEMA_VERSION + 1}", f"reads {SCHEMA_VERSION}"):
        loaded(state_bytes(a_state(schema_version=SCHEMA_VERSION + 1)))


def test_a_safetensors_file_that_is_no_state_is_refused() -> None:
    with refused(WrongSchema, "not a state of tomeflow"):
        loaded(save_safetensors({"weight": torch.ones(2)}))


@pytest.mark.parametrize("part", REQUIRED_PARTS)
def test_a_state_without_one_of_its_parts_is_refused_by_the_name_of_the_part(part: str) -> None:
    with refused(WrongSchema, f"not ['{part}']"):
        loaded(state_bytes(without_part(a_state(), part)))


def test_a_part_that_a_model_needs_beyond_the_required_ones_is_missed_before_anything_is_restored() -> None:
    blank = {"tail": Part(), "words": Part()}
    with refused(WrongSchema, "not ['words']"):
        loaded(state_bytes(a_state())).restore_into(blank)
    assert blank["tail"].tensors == {}


def test_a_state_file_that_is_not_there_is_refused_by_its_path(tmp_path: Path) -> None:
    with refused(StateRefused, "no state file", "gone.safetensors"):
        loaded(tmp_path / "gone.safetensors")


def test_no_two_refusals_share_a_message() -> None:
    state, data = a_state(), state_bytes(a_state())
    cases: dict[str, tuple[bytes, dict[str, str]]] = {
        "truncated": (data[:-10], {}),
        "flipped": (data[:-1] + bytes([data[-1] ^ 1]), {}),
        "replaced": (data, {"expected_sha256": "0" * 64}),
        "model": (data, {"fingerprint": "other"}),
        "config": (data, {"config_sha256": "other"}),
        "schema": (state_bytes(replace(state, schema_version=99)), {}),
        "part": (state_bytes(without_part(state, "tail")), {}),
    }
    messages = []
    for content, changes in cases.values():
        with pytest.raises(StateRefused) as raised:
            loaded(content, **changes)
        messages.append(re.sub(r"[0-9a-f]{64}|\d+", "", raised.value.message).partition(".")[0])
    assert len(set(messages)) == len(cases)
