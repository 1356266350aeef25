"""Pages whose print lies in masks, patterns, forms and strips are rendered so that it can be read."""

from __future__ import annotations

import io

import numpy as np
import pytest
from pikepdf import Name
from PIL import Image
from support.layered_pdfs import DPI, LAYERED, LayeredPage, layered_pdf
from support.printed import PROSE, print_page
from support.sources import scan

from data_contracts.config import CompactConfig, RenderConfig
from data_contracts.errors import RenderFailed
from models.compact.reader import CompactModel
from tasks.encode import encode_pages
from tasks.sources.render import PageSource

MEAN_DIFFERENCE = 12
"""Of 255: masks of one bit drop grain, coarse inks are not black. Without its print a page differs by 60."""


def printed():
    return scan(1, (850, 1100)).point(lambda shade: 255 if shade > 128 else 20)


@pytest.mark.parametrize("name", LAYERED)
def test_print_in_layers_is_rendered_as_fine_as_it_is(tmp_path, name):
    with PageSource(layered_pdf(tmp_path / "page.pdf", name, printed()), "pdf", RenderConfig()) as pages:
        image = pages.render(1)
        assert pages.look_closer(image) is None or image.dpi < 300
    assert image.dpi >= DPI * 0.99
    shown = np.asarray(image.pixels).mean(axis=2)
    step = image.dpi / DPI
    rows = (np.arange(1100) * step + step / 2).astype(int).clip(0, shown.shape[0] - 1)
    columns = (np.arange(850) * step + step / 2).astype(int).clip(0, shown.shape[1] - 1)
    difference = np.abs(shown[rows][:, columns] - np.asarray(printed()).astype(float)).mean()
    assert difference < MEAN_DIFFERENCE


def black_on(page, left, bottom, width, height, dpi):
    """Show a black bar with white ends, an image of ``dpi``, on the page that is being written."""
    size = (max(round(width * dpi / 72), 1), max(round(height * dpi / 72), 1))
    page.draw(f"{width} 0 0 {height} {left} {bottom} cm /Bar Do", Bar=page.colour(size, 0))


def test_a_fine_detail_is_not_worth_a_finer_page_unless_nothing_was_read(tmp_path):
    page = LayeredPage(printed())
    page.draw(f"{page.everywhere} /Paper Do", Paper=page.colour((226, 293), 250))
    black_on(page, 200, 40, 20, 8, 300)
    with PageSource(page.save(tmp_path / "number.pdf"), "pdf", RenderConfig()) as pages:
        seen = pages.render(1)
        closer = pages.look_closer(seen)
        assert closer is not None
        assert (round(seen.dpi), round(closer.dpi)) == (40, 300)
        assert pages.look_closer(closer) is None


@pytest.mark.parametrize(("dpi", "closer_dpi"), [(25, 300), (60, 300), (69, 300), (75, None), (150, None), (300, None)])
def test_a_scan_below_what_is_legible_is_enlarged_before_it_is_blank(tmp_path, dpi, closer_dpi):
    page = LayeredPage(printed())
    page.show(page.colour((round(page.width * dpi / 72), round(page.height * dpi / 72)), 250))
    with PageSource(page.save(tmp_path / "page.pdf"), "pdf", RenderConfig()) as pages:
        closer = pages.look_closer(pages.render(1))
    assert (closer and round(closer.dpi)) == closer_dpi


def test_a_low_resolution_that_was_asked_for_is_left_before_a_page_is_blank(tmp_path):
    scan(1).save(tmp_path / "page.png", dpi=(200, 200))
    with PageSource(tmp_path / "page.png", "image", RenderConfig(dpi=50)) as pages:
        seen = pages.render(1)
        closer = pages.look_closer(seen)
        assert (seen.dpi, closer and closer.dpi) == (50, 300)
    with PageSource(tmp_path / "page.png", "image", RenderConfig(dpi=100)) as pages:
        closer = pages.look_closer(pages.render(1))
        assert closer is not None
        assert closer.dpi == pytest.approx(200, abs=0.01)
        assert np.array_equal(closer.pixels[:, :, 0], np.asarray(scan(1)))


