"""All that the next chunk needs of the chunks before it, and nothing else, as one safetensors file.

A state holds no images, no frames, no clock, no host and no memory figures: the same pages give the same
bytes. The file carries ONE JSON string of metadata (several metadata keys would be written in random
order) and is never a pickle. Two checksums guard it: one inside, over metadata and tensors, and the
sha256 of the whole file, which lives in the ``StateRef`` that points at it.

Knows nothing of the parts it packs but their names; every stateful part offers ``snapshot`` and ``restore``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol, Self, TypeAlias

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_safetensors
from safetensors.torch import save as save_safetensors

from data_contracts.errors import BrokenChecksum, StateRefused, WrongModel, WrongSchema

JSON: TypeAlias = Any
"""What ``json.dumps`` writes and ``json.loads`` gives back unchanged: string keys, lists, no NaN."""
Snapshot: TypeAlias = tuple[dict[str, torch.Tensor], dict[str, JSON]]

SCHEMA_VERSION = 1
REQUIRED_PARTS = ("context", "controller", "store", "tail", "window")
"""Without any of these the attention set of the next page would be another one."""
METADATA_KEY = "tomeflow"
HEADER_LENGTH_BYTES = 8
"""A safetensors file starts with the length of its JSON header, little-endian."""
START_AFRESH = "Run again with --fresh to read the document from its first page."


class StatefulPart(Protocol):
    """A part of the attention set that survives from one chunk to the next."""

    def snapshot(self) -> Snapshot:
        """Return contiguous tensors with storage of their own, and JSON; equal parts give equal snapshots."""

    def restore(self, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, JSON]) -> None:
        """Become the part that the snapshot was taken of."""


@dataclass(frozen=True)
class ReferenceState:
    """The memory of a document between two chunks.

    ``tensors`` are named ``part/name``; ``metadata`` holds one JSON object per part. Invariant: every
    tensor belongs to a part that ``metadata`` names.
    """

    schema_version: int
    model_fingerprint: str
    config_sha256: str
    next_page_number: int
    tensors: Mapping[str, torch.Tensor]
    metadata: Mapping[str, JSON]

    @classmethod
    def of(
        cls,
        parts: Mapping[str, StatefulPart],
        *,
        model_fingerprint: str,
        config_sha256: str,
        next_page_number: int,
    ) -> Self:
        """Return the state of ``parts``, as it also reads after having been written and loaded."""
        snapshots = {name: part.snapshot() for name, part in sorted(parts.items())}
        return cls(
            schema_version=SCHEMA_VERSION,
            model_fingerprint=model_fingerprint,
            config_sha256=config_sha256,
            next_page_number=next_page_number,
            tensors={
                f"{part}/{name}": tensor
                for part, (tensors, _) in snapshots.items()
                for name, tensor in sorted(tensors.items())
            },
            metadata=json.loads(_canonical({part: metadata for part, (_, metadata) in snapshots.items()})),
        )

    def part(self, name: str) -> Snapshot:
        """Return the snapshot of one part.

        Raises:
            WrongSchema: the state has no such part.
        """
        if name not in self.metadata:
            _refuse_missing_parts((name,), self.metadata)
        prefix = f"{name}/"
        tensors = {key.removeprefix(prefix): t for key, t in self.tensors.items() if key.startswith(prefix)}
        return tensors, self.metadata[name]

    def restore_into(self, parts: Mapping[str, StatefulPart]) -> None:
        """Restore every one of ``parts`` by its name.

        Raises:
            WrongSchema: the state lacks one of them; none has been changed then.
        """
        snapshots = {name: self.part(name) for name in parts}
        for name, part in parts.items():
            part.restore(*snapshots[name])


def state_bytes(state: ReferenceState) -> bytes:
    """Return ``state`` as a safetensors file; equal states give equal bytes."""
    tensors = {name: tensor.detach().cpu() for name, tensor in state.tensors.items()}
    strays = sorted({name.partition("/")[0] for name in tensors} - set(state.metadata))
    assert not strays, f"tensors of parts without metadata: {strays}"
    head = {
        "schema_version": state.schema_version,
        "model_fingerprint": state.model_fingerprint,
        "config_sha256": state.config_sha256,
        "next_page_number": state.next_page_number,
        "metadata": dict(state.metadata),
    }
    head["checksum"] = _checksum(head, tensors)
    return save_safetensors(tensors, {METADATA_KEY: _canonical(head)})


def load_state(
    data: bytes | Path, *, fingerprint: str, config_sha256: str, expected_sha256: str | None = None
) -> ReferenceState:
    """Return the state in ``data`` if it may be continued from by this model and configuration.

    Raises:
        BrokenChecksum: the bytes are not those that were written: torn, truncated or altered.
        WrongSchema: another schema version, no tomeflow state at all, or a part is missing.
        WrongModel: written by another model, geometry or dtype.
        StateRefused: no such file, or written under another reading configuration.
    """
    data = _read(data) if isinstance(data, Path) else data
    if expected_sha256 is not None and (found := hashlib.sha256(data).hexdigest()) != expected_sha256:
        raise BrokenChecksum(
            f"the state file has sha256 {found}, its reference says {expected_sha256}. "
            f"It was altered or replaced after it was written. {START_AFRESH}"
        )
    head = _head(data)
    tensors = _tensors(data)
    _check_integrity(head, tensors)
    _check_owner(head, fingerprint, config_sha256)
    _refuse_missing_parts(REQUIRED_PARTS, head["metadata"])
    return ReferenceState(tensors=tensors, **head)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise StateRefused(f"there is no state file at {path}. Restore it, or: {START_AFRESH}") from error


def _canonical(value: JSON) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _checksum(head: Mapping[str, JSON], tensors: Mapping[str, torch.Tensor]) -> str:
    """Return sha256 over metadata, then name, dtype, shape and bytes of each tensor by name."""
    digest = hashlib.sha256(_canonical(head).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"\n{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        if tensor.numel():
            digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _head(data: bytes) -> dict[str, JSON]:
    """Return our metadata once the file is as long as it claims; the tensors are still unchecked."""
    header_end = HEADER_LENGTH_BYTES + int.from_bytes(data[:HEADER_LENGTH_BYTES], "little")
    if len(data) < max(header_end, HEADER_LENGTH_BYTES + 1):
        _refuse_length(data, header_end)
    try:
        header = json.loads(data[HEADER_LENGTH_BYTES:header_end])
        size_bytes = header_end + max(
            (entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"), default=0
        )
        text = header.get("__metadata__", {}).get(METADATA_KEY)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise BrokenChecksum(f"the header of the state file cannot be read ({error}). {START_AFRESH}") from error
    if len(data) != size_bytes:
        _refuse_length(data, size_bytes)
    return _known_schema(text)


def _known_schema(text: str | None) -> dict[str, JSON]:
    """Return the parsed metadata ``text`` of a file, if this version of tomeflow can read it."""
    if text is None:
        raise WrongSchema(
            f"this safetensors file has no metadata '{METADATA_KEY}': it is not a state of tomeflow. {START_AFRESH}"
        )
    try:
        head: dict[str, JSON] = json.loads(text)
        version = head["schema_version"]
    except (ValueError, LookupError, TypeError) as error:
        raise BrokenChecksum(f"the metadata of the state file cannot be read ({error}). {START_AFRESH}") from error
    if version != SCHEMA_VERSION:
        raise WrongSchema(
            f"the state has schema version {version}, this tomeflow reads {SCHEMA_VERSION}. "
            f"Continue with the version that wrote it, or: {START_AFRESH}"
        )
    return head


def _tensors(data: bytes) -> dict[str, torch.Tensor]:
    try:
        return dict(sorted(load_safetensors(data).items()))
    except SafetensorError as error:
        raise BrokenChecksum(f"the tensors of the state file cannot be read ({error}). {START_AFRESH}") from error


def _check_integrity(head: dict[str, JSON], tensors: Mapping[str, torch.Tensor]) -> None:
    """Take the checksum out of ``head`` and compare it with what it covers."""
    written = head.pop("checksum", None)
    found = _checksum(head, tensors)
    if written != found:
        raise BrokenChecksum(
            f"the content of the state has checksum {found}, its metadata says {written}: "
            f"bytes were altered after it was written. {START_AFRESH}"
        )


def _check_owner(head: Mapping[str, JSON], fingerprint: str, config_sha256: str) -> None:
    if head["model_fingerprint"] != fingerprint:
        raise WrongModel(
            f"the state was written by model {head['model_fingerprint']}, this is {fingerprint}. "
            f"Continue with that model, device class and dtype, or: {START_AFRESH}"
        )
    if head["config_sha256"] != config_sha256:
        raise StateRefused(
            f"the state was written under the reading configuration {head['config_sha256']}, this is {config_sha256}. "
            f"Continue with the parameters of that run, or: {START_AFRESH}"
        )


def _refuse_missing_parts(required: tuple[str, ...], metadata: Mapping[str, JSON]) -> None:
    missing = sorted(set(required) - set(metadata))
    if missing:
        raise WrongSchema(f"the state has parts {sorted(metadata)} but not {missing}. {START_AFRESH}")


def _refuse_length(data: bytes, size_bytes: int) -> NoReturn:
    fault = "truncated" if len(data) < size_bytes else "followed by foreign bytes"
    raise BrokenChecksum(
        f"the state file is {fault}: it has {len(data):,} bytes, its header says {size_bytes:,}. {START_AFRESH}"
    )
