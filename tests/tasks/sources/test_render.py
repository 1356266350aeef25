import io

import numpy as np
import psutil
import pymupdf
import pytest
from PIL import Image
from support.sources import (
    SCAN_DPI,
    SCAN_SIZE_PX,
    drawn_pdf,
    jpeg,
    looping_tiff,
    pdf_with_a_lost_page,
    scan,
    scanned_pdf,
)

from data_contracts.config import RenderConfig
from data_contracts.errors import RenderFailed, TomeflowError
from tasks.sources.render import PageSource


def rendered(path, page_number=1, kind="pdf", **config):
    with PageSource(path, kind, RenderConfig(**config)) as pages:
        image = pages.render(page_number)
    assert image.page_number == page_number
    assert image.pixels.dtype == np.uint8
    assert image.pixels.ndim == 3
    return image


def size(image) -> tuple[int, int]:
    return image.pixels.shape[1], image.pixels.shape[0]


def grey(image) -> np.ndarray:
    return image.pixels.astype(int).mean(axis=2)


def test_a_scan_is_rendered_on_its_own_pixels(tmp_path):
    path = tmp_path / "scan.pdf"
    with pymupdf.open() as document:
        scan(3, (1237, 1855)).save(tmp_path / "page.png")
        page = document.new_page(width=1237 * 72 / 215, height=1855 * 72 / 215)
        page.insert_image(page.rect, filename=tmp_path / "page.png", keep_proportion=False)
        document.save(path)
    image = rendered(path)
    assert size(image) == (1237, 1855)
    assert image.dpi == pytest.approx(215, rel=1e-4)
    assert np.array_equal(grey(image), np.asarray(scan(3, (1237, 1855)))), "not resampled"


def test_a_coarse_scan_is_not_enlarged(tmp_path):
    image = rendered(scanned_pdf(tmp_path / "scan.pdf", 1))
    assert size(image) == SCAN_SIZE_PX
    assert image.dpi == pytest.approx(SCAN_DPI)


def test_a_scan_in_strips_and_one_with_an_ornament_are_rendered_at_the_scans_resolution(tmp_path):
    strips, ornament = tmp_path / "strips.pdf", tmp_path / "ornament.pdf"
    with pymupdf.open() as document:
        page = document.new_page(width=612, height=792)
        for top in range(0, 792, 99):
            page.insert_image(pymupdf.Rect(0, top, 612, top + 99), stream=jpeg_of(Image.new("L", (1530, 247), 250)))
        document.save(strips)
    with pymupdf.open(scanned_pdf(tmp_path / "scan.pdf", 1)) as document:
        document[0].insert_image(pymupdf.Rect(10, 10, 60, 60), stream=jpeg_of(Image.new("L", (800, 800), 9)))
        document.save(ornament)
    assert rendered(strips).dpi == pytest.approx(180, abs=0.5)
    assert rendered(ornament).dpi == pytest.approx(SCAN_DPI)


def test_a_scan_finer_than_text_needs_is_reduced(tmp_path):
    with pymupdf.open() as document:
        page = document.new_page(width=612, height=792)
        page.insert_image(page.rect, stream=jpeg_of(Image.new("L", (5100, 6600), 255)))
        document.save(tmp_path / "fine.pdf")
    assert rendered(tmp_path / "fine.pdf").dpi == 400


def test_a_tiny_page_is_not_reduced_below_what_its_scan_holds(tmp_path):
    with pymupdf.open() as document:
        page = document.new_page(width=61.2, height=79.2)
        page.insert_image(page.rect, stream=jpeg_of(Image.new("L", (1700, 2200), 255)))
        document.save(tmp_path / "tiny.pdf")
    assert size(rendered(tmp_path / "tiny.pdf")) == (1700, 2200)


def jpeg_of(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "JPEG")
    return file.getvalue()


def test_a_drawn_page_is_rendered_at_300(tmp_path):
    image = rendered(drawn_pdf(tmp_path / "drawn.pdf", ["text"]))
    assert image.dpi == 300
    assert size(image) == (2479, 3508)


def test_text_drawn_over_a_coarse_scan_is_rendered_at_300(tmp_path):
    with pymupdf.open(scanned_pdf(tmp_path / "scan.pdf", 1)) as document:
        document[0].insert_text((72, 72), "stamp")
        document.save(tmp_path / "stamped.pdf")
    assert rendered(tmp_path / "stamped.pdf").dpi == 300


def test_a_given_resolution_is_used(tmp_path):
    image = rendered(scanned_pdf(tmp_path / "scan.pdf", 1), dpi=50)
    assert (image.dpi, size(image)) == (50, (425, 550))


