"""The text layer as four viewers see it: the words of the reading, and boxes that cover the print."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pymupdf
import pytest
from support.readings import column, page_of_truth, right_to_left_line, text_line, text_page
from support.viewers import VIEWERS, mupdf_boxes, need_viewer, pdfium_boxes, plain, poppler_pages, words_found

from data_contracts.geometry import Box
from data_contracts.result import Line, PageResult, Word
from tasks.publishing.plain_text import page_text
from tasks.publishing.searchable_pdf import SearchablePdfWriter

PAGE_PX, DPI = (1700, 2200), 200.0
LEAST_COVERED_RATIO = 0.75
"""Words of a column touch where no space is: a word is marked up to the next one. MuPDF marks no accents."""

DENSE_PX, DENSE_DPI = (5100, 6600), 600.0

MEDIA_BOX = "[-30 -40 582 752]"
"""612 x 792 points, from a negative origin."""

LATIN = ["Der alte Müller daſs zaͤhlen a b c", "1 2 — “quoted” ‘single’ don’t I", "ﬁne ⸗ Straße £100 ½ Ωmega κόσμος"]
COLUMNS = ["欽定四庫全書簡明目錄卷一", "經部一", "舊本題卜子夏撰實後人輾轉依托", "一"]
HEBREW = ["שלום עולם טוב מאוד", "בראשית ברא אלהים את"]
ARABIC = ["السلام عليكم ورحمة الله", "كتاب جديد و"]
POINTED = ["שָׁלוֹם עוֹלָם", "בְּרֵאשִׁית בָּרָא אֱלֹהִים"]
MIXED = ["בשנת 1948 קמה מדינת", "אמר John אל"]


@dataclass(frozen=True)
class Case:
    """A page: what its dictionary says, and how it was read."""

    reading: PageResult
    keys: tuple[tuple[str, str], ...] = ()

    @property
    def shown_px(self) -> tuple[int, int]:
        size = (self.reading.width_px, self.reading.height_px)
        return size if self.reading.rotation % 180 == 0 else size[::-1]


def read(lines: Sequence[str] | Sequence[Line], turned: bool = False, rotation: int = 0) -> PageResult:
    return text_page(lines, 1, PAGE_PX[::-1] if turned else PAGE_PX, DPI, rotation=rotation)


def rotated(degrees: int, lines: Sequence[str] | Sequence[Line] = LATIN) -> Case:
    return Case(read(lines, degrees % 180 != 0), (("Rotate", str(degrees)),))


def leaning(degrees: float) -> Case:
    texts = ["Der alte Müller daſs zaͤhlen wuͤrde a", "the quick brown fox jumps over I", "the lazy dog again"]
    return Case(read([text_line(text, 400, 500 + 70 * row, degrees) for row, text in enumerate(texts)]))


def backwards(texts: Sequence[str]) -> list[Line]:
    return [right_to_left_line(text, 1550, 150 + 60 * row) for row, text in enumerate(texts)]


def columns(texts: Sequence[str]) -> list[Line]:
    return [column(text, 1550 - 70 * row, 150) for row, text in enumerate(texts)]


CASES = {
    "horizontal": Case(read(LATIN)),
    "vertical": Case(read(columns(COLUMNS))),
    **{f"rotated {degrees}": rotated(degrees) for degrees in (90, 180, 270)},
    "vertical, rotated": rotated(180, columns(COLUMNS)),
    **{f"scanned {turn} degrees": Case(read(LATIN, turn != 180, turn)) for turn in (90, 180, 270)},
    **{f"leaning {degrees}": leaning(degrees) for degrees in (-8, -2, 0.7, 4)},
    "cropped": Case(text_page(LATIN, 1, (1222, 1389), DPI), (("CropBox", "[70 110 510 610]"),)),
    "user unit": Case(text_page(LATIN, 1, PAGE_PX, DPI / 2), (("UserUnit", "2"),)),
    "user unit, rotated": Case(text_page(LATIN, 1, PAGE_PX[::-1], DPI / 2), (("UserUnit", "2"), ("Rotate", "90"))),
    "Hebrew": Case(read(backwards(HEBREW))),
    "Arabic": Case(read(backwards(ARABIC))),
    "single characters": Case(read(["a", "b c d", "1", "字 一", ". ,"])),
    "combining marks": Case(read(["wuͤrde zaͤhlen q̃ue ō̃ n̈x", "क्षत्रिय हिन्दी"])),
    "supplementary planes": Case(read(["𝔞 𝔟𝔠 x", "𠀀𠀁 a𠀂b 永和九年", "😀 ok"])),
    "soft hyphens": Case(read(["co\u00adop ad\u00adhoc x"])),
}
RIGHT_TO_LEFT = ("Hebrew", "Arabic")


def write(path: Path, cases: Sequence[Case]) -> Path:
    """Write a PDF of empty pages with the readings on them."""
    source = path.with_suffix(".source.pdf")
    with pymupdf.open() as document:
        for case in cases:
            xref = document.new_page(width=612, height=792).xref
            for key, value in (("MediaBox", MEDIA_BOX), *case.keys):
                document.xref_set_key(xref, key, value)
        document.save(source)
    writer = SearchablePdfWriter(source, "pdf", range(1, len(cases) + 1), path, "ab" * 32)
    for number, case in enumerate(cases, start=1):
        writer.add(case.reading.model_copy(update={"page_number": number}))
    writer.finish()
    return path


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    return write(tmp_path_factory.mktemp("viewers") / "document.pdf", list(CASES.values()))


@pytest.fixture(scope="module")
def found(document):
    """Return a function: viewer, case -> the text of the case's page."""
    read_once: dict[str, list[str]] = {}

    def text_of(viewer: str, case: str) -> str:
        pages_of = need_viewer(viewer)
        if viewer not in read_once:
            read_once[viewer] = pages_of(document)
        return plain(read_once[viewer][list(CASES).index(case)])

    return text_of


