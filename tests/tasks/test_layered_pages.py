"""Pages whose print lies in masks, patterns, forms and strips are rendered so that it can be read."""

from __future__ import annotations

import numpy as np
import pytest
from support.layered_pdfs import DPI, LAYERED, layered_pdf
from support.sources import scan

from data_contracts.config import RenderConfig
from tasks.render import PageSource

MEAN_DIFFERENCE = 12
"""Of 255: masks of one bit drop the paper's grain, coarse inks are not black. Without its print a page differs by 60."""


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