def test_letters_cut_out_of_one_coarse_image_are_seen_at_the_second_look(tmp_path):
    page = LayeredPage(printed())
    page.draw(f"100 100 m 200 100 l 150 200 l h W n {page.everywhere} /Im Do", Im=page.colour())
    with PageSource(page.save(tmp_path / "page.pdf"), "pdf", RenderConfig()) as pages:
        closer = pages.look_closer(pages.render(1))
    assert closer is not None
    assert closer.pixels.shape[0] == pytest.approx(3000, abs=2)


def test_a_page_drawn_in_inches_is_seen_at_the_second_look(tmp_path):
    page = LayeredPage(printed())
    page.width, page.height = 8.5, 11.0
    page.draw("1 1 6 0.1 re f")
    with PageSource(page.save(tmp_path / "page.pdf"), "pdf", RenderConfig()) as pages:
        closer = pages.look_closer(pages.render(1))
    assert closer is not None
    assert closer.pixels.shape[0] == pytest.approx(3000, abs=2)


@pytest.mark.parametrize(("bar_pt", "fails"), [(400, True), (0, False)])
def test_a_page_too_large_to_be_legible_fails_unless_it_is_empty(tmp_path, bar_pt, fails):
    page = LayeredPage(printed())
    page.width, page.height = 14_000, 14_000
    page.draw(f"0 g 100 100 {bar_pt} {bar_pt} re f" if bar_pt else "")
    with PageSource(page.save(tmp_path / "page.pdf"), "pdf", RenderConfig(max_page_megapixels=2)) as pages:
        seen = pages.render(1)
        if fails:
            with pytest.raises(RenderFailed, match=r"^page 1: at 2 megapixels it has 7 dpi.*max_page_megapixels"):
                pages.look_closer(seen)
        else:
            assert pages.look_closer(seen) is None


@pytest.fixture(scope="module")
def model() -> CompactModel:
    return CompactModel(CompactConfig(lexicon_rescoring=False, decoder=False))


def words_of(model, path, kind):
    with PageSource(path, kind, RenderConfig()) as pages:
        (page,) = encode_pages(pages.render, (1,), model, look_closer=pages.look_closer)
    return model.hypothesis_text(page).split()


@pytest.mark.parametrize("name", ["one pixel: soft mask", "foreground of one twelfth", "strips over paper"])
def test_print_in_layers_is_read(tmp_path, model, name):
    text = Image.fromarray(print_page(PROSE[:2], dpi=DPI)[:200])
    assert words_of(model, layered_pdf(tmp_path / "page.pdf", name, text), "pdf") == " ".join(PROSE[:2]).split()


def test_a_line_that_only_a_second_look_shows_is_read(tmp_path, model):
    page = LayeredPage(Image.fromarray(print_page(PROSE[:1], dpi=300)[:250]))
    width, height = (side * 72 / 300 for side in page.printed.size)
    line = page.image(page.printed.tobytes(), page.printed.size, ColorSpace=Name.DeviceGray)
    page.width, page.height = width * 4, height * 40
    page.draw(f"{page.everywhere} /Paper Do", Paper=page.colour((100, 100), 255))
    page.draw(f"{width} 0 0 {height} 100 400 cm /Line Do", Line=line)
    with PageSource(page.save(tmp_path / "page.pdf"), "pdf", RenderConfig()) as pages:
        assert pages.render(1).dpi < 70
    assert words_of(model, tmp_path / "page.pdf", "pdf") == PROSE[0].split()


def test_inks_without_adobes_marker_are_read(tmp_path, model):
    red, green, blue = Image.fromarray(print_page(PROSE[:2], dpi=DPI)[:200]).split()
    file = io.BytesIO()  # Pillow writes inks inverted: light becomes ink
    Image.merge("CMYK", (red, green, blue, Image.new("L", red.size, 255))).save(file, "JPEG", quality=95)
    data = file.getvalue()
    start = data.index(b"\xff\xee")
    end = start + 2 + int.from_bytes(data[start + 2 : start + 4], "big")
    (tmp_path / "page.jpg").write_bytes(data[:start] + data[end:])
    assert words_of(model, tmp_path / "page.jpg", "image") == " ".join(PROSE[:2]).split()
