"""Pages for the accuracy benchmark: rendered, degraded, encoded, and kept in a folder so that it is done once.

A page is encoded as it is and under each degradation; Tesseract is given the very line boxes that the compact model
found. What is kept lies under the digest of all that made it, so a changed setting makes new files.
"""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from data_contracts.errors import ModelUnavailable
from flows.baseline_readers import TESSERACT_MODELS, Tesseract
from flows.bench.degradation import AS_IS, Degradation, degrade, load_degradations

if TYPE_CHECKING:
    from data_contracts.config import ReadingConfig
    from models.sr_swa.pages import EncodedLine, EncodedPage, PageImage
    from models.sr_swa.protocol import OcrModel

Pixels = npt.NDArray[np.uint8]

USUAL_LINE_HEIGHT_PX = 48.0
"""For a page on which no line was found."""
LEAST_CHARACTERS = 4
"""Shorter lines are page numbers and specks, no measure of the type."""
CROP_BORDER_PX = 12
"""White around a line, without which Tesseract misses characters at the edge."""
TESSERACT_SECONDS_A_PAGE = 900
ENGLISH = "eng"
"""For a book whose name says no language."""


class EncodedPages:
    """One book's pages. Invariant: what ``encoded`` and ``tesseract_text`` return is a function of the page alone."""

    def __init__(self, book: Path, folder: Path, model: OcrModel, reading: ReadingConfig) -> None:
        """Keep what is made in ``folder``; ``model`` encodes with ``reading``."""
        self._book = book
        self._model = model
        self._reading = reading
        encoder = f"{_encoder_version()} {reading.compact.detector_side_px} {reading.render.model_dump_json()}"
        self._folder = folder / book.name / _digest(encoder)
        self._tesseract = Tesseract(book.name)

    def encoded(self, page_number: int, degradation: str) -> EncodedPage:
        """Return the encoded page, from the folder or made now."""
        from models.features import features_bytes, read_features
        from models.sr_swa.pages import EncodedPage

        path = self._path(page_number, degradation, "safetensors")
        if not path.is_file():
            _write(path, features_bytes([self._model.encode_visual(self._image(page_number, degradation))]))
        page = next(iter(read_features(path.read_bytes())))
        assert isinstance(page, EncodedPage)
        return page

    def tesseract_text(self, page_number: int, degradation: str) -> str | None:
        """Return what Tesseract reads in the lines of the encoded page; None where it or its language is absent.

        Raises:
            ModelUnavailable: it failed, or did not come back.
        """
        if self._tesseract.absent_because is not None:
            return None
        path = self._path(page_number, degradation, "tesseract.txt")
        if not path.is_file():
            page = self.encoded(page_number, degradation)
            upright = np.rot90(self._image(page_number, degradation).pixels, -page.rotation // 90)
            text = read_lines_with_tesseract(upright, page.lines, TESSERACT_MODELS.get(self._book.name[:2], ENGLISH))
            _write(path, text.encode())
        return path.read_text(encoding="utf-8")

    def _image(self, page_number: int, degradation: str) -> PageImage:
        from tasks.sources.render import PageSource

        with PageSource(self._book / f"{self._book.name}.pdf", "pdf", self._reading.render) as source:
            image = source.render(page_number)
        if degradation == AS_IS:
            return image
        height_px = usual_line_height_px(self.encoded(page_number, AS_IS).lines)
        seed = f"{self._book.name} {page_number} {degradation}"
        return replace(image, pixels=degrade(image.pixels, load_degradations()[degradation], height_px, seed))

    def _path(self, page_number: int, degradation: str, kind: str) -> Path:
        setting: Degradation | None = load_degradations().get(degradation)
        name = f"{degradation}-{_digest(setting.model_dump_json())}" if setting else degradation
        return self._folder / name / f"page_{page_number:04d}.{kind}"


def usual_line_height_px(lines: Sequence[EncodedLine]) -> float:
    """Return the median height of the boxes of ``lines``, or what is usual if there are none."""
    heights = [
        float(np.linalg.norm(np.subtract(line.quad[3], line.quad[0])))
        for line in lines
        if len(line.ctc_ids) >= LEAST_CHARACTERS and line.direction == "horizontal"
    ]
    return float(np.median(heights)) if heights else USUAL_LINE_HEIGHT_PX


def read_lines_with_tesseract(pixels: Pixels, lines: Sequence[EncodedLine], language_model: str) -> str:
    """Return Tesseract's reading of ``lines`` on upright ``pixels``, one line a line, by one process.

    Raises:
        ModelUnavailable: it failed, or did not come back.
    """
    from PIL import Image

    from models.compact.line_shape import cut_line

    if not lines:
        return ""
    with tempfile.TemporaryDirectory() as folder:
        names = []
        for index, line in enumerate(lines):
            crop = np.pad(cut_line(pixels, line.quad, line.direction), _BORDER, constant_values=255)
            names.append(str(Path(folder) / f"{index:04d}.png"))
            Image.fromarray(crop).save(names[-1], compress_level=1)
        listed = Path(folder) / "lines.txt"
        listed.write_text("\n".join(names) + "\n", encoding="utf-8")
        command = ["env", "OMP_THREAD_LIMIT=1", "tesseract", str(listed), "stdout", "-l", language_model, "--psm", "7"]
        try:
            done = subprocess.run(command, capture_output=True, timeout=TESSERACT_SECONDS_A_PAGE, check=True)
        except subprocess.SubprocessError as error:
            raise ModelUnavailable(
                f"tesseract -l {language_model} did not read {len(lines)} lines: {error}. Leave it out with "
                "--no-tesseract."
            ) from error
    return "\n".join(" ".join(part.split()) for part in done.stdout.decode().split("\f")[: len(lines)])


def another_book(name: str, names: Sequence[str]) -> str | None:
    """Return the next of ``names``, of the same language if there is one; None where no other book is.

    Two scans of one book are named alike to the end of the shorter name and do not count as different.
    """
    at = names.index(name)
    others = [each for each in (*names[at + 1 :], *names[:at]) if not each.startswith(name) | name.startswith(each)]
    return next((each for each in others if each[:2] == name[:2]), others[0] if others else None)


def consecutive(page_numbers: Sequence[int], count: int | None) -> list[int]:
    """Return ``count`` pages in a row from the middle of ``page_numbers``, or all: memory needs neighbours."""
    if count is None or count >= len(page_numbers):
        return list(page_numbers)
    start = (len(page_numbers) - count) // 2
    return list(page_numbers[start : start + count])


_BORDER = ((CROP_BORDER_PX, CROP_BORDER_PX), (CROP_BORDER_PX, CROP_BORDER_PX), (0, 0))


@lru_cache(maxsize=1)
def _encoder_version() -> str:
    """Return a digest of the networks and of the code that turns a page into lines."""
    import models.compact as compact
    from models import layout
    from models.compact.onnx_weights import DETECTOR, RECOGNIZER

    code = hashlib.sha256()
    for package, patterns in ((compact, ENCODER_CODE), (layout, ("*.py",))):
        (folder,) = package.__path__
        for path in sorted(path for pattern in patterns for path in Path(folder).glob(pattern)):
            code.update(path.read_bytes())
    return f"{DETECTOR.sha256} {RECOGNIZER.sha256} {code.hexdigest()}"


ENCODER_CODE = (
    "detect/*.py",
    "recognise/*.py",
    "recognise/*.json",
    "words/ideographs.py",
    "words/language.py",
    "words/split.py",
    "line_shape.py",
    "onnx_weights.py",
    "orientation.py",
    "ornaments.py",
    "reader.py",
)
"""Of ``models/compact``: what can change an encoded page."""


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    partial.write_bytes(data)
    partial.replace(path)