@pytest.mark.parametrize("viewer", VIEWERS)
@pytest.mark.parametrize("case", CASES)
def test_every_viewer_finds_the_words_of_the_reading(found, viewer, case):
    words = plain(page_text(CASES[case].reading)).split()
    shown = found(viewer, case).split()
    if (viewer == "poppler" and case in RIGHT_TO_LEFT) or (viewer == "pdfium" and case == "scanned 180 degrees"):
        words, shown = sorted(words), sorted(shown)  # these begin such lines at their other end
    assert shown == words


@pytest.mark.parametrize("case", RIGHT_TO_LEFT)
def test_poppler_gives_right_to_left_lines_in_reading_order_where_it_lays_out_the_page(document, need_tool, case):
    need_tool("pdftotext")
    shown = poppler_pages(document, raw=False)[list(CASES).index(case)]
    assert plain(shown).split() == page_text(CASES[case].reading).split()


@pytest.mark.parametrize(("viewer", "exact"), [("pdfium", True), ("pdfjs", True), ("poppler", False)])
def test_numbers_and_latin_words_stand_right_in_a_line_that_runs_from_right_to_left(tmp_path, viewer, exact):
    reading = read(backwards(MIXED))
    (shown,) = need_viewer(viewer)(write(tmp_path / "mixed.pdf", [Case(reading)]))
    words, shown_words = page_text(reading).split(), plain(shown).split()
    assert shown_words == words if exact else sorted(shown_words) == sorted(words)


@pytest.mark.parametrize("viewer", ["pdfium", "pdfjs"])
def test_points_of_hebrew_follow_their_letters(tmp_path, viewer):
    reading = read(backwards(POINTED))
    (shown,) = need_viewer(viewer)(write(tmp_path / "pointed.pdf", [Case(reading)]))
    assert sorted(plain(shown).split()) == sorted(plain(page_text(reading)).split())


def as_rendered(box: Box, reading: PageResult) -> tuple[float, float, float, float]:
    """Return the box on the page as it was rendered, before it was turned upright."""
    width, height = reading.width_px, reading.height_px
    return {
        0: (box.left, box.top, box.right, box.bottom),
        90: (box.top, width - box.right, box.bottom, width - box.left),
        180: (width - box.right, height - box.bottom, width - box.left, height - box.top),
        270: (height - box.bottom, box.left, height - box.top, box.right),
    }[reading.rotation]


