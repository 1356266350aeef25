"""Evidence for columns: white corridors down a page, and what stands beside them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from models.layout.frame import Frame, Numbers

Members = npt.NDArray[np.intp]
"""Numbers of lines in a frame, ascending, which is from the head of the page to its foot."""

GUTTER_THICKNESS = 0.25
"""Narrowest corridor: boxes are grown by about as much on either side, so the ink stands three times as far apart."""
GUTTER_ROWS = 3
CHANCE_ROWS = 8
"""Rows on either side that make a corridor more than a chance. Where the detector parts every line at its word gaps,
those of three or four rows meet by chance; so below eight rows, white must set the columns off above and below."""
COLUMN_THICKNESS = 7.0
"""Narrowest text column: about twenty Latin or seven Chinese characters; cells of tables are mostly shorter."""
NUMBER_THICKNESS = 3.0
"""Widest number at the edge of a row: a page number of up to six figures."""
MEASURE_RATIO = 0.6
"""Columns are set to one measure: the narrower has this share of the wider, for a last column with short lines."""
FILL_RATIO = 0.5
"""Rows of text, verse and lists included, fill this much of their measure on average; scattered cells do not."""
SHARED_HEIGHT_RATIO = 0.7
"""Corridors side by side that share this much of their rows belong to one set of columns."""
SPARSE_RATIO = 0.25
"""A narrow cell with fewer rows than this share of the fullest is specks in a margin, not a column of numbers."""
MAX_CELLS_PER_COLUMN = 3
"""Text alone, text with a number on one side, text between two."""
NOTE_RATIO = 0.5
"""A marginal note is at most this share of the text it stands beside."""
JUSTIFIED_RATIO = 0.6
"""Share of lines that fill the measure in justified text; the rest are first and last lines of paragraphs."""
HEAD_GAP_THICKNESS = 0.75
"""White beside a head, beyond what stands between two lines of text."""


@dataclass(frozen=True)
class _Corridor:
    """White from ``left`` to ``right`` down the rows of ``members``, which are consecutive."""

    left: float
    right: float
    members: Members


def find_columns(frame: Frame, members: Members, is_spread: bool = False) -> list[Members]:
    """Return what stands above the tallest set of columns, each column, and what stands below; empty if none.

    A running head and a foot go above and below, but a spread of two pages keeps them with their pages.
    """
    if len(members) < 2 * GUTTER_ROWS:
        return []
    corridors = sorted(_corridors(frame, members), key=lambda corridor: (-len(corridor.members), corridor.left))
    for corridor in corridors:
        columns = _equal_columns(frame, corridor, corridors) or _text_and_notes(frame, corridor)
        if columns and not _is_chance(frame, members, columns):
            run = np.sort(np.concatenate(columns))
            above, below = members[members < run[0]], members[members > run[-1]]
            head, foot = (run[:0], run[:0]) if is_spread else _head_and_foot(frame, run)
            body = [np.setdiff1d(column, np.concatenate([head, foot])) for column in columns]
            parts = [np.concatenate([above, head]), *body, np.concatenate([foot, below])]
            return [part for part in parts if len(part)]
    return []


def _corridors(frame: Frame, members: Members) -> list[_Corridor]:
    """Follow every gap between two lines of a row up and down the page for as long as it stays white."""
    narrowest = GUTTER_THICKNESS * frame.line_thickness
    corridors: list[_Corridor] = []
    for place, line in enumerate(members.tolist()):
        beside = (frame.top[members] < frame.bottom[line]) & (frame.bottom[members] > frame.top[line])
        mates = members[beside & (frame.start[members] >= frame.end[line] + narrowest)]
        if len(mates):
            left, right = float(frame.end[line]), float(frame.start[mates].min())
            if not any(
                line in known.members and min(known.right, right) - max(known.left, left) >= narrowest
                for known in corridors
            ):
                corridors.append(_follow(frame, members, place, left, right))
    return corridors


def _follow(frame: Frame, members: Members, place: int, left: float, right: float) -> _Corridor:
    """Widen the corridor ``left``..``right`` from ``members[place]`` towards the head and the foot of the page.

    A single line across it is passed if it resembles lines of two columns joined by mistake and the corridor goes
    on behind it; a head ends it before its whole row.
    """
    ends = [place, place]
    for side, step in enumerate((-1, 1)):
        awaited: set[bool] = set()
        for nearest in range(place + step, len(members) if step > 0 else -1, step):
            line = int(members[nearest])
            narrowed = _narrow(frame, line, left, right)
            if narrowed is not None:
                left, right = narrowed
                awaited.discard(bool(frame.start[line] >= right))
            elif awaited or not _joins_columns(frame, members, line, left, right):
                while ends[side] != place and frame.is_beside(line, int(members[ends[side]])):
                    ends[side] -= step
                break
            else:
                awaited = {False, True}
            if not awaited:
                ends[side] = nearest
    return _Corridor(left, right, members[ends[0] : ends[1] + 1])


def _narrow(frame: Frame, line: int, left: float, right: float) -> tuple[float, float] | None:
    """Return what ``line`` leaves of the corridor, on the side with more room; None if that is too little."""
    start, end = float(frame.start[line]), float(frame.end[line])
    before, behind = (left, min(right, start)), (max(left, end), right)
    wider = before if before[1] - before[0] > behind[1] - behind[0] else behind
    return wider if wider[1] - wider[0] >= GUTTER_THICKNESS * frame.line_thickness else None


def _joins_columns(frame: Frame, members: Members, line: int, left: float, right: float) -> bool:
    """Tell whether ``line`` has a column's text on both sides of the corridor and no white above and below."""
    column = COLUMN_THICKNESS * frame.line_thickness
    if frame.start[line] > left - column or frame.end[line] < right + column:
        return False
    beside = members[(frame.start[members] < frame.end[line]) & (frame.end[members] > frame.start[line])]
    above, below = beside[beside < line], beside[beside > line]
    if not len(above) or not len(below):
        return False
    white = max(frame.top[line] - frame.bottom[above].max(), frame.top[below].min() - frame.bottom[line])
    return bool(white < frame.row_gap + HEAD_GAP_THICKNESS * frame.line_thickness)


