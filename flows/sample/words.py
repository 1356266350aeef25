"""What the sample book says: an endless novel, a dictionary and a Chinese tale, all made up here.

Sentences are templates over word pools, drawn by a seeded generator. One cast of people and places is drawn per
book, so that a name on an early page comes back on far ones, in the dictionary too: a reader with a memory can
profit from that. Knows nothing of pages, fonts or pixels.
"""

from __future__ import annotations

import itertools
import random
import re
import string
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

PERSONS = 6
PLACES = 5
CHINESE_PERSONS = 5
CHINESE_PLACES = 4

GIVEN_NAMES = (
    "Ambrose", "Barnaby", "Cordelia", "Dorothea", "Edmund", "Felicity", "Gideon", "Henrietta", "Isolde", "Jasper",
    "Lucian", "Marianne", "Nathaniel", "Ottoline", "Philippa", "Rosamund", "Silas", "Theodora", "Valentine", "Winifred",
)  # fmt: skip
SURNAMES = (
    "Ashgrove", "Brackenbury", "Crowthorne", "Dunmarrow", "Elverdene", "Farquharton", "Greystoke", "Hexworth",
    "Ivelchester", "Kettlewell", "Lorimond", "Marchbanks", "Netherby", "Oxenholme", "Pellwyn", "Querimont",
    "Ravenscliff", "Stavelock", "Thornaquist", "Underwick", "Vasterby", "Wraxford", "Yarborne",
)  # fmt: skip
PLACE_NAMES = (
    "Coldharbour", "Eddlestone", "Fennimoor", "Gull Point", "Hallowmere", "Kingsfleet", "Marlow Quay", "Ostermere",
    "Penhallick", "Quernby", "Saint Aldric", "Tarn Hollow", "Upper Wexcombe", "Whistling Sands", "Yewbarrow",
)  # fmt: skip
OBJECTS = (
    "brass lantern", "bundle of letters", "sealed packet", "broken compass", "silver thimble", "leather satchel",
    "chart of the estuary", "rusted key", "prayer book", "box of seeds", "ledger", "painted miniature", "folding knife",
    "telescope", "coil of tarred rope", "pair of spectacles", "wooden flute", "map drawn upon linen",
)  # fmt: skip
ADJECTIVES = (
    "patient", "weary", "obstinate", "generous", "melancholy", "cautious", "cheerful", "indifferent", "solitary",
    "remarkable", "ordinary", "venerable", "unfortunate", "resolute", "thoughtful", "impatient", "grateful",
)  # fmt: skip
NOUNS = (
    "harvest", "harbour", "inheritance", "correspondence", "winter", "journey", "quarrel", "lighthouse", "orchard",
    "neighbourhood", "conversation", "garden", "schoolroom", "expedition", "parish", "schooner", "market", "bridge",
)  # fmt: skip
TIMES = (
    "before daybreak", "towards evening", "on the third Thursday of November", "in the spring of 1847",
    "after the great storm", "at a quarter past nine", "when the tide had turned", "during the second week of Lent",
    "on Michaelmas Day, 1862", "long after midnight", "while the bells were ringing", "in the year 1839",
)  # fmt: skip
DEEDS = (
    "returned to", "departed from", "wrote at length concerning", "inquired after", "remembered", "spoke warmly of",
    "could not forget", "described", "walked the whole distance to", "sent word to", "had often dreamed of",
)  # fmt: skip
SENTENCES = (
    "{time}, {person} {deed} {place}, carrying nothing but a {object}.",
    "It was the opinion of {surname} that the {noun} would be a {adjective} one.",
    "“You will find,” said {person}, “that {place} is not so {adjective} as it appears.”",
    "The {object} had belonged to {surname}, who {deed} {place} {time}.",
    "Nobody at {place} could say what had become of the {object}.",
    "“And what of {surname}?” asked {given} in a {adjective} voice; but there was no answer.",
    "There were {number} persons in the room, and not one of them had seen the {noun} of {place}.",
    "{person} was a {adjective} man of business, {adjective} in the {noun} and exact in his accounts.",
    "The road from {place} to {place} runs for {number} miles between hedges of hawthorn.",
    "{given} laid the {object} upon the table and waited for {surname} to speak.",
    "“I have kept the {object} these {number} years,” replied {surname}, “and I shall keep it still.”",
    "Of the {noun} little need be told: it began {time} and ended in the usual {adjective} manner.",
    "The rent of the house was {number} pounds, {small} shillings and sixpence, payable at {place}.",
    "Meanwhile the {adjective} {noun} had become the talk of {place}.",
    "{given} read the letter twice, folded it carefully, and {deed} the {noun}.",
    "A {adjective} silence followed, broken only by the clock and by the wind off {place}.",
    "If {person} had been less {adjective}, the {noun} might have gone otherwise.",
    "They passed the {noun} {time}, and came within sight of {place} as the lamps were being lit.",
    "Whether {surname} knew of it, or merely guessed, was a question which {given} never settled.",
    "The boatman asked {small} shillings for the crossing; {surname} offered him {small}, and was refused.",
    "It rained; the {noun} was put off; and {given} sat by the fire with a {object}.",
    "From that hour {person} and {person} were seldom seen apart.",
    "“Not {place},” cried {given}, “anywhere but {place}!”",
    "The vicar, who was {adjective} and rather deaf, mistook the {object} for a {object}.",
)
CHAPTER_TITLES = (
    "The House by the Water", "A Letter from {place}", "In Which {surname} Is Mistaken", "The {noun}", "Low Tide",
    "What the Boatman Knew", "{place}", "The Second Winter", "An Unsettled Account", "The Return of {given}",
)  # fmt: skip

