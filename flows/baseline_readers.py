"""Other readers of pages, for comparison only: RapidOCR as it comes out of its package, and Tesseract.

Both take the same pixels as the compact model and return text lines. A reader that cannot read here says why in
``absent_because`` and is not called.
"""

from __future__ import annotations

import io
import platform
import shutil
import subprocess
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from data_contracts.errors import ModelUnavailable

if TYPE_CHECKING:
    from data_contracts.geometry import Quad
    from models.sr_swa.pages import PageImage

TESSERACT_THREADS = 1
"""With more they wait for one another actively, which on a busy machine makes seconds into minutes."""
TESSERACT_SECONDS_A_PAGE = 900
"""A minute is usual for a dense page on a busy machine."""
TESSERACT_MODELS = {"en": "eng", "fr": "fra", "de": "frk", "zh": "chi_tra_vert"}
"""By the first letters of a book's name; the shared German books are all set in Fraktur."""
SAME_ROW_THICKNESS = 0.5
"""Centres of one row lie closer than half a line."""


class Reader(Protocol):
    """Reads one page at a time."""

    absent_because: str | None

    def read(self, page: PageImage) -> list[str]:
        """Return the text lines of ``page``."""


class PlainRapidOcr:
    """RapidOCR with its defaults but without its orientation classifier; lines sorted into rows by height."""

    absent_because: str | None = None

    def __init__(self, threads: int) -> None:
        """Load the models that the package carries."""
        from rapidocr import RapidOCR

        self._engine = RapidOCR(
            params={"EngineConfig.onnxruntime.intra_op_num_threads": threads, "Global.log_level": "critical"}
        )

    def read(self, page: PageImage) -> list[str]:
        """Return the lines in naive order, which two columns and vertical text defeat."""
        found: Any = self._engine(np.ascontiguousarray(page.pixels[:, :, ::-1]), use_cls=False)
        if found.boxes is None or not found.txts:
            return []
        return [found.txts[line] for line in naive_row_order(found.boxes.tolist())]


class Tesseract:
    """The ``tesseract`` program, one process a page, with the model for the book's language."""

    def __init__(self, book: str = "", model: str | None = None) -> None:
        """Look for the program and the ``model``, or that of the ``book``'s language; nothing is started yet."""
        self._model = model or TESSERACT_MODELS.get(book[:2], "eng")
        self.absent_because: str | None = None
        if shutil.which("tesseract") is None:
            self.absent_because = "the program tesseract is not installed"
        elif self._model not in _tesseract_models():
            self.absent_because = f"tesseract has no model {self._model}"

    def read(self, page: PageImage) -> list[str]:
        """Return the lines that Tesseract prints for the page in grey: colour makes it worse on tinted paper.

        Raises:
            ModelUnavailable: it failed, or did not come back.
        """
        from PIL import Image

        buffer = io.BytesIO()
        Image.fromarray(page.pixels).convert("L").save(buffer, "PNG", compress_level=1)
        command = ["env", f"OMP_THREAD_LIMIT={TESSERACT_THREADS}", "tesseract", "stdin", "stdout", "-l", self._model]
        try:
            done = subprocess.run(
                [*command, "--dpi", str(round(page.dpi))],
                input=buffer.getvalue(),
                capture_output=True,
                timeout=TESSERACT_SECONDS_A_PAGE,
                check=True,
            )
        except subprocess.SubprocessError as error:
            raise ModelUnavailable(
                f"tesseract -l {self._model} did not read page {page.page_number}: {error}. Without the program on the "
                "path the benchmark runs and reports it as absent."
            ) from error
        return [line for line in done.stdout.decode().replace("\f", "").splitlines() if line.strip()]


def naive_row_order(quads: Sequence[Quad]) -> list[int]:
    """Return indices sorted into rows by height, each row from left to right."""
    corners = np.array(quads, np.float64)
    middle = corners[:, :, 1].mean(axis=1)
    thickness = float(np.median(corners[:, 2:, 1].mean(axis=1) - corners[:, :2, 1].mean(axis=1)))
    rows: list[list[int]] = []
    for line in np.argsort(middle, kind="stable").tolist():
        if rows and middle[line] - middle[rows[-1][-1]] < SAME_ROW_THICKNESS * thickness:
            rows[-1].append(line)
        else:
            rows.append([line])
    return [line for row in rows for line in sorted(row, key=lambda line: corners[line, 0, 0])]


def machine() -> dict[str, Any]:
    """Return what times and rates depend on: the processor and the versions of the readers."""
    from importlib.metadata import version

    return {
        "cpu": _cpu_name(),
        "python": platform.python_version(),
        "rapidocr": version("rapidocr"),
        "onnxruntime": version("onnxruntime"),
        "tesseract": _tesseract_version(),
        "tesseract_threads": TESSERACT_THREADS,
    }


def _cpu_name() -> str:
    described = Path("/proc/cpuinfo")
    if described.is_file():
        for line in described.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


@lru_cache(maxsize=1)
def _tesseract_models() -> frozenset[str]:
    listed = subprocess.run(["tesseract", "--list-langs"], capture_output=True, text=True, check=True, timeout=60)
    return frozenset(listed.stdout.split("\n")[1:])


def _tesseract_version() -> str | None:
    if shutil.which("tesseract") is None:
        return None
    printed = subprocess.run(["tesseract", "--version"], capture_output=True, text=True, check=True, timeout=60)
    return (printed.stdout or printed.stderr).split("\n")[0].removeprefix("tesseract ").strip()