def test_no_page_is_larger_than_the_limit(tmp_path):
    with pymupdf.open() as document:
        document.new_page(width=14_000, height=7_000)
        document.save(tmp_path / "poster.pdf")
    image = rendered(tmp_path / "poster.pdf", max_page_megapixels=2)
    width, height = size(image)
    assert width * height <= 2e6 * 1.001
    assert width == pytest.approx(2 * height, abs=2)
    assert width == pytest.approx(14_000 * image.dpi / 72, abs=1)


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_a_page_is_turned_as_it_asks(tmp_path, rotation):
    image = rendered(scanned_pdf(tmp_path / "scan.pdf", 1, rotation=rotation))
    expected = np.rot90(np.asarray(Image.open(_file(tmp_path, jpeg(1)))).astype(int), -rotation // 90)
    assert grey(image).shape == expected.shape
    assert np.abs(grey(image) - expected).mean() < 2


def _file(folder, data: bytes):
    path = folder / "reference.jpg"
    path.write_bytes(data)
    return path


def test_the_crop_box_is_the_page(tmp_path):
    with pymupdf.open(scanned_pdf(tmp_path / "scan.pdf", 1)) as document:
        document[0].set_cropbox(pymupdf.Rect(72, 72, 72 + 360, 72 + 144))
        document.save(tmp_path / "cropped.pdf")
    assert size(rendered(tmp_path / "cropped.pdf")) == (500, 200)


@pytest.mark.parametrize("box", ["[1000 1000 1100 1100]", "[0 0 0 0]", "[50 50 51 50]", "[a b c d]"])
@pytest.mark.parametrize("place", ["page", "all pages"])
def test_a_crop_box_that_leaves_nothing_of_the_page_is_not_there(tmp_path, box, place):
    whole = rendered(scanned_pdf(tmp_path / "scan.pdf", 1))
    with pymupdf.open(tmp_path / "scan.pdf") as document:
        page, pages = document[0].xref, int(document.xref_get_key(document[0].xref, "Parent")[1].split()[0])
        document.xref_set_key(page if place == "page" else pages, "CropBox", box)
        document.save(tmp_path / "cropped.pdf")
    assert np.array_equal(rendered(tmp_path / "cropped.pdf").pixels, whole.pixels)


def test_every_page_of_a_document_is_another(tmp_path):
    with PageSource(scanned_pdf(tmp_path / "scan.pdf", 3), "pdf", RenderConfig()) as pages:
        first, second, again = pages.render(1), pages.render(2), pages.render(1)
    assert np.array_equal(first.pixels, again.pixels)
    assert not np.array_equal(first.pixels, second.pixels)


@pytest.mark.parametrize("percent", [20, 40, 80, 99])
def test_of_a_pdf_that_is_cut_off_a_page_is_as_it_was_or_fails(tmp_path, percent):
    content = scanned_pdf(tmp_path / "whole.pdf", 3).read_bytes()
    (tmp_path / "cut.pdf").write_bytes(content[: len(content) * percent // 100])
    lost = []
    for number in (1, 2, 3):
        try:
            shown = rendered(tmp_path / "cut.pdf", number).pixels
        except RenderFailed as error:
            lost.append(str(error))
        else:
            assert np.array_equal(shown, rendered(tmp_path / "whole.pdf", number).pixels)
    assert lost


@pytest.mark.parametrize(("part", "value"), [("Contents", "[98 0 R 99 0 R]"), ("Resources", "<< /XObject << >> >>")])
def test_a_page_of_which_what_it_shows_is_lost_is_not_blank(tmp_path, part, value):
    with pymupdf.open(scanned_pdf(tmp_path / "scan.pdf", 1)) as document:
        document.xref_set_key(document[0].xref, part, value)
        document.save(tmp_path / "damaged.pdf")
    with pytest.raises(RenderFailed, match="comes out empty, and parts of it cannot be read"):
        rendered(tmp_path / "damaged.pdf")


def test_a_damaged_page_fails_alone(tmp_path):
    with PageSource(pdf_with_a_lost_page(tmp_path / "damaged.pdf"), "pdf", RenderConfig()) as pages:
        assert size(pages.render(1)) == SCAN_SIZE_PX
        with pytest.raises(RenderFailed, match=r"^page 2: could not be rendered .*--pages") as caught:
            pages.render(2)
        assert caught.value.page_number == 2
        assert size(pages.render(3)) == SCAN_SIZE_PX


IMAGES = {
    "grey.png": lambda: scan(),
    "rgb.png": lambda: scan().convert("RGB"),
    "palette.png": lambda: scan().convert("RGB").convert("P"),
    "alpha.png": lambda: scan().convert("RGBA"),
    "bilevel.tif": lambda: scan().convert("1"),
    "cmyk.tif": lambda: scan().convert("CMYK"),
    "cmyk.jpg": lambda: scan().convert("CMYK"),
    "deep.tif": lambda: Image.fromarray(np.asarray(scan()).astype(np.uint16) * 257),
    "grey.webp": lambda: scan(),
    "grey.jp2": lambda: scan(),
}


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_file_of_any_kind_shows_its_page(tmp_path, name):
    IMAGES[name]().save(tmp_path / name)
    image = rendered(tmp_path / name, kind="image")
    assert size(image) == SCAN_SIZE_PX
    assert np.abs(grey(image) - np.asarray(scan()).astype(int)).mean() < (60 if name == "bilevel.tif" else 20)
    assert image.dpi == 300, "the file does not say"


@pytest.mark.parametrize("orientation", range(1, 9))
def test_an_image_stands_as_its_exif_orientation_asks(tmp_path, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    scan().save(tmp_path / "page.png", exif=exif)
    upright = {
        1: lambda page: page,
        2: np.fliplr,
        3: lambda page: np.rot90(page, 2),
        4: np.flipud,
        5: np.transpose,
        6: lambda page: np.rot90(page, -1),
        7: lambda page: np.rot90(page, 2).T,
        8: np.rot90,
    }
    shown = rendered(tmp_path / "page.png", kind="image").pixels[:, :, 0]
    assert np.array_equal(shown, upright[orientation](np.asarray(scan())))


def test_the_frames_of_a_tiff_are_pages_in_any_order(tmp_path):
    scan(1).save(tmp_path / "many.tif", save_all=True, append_images=[scan(2), scan(3)], dpi=(200, 200))
    with PageSource(tmp_path / "many.tif", "image", RenderConfig()) as pages:
        for number in (1, 3, 2, 1):
            image = pages.render(number)
            assert np.array_equal(image.pixels[:, :, 0], np.asarray(scan(number)))
            assert image.dpi == 200


def test_a_folder_is_read_in_natural_order(tmp_path):
    folder = tmp_path / "book"
    folder.mkdir()
    for number in (10, 2, 1):
        scan(number).save(folder / f"page{number}.png")
    (folder / "notes.txt").write_text("x")
    with PageSource(folder, "folder", RenderConfig()) as pages:
        for page_number, seed in enumerate((1, 2, 10), start=1):
            assert np.array_equal(pages.render(page_number).pixels[:, :, 0], np.asarray(scan(seed)))


def test_a_tiff_of_a_folder_of_which_frames_would_be_lost_fails(tmp_path):
    (tmp_path / "1.tif").write_bytes(looping_tiff(3, 0))
    scan(2).save(tmp_path / "2.png")
    with PageSource(tmp_path, "folder", RenderConfig()) as pages:
        with pytest.raises(TomeflowError, match=r"1\.tif .*page 3 is followed by an earlier one"):
            pages.render(1)
        assert np.array_equal(pages.render(2).pixels[:, :, 0], np.asarray(scan(2)))


def test_a_damaged_image_of_a_folder_fails_alone(tmp_path):
    folder = tmp_path / "book"
    folder.mkdir()
    for number in (1, 2, 3):
        scan(number).save(folder / f"page{number}.png")
    damaged = folder / "page2.png"
    damaged.write_bytes(damaged.read_bytes()[:5000])
    with PageSource(folder, "folder", RenderConfig()) as pages:
        pages.render(1)
        with pytest.raises(RenderFailed, match=r"^page 2: "):
            pages.render(2)
        assert size(pages.render(3)) == SCAN_SIZE_PX


def test_an_image_is_scaled_to_a_given_resolution_and_to_the_limit(tmp_path):
    scan().save(tmp_path / "page.png", dpi=(200, 200))
    image = rendered(tmp_path / "page.png", kind="image", dpi=100)
    assert (image.dpi, size(image)) == (100, (425, 550))
    scan(1, (2000, 1500)).save(tmp_path / "large.png")
    image = rendered(tmp_path / "large.png", kind="image", max_page_megapixels=1)
    assert size(image) == (1155, 866)


def test_a_fax_page_gets_square_pixels(tmp_path):
    scan(1, (864, 550)).save(tmp_path / "fax.tif", dpi=(204, 98))
    image = rendered(tmp_path / "fax.tif", kind="image")
    assert (size(image), image.dpi) == ((864, 1145), 204)


@pytest.mark.shared_data
def test_memory_does_not_grow_with_pages(shared_data):
    path = shared_data / "books" / "en_lusitania_1915" / "en_lusitania_1915.pdf"
    resident = []
    with PageSource(path, "pdf", RenderConfig()) as pages:
        for _ in range(6):
            for page_number in range(1, 24):
                pages.render(page_number)
            resident.append(psutil.Process().memory_info().rss)
    assert resident[-1] <= resident[1] * 1.02, "138 pages against 46"
