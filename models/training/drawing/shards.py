"""Generated documents on disk: what the recogniser encoded of each line, and what stands there. One file a document."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import safe_open
from safetensors.numpy import save_file

from models.sr_swa.pages import EncodedLine

SCHEMA = 3
_CROP = ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0))
"""Generated lines have no page around them; their box says nothing."""


@dataclass(frozen=True)
class Sample:
    """One generated line. ``target_ids`` and ``target_frames`` [characters]; ``usable`` False: not to be trained on."""

    line: EncodedLine
    target_ids: npt.NDArray[np.int32]
    target_frames: npt.NDArray[np.int32]
    page: int
    severity: float
    kind: str
    usable: bool


@dataclass(frozen=True)
class Document:
    """The lines of one generated document, in order."""

    number: int
    language: str
    historical: bool
    style: str
    samples: tuple[Sample, ...]


def save(document: Document, path: Path) -> None:
    """Write ``document``; a file of that name is complete or does not exist."""
    samples, lines = document.samples, [sample.line for sample in document.samples]
    tensors = {
        "frames": _joined([line.frames for line in lines], np.float16),
        "top_ids": _joined([line.top_ids for line in lines], np.int16),
        "top_posteriors": _joined([line.top_posteriors for line in lines], np.float16),
        "frame_ends": _ends([line.frames for line in lines]),
        "ctc_ids": _joined([line.ctc_ids for line in lines], np.int16),
        "ctc_posteriors": _joined([line.ctc_posteriors for line in lines], np.float32),
        "ctc_frames": _joined([line.ctc_frames for line in lines], np.int16),
        "hypothesis_ends": _ends([line.ctc_ids for line in lines]),
        "target_ids": _joined([sample.target_ids for sample in samples], np.int16),
        "target_frames": _joined([sample.target_frames for sample in samples], np.int16),
        "target_ends": _ends([sample.target_ids for sample in samples]),
    }
    about = {
        "schema": SCHEMA,
        "number": document.number,
        "language": document.language,
        "historical": document.historical,
        "style": document.style,
        "samples": [[s.page, round(s.severity, 4), s.kind, s.usable] for s in samples],
    }
    part = path.with_suffix(".part")
    save_file(tensors, part, {"document": json.dumps(about)})
    part.rename(path)


def load(path: Path) -> Document:
    """Read one document.

    Raises:
        ValueError: it was written by another version of the generator.
    """
    with safe_open(path, framework="numpy") as file:
        about = json.loads(file.metadata()["document"])
        data = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if about["schema"] != SCHEMA:
        raise ValueError(
            f"{path} has schema {about['schema']}, expected {SCHEMA}; delete the folder and generate again"
        )
    samples = tuple(_samples(data, about["samples"]))
    return Document(about["number"], about["language"], about["historical"], about["style"], samples)


def _samples(data: dict[str, npt.NDArray[Any]], about: Sequence[Sequence[Any]]) -> Iterator[Sample]:
    for index, (page, severity, kind, usable) in enumerate(about):
        frames, hypothesis, target = (_span(data[f"{name}_ends"], index) for name in ("frame", "hypothesis", "target"))
        line = EncodedLine(
            quad=_CROP,
            direction="horizontal",
            frames=data["frames"][frames],
            ctc_ids=data["ctc_ids"][hypothesis].astype(np.int32),
            ctc_posteriors=data["ctc_posteriors"][hypothesis],
            ctc_frames=data["ctc_frames"][hypothesis].astype(np.int32),
            top_ids=data["top_ids"][frames].astype(np.int32),
            top_posteriors=data["top_posteriors"][frames],
            frame_px=8.0,
        )
        ids, places = (data[name][target].astype(np.int32) for name in ("target_ids", "target_frames"))
        yield Sample(line, ids, places, page, severity, kind, usable)


def _joined(parts: Sequence[npt.NDArray[Any]], dtype: type[np.generic]) -> npt.NDArray[Any]:
    return np.ascontiguousarray(np.concatenate(parts), dtype)


def _ends(parts: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.int32]:
    return np.cumsum([len(part) for part in parts], dtype=np.int32)


def _span(ends: npt.NDArray[np.int32], index: int) -> slice:
    return slice(int(ends[index - 1]) if index else 0, int(ends[index]))
