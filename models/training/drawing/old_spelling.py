"""Running text in the spelling of the 16th to 18th century."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from functools import partial
from typing import Literal

Language = Literal["en", "fr", "de", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "fr", "de", "zh")
OLD_GERMAN_RATE = 0.5
"""Share of historical German documents spelled as in the 16th and 17th century; the rest differs by its types alone."""


def old_spelling(rng: random.Random, language: Language) -> Callable[[str], str]:
    """Return how a historical document is spelled."""
    if language == "fr":
        return old_french
    comma = rng.choice(("/", " /"))
    return partial(old_german, comma=comma) if rng.random() < OLD_GERMAN_RATE else str


def old_german(text: str, comma: str) -> str:
    """Return ``text`` in some spellings of the 16th and 17th century: vnd, bey, Danck, with slashes for commas."""
    text = re.sub(r"\bu(?=[a-z])", "v", text)
    text = re.sub(r"\bsein\b", "seyn", text)
    text = re.sub(r"ei\b", "ey", text)
    text = re.sub(r"(?<=[lnr])k", "ck", text)
    return text.replace(",", comma)


def old_french(text: str) -> str:
    """Return ``text`` in some spellings of the 16th to 18th century: étoit, mesme, vn, iamais, &."""
    text = re.sub(r"\bet\b", "&", text)
    text = re.sub(r"ai(s|t|ent)\b", r"oi\1", text)
    text = re.sub(r"ê(?=[a-z])", "es", text)
    text = re.sub(r"\bu(?=[a-z])", "v", text)
    text = re.sub(r"\bj(?=[a-z])", "i", text)
    return re.sub(r"(?<=[a-z])v(?=[a-z])", "u", text)


def with_long_s(text: str) -> str:
    """Return ``text`` as set in Fraktur and early Roman: a long s everywhere but at the end of a word."""
    return re.sub(r"s(?=[^\W\d_])", "ſ", text)
