"""Small line plots as SVG text, drawn here: the report stays one file without scripts and fonts of others.

Everything that is drawn is a number or a constant of ours; nothing of a document enters a plot.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping

WIDTH, HEIGHT = 640, 170
LEFT, RIGHT, TOP, BOTTOM = 64, 8, 8, 26
"""Margins for the labels of the axes."""

TICKS = 3
ISOLATED_RADIUS = 1.8
NICE_STEPS = (1, 2, 2.5, 5, 10)


def line_plot(values: Mapping[int, float | None], unit: str, marked: Collection[int] = ()) -> str:
    """Return an SVG of ``values`` by page number; pages without a value leave a gap, ``marked`` ones a red line."""
    known = {page: value for page, value in values.items() if value is not None}
    if not known:
        return ""
    first, last = min(values), max(values)
    low, high = _bounds(min(known.values()), max(known.values()))

    def x(page: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (page - first) / max(last - first, 1)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - low) / (high - low)

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">']
    for step in range(TICKS):
        value = low + (high - low) * step / (TICKS - 1)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>')
        label = f"{value:.4g} {unit}".strip()
        parts.append(f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{label}</text>')
    for page, anchor in {first: "start", last: "end"}.items():
        parts.append(f'<text x="{x(page):.1f}" y="{HEIGHT - 8}" text-anchor="{anchor}">page {page}</text>')
    parts += [
        f'<line class="marked" x1="{x(page):.1f}" x2="{x(page):.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'
        for page in sorted(marked)
        if first <= page <= last
    ]
    for run in _runs(values):
        points = " ".join(f"{x(page):.1f},{y(value):.1f}" for page, value in run)
        if len(run) > 1:
            parts.append(f'<polyline class="curve" points="{points}"/>')
        else:
            parts.append(f'<circle class="dot" cx="{x(run[0][0]):.1f}" cy="{y(run[0][1]):.1f}" r="{ISOLATED_RADIUS}"/>')
    return "".join([*parts, "</svg>"])


def _runs(values: Mapping[int, float | None]) -> Iterator[list[tuple[int, float]]]:
    run: list[tuple[int, float]] = []
    for page, value in sorted(values.items()):
        if value is not None:
            run.append((page, value))
        elif run:
            yield run
            run = []
    if run:
        yield run


def _bounds(low: float, high: float) -> tuple[float, float]:
    """Return round numbers around the values; never equal ones."""
    if low == high:
        room = abs(low) * 0.1 or 1.0
        low, high = (0.0 if 0 <= low < room else low - room), high + room
    magnitude = 10 ** math.floor(math.log10(high - low))
    step = next(magnitude * nice for nice in NICE_STEPS if magnitude * nice * (TICKS - 1) >= high - low)
    start = math.floor(low / step) * step
    while start + step * (TICKS - 1) < high:
        step *= 2
        start = math.floor(low / step) * step
    return start, start + step * (TICKS - 1)
