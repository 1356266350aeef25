"""Fits how many errors a confidence stands for: ``python -m models.training.calibrate [--cache DIR]``.

Generated lines (``generate.py``, its own cycle of languages) are read as any page is, lexicon rescoring included, and
compared with what was drawn. Lines are put in order of confidence, cut into portions of equal size, and the error
rates of the portions made to fall by pooling those that do not: isotonic regression. Writes
``data_contracts/quality/calibration.json``, which a release carries.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from data_contracts.config import ReadingConfig
from data_contracts.quality.calibration import CURVES_FILE
from data_contracts.text import edit_distance, normalise_pair
from models.compact.reader import CompactModel
from models.sr_swa.continuous import ContinuousDecoder
from models.sr_swa.pages import EncodedLine, EncodedPage
from models.training.drawing import shards
from models.training.drawing.generate import CACHE

PORTIONS = 24
"""Of about a hundred lines each: as fine as the number of errors in the best of them allows."""
LINE_STEP_PX, LINE_HEIGHT_PX, LINE_WIDTH_PX = 50.0, 40.0, 900.0
DECIMALS = 5


@dataclass(frozen=True)
class ReadLine:
    """A generated line after reading. ``characters`` of the normalised truth; ``historical``: long s, old spelling."""

    confidence: float
    characters: int
    errors: int
    historical: bool


def read_document(document: shards.Document, model: CompactModel, reading: ReadingConfig) -> Iterator[ReadLine]:
    """Yield the lines of ``document`` of which something was read."""
    pages = sorted({sample.page for sample in document.samples})
    samples = [[sample for sample in document.samples if sample.page == page] for page in pages]
    encoded = (stacked_page(number, [sample.line for sample in page]) for number, page in enumerate(samples, start=1))
    decoder = ContinuousDecoder(model, reading.sr_swa, config_sha256=reading.sha256)
    for page, result in zip(samples, decoder.decode(encoded), strict=True):
        read = {round(line.box.top / LINE_STEP_PX): line for line in result.lines}
        for index, sample in enumerate(page):
            if index not in read or not len(sample.target_ids):
                continue
            drawn = "".join(model.characters[place] for place in sample.target_ids)
            truth, text = normalise_pair(drawn, read[index].text)
            if truth:
                yield ReadLine(read[index].confidence, len(truth), edit_distance(truth, text), document.historical)


def stacked_page(page_number: int, lines: Sequence[EncodedLine]) -> EncodedPage:
    """Return ``lines`` one below the other: each is known again by its height."""
    placed = []
    for index, line in enumerate(lines):
        top, bottom = index * LINE_STEP_PX, index * LINE_STEP_PX + LINE_HEIGHT_PX
        quad = ((0.0, top), (LINE_WIDTH_PX, top), (LINE_WIDTH_PX, bottom), (0.0, bottom))
        placed.append(replace(line, quad=quad))
    height_px = round(len(lines) * LINE_STEP_PX)
    return EncodedPage(page_number, width_px=round(LINE_WIDTH_PX), height_px=height_px, dpi=300.0, lines=tuple(placed))


def fit_curve(lines: Iterable[ReadLine], portions: int = PORTIONS) -> list[tuple[float, float]]:
    """Return (confidence, rate) of portions of ``lines``, confidence rising and the rate never rising."""
    ordered = sorted(lines, key=lambda line: line.confidence)
    cuts = [len(ordered) * part // portions for part in range(portions + 1)]
    pools: list[list[list[ReadLine]]] = []  # neighbouring portions that share one rate
    for start, stop in pairwise(cuts):
        if start < stop:
            pools.append([ordered[start:stop]])
        while len(pools) > 1 and _rate(pools[-2]) <= _rate(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    return [(round(_confidence(portion), DECIMALS), round(_rate(pool), DECIMALS)) for pool in pools for portion in pool]


def _rate(pool: Sequence[Sequence[ReadLine]]) -> float:
    lines = [line for portion in pool for line in portion]
    return sum(line.errors for line in lines) / sum(line.characters for line in lines)


def _confidence(lines: Sequence[ReadLine]) -> float:
    return sum(line.confidence * line.characters for line in lines) / sum(line.characters for line in lines)


def fit(lines: Sequence[ReadLine]) -> dict[str, list[tuple[float, float]]]:
    """Return the two curves: all lines, and those of historical documents."""
    return {"any": fit_curve(lines), "long_s": fit_curve(line for line in lines if line.historical)}


def write_curves(path: Path, lines: Sequence[ReadLine], provenance: dict[str, Any]) -> None:
    """Write the curves of ``lines`` with where they come from."""
    counted = {"lines": len(lines), "characters": sum(line.characters for line in lines)}
    content = {"provenance": {**provenance, **counted}, "curves": fit(lines)}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit on the held-out documents and those generated for training, and write the curves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, default=CACHE, help="where generated documents are")
    parser.add_argument("--output", type=Path, default=CURVES_FILE)
    options = parser.parse_args(arguments)
    reading = ReadingConfig()
    model = CompactModel(reading.compact)
    lines: list[ReadLine] = []
    languages: Counter[str] = Counter()
    for path in sorted(options.cache.glob("*/*.safetensors")):
        document = shards.load(path)
        languages[document.language + " historical" * document.historical] += 1
        lines += read_document(document, model, reading)
    write_curves(options.output, lines, {"documents": dict(languages), "model": model.fingerprint})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
