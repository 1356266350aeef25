"""Small line plots as SVG text, drawn here: the report stays one file without scripts and fonts of others.

Everything that is drawn is a number or a constant of ours; nothing of a document enters a plot.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence

WIDTH, HEIGHT = 640, 170
LEFT, RIGHT, TOP, BOTTOM = 80, 8, 8, 26
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
        label = f"{_written(value)} {unit}".strip()
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


def _written(value: float) -> str:
    """Return at most nine characters up to ten million, which the margin has room for, and never an exponent."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


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


PLANE_SIDE = 360
DECADES = (-4, 0)
"""Rates from 0.0001 to 1, both axes logarithmic."""


def reliability_plot(points: Sequence[tuple[float, float]], factor: float) -> str:
    """Return a whole SVG file of (predicted, measured) rates with the diagonal and the band of ``factor``."""
    low, high = DECADES

    def place(rate: float) -> float:
        exponent = math.log10(rate) if rate > 0 else low
        return (PLANE_SIDE - LEFT - RIGHT) * (min(max(exponent, low), high) - low) / (high - low)

    def x(rate: float) -> float:
        return LEFT + place(rate)

    def y(rate: float) -> float:
        return PLANE_SIDE - LEFT - place(rate)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {PLANE_SIDE} {PLANE_SIDE}" font-family="sans-serif" '
        f'font-size="11"><rect width="{PLANE_SIDE}" height="{PLANE_SIDE}" fill="#fff"/>'
    ]
    least, most = 10.0**low, 10.0**high
    for shift, dash in ((1.0, ""), (factor, "4"), (1 / factor, "4")):
        start, end = max(least, least / shift), min(most, most / shift)
        ends = f'x1="{x(start):.1f}" y1="{y(start * shift):.1f}" x2="{x(end):.1f}" y2="{y(end * shift):.1f}"'
        parts.append(f'<line {ends} stroke="#999" stroke-dasharray="{dash}"/>')
    for exponent in range(low, high + 1):
        rate = 10.0**exponent
        label = f"{100 * rate:g} %"
        anchor = "end" if exponent == high else "middle"
        parts.append(f'<text x="{x(rate):.1f}" y="{PLANE_SIDE - LEFT + 18}" text-anchor="{anchor}">{label}</text>')
        parts.append(f'<text x="{LEFT - 6}" y="{y(rate) + 4:.1f}" text-anchor="end">{label}</text>')
    parts.append(f'<text x="{PLANE_SIDE / 2}" y="{PLANE_SIDE - 18}" text-anchor="middle">predicted error rate</text>')
    parts.append(f'<text x="{LEFT + 8}" y="18">measured error rate</text>')
    parts += [f'<circle cx="{x(p):.1f}" cy="{y(m):.1f}" r="4" fill="#3b6fd4"/>' for p, m in points]
    return "".join([*parts, "</svg>"])
