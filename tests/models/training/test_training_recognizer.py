"""The trainer of recognisers: the torch network is the ONNX graph, real lines come as they were printed."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import cv2
import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from models.compact.onnx_weights import RECOGNIZER, find_weights
from models.training.recognizer import train
from models.training.recognizer.alphabet import Alphabet, latin_alphabet
from models.training.recognizer.network import OnnxNetwork, head_names, with_head
from models.training.recognizer.real_lines import RealLine, read_lines, spelled
from models.training.recognizer.spoil import spoil

WIDTH_PX = 320
STEPS = 6
COLUMNS = [
    "source",
    "split",
    "shard",
    "member",
    "book",
    "page",
    "language",
    "script",
    "century",
    "characters",
    "width",
    "height",
]


@pytest.fixture(scope="module")
def given() -> onnx.ModelProto:
    return onnx.load(find_weights(RECOGNIZER))


@pytest.fixture(scope="module")
def alphabet(given: onnx.ModelProto) -> Alphabet:
    return latin_alphabet(train.characters_of(given, None))


@pytest.fixture(scope="module")
def latin(given: onnx.ModelProto, alphabet: Alphabet) -> onnx.ModelProto:
    return with_head(given, alphabet.rows, alphabet.like)


def images(lines: int = 2) -> np.ndarray:
    return np.random.default_rng(0).uniform(-1, 1, (lines, 3, 48, WIDTH_PX)).astype(np.float32)


def posteriors(model: onnx.ModelProto, pictures: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": pictures})[0])


def test_the_torch_network_gives_what_the_onnx_graph_gives(given: onnx.ModelProto) -> None:
    with torch.inference_mode():
        ours = OnnxNetwork(given)(torch.from_numpy(images())).softmax(2).numpy()
    np.testing.assert_allclose(ours, posteriors(given, images()), atol=1e-4)


def test_weights_written_back_run_as_they_were_trained(latin: onnx.ModelProto) -> None:
    network = OnnxNetwork(latin)
    with torch.no_grad():
        for weight in network.weights.values():
            weight.mul_(1.01)
    with torch.inference_mode():
        ours = network(torch.from_numpy(images(1))).softmax(2).numpy()
    np.testing.assert_allclose(ours, posteriors(network.written_to(latin), images(1)), atol=1e-4)


def test_a_network_with_an_unknown_operation_is_refused(given: onnx.ModelProto) -> None:
    changed = onnx.ModelProto()
    changed.CopyFrom(given)
    changed.graph.node[0].op_type = "ConvTranspose"
    with pytest.raises(ValueError, match="ConvTranspose"):
        OnnxNetwork(changed)


def test_the_latin_head_says_of_kept_characters_what_the_whole_head_said(
    given: onnx.ModelProto, latin: onnx.ModelProto, alphabet: Alphabet
) -> None:
    with torch.inference_mode():
        whole = OnnxNetwork(given)(torch.from_numpy(images(1))).numpy()
        part = OnnxNetwork(latin)(torch.from_numpy(images(1))).numpy()
    kept = [(new, old) for new, old in enumerate(alphabet.rows) if old is not None]
    np.testing.assert_allclose(part[..., [new for new, _ in kept]], whole[..., [old for _, old in kept]], atol=1e-4)
    assert part.shape[2] == len(alphabet.characters) < 500


def test_the_alphabet_has_what_was_printed_and_no_hanzi(alphabet: Alphabet) -> None:
    printed = "Geſchichte der „Welt“ vnd a\N{COMBINING LATIN SMALL LETTER E}ꝛ ⸗ 1789. œuvre"
    assert alphabet.decode(alphabet.encode(printed) or []) == printed
    assert alphabet.encode("中") is None
    assert alphabet.characters[0] == ""
    assert len(set(alphabet.characters)) == len(alphabet.characters)


@pytest.mark.parametrize(
    ("source", "written", "meant"),
    [
        ("gt4hist_fraktur19", "der Ge—", "der Ge⸗"),
        ("gt4hist_fraktur19", "er — ſie", "er — ſie"),
        ("ocr17", "le mai¬", "le mai-"),
        ("ocr17", "le mai—", "le mai—"),
        ("archiscribe", " a\u0308rger ", "ärger"),
    ],
)
def test_transcriptions_come_in_one_spelling(source: str, written: str, meant: str) -> None:
    assert spelled(written, source) == meant


def corpus(folder: Path, rows: list[dict[str, str]], texts: list[str]) -> Path:
    """Write a folder of real lines: one tar file and the table of its lines."""
    with tarfile.open(folder / "lines.tar", "w") as tar:
        for row, text in zip(rows, texts, strict=True):
            picture = np.full((40, 12 * len(text)), 255, np.uint8)
            cv2.putText(picture, text, (2, 30), cv2.FONT_HERSHEY_SIMPLEX, 0.6, 0)
            for name, data in (
                (row["member"], cv2.imencode(".png", picture)[1].tobytes()),
                (row["member"].replace(".png", ".txt"), text.encode()),
            ):
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
    table = ["\t".join(COLUMNS), *("\t".join(row[column] for column in COLUMNS) for row in rows)]
    (folder / "lines.tsv").write_text("\n".join(table) + "\n", encoding="utf-8")
    return folder


def row(number: int, **changes: str) -> dict[str, str]:
    return {
        **dict.fromkeys(COLUMNS, "1"),
        "source": "archiscribe",
        "split": "train",
        "shard": "lines.tar",
        "member": f"{number:06d}.png",
        "script": "fraktur",
        "century": "19",
        **changes,
    }


def test_lines_of_sets_that_do_not_write_what_was_printed_are_left_out(tmp_path: Path) -> None:
    rows = [
        row(0),
        row(1, split="val"),
        row(2, source="verard"),
        row(3, source="nubis", century="17"),
        row(4, source="nubis", century="19"),
    ]
    folder = corpus(tmp_path, rows, ["eins", "zwei", "drei", "vier", "fuenf"])
    assert [line.text for line in read_lines(folder, "train")] == ["eins", "fuenf"]
    assert [line.text for line in read_lines(folder, "val")] == ["zwei"]


def test_a_spoilt_line_stays_a_line(tmp_path: Path) -> None:
    (line,) = read_lines(corpus(tmp_path, [row(0)], ["Buchstaben"]), "train")
    rng = np.random.default_rng(1)
    for _ in range(50):
        spoilt = spoil(line.image, rng)
        assert spoilt.dtype == np.uint8
        assert abs(spoilt.shape[1] / line.image.shape[1] - 1) <= 0.11
        assert spoilt.std() > 5, "the ink is still there"


def trained(folder: Path, latin: onnx.ModelProto, alphabet: Alphabet, real: list[RealLine], minutes: float) -> None:
    training = train.Training(OnnxNetwork(latin), head_names(latin), STEPS)
    lines = train.Lines(real, alphabet, {}, folder)
    if (folder / "checkpoint.pt").exists():
        training.load(folder / "checkpoint.pt", lines)
    train.run(training, lines, train.Setting(latin, alphabet, real[:2], folder), minutes)


@pytest.mark.slow
def test_training_learns_goes_on_where_it_stopped_and_writes_what_runs(
    tmp_path: Path, latin: onnx.ModelProto, alphabet: Alphabet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train, "LINES_OF_A_BATCH", 2)
    monkeypatch.setattr(train, "POOL_BATCHES", 2)
    real = list(read_lines(corpus(tmp_path, [row(n) for n in range(3)], ["ſehr alt", "ſo neu", "Buch"]), "train"))
    before = train.error_rates(OnnxNetwork(latin), alphabet, real)["fraktur"]
    trained(tmp_path, latin, alphabet, real, minutes=0)  # no time: nothing but a checkpoint
    assert torch.load(tmp_path / "checkpoint.pt", weights_only=True)["step"] == 0
    trained(tmp_path, latin, alphabet, real, minutes=60)
    assert torch.load(tmp_path / "checkpoint.pt", weights_only=True)["step"] == STEPS
    after = train.error_rates(OnnxNetwork(onnx.load(tmp_path / "averaged.onnx")), alphabet, real)["fraktur"]
    assert after <= before
    rows = (tmp_path / "curve.csv").read_text().splitlines()
    assert rows[-1].startswith(f"{STEPS},")
