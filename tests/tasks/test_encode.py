"""Encoding holds one page at a time, and a bad page costs only itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
from support.fakes import ScriptedModel

from data_contracts.config import ReadingConfig, RenderConfig
from data_contracts.document import ChunkRef
from data_contracts.errors import RenderFailed
from data_contracts.result import BlankReason, PageResult, PageStatus
from data_contracts.step_request import EncodeAgainRequest, EncodeRequest, Scan
from models.features import read_features
from models.sr_swa.pages import EncodedPage, FailedPage, PageImage
from tasks.encode import encode_chunk, encode_chunk_again, encode_pages


def render(page_number: int) -> PageImage:
    if page_number == 2:
        raise RenderFailed("the page is torn")
    if page_number == 3:
        raise ZeroDivisionError("a library met an odd page")
    return PageImage(page_number, np.zeros((8, 6, 3), np.uint8), 72.0)


def request(work: Path, *page_numbers: int) -> EncodeRequest:
    chunk = ChunkRef(chunk_number=1, page_numbers=page_numbers)
    return EncodeRequest("doc/chunk", ReadingConfig(), chunk, str(work), Scan("scan.pdf", "pdf", 60))


def test_a_bad_page_keeps_its_place_and_costs_no_other(tmp_path: Path) -> None:
    ref = encode_chunk(request(tmp_path, 1, 2, 3, 4), render, ScriptedModel())
    pages = list(read_features((tmp_path / ref.uri).read_bytes()))
    assert [page.page_number for page in pages] == [1, 2, 3, 4] == list(ref.page_numbers)
    assert [type(page) for page in pages] == [EncodedPage, FailedPage, FailedPage, EncodedPage]
    errors = [page.error for page in pages if isinstance(page, FailedPage)]
    assert errors == ["the page is torn", "ZeroDivisionError: a library met an odd page"]


def test_encoding_twice_gives_one_file(tmp_path: Path) -> None:
    first, second = (encode_chunk(request(tmp_path, 1, 4), render, ScriptedModel()) for _ in range(2))
    assert first == second
    assert len(list((tmp_path / "features").rglob("*.safetensors"))) == 1


def again(
    work: Path, *page_numbers: int, anew: Sequence[int] = (), isolated: Mapping[int, str] = MappingProxyType({})
) -> EncodeAgainRequest:
    """What is asked after pages 1 to 5 were encoded and 2 and 3 failed."""
    kept = encode_chunk(request(work, 1, 2, 3, 4, 5), render, ScriptedModel())
    torn = dict.fromkeys(("width_px", "height_px", "dpi"), 7)
    failed = [PageResult(page_number=n, status=PageStatus.FAILED, error="it was torn", **torn) for n in (2, 3)]
    return EncodeAgainRequest(
        "doc/again",
        ReadingConfig(),
        ChunkRef(chunk_number=1, page_numbers=page_numbers),
        str(work),
        Scan("scan.pdf", "pdf", 60),
        dict.fromkeys(anew, RenderConfig()),
        tuple(page for page in failed if page.page_number not in anew),
        (kept,),
        isolated=isolated,
    )


def mended(asked: list[int]) -> Callable[[int], PageImage]:
    """Every page can be rendered now, in another size; ``asked`` notes which ones are."""

    def render_larger(page_number: int) -> PageImage:
        asked.append(page_number)
        return PageImage(page_number, np.zeros((80, 60, 3), np.uint8), 720.0)

    return render_larger


def test_only_pages_asked_for_are_encoded_anew_and_the_others_are_as_they_were(tmp_path: Path) -> None:
    asked: list[int] = []
    ref = encode_chunk_again(again(tmp_path, 1, 2, 3, 4, anew=(2, 4)), mended(asked), ScriptedModel())
    pages = {page.page_number: page for page in read_features((tmp_path / ref.uri).read_bytes())}
    assert asked == [2, 4]
    assert {number: page.dpi for number, page in pages.items()} == {1: 72.0, 2: 720.0, 3: 7.0, 4: 720.0}
    assert pages[3] == FailedPage(3, "it was torn", 7, 7, 7)


def test_pages_whose_features_were_collected_are_encoded_anew(tmp_path: Path) -> None:
    asked: list[int] = []
    wanted = again(tmp_path, 1, 2, 4)
    (tmp_path / wanted.kept[0].uri).unlink()
    encode_chunk_again(wanted, mended(asked), ScriptedModel())
    assert asked == [1, 4], "page 2 had failed and stays so"


def test_an_isolated_page_is_not_looked_at_again(tmp_path: Path) -> None:
    asked: list[int] = []
    wanted = again(tmp_path, 1, 2, 4, anew=(2, 4), isolated={2: "it hangs"})
    ref = encode_chunk_again(wanted, mended(asked), ScriptedModel())
    pages = {page.page_number: page for page in read_features((tmp_path / ref.uri).read_bytes())}
    assert (asked, pages[2], dict(ref.isolated)) == ([4], FailedPage(2, "it hangs"), {2: "it hangs"})


def test_a_page_is_rendered_only_when_it_is_asked_for() -> None:
    asked: list[int] = []

    def counting(page_number: int) -> PageImage:
        asked.append(page_number)
        return render(page_number)

    pages = encode_pages(counting, (1, 4, 5), ScriptedModel())
    assert asked == []
    next(pages)
    assert asked == [1]


def test_what_is_no_fault_of_a_page_is_not_swallowed() -> None:
    def interrupted(page_number: int) -> PageImage:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(encode_pages(interrupted, (1,), ScriptedModel()))


class FarSighted(ScriptedModel):
    """Sees nothing below 300 dpi."""

    def encode_visual(self, image: PageImage) -> EncodedPage:
        if image.dpi < 300:
            return EncodedPage(image.page_number, 6, 8, image.dpi, blank_reason=BlankReason.EMPTY)
        return super().encode_visual(image)


@pytest.mark.parametrize(("finest", "read_at"), [(72, 72), (150, 150), (300, 300), (600, 300)])
def test_a_page_is_blank_only_after_the_finest_look_at_it(finest: float, read_at: float) -> None:
    looks: list[float] = []

    def look_closer(seen: PageImage) -> PageImage | None:
        looks.append(seen.dpi)
        return replace(seen, dpi=min(seen.dpi * 2.1, finest)) if seen.dpi < finest else None

    (page,) = encode_pages(render, (1,), FarSighted(), look_closer=look_closer)
    assert isinstance(page, EncodedPage)
    assert page.dpi == pytest.approx(read_at, rel=0.06)
    assert (page.blank_reason is None) == (finest >= 300)
    assert looks[0] == 72


def test_a_page_that_cannot_be_looked_at_closer_fails() -> None:
    def look_closer(seen: PageImage) -> PageImage | None:
        raise RenderFailed("it is too large")

    (page,) = encode_pages(render, (1,), FarSighted(), look_closer=look_closer)
    assert isinstance(page, FailedPage)
    assert page.error == "it is too large"
