"""``tomeflow doctor``: what this machine can run, and what is missing for the rest.

Looks, loads nothing large, changes nothing. One line a finding: ``ok``, ``--`` for what is not needed, ``!!`` for
what stands in the way, with the remedy.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

from data_contracts.errors import ModelUnavailable, TomeflowError

GB = 1e9
PACKAGES = ("torch", "transformers", "onnxruntime", "prefect", "pymupdf", "duckdb")
NEEDED_PYTHON = (3, 11)

Verdict = Literal["ok", "--", "!!"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. ``blocks`` names what cannot run because of it."""

    verdict: Verdict
    subject: str
    detail: str
    blocks: str | None = None


def main(options: argparse.Namespace) -> int:
    """Print the findings; return 0 if the compact model can run, else the exit code of a missing model."""
    findings = list(examine(options.model_path))
    if options.json:
        print(json.dumps({"findings": [asdict(finding) for finding in findings]}))
    else:
        width = max(len(finding.subject) for finding in findings)
        print("\n".join(f"{found.verdict}  {found.subject:<{width}}  {found.detail}" for found in findings))
    return ModelUnavailable.exit_code if any(found.blocks == "everything" for found in findings) else 0


def examine(model_path: str | None = None) -> Iterator[Finding]:
    """Yield what was found, from the machine up to the models."""
    yield _python()
    yield from map(_package, PACKAGES)
    yield _memory()
    yield from _devices()
    yield _found("compact model", _compact, blocks="everything")
    yield _found("transformers version", _transformers, blocks="large models")
    yield _found("unlimited-ocr", lambda: _unlimited_ocr(model_path), blocks="unlimited-ocr")


def _python() -> Finding:
    enough = sys.version_info >= NEEDED_PYTHON
    detail = f"{platform.python_version()} on {platform.system()} {platform.machine()}, {os.cpu_count()} processors"
    if enough:
        return Finding("ok", "python", detail)
    return Finding("!!", "python", f"{detail}; 3.11 is needed: install it", "everything")


def _package(name: str) -> Finding:
    try:
        return Finding("ok", name, version(name))
    except PackageNotFoundError:
        return Finding("!!", name, f"is not installed: pip install {name}", "everything")


def _memory() -> Finding:
    from models.vlm.loading import free_bytes

    free = free_bytes("cpu")
    return Finding("--" if free is None else "ok", "memory", f"{free / GB:.1f} GB free" if free else "unknown here")


def _devices() -> Iterator[Finding]:
    from models.vlm.loading import available_devices, free_bytes

    found = available_devices()
    for device in found:
        free = free_bytes(device) if device == "cuda" else None
        yield Finding("ok", device, f"{_device_name(device)}{f', {free / GB:.1f} GB free' if free else ''}")
    if found == ["cpu"]:
        yield Finding("--", "gpu", "none that torch can use: large models will be slow; the compact model needs none")


def _device_name(device: str) -> str:
    import torch

    if device == "cuda":
        bf16 = "with" if torch.cuda.is_bf16_supported() else "without"
        return f"{torch.cuda.get_device_name()}, {bf16} bfloat16"
    return f"{torch.get_num_threads()} threads" if device == "cpu" else "Apple GPU"


def _found(subject: str, look: Callable[[], str], blocks: str) -> Finding:
    """Return what ``look`` says, or how it failed."""
    try:
        return Finding("ok", subject, look())
    except TomeflowError as error:
        return Finding("!!" if blocks == "everything" else "--", subject, error.message, blocks)


def _compact() -> str:
    from data_contracts.config import ReadingConfig
    from models.zoo import load_model

    load_model(ReadingConfig())
    return "weights are in place and whole"


def _transformers() -> str:
    from models.vlm.loading import TRANSFORMERS_VERSION, refuse_other_version

    refuse_other_version()
    return f"{TRANSFORMERS_VERSION}, the one large models are proven with"


def _unlimited_ocr(model_path: str | None) -> str:
    from data_contracts.config import VlmConfig
    from models.unlimited_ocr import NAME, REMEDY
    from models.vlm.loading import choose_place, free_bytes, local_folder, parameters

    folder = local_folder(model_path or NAME, REMEDY)
    place = choose_place(VlmConfig())
    needed, free = parameters(folder) * place.dtype.itemsize, free_bytes(place.device)
    fits = "" if free is None else f", {free / GB:.1f} GB are free"
    if free is not None and needed > free:
        raise ModelUnavailable(
            f"{folder}: {needed / GB:.1f} GB of weights as {place.dtype} on {place.device}{fits}. "
            "Free memory or use another --device or --dtype."
        )
    return f"{folder}: {needed / GB:.1f} GB of weights as {place.dtype} on {place.device}{fits}"
