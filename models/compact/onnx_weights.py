"""The PP-OCRv6 networks that the package rapidocr carries: found, checked, prepared, opened.

Knows nothing of pages or text. Both graphs are edited in memory, the files stay as they are:

* detector: denormal weights become zero. On CPUs they cost three quarters of the time, and the output is
  the same to the last bit.
* recogniser: it gives the features before the character head (``frames``) and the best classes of the head
  in the same pass, so that the full posteriors [lines, frames, 18710] never leave the runtime.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from data_contracts.errors import ModelUnavailable

if TYPE_CHECKING:
    import onnx
    import onnxruntime

PACKAGE = "rapidocr"
PACKAGE_VERSION = "3.10.0"

FEATURE_DIM = 120
"""Width of a frame's features, the input of the character head."""
TOP_CLASSES = 8
"""Classes kept of each frame."""
BLANK_CLASS = 0
DENORMAL_BELOW = 1e-30
"""Smaller weights become zero: their products vanish beside float32's rounding of any real activation."""

_FEATURES = "p2o.pd_op.transpose.8.0"
_POSTERIORS = "fetch_name_0"
_TOP_POSTERIORS, _TOP_IDS = "top_posteriors", "top_ids"


@dataclass(frozen=True)
class WeightFile:
    """One ONNX file of the package and the digest it must have."""

    name: str
    sha256: str


DETECTOR = WeightFile("PP-OCRv6_det_small.onnx", "090f04abcd9d9a7498bc4ebf677e4cb9bdce1fe4197ddb7e529f1ef44e1ff94f")
RECOGNIZER = WeightFile("PP-OCRv6_rec_small.onnx", "6f327246b50388f3c176ae304bd95767ea6dc0c9ae92153ef8cbe210b3c14884")


@dataclass(frozen=True)
class RecognizerNetwork:
    """The recogniser, opened. ``characters`` [classes] maps a class id to its character; the blank is empty."""

    session: onnxruntime.InferenceSession
    characters: tuple[str, ...]

    def run(self, images: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return features [lines, frames, 120], top posteriors and top ids [lines, frames, 8] of ``images``.

        ``images`` is float32 [lines, 3, 48, width] in -1..1.
        """
        features, posteriors, ids = self.session.run([_FEATURES, _TOP_POSTERIORS, _TOP_IDS], {"x": images})
        return features, posteriors, ids


def open_detector(threads: int, folder: Path | None = None) -> onnxruntime.InferenceSession:
    """Open the line detector; input float32 [1, 3, height, width], output text probability [1, 1, height, width].

    Raises:
        ModelUnavailable: package or file are missing or not the ones this model was made with.
    """
    model = _read(DETECTOR, folder)
    _zero_denormals(model)
    return _open(model, threads)


def open_recognizer(threads: int, folder: Path | None = None) -> RecognizerNetwork:
    """Open the line recogniser with features and top classes as outputs.

    Raises:
        ModelUnavailable: package or file are missing or not the ones this model was made with.
    """
    model = _read(RECOGNIZER, folder)
    _zero_denormals(model)
    written = next(entry.value for entry in model.metadata_props if entry.key == "character").split("\n")
    _give_features_and_top_classes(model)
    return RecognizerNetwork(_open(model, threads), ("", *written, " "))


def find_weights(weights: WeightFile, folder: Path | None = None) -> Path:
    """Return where ``weights`` lie, in ``folder`` or in the installed package, after checking their digest.

    Raises:
        ModelUnavailable: the message says which version or digest was expected, which was found, and the remedy.
    """
    path = (folder or _package_folder()) / weights.name
    if not path.is_file():
        raise ModelUnavailable(f"{path} does not exist; {_remedy()}")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != weights.sha256:
        raise ModelUnavailable(f"{path} has sha256 {found}, expected {weights.sha256}; {_remedy()}")
    return path


def _package_folder() -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise ModelUnavailable(f"package {PACKAGE} is not installed, expected version {PACKAGE_VERSION}; {_remedy()}")
    version = importlib.metadata.version(PACKAGE)
    if version != PACKAGE_VERSION:
        raise ModelUnavailable(f"package {PACKAGE} has version {version}, expected {PACKAGE_VERSION}; {_remedy()}")
    return Path(spec.origin).parent / "models"


def _remedy() -> str:
    return f"pip install --force-reinstall --no-deps {PACKAGE}=={PACKAGE_VERSION}"


def _read(weights: WeightFile, folder: Path | None) -> onnx.ModelProto:
    import onnx

    return onnx.load(find_weights(weights, folder))


def _zero_denormals(model: onnx.ModelProto) -> None:
    from onnx import TensorProto, numpy_helper

    for tensor in model.graph.initializer:
        if tensor.data_type != TensorProto.FLOAT:
            continue
        values = numpy_helper.to_array(tensor)
        tiny = np.abs(values) < DENORMAL_BELOW
        if np.any(tiny & (values != 0)):
            tensor.CopyFrom(numpy_helper.from_array(np.where(tiny, np.float32(0), values), tensor.name))


def _give_features_and_top_classes(model: onnx.ModelProto) -> None:
    from onnx import TensorProto, helper, numpy_helper

    graph = model.graph
    graph.initializer.append(numpy_helper.from_array(np.array([TOP_CLASSES], np.int64), "top_classes"))
    graph.node.append(
        helper.make_node("TopK", [_POSTERIORS, "top_classes"], [_TOP_POSTERIORS, _TOP_IDS], axis=-1, sorted=1)
    )
    del graph.output[:]
    lines, frames = "lines", "frames"
    for name, kind, size in (
        (_FEATURES, TensorProto.FLOAT, FEATURE_DIM),
        (_TOP_POSTERIORS, TensorProto.FLOAT, TOP_CLASSES),
        (_TOP_IDS, TensorProto.INT64, TOP_CLASSES),
    ):
        graph.output.append(helper.make_tensor_value_info(name, kind, [lines, frames, size]))


def _open(model: onnx.ModelProto, threads: int) -> onnxruntime.InferenceSession:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # waiting threads leave the cores alone
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.enable_cpu_mem_arena = False  # an arena keeps what the largest page needed; memory is to stay flat
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