def covered(expected: tuple[float, ...], boxes: Sequence[tuple[float, ...]]) -> float:
    """Return the area that ``expected`` and what holds all ``boxes`` share, over the area of both together."""
    sides = list(zip(*boxes, strict=True))
    marked = (min(sides[0]), min(sides[1]), max(sides[2]), max(sides[3]))
    shared = [
        max(0.0, min(expected[side + 2], marked[side + 2]) - max(expected[side], marked[side])) for side in (0, 1)
    ]
    both = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (expected, marked))
    return shared[0] * shared[1] / (both - shared[0] * shared[1])


@pytest.mark.parametrize("boxes_of", [pdfium_boxes, mupdf_boxes])
@pytest.mark.parametrize("case", [name for name in CASES if not name.startswith("leaning")])
def test_what_is_marked_when_a_word_is_selected_is_the_word_on_the_page(document, boxes_of, case):
    reading = CASES[case].reading
    characters = boxes_of(document, list(CASES).index(case), CASES[case].shown_px)
    for word in (word for line in reading.lines for word in line.words):
        expected = as_rendered(word.box, reading)
        within = [box for character, box in characters if character.strip() and covered_center(expected, box)]
        assert within, f"{word.text} cannot be selected"
        assert covered(expected, within) > LEAST_COVERED_RATIO, word.text


def covered_center(outer: tuple[float, ...], inner: tuple[float, ...]) -> bool:
    x, y = (inner[0] + inner[2]) / 2, (inner[1] + inner[3]) / 2
    return outer[0] <= x <= outer[2] and outer[1] <= y <= outer[3]


def odd_line(text: str, boxes: Sequence[tuple[float, float, float, float]], joiner: str = " ") -> Line:
    words = tuple(
        Word(text=token, box=Box(left=box[0], top=box[1], right=box[2], bottom=box[3]), confidence=0.9)
        for token, box in zip(text.split() if joiner else text, boxes, strict=True)
    )
    around = Box.around([corner for box in boxes for corner in (box[:2], box[2:])])
    quad = (
        (around.left, around.top),
        (around.right, around.top),
        (around.right, around.bottom),
        (around.left, around.bottom),
    )
    return Line(text=text, box=around, quad=quad, confidence=0.9, words=words, joiner=joiner)


ODD = {
    "boxes without width": odd_line("one two", [(100, 100, 100, 140), (150, 100, 150, 140)]),
    "boxes without height": odd_line("one two", [(100, 100, 180, 100), (200, 100, 280, 100)]),
    "a line of two pixels": odd_line("one two", [(100, 100, 110, 102), (112, 100, 122, 102)]),
    "very long words": odd_line("x" * 300 + " y", [(100, 100, 1500, 140), (1510, 100, 1530, 140)]),
    "wide gaps": odd_line("one two", [(100, 100, 180, 140), (1500, 100, 1580, 140)]),
    "overlapping boxes": odd_line("one two", [(100, 100, 180, 140), (120, 100, 200, 140)]),
    "at the edge": odd_line("one two", [(0, 2, 80, 42), (1600, 2, 1700, 42)]),
}


@pytest.mark.parametrize("viewer", VIEWERS)
def test_odd_boxes_lose_no_word(tmp_path, viewer):
    pages = need_viewer(viewer)(write(tmp_path / "odd.pdf", [Case(read([line])) for line in ODD.values()]))
    shown = {name: plain(page).split() for name, page in zip(ODD, pages, strict=True)}
    assert shown == {name: line.text.split() for name, line in ODD.items()}


BOOKS = (
    "en_lusitania_1915",
    "fr_argus_brevets_1910_twocol_b",
    "de_mimili_1815",
    "zh_siku_jianming_mulu_juan1",
    "fr_catalogue_dactylo_1962",
)
LEAST_FOUND_RATIO = 0.995


@pytest.mark.shared_data
@pytest.mark.parametrize("viewer", VIEWERS)
def test_the_words_of_real_pages_are_found_in_every_viewer(shared_data, tmp_path, viewer):
    pages_of = need_viewer(viewer)
    for book in BOOKS:
        truths = sorted((shared_data / "books" / book).glob("page_*.gt.txt"))[:4]
        readings = [page_of_truth(path.read_text(encoding="utf-8"), 1, DENSE_PX, DENSE_DPI) for path in truths]
        target = write(tmp_path / f"{book}.pdf", [Case(reading) for reading in readings])
        found, words = words_found("\n".join(map(page_text, readings)), "\n".join(pages_of(target)))
        assert found >= LEAST_FOUND_RATIO * words, f"{book}: {found} of {words}"
