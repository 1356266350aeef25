"""The recursive X-Y cut: columns where there is evidence for them, else rows, else the cut that severs least."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from data_contracts.geometry import Quad
from models.layout.columns import Members, find_columns
from models.layout.frame import Direction, Frame, Numbers, is_mostly_vertical, level


def reading_order(quads: Sequence[Quad], directions: Sequence[Direction], width_px: int, height_px: int) -> list[int]:
    """Return the indices of ``quads`` in the order in which a reader would read them.

    ``quads`` are corners in page pixels (top left, top right, bottom right, bottom left) of an upright page. The
    direction of most of the text rules the page. ``width_px`` and ``height_px`` distinguish a spread of two pages,
    whose heads belong to one page each, from a page with heads over its columns.
    """
    if not quads:
        return []
    corners = level(np.array(quads, np.float64), is_mostly_vertical(quads, directions))
    down = sorted(range(len(quads)), key=lambda index: _place(corners[index]))
    order = _read(Frame.of(corners[down]), np.arange(len(quads)), is_spread=width_px > height_px)
    return [down[line] for line in order]


def _place(corners: Numbers) -> tuple[float, ...]:
    """Return a key that sorts lines from head to foot by where they are, not by their place in the input."""
    x, y = corners.mean(axis=0).tolist()
    return (y, x, *corners.ravel().tolist())


def _read(frame: Frame, members: Members, is_spread: bool) -> list[int]:
    """Return ``members`` in reading order."""
    if len(members) < 2:
        return [int(line) for line in members]
    parts = find_columns(frame, members, is_spread) or _bands(frame, members)
    if len(parts) == 1:
        parts = _cut_across_rows(frame, members) or _rows(frame, members)
    return [line for part in parts for line in _read(frame, part, is_spread=False)]


def _bands(frame: Frame, members: Members) -> list[Members]:
    """Cut between rows: a band is a set of lines that hang together by shared rows, at best one row."""
    return sorted(frame.bands(members), key=lambda band: (float(frame.middle[band].mean()), int(band[0])))


def _cut_across_rows(frame: Frame, members: Members) -> list[Members]:
    """Cut interlocked rows (a drop cap, a tall cell, a note) at white that runs through them; empty if there is none.

    Of several such cuts, the one that severs the fewest rows; of these, the widest.
    """
    along = members[np.lexsort((members, frame.start[members]))]
    gaps = frame.start[along][1:] - np.maximum.accumulate(frame.end[along])[:-1]
    linked = frame.same_row[np.ix_(along, along)]
    cuts = [
        (min(across.any(axis=0).sum(), across.any(axis=1).sum()), -gaps[at - 1], at)
        for at in range(1, len(along))
        if gaps[at - 1] > 0 and (across := linked[:at, at:]).size
    ]
    if not cuts:
        return []
    at = min(cuts)[-1]
    return [np.sort(along[:at]), np.sort(along[at:])]


def _rows(frame: Frame, members: Members) -> list[Members]:
    """Part lines that no straight cut separates: each joins the row of a longer one, rows go down, lines along."""
    rows: list[list[int]] = []
    for line in sorted(members.tolist(), key=lambda line: (frame.start[line] - frame.end[line], line)):
        own = [row for row in rows if frame.same_row[line, row[0]]]
        if own:
            min(own, key=lambda row: abs(frame.middle[line] - frame.middle[row[0]])).append(line)
        else:
            rows.append([line])
    rows.sort(key=lambda row: (frame.middle[row[0]], row[0]))
    return [np.array([line]) for row in rows for line in sorted(row, key=lambda line: (frame.start[line], line))]
