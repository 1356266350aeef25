"""Figures as print has them: page numbers, brackets, dates, prices, numbering, rows of tables, references.

What a decoder has never seen it takes for a misreading: one that was taught running text alone drops the brackets and
the first figure of "( 12 )". Knows nothing of fonts or pixels.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

MONTHS = {
    "en": "January February March April May June July August September October November December Jan. Feb. Aug. Sept.",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre janv. févr. sept.",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember Jan. Febr. Sept. Dez.",
}
MONEY = {
    "en": ("£{a}", "£{a} {b}s. {c}d.", "${t}.{d}", "{a}l. {b}s.", "{a}s. {c}d.", "{t} dollars", "{c}½d.", "$ {t}"),
    "fr": ("{a} fr. {d}", "{t} fr.", "{a} francs {d}", "fr. {a},{d}", "{a} liv. {b} s. {c} d.", "{a} fr. {d} c."),
    "de": ("{a} Mk. {d} Pf.", "{t} M.", "{a},{d} Mark", "{a} Thlr. {b} Sgr.", "{a} fl. {c} kr.", "Mk. {a}.{d}"),
}
PAGES = {"en": ("p.", "pp.", "page"), "fr": ("p.", "pp.", "page"), "de": ("S.", "Seite", "Bl.")}
PAGE_FRAMES = (
    "{n}", "{n}", "( {n} )", "({n})", "[{n}]", "[ {n} ]", "— {n} —", "- {n} -", "– {n} –", "{n}.", "* {n} *", "{r}",
    "({r})", "( {r} )", "{r}.",
)  # fmt: skip
MARKS = (
    "({n})", "({n}.)", "{n})", "[{n}]", "{n}.", "§ {n}.", "§. {n}.", "No. {n}.", "N° {n}", "Nr. {n}", "({l})", "{l})",
)  # fmt: skip
LONE_NUMBER_SHARE, TABLE_ROW_SHARE, NUMBERED_SHARE = 0.25, 0.25, 0.25
"""Of the lines of figures; what is left are dates, prices and references."""
CELL_WEIGHTS = (8, 3, 2, 2, 1, 1)
"""Of whole numbers, two kinds of fractions, grouped thousands, dashes and ditto marks in the cells of a table."""


def number_line(rng: random.Random, language: str, words: Sequence[str], width: int) -> str:
    """Return a line of figures of about ``width`` characters, with some of ``words`` beside them."""
    draw = rng.random()
    if draw < LONE_NUMBER_SHARE:
        return rng.choice(PAGE_FRAMES).format(n=counting_number(rng), r=roman(rng.randint(1, 60)).lower())
    if draw < LONE_NUMBER_SHARE + TABLE_ROW_SHARE:
        return _row(rng, language, words, width)
    if draw < LONE_NUMBER_SHARE + TABLE_ROW_SHARE + NUMBERED_SHARE:
        return f"{mark(rng)} {_filled(rng, words, width)}"
    parts = [some_figures(rng, language) for _ in range(rng.randint(1, 3))]
    return rng.choice((" ", ", ", "; ")).join(parts)


def some_figures(rng: random.Random, language: str) -> str:
    """Return a date, a price, a reference, a year or an amount, as it may stand within a sentence."""
    language = language if language in MONEY else "en"
    kinds: tuple[Callable[[random.Random, str], str], ...] = (_date, _price, _reference, _amount)
    return rng.choice(kinds)(rng, language)


def roman(number: int) -> str:
    """Return ``number`` (1 to 399) in Roman numerals."""
    steps = ((100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"))
    text = ""
    for value, numeral in steps:
        text += numeral * (number // value)
        number %= value
    return text


def mark(rng: random.Random) -> str:
    """Return what stands before a numbered paragraph."""
    return rng.choice(MARKS).format(n=rng.randint(1, 40), l=rng.choice("abcdefghi"))


def counting_number(rng: random.Random) -> int:
    """Return a number of one to four digits, each length as likely as the next but for the longest."""
    return rng.randint(*rng.choice(((1, 9), (10, 99), (10, 99), (100, 999), (100, 999), (1000, 2000))))


def _date(rng: random.Random, language: str) -> str:
    day, month, year = rng.randint(1, 31), rng.choice(MONTHS[language].split()), rng.randint(1480, 1962)
    if rng.random() < 0.2:
        return rng.choice(("{d}/{m}/{y}", "{d}.{m}.{y}", "{d}-{m}-{y}", "{d}. {m}. {y}")).format(
            d=day, m=rng.randint(1, 12), y=rng.choice((year, year % 100))
        )
    ordinal = {"en": f"{day}th", "fr": f"{day}", "de": f"{day}."}[language]
    if language == "en" and rng.random() < 0.5:
        return f"{month} {day}, {year}"
    return rng.choice((f"{ordinal} {month} {year}", f"{ordinal} {month}", f"{month} {year}", f"{year}", f"({year})"))


def _price(rng: random.Random, language: str) -> str:
    pounds, shillings, pence, cents = (rng.randint(1, most) for most in (120, 19, 11, 99))
    return rng.choice(MONEY[language]).format(a=pounds, b=shillings, c=pence, d=f"{cents:02d}", t=_grouped(rng))


def _reference(rng: random.Random, language: str) -> str:
    number = counting_number(rng)
    text = f"{rng.choice(PAGES[language])} {rng.choice((f'{number}', f'{number}-{number + rng.randint(1, 40)}'))}"
    return rng.choice(("({})", "[{}]", "{}", "{}.", "({}.)")).format(text)


def _amount(rng: random.Random, language: str) -> str:
    del language  # figures alone are written alike
    if rng.random() < 0.2:
        return _grouped(rng)
    return rng.choice(("{}", "({})", "[{}]", "{}%", "{} %", "{}°", "{}½")).format(counting_number(rng))


def _grouped(rng: random.Random) -> str:
    number = rng.randint(1000, 999_999)
    return rng.choice((f"{number}", f"{number:,}", f"{number:,}".replace(",", "."), f"{number:,}".replace(",", " ")))


def _row(rng: random.Random, language: str, words: Sequence[str], width: int) -> str:
    """Return a row of a table: an entry, leaders or none, and columns of figures."""
    columns = [_cell(rng) for _ in range(rng.randint(1, 5))]
    figures = " ".join(columns)
    if rng.random() < 0.3:
        return figures
    entry = _filled(rng, words, max(8, width - len(figures) - 8))
    return f"{entry}{rng.choice((' ', ' .... ', ' . . . ', ', ', '...... '))}{figures}"


def _cell(rng: random.Random) -> str:
    number = counting_number(rng)
    fraction = f"{number}.{rng.randint(0, 99):02d}"
    cells = (f"{number}", fraction, f"{number},{rng.randint(0, 9)}", _grouped(rng), "—", '"')
    return rng.choices(cells, CELL_WEIGHTS)[0]


def _filled(rng: random.Random, words: Sequence[str], width: int) -> str:
    """Return a few of ``words`` in a row, as many as fit."""
    start, text = rng.randrange(len(words)), ""
    for word in words[start:]:
        if len(text) + len(word) + 1 > width:
            break
        text = f"{text} {word}".strip()
    return text or words[start][:width]
