"""Reading order of the text lines on a page: pure geometry, no pixels, no characters.

The page is turned into its *reading frame* (``frame.py``): x runs along the lines, y from one line to the next, both
free of skew. Vertical text (top to bottom, right to left) is the same problem a quarter turn further: double small
columns inside a wide one are two short lines beside a tall one, and tiers of a page are columns.

In that frame a recursive X-Y cut (``cuts.py``; Nagy & Seth, "Hierarchical representation of optically scanned
documents", 1984) decides, with white corridors as evidence for columns (``columns.py``; Breuel, "Two geometric
algorithms for layout analysis", 2002). A corridor is a gutter only if what stands beside it repeats: equal measures
of text, or of text with its number. So tables, contents and indexes with a number at the right edge stay rows.
Marginal notes follow the text they stand beside. Without a gutter, lines are rows; where rows interlock (a drop cap,
a tall cell), the widest gap cuts.

Every threshold is a multiple of the page's line thickness or a share of the lines compared: the order changes neither
when a page is moved or scaled nor with the order in which lines are given.
"""

from __future__ import annotations

from models.layout.cuts import reading_order
from models.layout.frame import Direction, line_directions

__all__ = ["Direction", "line_directions", "reading_order"]