PREFIXES = ("ab", "be", "con", "de", "dis", "en", "fore", "in", "mis", "out", "over", "pre", "re", "sub", "un", "with")
ROOTS = (
    "bark", "cast", "draw", "fend", "form", "gather", "hale", "join", "keep", "lade", "mark", "moor", "pend", "quest",
    "reckon", "sail", "serve", "tend", "till", "vail", "ward", "weave", "yield",
)  # fmt: skip
SUFFIXES = ("", "able", "age", "er", "ful", "ing", "less", "ment", "ness")
DEFINITIONS = {
    "n.": (
        "The act or custom of {gerund} a {noun}.",
        "One who keeps, mends, or sells a {object}.",
        "An old measure of land about {place}, equal to {number} yards.",
        "A tax of {small} shillings formerly paid at {place}.",
        "The part of a {noun} that lies nearest the sea.",
    ),
    "adj.": (
        "Said of a {noun} which is neither {adjective} nor {adjective}.",
        "Wanting in all that makes a {noun} agreeable.",
        "Having the colour or the smell of a {object}.",
        "More {adjective} than is thought proper at {place}.",
    ),
    "v. t.": (
        "To treat as {adjective}; to hold in the manner of a {object}.",
        "To exchange for a {object}, as {surname} did.",
        "To make {adjective} by {gerund}.",
    ),
    "v. i.": (
        "To go on foot as far as {place}.",
        "To complain of a {noun} without cause.",
        "To become {adjective} with age, as a {object} does.",
    ),
}
GERUNDS = ("keeping", "dividing", "blessing", "painting", "surrendering", "measuring", "inheriting", "repairing")
CITATIONS = ("So used by {surname}.", "Obs. except at {place}.", "See {surname}, p. {number}.", "Now rare.", "Local.")

CHINESE_PEOPLE = ("沈砚秋", "顾维桢", "陆清和", "苏蕙", "程牧之", "叶怀瑾", "林远山", "周若兰", "何秉文", "韩玉成")
CHINESE_TOWNS = ("临溪镇", "白鹭洲", "望海楼", "青石桥", "梅岭", "清风渡", "南浦", "双塔村", "落雁滩")
CHINESE_TIMES = ("次日清晨", "光绪十二年春", "天色将晚", "大雨过后", "中秋之夜", "第三天午后", "腊月二十", "多年以后")
CHINESE_OBJECTS = ("旧地图", "铜灯", "一封信", "账簿", "竹箱", "端砚", "半块玉佩", "折扇", "古琴", "药方")
CHINESE_SENTENCES = (
    "{time}，{person}从{place}回来，手里只提着{object}。",
    "{person}说：「{place}的路不好走，你们要早些动身。」",
    "那年{place}发了大水，田地房屋都淹没了，只有{person}家的{object}还在。",
    "{person}问起{person}的下落，众人都摇头，说不知道。",
    "从{place}到{place}有{number}里水路，坐船要走一整天。",
    "{time}，{person}在灯下写字，忽然听见门外有人敲门。",
    "据老人们说，{object}本是{person}的祖父从{place}带来的。",
    "{person}把{object}放在桌上，许久没有说话。",
    "街上卖茶的、卖布的、说书的都聚在一处，热闹得很，唯独不见{person}。",
    "「你若见到{person}，」{person}低声道，「就把{object}交给他。」",
    "后来{person}在{place}开了一间书铺，生意虽小，却也安稳。",
    "山中的桂花开了，香气一直飘到{place}。",
    "这件事{person}记在日记里，共写了{number}页。",
)
CHINESE_DIGITS = "零一二三四五六七八九"
CHINESE_NUMBERS = ("三", "七", "十二", "二十", "三十六", "四十五", "六十", "八十一", "一百")


ENGLISH_POOLS: dict[str, Sequence[str]] = {
    "noun": NOUNS, "object": OBJECTS, "adjective": ADJECTIVES, "time": TIMES, "deed": DEEDS, "gerund": GERUNDS,
}  # fmt: skip
CHINESE_POOLS: dict[str, Sequence[str]] = {
    "time": CHINESE_TIMES, "object": CHINESE_OBJECTS, "number": CHINESE_NUMBERS,
}  # fmt: skip
_A_BEFORE_VOWEL = re.compile(r"\b([Aa]) (?=[aeiou])")


