from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from data_contracts.errors import ModelUnavailable
from models.compact.onnx_weights import (
    DETECTOR,
    FEATURE_DIM,
    RECOGNIZER,
    TOP_CLASSES,
    find_weights,
    open_detector,
    open_recognizer,
)

CLASSES = 18710


def test_altered_weights_are_refused_with_both_digests_and_the_remedy(tmp_path: Path) -> None:
    altered = bytearray(find_weights(DETECTOR).read_bytes())
    altered[1000] ^= 1
    (tmp_path / DETECTOR.name).write_bytes(altered)
    with pytest.raises(ModelUnavailable) as error:
        find_weights(DETECTOR, tmp_path)
    assert DETECTOR.sha256 in str(error.value)
    assert "has sha256" in str(error.value)
    assert "pip install --force-reinstall --no-deps rapidocr==3.10.0" in str(error.value)


def test_missing_weights_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match=f"{RECOGNIZER.name} does not exist.*rapidocr==3.10.0"):
        open_recognizer(1, tmp_path)


def test_another_version_of_the_package_is_refused_by_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rapidocr-3.9.9.dist-info").mkdir()
    (tmp_path / "rapidocr-3.9.9.dist-info" / "METADATA").write_text("Name: rapidocr\nVersion: 3.9.9\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModelUnavailable, match=r"rapidocr has version 3\.9\.9, expected 3\.10\.0"):
        find_weights(DETECTOR)


def test_zeroed_denormals_do_not_change_a_bit_of_the_detection() -> None:
    image = np.random.default_rng(1).uniform(-1, 1, (1, 3, 160, 224)).astype(np.float32)
    stock = onnxruntime.InferenceSession(str(find_weights(DETECTOR)), providers=["CPUExecutionProvider"])
    expected = stock.run(None, {"x": image})[0]
    assert np.array_equal(open_detector(1).run(None, {"x": image})[0], expected)


def test_the_top_classes_are_those_of_the_whole_head() -> None:
    image = np.random.default_rng(2).uniform(-1, 1, (1, 3, 48, 320)).astype(np.float32)
    stock = onnxruntime.InferenceSession(str(find_weights(RECOGNIZER)), providers=["CPUExecutionProvider"])
    whole = stock.run(None, {"x": image})[0]
    features, posteriors, ids = open_recognizer(1).run(image)
    assert features.shape == (1, 40, FEATURE_DIM)
    assert ids.shape == posteriors.shape == (1, 40, TOP_CLASSES)
    assert np.array_equal(ids[..., 0], whole.argmax(-1))
    assert np.allclose(posteriors, np.sort(whole, axis=-1)[..., : -TOP_CLASSES - 1 : -1], atol=1e-6)


def test_each_class_has_a_character_with_the_blank_first_and_the_space_last() -> None:
    characters = open_recognizer(1).characters
    assert len(characters) == CLASSES
    assert characters[0] == ""
    assert characters[-1] == " "
    assert characters[1] == "!"
    assert len(set(characters)) > CLASSES - 10
