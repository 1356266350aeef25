import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from support.sources import looping_tiff, scan

from data_contracts.errors import RenderFailed, UnreadableDocument
from tasks.sources.page_images import (
    MAX_DECODED_MEGAPIXELS,
    check_size,
    eight_bits,
    folder_files,
    frames_of,
    kind_of,
    natural_key,
    open_image,
    square_pixels,
)


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"%PDF-1.7", "pdf"),
        (b"junk before it %PDF-1.4", "pdf"),
        (b"\x89PNG\r\n\x1a\n", "png"),
        (b"\xff\xd8\xff\xe0", "jpeg"),
        (b"II*\0", "tiff"),
        (b"MM\0*", "tiff"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "webp"),
        (b"RIFF\0\0\0\0WAVEfmt ", None),
        (b"\xff\x4f\xff\x51", "jpeg2000"),
        (b"PK\x03\x04", None),
        (b"", None),
    ],
)
def test_a_kind_is_told_by_the_first_bytes(head, kind):
    assert kind_of(head) == kind


@given(st.text(max_size=12), st.text(max_size=12))
def test_names_that_differ_are_never_equal_in_order(first, second):
    assert (natural_key(first) == natural_key(second)) == (first == second)


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_numbers_sort_by_value(first, second):
    assert (natural_key(f"page{first}.png") < natural_key(f"page{second}.png")) == (first < second)


def test_what_is_no_image_is_named_and_hidden_files_are_not(tmp_path):
    scan().save(tmp_path / "page1.dat", "PNG")
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / ".DS_Store").write_text("x")
    (tmp_path / "inner").mkdir()
    (tmp_path / "other.pdf").write_bytes(b"%PDF-1.4")
    images, ignored = folder_files(tmp_path)
    assert [path.name for path in images] == ["page1.dat"]
    assert ignored == ["inner", "notes.txt", "other.pdf"]


def test_an_empty_or_damaged_file_that_is_named_like_a_page_keeps_its_place(tmp_path):
    scan().save(tmp_path / "page1.png")
    (tmp_path / "page2.png").touch()
    (tmp_path / "page3.TIF").write_bytes(b"no image")
    assert [(frame.path.name, frame.index) for frame in frames_of(tmp_path)] == [
        ("page1.png", 0),
        ("page2.png", 0),
        ("page3.TIF", 0),
    ]
    (tmp_path / "page4.jpg").symlink_to("elsewhere.jpg")
    with pytest.raises(UnreadableDocument, match=r"page4\.jpg .* is no file"):
        frames_of(tmp_path)


def test_a_damaged_header_is_an_unreadable_document(tmp_path):
    path = tmp_path / "page.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 40)
    with pytest.raises(UnreadableDocument, match=r"page\.png looks like png but cannot be opened"):
        open_image(path)


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")  # Pillow says so, and goes on
def test_a_tiff_cut_off_anywhere_is_unreadable_by_itself_and_a_page_in_a_folder(tmp_path):
    whole = tmp_path / "in" / "whole.tif"
    whole.parent.mkdir()
    scan(1).save(whole, save_all=True, append_images=[scan(2), scan(3)])
    content, cut = whole.read_bytes(), whole.with_name("cut.tif")
    reasons = []
    for percent in range(1, 100):
        cut.write_bytes(content[: len(content) * percent // 100])
        try:
            count = len(frames_of(cut))
        except UnreadableDocument as error:
            reasons.append(str(error))
            count = 1
        assert len(frames_of(whole.parent)) == 3 + count
    assert len(reasons) > 50
    assert all("cut.tif looks like tiff but" in reason and "get it again" in reason for reason in reasons)
    assert any("its pages cannot be counted" in reason for reason in reasons)


@pytest.mark.parametrize("back_to", [0, 1, 2])
def test_a_tiff_whose_pages_lead_back_to_an_earlier_one_is_unreadable(tmp_path, back_to):
    path = tmp_path / "loop.tif"
    path.write_bytes(looping_tiff(3, back_to))
    with pytest.raises(UnreadableDocument, match=r"loop\.tif .*page 3 is followed by an earlier one"):
        frames_of(path)


def test_an_image_too_large_to_decode_is_refused_before_it_is_decoded():
    class Huge:
        width = height = 40_000

    with pytest.raises(RenderFailed, match=rf"40000 x 40000 pixels, 1600 Mpx; the limit is {MAX_DECODED_MEGAPIXELS}"):
        check_size(Huge())


@pytest.mark.parametrize("white", [1023, 4095, 65_535])
def test_deep_grey_is_scaled_by_the_bits_in_use(white):
    values = np.linspace(0, white, 256).round().astype(np.uint16).reshape(16, 16)
    shown = np.asarray(eight_bits(Image.fromarray(values)))
    assert shown.dtype == np.uint8
    assert np.abs(shown.ravel().astype(int) - np.arange(256)).max() <= 1


def test_a_black_deep_page_stays_black():
    assert np.asarray(eight_bits(Image.fromarray(np.zeros((4, 4), np.uint16)))).max() == 0


def test_floats_up_to_one_are_scaled():
    shown = np.asarray(eight_bits(Image.fromarray(np.array([[0.0, 0.5, 1.0]], np.float32))))
    assert shown.tolist() == [[0, 127, 255]]


def test_transparent_parts_are_white_as_paper():
    image = Image.new("RGBA", (2, 1), (0, 0, 0, 0))
    image.putpixel((1, 0), (10, 20, 30, 255))
    assert np.asarray(eight_bits(image)).tolist() == [[[255, 255, 255], [10, 20, 30]]]


def test_a_fax_page_gets_square_pixels():
    image, dpi = square_pixels(Image.new("1", (1728, 1100), 1), (204, 98))
    assert (image.size, dpi) == ((1728, 2290), 204)