@dataclass(frozen=True)
class Cast:
    """The people and places of one book, (given name, surname) a person."""

    people: tuple[tuple[str, str], ...]
    places: tuple[str, ...]
    chinese_people: tuple[str, ...]
    chinese_places: tuple[str, ...]


@dataclass(frozen=True)
class Entry:
    """One dictionary article."""

    headword: str
    part_of_speech: str
    definition: str


def draw_cast(seed: int) -> Cast:
    """Return the cast of the book with this seed."""
    rng = random.Random(f"cast {seed}")
    people = zip(rng.sample(GIVEN_NAMES, PERSONS), rng.sample(SURNAMES, PERSONS), strict=True)
    return Cast(
        people=tuple(people),
        places=tuple(rng.sample(PLACE_NAMES, PLACES)),
        chinese_people=tuple(rng.sample(CHINESE_PEOPLE, CHINESE_PERSONS)),
        chinese_places=tuple(rng.sample(CHINESE_TOWNS, CHINESE_PLACES)),
    )


def write_novel(cast: Cast, seed: int) -> Iterator[str]:
    """Yield paragraphs without end."""
    rng = random.Random(f"novel {seed}")
    while True:
        templates = rng.sample(SENTENCES, rng.randint(2, 7))
        yield " ".join(_capitalised(_fill(template, cast, rng)) for template in templates)


def name_chapters(cast: Cast, seed: int) -> Iterator[str]:
    """Yield chapter titles without end."""
    rng = random.Random(f"chapters {seed}")
    while True:
        yield _fill(rng.choice(CHAPTER_TITLES), cast, rng).title().replace("’S", "’s")


def write_dictionary(cast: Cast, seed: str, entries: int) -> Iterator[Entry]:
    """Yield ``entries`` articles in alphabetical order, those on the cast among them; fewer where words run out."""
    rng = random.Random(f"dictionary {seed}")
    made_up = [prefix + root + suffix for prefix, root, suffix in itertools.product(PREFIXES, ROOTS, SUFFIXES)]
    names = {surname: f"a family of {rng.choice(cast.places)}" for _, surname in cast.people}
    names |= {place: f"a parish and landing-place; the seat of {rng.choice(cast.people)[1]}" for place in cast.places}
    chosen = rng.sample(made_up, min(max(entries - len(names), 0), len(made_up)))
    for headword in sorted([*chosen, *names], key=str.lower):
        if headword in names:
            yield Entry(headword, "prop. n.", f"The name of {names[headword]}.")
        else:
            part_of_speech = rng.choice(tuple(DEFINITIONS))
            yield Entry(headword, part_of_speech, _define(part_of_speech, cast, rng))


def write_chinese(cast: Cast, seed: int) -> Iterator[str]:
    """Yield Chinese paragraphs without end."""
    rng = random.Random(f"chinese {seed}")
    while True:
        templates = rng.sample(CHINESE_SENTENCES, rng.randint(2, 5))
        yield "".join(_fill_chinese(template, cast, rng) for template in templates)


def chinese_number(number: int) -> str:
    """Return the digits of a page number as Chinese print sets them: 105 is 一〇五."""
    return "".join("〇" if digit == "0" else CHINESE_DIGITS[int(digit)] for digit in str(number))


def _define(part_of_speech: str, cast: Cast, rng: random.Random) -> str:
    templates = rng.sample(DEFINITIONS[part_of_speech], rng.choice((1, 1, 2, 2, 3)))
    senses = [_fill(template, cast, rng) for template in templates]
    numbered = senses if len(senses) == 1 else [f"{number}. {sense}" for number, sense in enumerate(senses, start=1)]
    if rng.random() < 0.5:
        numbered.append(_fill(rng.choice(CITATIONS), cast, rng))
    return " ".join(numbered)


def _fill(template: str, cast: Cast, rng: random.Random) -> str:
    pools: dict[str, Sequence[str]] = {
        "given": [given for given, _ in cast.people],
        "surname": [surname for _, surname in cast.people],
        "person": [" ".join(names) for names in cast.people],
        "place": cast.places,
        "number": [str(number) for number in range(11, 480)],
        "small": "3456789",
    }
    return _A_BEFORE_VOWEL.sub(r"\1n ", _expand(template, ENGLISH_POOLS | pools, rng))


def _fill_chinese(template: str, cast: Cast, rng: random.Random) -> str:
    pools: dict[str, Sequence[str]] = {"person": cast.chinese_people, "place": cast.chinese_places}
    return _expand(template, CHINESE_POOLS | pools, rng)


def _expand(template: str, pools: Mapping[str, Sequence[str]], rng: random.Random) -> str:
    """Put a word from its pool into each field; a field that stands twice gets two different words."""
    pieces = list(string.Formatter().parse(template))
    fields = Counter(field for _, field, _, _ in pieces if field)
    drawn = {field: rng.sample(pools[field], count) for field, count in fields.items()}
    return "".join(literal + (drawn[field].pop() if field else "") for literal, field, _, _ in pieces)


def _capitalised(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]
