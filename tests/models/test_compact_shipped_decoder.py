"""The decoder as it is shipped: exact, useful where the scan is bad, and silent in languages it was not taught."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rapidfuzz.distance import Levenshtein
from support.printed import print_page

from data_contracts.config import CompactConfig, SrSwaConfig
from data_contracts.result import PageResult
from flows.degradation import Degradation, degrade
from models.compact.reader import CompactModel
from models.compact.verify import DraftVerifier, Reading
from models.compact.weights import load_verifiers
from models.sr_swa.continuous import ContinuousDecoder
from models.sr_swa.protocol import EncodedPage, PageImage
from models.sr_swa.state import load_state, state_bytes

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
)
LINE_HEIGHT_PX = 40.0
BAD_SCAN = Degradation(line_height_px=18, blur_px=0.6, specks_ratio=0.02, noise=10)


@pytest.fixture(scope="module")
def model() -> CompactModel:
    return CompactModel(CompactConfig())


@pytest.fixture(scope="module")
def verifier(model: CompactModel) -> DraftVerifier:
    return load_verifiers(model.characters)["en"]


BOOK_PAGES, SCANS, SCAN_LINES = 17, 3, 12
SMALL_MEMORY = SrSwaConfig(window_pages=3, max_window_pages=3, reference_pages=6)
"""So that pages leave the window, and the store, within the book."""


def bad_scan(model: CompactModel, text: tuple[str, ...], seed: str = "seed") -> EncodedPage:
    return model.encode_visual(PageImage(1, degrade(print_page(text), BAD_SCAN, LINE_HEIGHT_PX, seed), 150.0))


@pytest.fixture(scope="module")
def page(model: CompactModel) -> EncodedPage:
    return bad_scan(model, ENGLISH)


@pytest.fixture(scope="module")
def plain(verifier: DraftVerifier, page: EncodedPage) -> list[Reading]:
    """Every line letter by letter, behind the draft of the line before."""
    before = [(), *(line.draft_ids.tolist() for line in page.lines[:-1])]
    return [verifier.read_plainly(line, context) for line, context in zip(page.lines, before, strict=True)]


def errors(model: CompactModel, readings: list[Reading]) -> int:
    read = "\n".join("".join(model.characters[index] for index in reading.ids) for reading in readings)
    return Levenshtein.distance("\n".join(ENGLISH), read)


@pytest.mark.parametrize("size", [1, 8, 99])
def test_a_line_reads_as_letter_by_letter_whatever_is_read_with_it(
    verifier: DraftVerifier, page: EncodedPage, plain: list[Reading], size: int
) -> None:
    read, before = [], ()
    for start in range(0, len(page.lines), size):
        lines = page.lines[start : start + size]
        read += verifier.read_lines(lines, before)
        before = tuple(lines[-1].draft_ids.tolist())
    decoded = [place for place, reading in enumerate(read) if reading.passes and reading.why != "too many passes"]
    assert decoded
    assert [read[place].ids.tolist() for place in decoded] == [plain[place].ids.tolist() for place in decoded]


def test_it_mends_a_bad_scan(model: CompactModel, page: EncodedPage) -> None:
    of_the_draft = Levenshtein.distance("\n".join(ENGLISH), model.draft_text(page))
    assert of_the_draft > 10
    assert errors(model, model.verify(page)) < 0.9 * of_the_draft


def test_a_page_in_another_language_keeps_its_draft(model: CompactModel) -> None:
    readings = model.verify(bad_scan(model, FRENCH))
    assert readings
    assert not any(reading.passes or reading.changed for reading in readings)


def test_without_the_decoder_drafts_stand_and_the_fingerprint_says_so(model: CompactModel, page: EncodedPage) -> None:
    plain = CompactModel(CompactConfig(decoder=False))
    assert plain.fingerprint != model.fingerprint
    assert not any(reading.changed for reading in plain.verify(page))


@pytest.fixture(scope="module")
def bad_book(model: CompactModel) -> list[EncodedPage]:
    """Few scans, each beginning at another line, that come again and again."""
    scans = [bad_scan(model, ENGLISH[at : at + SCAN_LINES], f"seed {at}") for at in range(SCANS)]
    return [replace(scans[at % SCANS], page_number=at + 1) for at in range(BOOK_PAGES)]


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
    assert {line.read_by for result in results for line in result.lines} >= {"decoder_en", "second_look"}
    assert sum(result.metrics.references_fetched for result in results) > 0
    for size in (1, 4, 16):
        assert read_in_chunks(model, bad_book, size) == whole
