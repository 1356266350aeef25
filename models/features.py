"""Encoded pages <-> bytes: one safetensors file a chunk, metadata as one JSON string, no pickle.

The features are what an encode task hands to a decode task, on whatever machine. Equal pages give equal
bytes, so their sha256 can stand in a checkpoint key.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from data_contracts.errors import BrokenChecksum
from data_contracts.geometry import Quad
from data_contracts.result import BlankReason
from models.sr_swa.pages import EncodedLine, EncodedPage, FailedPage

_METADATA_KEY = "tomeflow"
_LINE_ARRAYS = ("frames", "ctc_ids", "ctc_posteriors", "ctc_frames", "top_ids", "top_posteriors")


def features_bytes(pages: Iterable[EncodedPage | FailedPage]) -> bytes:
    """Return the safetensors bytes of ``pages``; each line array of a page is stored joined over its lines."""
    tensors: dict[str, np.ndarray[Any, Any]] = {}
    index = []
    for page in pages:
        if isinstance(page, FailedPage):
            index.append({"failed": vars(page)})
            continue
        index.append({"page": _page_metadata(page)})
        for name in _LINE_ARRAYS if page.lines else ():
            parts = [getattr(line, name) for line in page.lines]
            tensors[f"{page.page_number}/{name}"] = np.ascontiguousarray(np.concatenate(parts))
        if page.features is not None:
            tensors[f"{page.page_number}/features"] = page.features.float().numpy()
    return safetensors.numpy.save(tensors, {_METADATA_KEY: json.dumps(index)})


def read_features(data: bytes) -> Iterator[EncodedPage | FailedPage]:
    """Yield the pages of :func:`features_bytes`, one at a time, holding those to come.

    Raises:
        BrokenChecksum: the bytes are not such a file.
    """
    try:
        tensors = safetensors.numpy.load(data)
        header_bytes = int.from_bytes(data[:8], "little")
        index = json.loads(json.loads(data[8 : 8 + header_bytes])["__metadata__"][_METADATA_KEY])
    except (safetensors.SafetensorError, KeyError, ValueError) as error:
        raise BrokenChecksum(f"the features file is damaged ({error}); run again, it is rebuilt") from error
    del data  # tensors are copies; a chunk is tens of megabytes, and each page is let go once it is read
    for entry in index:
        yield FailedPage(**entry["failed"]) if "failed" in entry else _page(entry["page"], tensors)


def _page_metadata(page: EncodedPage) -> dict[str, Any]:
    return {
        "page_number": page.page_number,
        "width_px": page.width_px,
        "height_px": page.height_px,
        "dpi": page.dpi,
        "rotation": page.rotation,
        "blank_reason": page.blank_reason,
        "unread_ratio": page.unread_ratio,
        "lines": [
            {
                "quad": line.quad,
                "direction": line.direction,
                "frames": len(line.frames),
                "characters": len(line.ctc_ids),
                "frame_px": line.frame_px,
            }
            for line in page.lines
        ],
    }


def _page(metadata: dict[str, Any], tensors: dict[str, np.ndarray[Any, Any]]) -> EncodedPage:
    import torch

    number = metadata["page_number"]
    features = tensors.pop(f"{number}/features", None)
    arrays = {name: tensors.pop(f"{number}/{name}", None) for name in _LINE_ARRAYS}
    lines = []
    frame = character = 0
    for line in metadata["lines"]:
        frames, characters = slice(frame, frame + line["frames"]), slice(character, character + line["characters"])
        frame, character = frames.stop, characters.stop
        spans = {name: characters if name.startswith("ctc") else frames for name in _LINE_ARRAYS}
        lines.append(
            EncodedLine(
                quad=_quad(line["quad"]),
                direction=line["direction"],
                frame_px=line["frame_px"],
                **{name: array[spans[name]].copy() for name, array in arrays.items() if array is not None},
            )
        )
    reason = metadata["blank_reason"]
    return EncodedPage(
        page_number=number,
        width_px=metadata["width_px"],
        height_px=metadata["height_px"],
        dpi=metadata["dpi"],
        rotation=metadata["rotation"],
        lines=tuple(lines),
        blank_reason=BlankReason(reason) if reason else None,
        unread_ratio=metadata.get("unread_ratio", 0.0),
        features=None if features is None else torch.from_numpy(features.copy()),
    )


def _quad(corners: list[list[float]]) -> Quad:
    first, second, third, fourth = ((x, y) for x, y in corners)
    return first, second, third, fourth
