"""The decoder as it is shipped: exact, useful where the scan is bad, and silent in languages it was not taught."""

from __future__ import annotations

import pytest
from rapidfuzz.distance import Levenshtein
from support.printed import print_page

from data_contracts.config import CompactConfig
from flows.degradation import Degradation, degrade
from models.compact.reader import CompactModel
from models.compact.verify import DraftVerifier, Reading
from models.compact.weights import load_verifier
from models.sr_swa.protocol import EncodedPage, PageImage

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
    return load_verifier(model.characters)


def bad_scan(model: CompactModel, text: tuple[str, ...]) -> EncodedPage:
    return model.encode_visual(PageImage(1, degrade(print_page(text), BAD_SCAN, LINE_HEIGHT_PX, "seed"), 150.0))


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