def _equal_columns(frame: Frame, corridor: _Corridor, corridors: list[_Corridor]) -> list[Members]:
    """Return the columns that ``corridor`` and its neighbours part, or nothing if they part cells of rows."""
    fences = [corridor]
    for other in corridors:
        shared = ((corridor.members >= other.members[0]) & (corridor.members <= other.members[-1])).sum()
        apart = all(other.right <= fence.left or other.left >= fence.right for fence in fences)
        if apart and shared >= SHARED_HEIGHT_RATIO * len(corridor.members):
            fences.append(other)
    fences.sort(key=lambda fence: fence.left)
    while fences:
        cells = _cells(frame, fences)
        weak = _weak_cell(frame, cells)
        if weak is None:
            period = _period(frame, cells)
            groups = range(0, len(cells), period) if period else ()
            return [np.sort(np.concatenate(cells[at : at + period])) for at in groups]
        beside = fences[max(0, weak - 1) : weak + 1]
        fences.remove(min(beside, key=lambda fence: fence.right - fence.left))
    return []


def _cells(frame: Frame, fences: list[_Corridor]) -> list[Members]:
    """Return what stands between ``fences``, left to right, on the rows that all of them part."""
    first, last = max(fence.members[0] for fence in fences), min(fence.members[-1] for fence in fences)
    run = fences[0].members
    run = run[(run >= first) & (run <= last)]
    cell_of = np.searchsorted([(fence.left + fence.right) / 2 for fence in fences], frame.start[run])
    return [run[cell_of == cell] for cell in range(len(fences) + 1)]


def _weak_cell(frame: Frame, cells: list[Members]) -> int | None:
    """Return the first cell that is neither text nor a column of numbers: chance gaps, specks in a margin."""
    rows = [_rows(frame, cell)[0] for cell in cells]
    fullest = max(len(widths) for widths in rows)
    for cell, widths in enumerate(rows):
        if len(widths) < GUTTER_ROWS:
            return cell
        is_narrow = np.percentile(widths, 75) <= NUMBER_THICKNESS * frame.line_thickness
        if is_narrow and len(widths) < SPARSE_RATIO * fullest:
            return cell
    return None


