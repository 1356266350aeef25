"""Lexicon rescoring, in the loop that digitizes: which words are changed, by what, and that memory makes no difference
to how a document is cut into chunks."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support.hypotheses import CHARACTERS, hypothesis_line, small_head

from data_contracts.config import SrSwaConfig
from data_contracts.geometry import Box
from data_contracts.result import Line, PageResult, Word
from models.compact.rescore.page_memory import GEOMETRY, page_block
from models.compact.rescore.rescoring import NOTES_KEY, WordRescorer
from models.compact.rescore.word_choice import Thresholds
from models.compact.words.candidates import KnownWords
from models.compact.words.document_words import LIST_MIN_WORDS
from models.compact.words.word_list import WordList
from models.sr_swa.continuous import ContinuousDecoder
from models.sr_swa.memory.state import load_state, state_bytes
from models.sr_swa.pages import Decoding, EncodedLine, EncodedPage

# The hypothesis reads Hortom, and n is nearly as likely as m.
MISREAD = hypothesis_line("of Hortom said", {8: {"m": 6.0, "n": 5.5}})
CLEAR = hypothesis_line("of Horton said")


class SecondReader:
    """The rescorer as a model: pages are given encoded, and the reading is the lines it returns."""

    fingerprint = "second-reader"
    geometry = GEOMETRY

    def __init__(self, lists: Sequence[WordList] = (), thresholds: Thresholds | None = None) -> None:
        self._rescorer = WordRescorer(small_head(), CHARACTERS, lists, thresholds)

    def encode_visual(self, image):
        raise NotImplementedError

    def prefill(self, page, context):
        return page_block(page, CHARACTERS)

    def decode(self, page, context):
        looked = self._rescorer.rescore_page(page.lines, context)
        self._rescorer.count_page(page.lines, context)
        lines = [written(line) for line in looked.lines]
        return Decoding(lines=tuple(lines), window_mass=looked.window_mass)


def written(line: EncodedLine) -> Line:
    text = "".join(CHARACTERS[index] for index in line.ctc_ids)
    box = Box.around(line.quad)
    return Line(text=text, box=box, quad=line.quad, confidence=1, words=(Word(text=text, box=box, confidence=1),))


def book(*pages: Sequence[EncodedLine]) -> list[EncodedPage]:
    return [EncodedPage(number, 800, 600, 300.0, lines=tuple(lines)) for number, lines in enumerate(pages, start=1)]


def read(pages: Sequence[EncodedPage], reader: SecondReader | None = None, **config: int) -> list[PageResult]:
    return list(ContinuousDecoder(reader or SecondReader(), SrSwaConfig(**config)).decode(pages))


def test_a_doubtful_word_becomes_the_word_of_an_earlier_page_that_fits_the_picture():
    assert [page.text for page in read(book([CLEAR], [MISREAD]))] == ["of Horton said", "of Horton said"]


def test_without_that_page_the_draft_stays():
    assert read(book([MISREAD]))[0].text == "of Hortom said"


def test_words_of_the_same_page_are_no_memory():
    assert read(book([CLEAR, MISREAD]))[0].text == "of Horton said\nof Hortom said"


def test_a_reader_that_remembers_no_page_keeps_the_draft():
    pages = read(book([CLEAR], [MISREAD]), window_pages=1, top_k=0, reference_pages=0)
    assert pages[1].text == "of Hortom said"


def test_a_word_that_has_left_the_window_is_fetched_and_counts_as_a_hit():
    filler = [hypothesis_line("quite other words")]
    pages = book([CLEAR], filler, filler, filler, [MISREAD])
    last = read(pages, window_pages=2)[-1]
    assert last.text == "of Horton said"
    assert last.metrics.gate_fired == 1
    assert last.metrics.references_hit == 1
    without = read(pages, window_pages=2, reference_pages=0)[-1]
    assert without.text == "of Hortom said"


def test_a_new_name_is_not_pulled_towards_an_old_one_that_looks_like_it():
    new = hypothesis_line("of Morton said", {3: {"M": 9.0, "H": 3.0}, 8: {"n": 5.0, "m": 4.0}})
    assert read(book([CLEAR] * 20, [new]))[1].text == "of Morton said"


def test_a_sure_word_is_never_changed():
    sure = hypothesis_line("of Hortom said")
    assert read(book([CLEAR] * 50, [sure]))[1].text == "of Hortom said"


def test_a_figure_or_mark_of_which_the_draft_is_sure_stays_in_a_word() -> None:
    known = [hypothesis_line("fort and Horton")] * 40
    doubtful, unsure = (
        hypothesis_line("fo4t and", {0: {"f": 5.0, "t": 4.5}, 2: {"4": logit, "r": 3.0}}) for logit in (7.0, 3.2)
    )
    assert 0.9 < doubtful.ctc_posteriors[2] < Thresholds().sure_letter
    assert read(book(known, [doubtful]))[1].text == "fo4t and"
    assert read(book(known, [unsure]))[1].text == "fort and"


def test_short_words_need_more():
    known = [hypothesis_line("he came then")] * 40
    doubtful = hypothesis_line("of thcn day", {5: {"c": 6.0, "e": 5.0}})
    strict = SecondReader(thresholds=Thresholds(margin=0, short_margin=9))
    lenient = SecondReader(thresholds=Thresholds(margin=0, short_margin=0))
    assert read(book(known, [doubtful]), strict)[1].text == "of thcn day"
    assert read(book(known, [doubtful]), lenient)[1].text == "of then day"


def test_case_and_punctuation_come_from_the_draft():
    shouted = hypothesis_line("“HORTOM,” he", {6: {"M": 6.0, "N": 5.5}})
    assert read(book([CLEAR], [shouted]))[1].text == "“HORTON,” he"


def test_half_a_divided_word_and_numbers_are_left_alone():
    divided = hypothesis_line("of Hortom-", {8: {"m": 6.0, "n": 5.5}})
    number = hypothesis_line("in 1876", {6: {"6": 6.0, "5": 5.9}})
    known = [CLEAR, hypothesis_line("of Horton 1875")]
    assert read(book(known, [divided, number]))[1].text == "of Hortom-\nin 1876"


def test_a_line_that_cannot_be_read_keeps_its_draft():
    smeared = hypothesis_line("Hortom", {place: {letter: 1.0, "n": 0.9} for place, letter in enumerate("Hortom")})
    (page,) = read(book([CLEAR], [smeared]))[1:]
    assert page.text == "".join(CHARACTERS[index] for index in smeared.ctc_ids)


def test_a_general_list_helps_once_the_document_is_in_its_language():
    english = WordList("en", KnownWords(["house", "Horton", "other", "words"]))
    reader = SecondReader([english])
    many = [hypothesis_line("house other words")] * LIST_MIN_WORDS
    assert read(book([MISREAD]), reader)[0].text == "of Hortom said"
    assert read(book([*many, MISREAD]), reader)[0].text.endswith("of Horton said")
    foreign = [hypothesis_line("maison autres mots")] * LIST_MIN_WORDS
    assert read(book([*foreign, MISREAD]), reader)[0].text.endswith("of Hortom said")


def test_what_was_changed_never_enters_the_memory():
    decoder = ContinuousDecoder(SecondReader(), SrSwaConfig())
    list(decoder.decode(book([CLEAR], [MISREAD])))
    counts = decoder.context.notes[NOTES_KEY]["counts"]
    assert counts["horton"] == [1, 1]
    assert "hortom" not in counts


def test_the_new_characters_lie_where_the_old_ones_lay():
    reader = SecondReader()
    longer = hypothesis_line("of Hortn said", {7: {"n": 6.0, "o": 5.9}})
    decoder = ContinuousDecoder(reader, SrSwaConfig())
    list(decoder.decode(book([CLEAR])))
    decoder.context.make_room()
    looked = reader._rescorer.write(longer, [])
    assert looked.ctc_ids.tolist() == longer.ctc_ids.tolist()
    (second,) = read(book([MISREAD]), reader)
    assert len(second.text) == len("of Hortom said")


@pytest.mark.parametrize("chunk_pages", [1, 2, 4])
def test_chunks_of_any_size_give_the_same_reading_and_the_same_state(chunk_pages):
    filler = [hypothesis_line("quite other words")]
    pages = book([CLEAR], filler, filler, [MISREAD], filler, filler, [MISREAD], [CLEAR])
    config = SrSwaConfig(window_pages=2, reference_pages=3)
    whole = ContinuousDecoder(SecondReader(), config)
    expected = list(whole.decode(pages))
    state, results = None, []
    for start in range(0, len(pages), chunk_pages):
        decoder = ContinuousDecoder(SecondReader(), config, state)
        results += decoder.decode(pages[start : start + chunk_pages])
        state = load_state(state_bytes(decoder.state()), fingerprint=SecondReader.fingerprint, config_sha256="")
    assert results == expected
    assert state is not None
    assert state_bytes(state) == state_bytes(whole.state())
