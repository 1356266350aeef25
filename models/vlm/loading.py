"""Where a large model computes, whether it fits, and which weights it has; clear errors with the remedy.

Nothing is downloaded and no code from a checkpoint is run: weights are safetensors in a folder, or in the local
cache that a download has filled.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from data_contracts.config import VlmConfig
from data_contracts.errors import ModelUnavailable

TRANSFORMERS_VERSION = "5.23.0"
"""The version against which cache layer, attention and rotary code have been proven."""
SAMPLE_BYTES = 1 << 16
SAMPLES = 64
"""Of each weight file so many pieces go into the fingerprint, evenly spread: all of 7 GB would take half a minute a
run. Another training of the same model differs in each of them."""
HEADER_LENGTH_BYTES = 8
DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
MEMINFO = Path("/proc/meminfo")


@dataclass(frozen=True)
class Place:
    """Where and in which type a model computes."""

    device: str
    dtype: torch.dtype


def choose_place(config: VlmConfig) -> Place:
    """Return device and dtype as configured, ``auto`` resolved.

    Raises:
        ModelUnavailable: this machine has no such device.
    """
    available = available_devices()
    device = available[0] if config.device == "auto" else config.device
    if device not in available:
        raise ModelUnavailable(
            f"no {device} device: torch {torch.__version__} sees {', '.join(available)} here. "
            f"Install torch for your driver, or use --device {available[0]}."
        )
    return Place(device, _best_dtype(device) if config.dtype == "auto" else DTYPES[config.dtype])


def available_devices() -> list[str]:
    """Return the kinds of devices that torch can use here, fastest first."""
    found = ["cuda"] if torch.cuda.is_available() else []
    found += ["mps"] if torch.backends.mps.is_available() else []
    return [*found, "cpu"]


def free_bytes(device: str) -> int | None:
    """Return the memory that is free on ``device`` [bytes]; None where the system does not say."""
    if device == "cuda":
        return int(torch.cuda.mem_get_info()[0])
    if not MEMINFO.exists():
        return None
    figures = dict(line.split(":") for line in MEMINFO.read_text().splitlines())
    return int(figures["MemAvailable"].split()[0]) * 1024


def steady_allocator(device: str) -> None:
    """Let the GPU's allocator grow what it has instead of scattering segments; elsewhere there is nothing to set."""
    if device == "cuda":
        torch.cuda.memory._set_allocator_settings("expandable_segments:True")


def load_pretrained(folder: Path, model_class: Any, tokenizer_class: Any, place: Place, remedy: str) -> tuple[Any, Any]:
    """Return (model, tokenizer) of the checkpoint in ``folder``, the model on its device.

    Raises:
        ModelUnavailable: transformers has another version, files are missing or damaged, weights do not belong to the
            model, or memory does not suffice; ``remedy`` says what to do about missing files.
    """
    refuse_other_version()
    _refuse_if_too_large(folder, place)
    steady_allocator(place.device)
    options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    _silence_progress()
    try:
        tokenizer = tokenizer_class.from_pretrained(folder, **options)
        model, report = model_class.from_pretrained(
            folder, dtype=place.dtype, use_safetensors=True, output_loading_info=True, **options
        )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise ModelUnavailable(f"the model in {folder} cannot be loaded: {error}. {remedy}") from error
    lacking = sorted(report["missing_keys"]) + sorted(str(key) for key in report["mismatched_keys"])
    if lacking:  # transformers would fill them with random numbers
        raise ModelUnavailable(
            f"{len(lacking)} weights of the model are not in {folder}, such as {lacking[0]}. {remedy}"
        )
    return model.to(place.device).eval(), tokenizer


def load_image_processor(folder: Path, remedy: str) -> Any:
    """Return what turns a page into the inputs of the vision tower, as the checkpoint in ``folder`` says.

    Raises:
        ModelUnavailable: its settings are missing, damaged, or need a package that is not installed.
    """
    from transformers import AutoImageProcessor

    load: Any = AutoImageProcessor.from_pretrained
    try:
        return load(folder, backend="pil", local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise ModelUnavailable(f"the image settings in {folder} cannot be used: {error}. {remedy}") from error


def local_folder(source: str, remedy: str) -> Path:
    """Return the folder of ``source``.

    Raises:
        ModelUnavailable: there is none, or it has no weights.
    """
    folder = Path(source)
    if not folder.is_dir():
        folder = _cached_folder(source, remedy)
    if not (folder / "config.json").exists() or not any(folder.glob("*.safetensors")):
        raise ModelUnavailable(f"{folder} holds no config.json with *.safetensors weights. {remedy}")
    return folder


def refuse_other_version() -> None:
    """Refuse a transformers whose inside has not been proven.

    Raises:
        ModelUnavailable: another version is installed.
    """
    import transformers

    if transformers.__version__ != TRANSFORMERS_VERSION:
        raise ModelUnavailable(
            f"transformers {transformers.__version__} is installed, large models are proven with "
            f"{TRANSFORMERS_VERSION}: pip install transformers=={TRANSFORMERS_VERSION}"
        )


def fingerprint(folder: Path, place: Place, algorithm: str) -> str:
    """Return algorithm, device class, dtype, and a digest of configuration and weights."""
    digest = hashlib.sha256((folder / "config.json").read_bytes())
    for path in sorted(folder.glob("*.safetensors")):
        digest.update(f"{path.name} {path.stat().st_size}\n".encode())
        for piece in _samples(path):
            digest.update(piece)
    return f"{algorithm}/{place.device}/{place.dtype}/{digest.hexdigest()}"


def parameters(folder: Path) -> int:
    """Return how many numbers the weights in ``folder`` are, from the headers of the files.

    Raises:
        ModelUnavailable: a header cannot be read.
    """
    count = 0
    for path in folder.glob("*.safetensors"):
        try:
            with path.open("rb") as file:
                header = json.loads(file.read(int.from_bytes(file.read(HEADER_LENGTH_BYTES), "little")))
            count += sum(math.prod(entry["shape"]) for name, entry in header.items() if name != "__metadata__")
        except (ValueError, KeyError, OverflowError, MemoryError) as error:
            raise ModelUnavailable(f"the weights {path} are damaged: {error}. Fetch them again.") from error
    return count


def _samples(path: Path) -> Iterator[bytes]:
    size = path.stat().st_size
    with path.open("rb") as file:
        for sample in range(SAMPLES):
            file.seek(size * sample // SAMPLES)
            yield file.read(SAMPLE_BYTES)


def _cached_folder(source: str, remedy: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(source, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError, OSError) as error:
        raise ModelUnavailable(
            f"there is no model at {source}, neither a folder nor in the local cache. {remedy}"
        ) from error


def _silence_progress() -> None:
    """Keep transformers' progress bars out of a command's output."""
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # transformers is typed in part


def _refuse_if_too_large(folder: Path, place: Place) -> None:
    needed, free = parameters(folder) * place.dtype.itemsize, free_bytes(place.device)
    if free is not None and needed > free:
        raise ModelUnavailable(
            f"the weights need {needed / 1e9:.1f} GB as {place.dtype}, {free / 1e9:.1f} GB are free on {place.device}. "
            "Free memory, or use --dtype bfloat16, or another --device."
        )


def _best_dtype(device: str) -> torch.dtype:
    if device == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    return torch.float16 if device == "mps" else torch.float32