def _period(frame: Frame, cells: list[Members]) -> int:
    """Return after how many cells the same pattern of text and numbers returns; 0 if it does not."""
    rows = [_rows(frame, cell) for cell in cells]
    measure = np.array([np.percentile(widths, 75) for widths, _ in rows])
    width = measure / frame.line_thickness
    is_text = (width > NUMBER_THICKNESS) & (np.array([ink.mean() for _, ink in rows]) >= FILL_RATIO * measure)
    is_number = width <= NUMBER_THICKNESS
    for period in range(1, MAX_CELLS_PER_COLUMN + 1):
        if len(cells) % period or len(cells) < 2 * period:
            continue
        widths, texts = width.reshape(-1, period), is_text.reshape(-1, period).all(axis=0)
        numbers = is_number.reshape(-1, period).all(axis=0)
        text = widths[:, texts]
        is_wide = widths.sum(axis=1).min() >= COLUMN_THICKNESS
        if texts.sum() == 1 and numbers.sum() == period - 1 and text.min() >= MEASURE_RATIO * text.max() and is_wide:
            return period
    return 0


def _is_chance(frame: Frame, members: Members, columns: list[Members]) -> bool:
    """Tell whether ``columns`` have few rows and are neither set off from the text nor all there is."""
    if min(len(_rows(frame, column)[0]) for column in columns) >= CHANCE_ROWS:
        return False
    run = np.sort(np.concatenate(columns))
    above, below = members[members < run[0]], members[members > run[-1]]
    return not ((not len(above) or _gap(frame, above, run)) and (not len(below) or _gap(frame, run, below)))


def _rows(frame: Frame, cell: Members) -> tuple[Numbers, Numbers]:
    """Return for each row of a cell its width, from its first line's start to its last line's end, and its ink."""
    if not len(cell):
        return np.empty(0), np.empty(0)
    same = frame.same_row[np.ix_(cell, cell)]
    start, end = frame.start[cell], frame.end[cell]
    is_first = ~(same & (start[None, :] < start[:, None])).any(axis=1)
    last = np.where(same, end[None, :], -np.inf).max(axis=1)
    ink = (same * (end - start)[None, :]).sum(axis=1)
    return (last - start)[is_first], ink[is_first]


def _text_and_notes(frame: Frame, corridor: _Corridor) -> list[Members]:
    """Return the text and then the marginal notes beside it, or nothing if the narrow side is no column of notes."""
    is_left = frame.end[corridor.members] <= corridor.left
    sides = sorted((corridor.members[is_left], corridor.members[~is_left]), key=lambda side: -len(side))
    text, notes = sides
    if len(notes) < 2 or not _is_justified(frame, text) or not _stands_in_blocks(frame, notes):
        return []
    measures = [float(np.percentile(_rows(frame, side)[0], 75)) for side in sides]
    is_note = NUMBER_THICKNESS * frame.line_thickness < measures[1] <= NOTE_RATIO * measures[0]
    return sides if is_note else []


def _is_justified(frame: Frame, text: Members) -> bool:
    """Tell whether most lines of ``text`` fill its measure alone, from edge to edge, which cells of a table do not."""
    widths, _ = _rows(frame, text)
    full = frame.end[text] - frame.start[text] >= np.percentile(widths, 75) - frame.line_thickness
    return len(widths) >= GUTTER_ROWS and bool(full.mean() >= JUSTIFIED_RATIO)


def _stands_in_blocks(frame: Frame, notes: Members) -> bool:
    """Tell whether most lines of ``notes`` follow another at once: prices and numbers stand alone at their rows."""
    follows = np.diff(frame.middle[notes]) <= 2 * np.median(frame.bottom[notes] - frame.top[notes])
    in_block = np.append(follows, False) | np.insert(follows, 0, False)
    return bool(in_block.mean() > 0.5)


def _head_and_foot(frame: Frame, run: Members) -> tuple[Members, Members]:
    """Return the first and the last row of columns if white sets them off: a running head, page numbers."""
    bands = frame.bands(run)
    head = bands[0] if _is_set_off(frame, bands[:2]) else run[:0]
    foot = bands[-1] if _is_set_off(frame, bands[:-3:-1]) else run[:0]
    return head, foot


def _is_set_off(frame: Frame, bands: list[Members]) -> bool:
    """Tell whether the first of two bands is a single row with more white beside it than text has."""
    if len(bands) < 2 or not frame.same_row[np.ix_(bands[0], bands[0])].all():
        return False
    return _gap(frame, *sorted(bands, key=lambda band: int(band[0])))


def _gap(frame: Frame, upper: Members, lower: Members) -> bool:
    """Tell whether more white parts ``upper`` from ``lower`` than stands between lines of text."""
    white = float(frame.top[lower].min() - frame.bottom[upper].max())
    return white >= frame.row_gap + HEAD_GAP_THICKNESS * frame.line_thickness
