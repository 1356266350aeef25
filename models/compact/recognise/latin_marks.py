"""Marks of Chinese type in lines of Latin letters: the recogniser knows both and takes one for the other.

Printers of Latin books have no full-width type, so the line's letters decide.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping

OF_FULL_WIDTH: Mapping[str, str] = dict(
    zip("，；：！？（）．。、％＝＋－／［］｛｝＆＊＜＞", ",;:!?()..,%=+-/[]{}&*<>", strict=True)
)
"""Full-width mark -> the mark of Latin type."""

CHINESE_ONE = "一"
"""On other pages a dash."""

_CJK = re.compile("[\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\U00020000-\U0003ffff]")
_LATIN = re.compile("[A-Za-z\u00aa-\u024f]")


def full_width_marks(text: str, *, is_chinese_page: bool, known: Container[str]) -> dict[int, str]:
    """Return index -> mark of Latin type for the full-width marks of a line of Latin letters.

    A line without letters is Latin where the page has no Chinese. Only ``known`` marks are put in.
    """
    has_chinese = _CJK.search(text if is_chinese_page else text.replace(CHINESE_ONE, ""))
    if has_chinese or (is_chinese_page and not _LATIN.search(text)):
        return {}
    latin = {index: OF_FULL_WIDTH[mark] for index, mark in enumerate(text) if mark in OF_FULL_WIDTH}
    return {index: mark for index, mark in latin.items() if mark in known}
