"""A page's content without the text that is on it and not shown (rendering mode 3): another reader's, as a rule.

Everything else stays as it is and where it is, in the same order; only the operators that show such text go.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from tasks.sources.pdf.mupdf import add_stream

INVISIBLE = 3
"""Text rendering mode: neither fill nor stroke nor clip."""

_SHOW = ("Tj", "TJ", "'", '"')


def without_invisible_text(content: bytes) -> bytes | None:
    """Return the content stream ``content`` without its invisible text; None where it has none or cannot be parsed.

    Text within forms (XObjects) is not looked at.
    """
    import pikepdf

    kept: list[pikepdf.ContentStreamInstruction | pikepdf.ContentStreamInlineImage] = []
    mode, removed = 0, False
    outer_modes: list[int] = []
    with pikepdf.new() as scratch, warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # which is how pikepdf says that a stream is damaged
        try:
            instructions = pikepdf.parse_content_stream(pikepdf.Stream(scratch, content))
            for instruction in instructions:
                operator = str(instruction.operator)
                mode = _mode_after(operator, instruction.operands, mode, outer_modes)
                hidden = mode == INVISIBLE and operator in _SHOW
                removed = removed or hidden
                kept += _moves_of(operator, instruction.operands) if hidden else [instruction]
        except (pikepdf.PdfError, UserWarning, TypeError, ValueError, IndexError):  # operands of a wrong kind, or none
            return None
        return pikepdf.unparse_content_stream(kept) if removed else None


def _mode_after(operator: str, operands: Any, mode: int, outer_modes: list[int]) -> int:
    """Return the rendering mode after ``operator``; the graphics state, which holds it, can be put aside."""
    if operator == "q":
        outer_modes.append(mode)
    elif operator == "Q" and outer_modes:
        return outer_modes.pop()
    elif operator == "Tr":
        return int(operands[0])
    return mode


def _moves_of(operator: str, operands: Any) -> list[Any]:
    """Return what a showing operator does beside showing: two of them begin a new line, one sets the spacing."""
    from pikepdf import ContentStreamInstruction, Operator

    if operator in ("Tj", "TJ"):
        return []
    moves = [ContentStreamInstruction([], Operator("T*"))]
    if operator == '"':
        spacings = zip(("Tw", "Tc"), operands, strict=False)
        moves = [ContentStreamInstruction([value], Operator(name)) for name, value in spacings] + moves
    return moves


def remove_invisible_text(document: Any, pdf_page: Any) -> bool:
    """Take the text that nobody sees out of the page's content; return whether that could be done.

    It cannot where text that is seen would move, nor where the text is in a form, which other pages may show.
    """
    before = pdf_page.get_texttrace()
    content = without_invisible_text(pdf_page.read_contents())
    if content is None:
        return False
    old_contents = document.xref_get_key(pdf_page.xref, "Contents")[1]
    document.xref_set_key(pdf_page.xref, "Contents", f"{add_stream(document, content)} 0 R")
    after = pdf_page.get_texttrace()
    if _spans_seen(after) == _spans_seen(before) and all(span["type"] != INVISIBLE for span in after):
        return True
    document.xref_set_key(pdf_page.xref, "Contents", old_contents)
    return False


def _spans_seen(trace: Iterable[Any]) -> list[Any]:
    return [(span["type"], span["font"], span["color"], span["chars"]) for span in trace if span["type"] != INVISIBLE]
