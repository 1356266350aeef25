"""The decoder as it is shipped: exact, useful where the scan is bad, and silent in languages it was not taught."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from rapidfuzz.distance import Levenshtein
from support.printed import print_page

from data_contracts.config import CompactConfig, SrSwaConfig
from data_contracts.errors import ModelUnavailable
from data_contracts.result import PageResult
from flows.bench.degradation import Degradation, degrade
from models.compact.decode import weights
from models.compact.decode.changes import stays_above
from models.compact.decode.decoder import FrozenHead, load_weights
from models.compact.decode.verify import Reading, Verifier, VerifierThresholds
from models.compact.decode.weights import WEIGHTS_SHA256, load_verifiers, weights_file
from models.compact.reader import CompactModel
from models.sr_swa.continuous import ContinuousDecoder
from models.sr_swa.memory.state import load_state, state_bytes
from models.sr_swa.pages import EncodedPage, PageImage

ENGLISH = (
    "The old house stood at the end of the village, behind a row of tall elms",
    "which had been planted by the grandfather of the present owner. Nobody had",
    "lived there since the winter of the great storm, and the gate was rusted and",
    "would not open. Children said that at night a light could be seen in one of",
    "the upper windows, but their parents told them that it was only the moon on",
    "the broken glass. Still, when the autumn evenings came and the wind blew from",
    "the river, few people cared to walk along that road alone, and those who did",
    "so without a lantern were seldom willing to speak of what they had heard.",
) * 2
"""Twice, so that enough words are sure even on a bad scan."""
FRENCH = (
    "La vieille maison se trouvait au bout du village, derrière une rangée d’ormes",
    "plantés par le grand-père du propriétaire actuel. Personne n’y avait demeuré",
    "depuis l’hiver de la grande tempête, et la grille rouillée ne s’ouvrait plus.",
    "Les enfants disaient que la nuit on voyait une lumière à l’une des fenêtres,",
    "mais leurs parents leur répondaient que ce n’était que la lune sur les vitres",
    "brisées. Pourtant, lorsque venaient les soirées d’automne et que le vent",
    "soufflait de la rivière, peu de gens aimaient à suivre seuls cette route.",
) * 4
GERMAN = (
    "Das alte Haus stand am Ende des Dorfes hinter einer Reihe hoher Ulmen, die der",
    "Großvater des jetzigen Besitzers gepflanzt hatte. Seit dem Winter des großen",
    "Sturmes hatte niemand mehr darin gewohnt, und das Tor war verrostet und ließ",
    "sich nicht öffnen. Die Kinder sagten, man könne des Nachts ein Licht in einem",
    "der oberen Fenster sehen, aber ihre Eltern erklärten ihnen, es sei nur der Mond",
    "auf den zerbrochenen Scheiben. Dennoch gingen an den Abenden im Herbst, wenn",
    "der Wind vom Fluß herüber kam, nur wenige gern allein auf dieser Straße.",
) * 3
DUTCH = (
    "Het oude huis stond aan het einde van het dorp, achter een rij hoge iepen die",
    "door de grootvader van de tegenwoordige eigenaar waren geplant. Niemand had er",
    "gewoond sinds de winter van de grote storm, en het hek was verroest en ging",
    "niet meer open. Kinderen zeiden dat men er in de nacht een licht kon zien.",
) * 4
FIGURES = (
    "( 12 )",
    "(17)",
    "[ 6 ]",
    "( 3 )",
    "(vi)",
    "- 48 -",
    "31. Dezember 1937 .... 1,250.75",
    "Nr. 14 (1876), p. 103; £3 10s. 6d.",
    "(a) 12 340 7.50 18 19 1",
    "of “top speed” on 7 May 1915 (see p. 11)",
)
OF_LANGUAGE = {"de": GERMAN, "en": ENGLISH, "fr": FRENCH}
LINE_HEIGHT_PX = 40.0
BAD_SCAN = Degradation(line_height_px=18, blur_px=0.6, specks_ratio=0.02, noise=10)
COARSE_SCAN = Degradation(line_height_px=22, blur_px=0.6, specks_ratio=0.002, noise=6)
QUOTES = re.compile("[“”„]")


@pytest.fixture(scope="module")
def model() -> CompactModel:
    return CompactModel(CompactConfig())


@pytest.fixture(scope="module")
def verifier(model: CompactModel) -> Verifier:
    return load_verifiers(model.characters)["en"]


BOOK_PAGES, SCAN_LINES = 17, 12
SMALL_MEMORY = SrSwaConfig(window_pages=3, max_window_pages=3, reference_pages=6)
"""So that pages leave the window, and the store, within the book."""


def bad_scan(
    model: CompactModel, text: tuple[str, ...], seed: str = "seed", damage: Degradation = BAD_SCAN
) -> EncodedPage:
    return model.encode_visual(PageImage(1, degrade(print_page(text), damage, LINE_HEIGHT_PX, seed), 150.0))


@pytest.fixture(scope="module")
def page(model: CompactModel) -> EncodedPage:
    return bad_scan(model, ENGLISH)


@pytest.fixture(scope="module")
def plain(verifier: Verifier, page: EncodedPage) -> list[Reading]:
    """Every line letter by letter, behind the hypothesis of the line before."""
    before = [(), *(line.ctc_ids.tolist() for line in page.lines[:-1])]
    return [verifier.read_plainly(line, context) for line, context in zip(page.lines, before, strict=True)]


@pytest.mark.parametrize("size", [1, 8, 99])
def test_a_line_reads_as_letter_by_letter_whatever_is_read_with_it(
    verifier: Verifier, page: EncodedPage, plain: list[Reading], size: int
) -> None:
    read, before = [], ()
    for start in range(0, len(page.lines), size):
        lines = page.lines[start : start + size]
        read += verifier.read_lines(lines, before)
        before = tuple(lines[-1].ctc_ids.tolist())
    decoded = [place for place, reading in enumerate(read) if reading.passes and reading.why != "too many passes"]
    assert decoded
    assert [read[place].ids.tolist() for place in decoded] == [plain[place].ids.tolist() for place in decoded]


@pytest.mark.parametrize("language", OF_LANGUAGE)
def test_a_bad_scan_is_mended_by_the_weights_of_its_language(model: CompactModel, language: str) -> None:
    truth = "\n".join(OF_LANGUAGE[language])
    page = bad_scan(model, OF_LANGUAGE[language])
    readings = model.verify(page)
    assert {reading.weights for reading in readings} == {language}
    of_the_hypothesis = Levenshtein.distance(truth, model.hypothesis_text(page))
    assert of_the_hypothesis > 10
    read = "\n".join("".join(model.characters[index] for index in reading.ids) for reading in readings)
    assert Levenshtein.distance(truth, read) < 0.9 * of_the_hypothesis
    result = next(iter(ContinuousDecoder(model, SMALL_MEMORY).decode([page])))
    assert f"decoder_{language}" in {line.read_by for line in result.lines}


def marks_in(text: str) -> str:
    """Return the figures and marks of ``text``, with quotation marks of one shape."""
    return QUOTES.sub('"', "".join(c for c in text if not c.isalpha() and not c.isspace()))


@pytest.fixture(scope="module")
def page_of_figures(model: CompactModel) -> EncodedPage:
    return bad_scan(model, FIGURES, damage=COARSE_SCAN)


@pytest.mark.parametrize("language", OF_LANGUAGE)
def test_figures_and_brackets_of_which_the_draft_is_sure_stay(
    model: CompactModel, page_of_figures: EncodedPage, language: str
) -> None:
    thresholds = VerifierThresholds(sure_above=1.01)  # every line is decoded
    decoder = load_weights(weights_file(language), WEIGHTS_SHA256[language], FrozenHead.load())
    readings = Verifier(decoder, model.characters, thresholds).read_lines(page_of_figures.lines)
    kept = 0
    for line, reading in zip(page_of_figures.lines, readings, strict=True):
        hypothesis, read = ("".join(model.characters[index] for index in ids) for ids in (line.ctc_ids, reading.ids))
        sure = line.ctc_posteriors >= [stays_above(c, thresholds.sure_digit, thresholds.sure_mark) for c in hypothesis]
        wanted = marks_in("".join(c for c, stays in zip(hypothesis, sure, strict=True) if stays))
        rest = iter(marks_in(read))
        assert all(mark in rest for mark in wanted), (hypothesis, read)
        kept += len(wanted)
    assert kept > 60


def test_each_languages_weights_read_as_no_others_do(model: CompactModel) -> None:
    lines = bad_scan(model, FRENCH).lines
    texts = {
        language: tuple(tuple(reading.ids.tolist()) for reading in verifier.read_lines(lines))
        for language, verifier in load_verifiers(model.characters).items()
    }
    assert len(set(texts.values())) == len(texts) == len(WEIGHTS_SHA256)


@pytest.mark.parametrize("language", WEIGHTS_SHA256)
def test_other_weights_than_those_of_the_model_are_refused(
    language: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: CompactModel
) -> None:
    for each in WEIGHTS_SHA256:
        data = bytearray(weights_file(each).read_bytes())
        data[-1] ^= each == language
        (tmp_path / weights_file(each).name).write_bytes(data)
    monkeypatch.setattr(weights, "FOLDER", tmp_path)
    with pytest.raises(ModelUnavailable, match=f"decoder_{language}.safetensors has sha256"):
        load_verifiers(model.characters)


def test_all_weights_together_are_small_and_named_in_the_fingerprint(model: CompactModel) -> None:
    assert sum(weights_file(language).stat().st_size for language in WEIGHTS_SHA256) < 30e6
    assert all(f"/{sha256}/" in model.fingerprint for sha256 in WEIGHTS_SHA256.values())


def test_a_page_in_a_language_without_weights_keeps_its_draft(model: CompactModel) -> None:
    readings = model.verify(bad_scan(model, DUTCH))
    assert readings
    assert not any(reading.passes or reading.changed or reading.weights for reading in readings)


def test_without_the_decoder_drafts_stand_and_the_fingerprint_says_so(model: CompactModel, page: EncodedPage) -> None:
    plain = CompactModel(CompactConfig(decoder=False))
    assert plain.fingerprint != model.fingerprint
    assert not any(reading.changed for reading in plain.verify(page))


@pytest.fixture(scope="module")
def bad_book(model: CompactModel) -> list[EncodedPage]:
    """Few scans, two of them English and one French, that come again and again."""
    texts = (ENGLISH[:SCAN_LINES], FRENCH[:SCAN_LINES], ENGLISH[1 : 1 + SCAN_LINES])
    scans = [bad_scan(model, text, f"seed {at}") for at, text in enumerate(texts)]
    return [replace(scans[at % len(scans)], page_number=at + 1) for at in range(BOOK_PAGES)]


def read_in_chunks(model: CompactModel, pages: list[EncodedPage], size: int) -> tuple[list[str], bytes]:
    """Return the pages as read, and the last state; each chunk starts from the bytes of the state before it."""
    read, state = [], None
    for start in range(0, len(pages), size):
        before = state and load_state(state, fingerprint=model.fingerprint, config_sha256="")
        decoder = ContinuousDecoder(model, SMALL_MEMORY, before)
        read += [result.model_dump_json() for result in decoder.decode(pages[start : start + size])]
        state = state_bytes(decoder.state())
    assert state is not None
    return read, state


def test_chunks_of_1_4_16_and_all_pages_of_a_bad_book_give_the_same_bytes(
    model: CompactModel, bad_book: list[EncodedPage]
) -> None:
    whole = read_in_chunks(model, bad_book, BOOK_PAGES)
    results = [PageResult.model_validate_json(text) for text in whole[0]]
    assert {line.read_by for result in results for line in result.lines} >= {
        "decoder_en",
        "decoder_fr",
        "lexicon_rescoring",
    }
    assert sum(result.metrics.references_fetched for result in results) > 0
    for size in (1, 4, 16):
        assert read_in_chunks(model, bad_book, size) == whole
