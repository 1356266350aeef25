"""``tomeflow doctor`` says what can run here, and for what cannot, why and what helps."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
import torch

from data_contracts.errors import ModelUnavailable
from flows.commands import doctor
from models import zoo


def options(**given: object) -> argparse.Namespace:
    return argparse.Namespace(**{"model_path": None, "json": False, **given})


def findings(model_path: str | None = None) -> dict[str, doctor.Finding]:
    return {finding.subject: finding for finding in doctor.examine(model_path)}


def test_the_compact_model_can_run_here_and_a_large_one_says_how_to_be_had(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.main(options()) == 0
    printed = capsys.readouterr().out
    assert "ok  compact model" in printed
    assert "hf download baidu/Unlimited-OCR" in printed


def test_a_machine_without_a_gpu_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    found = findings()
    assert found["gpu"].verdict == "--"
    assert "compact model needs none" in found["gpu"].detail


def test_a_missing_compact_model_is_the_end_of_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(reading: object) -> None:
        raise ModelUnavailable("the weights are gone. Install them again.")

    monkeypatch.setattr(zoo, "load_model", missing)
    assert doctor.main(options(json=True)) == ModelUnavailable.exit_code
    found = json.loads(capsys.readouterr().out)["findings"]
    assert {"verdict": "!!", "blocks": "everything"}.items() <= {f["subject"]: f for f in found}[
        "compact model"
    ].items()


def test_weights_that_do_not_fit_are_told_with_both_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from safetensors.torch import save_file

    from models.vlm import loading

    (tmp_path / "config.json").write_text("{}")
    save_file({"weight": torch.zeros(1000, 1000)}, tmp_path / "model.safetensors")
    assert findings(str(tmp_path))["unlimited-ocr"].verdict == "ok"
    monkeypatch.setattr(loading, "free_bytes", lambda device: 1_000_000)
    found = findings(str(tmp_path))["unlimited-ocr"]
    assert found.blocks == "unlimited-ocr"
    assert "0.0 GB of weights" in found.detail
