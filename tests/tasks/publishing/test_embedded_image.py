"""An image file as a PDF page: MuPDF must show the pixels that Pillow reads from the file."""

import io
from pathlib import Path

import numpy as np
import pymupdf
import pypdfium2
import pytest
from PIL import Image, ImageChops, ImageCms
from support.sources import scan

from tasks.publishing.embedded_image import add_image_page
from tasks.sources.page_images import Frame, eight_bits, open_image, upright

JPEG_MEAN_DIFFERENCE = 3
"""MuPDF and Pillow enlarge the halved colour channels of a JPEG each in its own way; a wrong turn differs by 60."""

CMYK_MEAN_DIFFERENCE = 45
"""MuPDF mixes inks as they look on paper, Pillow as light; inverted ones differ by over 100."""


def colours() -> Image.Image:
    """Return 90 x 60 pixels of which no two neighbours, rows or columns are alike."""
    rows, columns = np.mgrid[:60, :90]
    pixels = np.stack([rows * 4, columns * 2, (rows * 3 + columns * 5) % 256], axis=2).astype(np.uint8)
    pixels[:12, :20] = [255, 0, 0]
    return Image.fromarray(pixels)


def embedded(path: Path, index: int = 0) -> tuple[np.ndarray, pymupdf.Rect, bytes, str]:
    """Return the page's pixels, its size, and the image's stream and filter in the PDF."""
    with pymupdf.open() as document:
        add_image_page(document, Frame(path, index))
        data = document.tobytes(no_new_id=True)
    with pymupdf.open(stream=data) as document:
        page = document[0]
        xref = page.get_images()[0][0]
        (image,) = page.get_image_info()
        across = image["width"] if abs(image["transform"][0]) > 0.1 else image["height"]
        zoom = across / page.rect.width
        pixmap = page.get_pixmap(matrix=pymupdf.Matrix(zoom, zoom))
        pixels = np.frombuffer(pixmap.samples, np.uint8).reshape(pixmap.height, pixmap.width, 3)
        return pixels.astype(int), page.rect, document.xref_stream_raw(xref), document.xref_get_key(xref, "Filter")[1]


def read(path: Path) -> np.ndarray:
    with open_image(path) as image:
        return np.asarray(eight_bits(upright(image)).convert("RGB")).astype(int)


def with_alpha() -> Image.Image:
    image = colours()
    image.putalpha(image.getchannel("R"))
    return image


LOSSLESS = {
    "rgb.png": (colours, {}),
    "grey.png": (lambda: colours().convert("L"), {}),
    "palette.png": (lambda: colours().convert("P"), {}),
    "bilevel.png": (lambda: colours().convert("1"), {}),
    "alpha.png": (with_alpha, {}),
    "rgb.webp": (colours, {"lossless": True}),
    "rgb.tif": (colours, {"compression": "tiff_lzw"}),
    "cmyk.tif": (lambda: colours().convert("CMYK"), {}),
    "fax.tif": (lambda: colours().convert("1"), {"compression": "group4"}),
    "bilevel.tif": (lambda: colours().convert("1"), {}),
    "rgb.jp2": (colours, {}),
    "grey.j2k": (lambda: colours().convert("L"), {}),
}


@pytest.mark.parametrize("name", LOSSLESS)
def test_the_page_shows_exactly_the_pixels_of_the_file(tmp_path, name):
    make, options = LOSSLESS[name]
    make().save(tmp_path / name, **options)
    pixels, *_ = embedded(tmp_path / name)
    assert np.array_equal(pixels, read(tmp_path / name))


@pytest.mark.parametrize(("mode", "name"), [("RGB", "rgb.jpg"), ("L", "grey.jpg"), ("RGB", "rgb.jp2")])
def test_jpeg_files_go_in_byte_for_byte(tmp_path, mode, name):
    colours().convert(mode).save(tmp_path / name, quality=90)
    pixels, _, stream, _ = embedded(tmp_path / name)
    assert stream == (tmp_path / name).read_bytes()
    assert np.abs(pixels - read(tmp_path / name)).mean() <= JPEG_MEAN_DIFFERENCE


def test_a_cmyk_jpeg_goes_in_and_is_not_inverted(tmp_path):
    Image.new("CMYK", (90, 60), (0, 0, 0, 0)).save(tmp_path / "white.jpg")
    pixels, _, stream, _ = embedded(tmp_path / "white.jpg")
    assert stream == (tmp_path / "white.jpg").read_bytes()
    assert pixels.min() > 250


def inks() -> Image.Image:
    """Return ``colours`` in inks, black ink where all three are."""
    return Image.merge("CMYK", [*ImageChops.invert(colours()).split(), Image.new("L", (90, 60), 0)])


def without_adobe(data: bytes) -> bytes:
    """Return a JPEG without its APP14 marker."""
    start = data.index(b"\xff\xee")
    return data[:start] + data[start + 2 + int.from_bytes(data[start + 2 : start + 4], "big") :]


def plain_cmyk(**options: object) -> bytes:
    """Return ``colours`` as a JPEG of inks as they are: Pillow writes Adobe's inverted ones."""
    file = io.BytesIO()
    ImageChops.invert(inks()).save(file, "JPEG", quality=95, **options)
    return without_adobe(file.getvalue())


def adobe_cmyk(transform: int) -> bytes:
    file = io.BytesIO()
    if transform:  # of which Adobe's decoder makes inverted inks: what it calls red is the paper left by cyan
        y, cb, cr = ImageChops.invert(colours()).convert("YCbCr").split()
        ImageChops.invert(Image.merge("CMYK", [y, cb, cr, Image.new("L", (90, 60), 255)])).save(
            file, "JPEG", quality=95
        )
    else:
        inks().save(file, "JPEG", quality=95)
    data = bytearray(file.getvalue())
    data[data.index(b"Adobe") + 11] = transform
    return bytes(data)


def with_jfif(data: bytes) -> bytes:
    return data[:2] + b"\xff\xe0\0\x10JFIF\0\1\1\1\0\x96\0\x96\0\0" + data[2:]


def sideways_exif() -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif


CMYK_JPEGS = {
    "no marker": plain_cmyk,
    "JFIF": lambda: with_jfif(plain_cmyk()),
    "no marker, progressive": lambda: plain_cmyk(progressive=True),
    "no marker, optimized": lambda: plain_cmyk(optimize=True),
    "no marker, restarts": lambda: plain_cmyk(restart_marker_rows=1),
    "no marker, resolution": lambda: plain_cmyk(dpi=(150, 150)),
    "no marker, EXIF": lambda: plain_cmyk(exif=sideways_exif()),
    "no marker, comment that names Adobe": lambda: plain_cmyk(comment=b"Adobe"),
    "Adobe": lambda: adobe_cmyk(0),
    "Adobe, YCCK": lambda: adobe_cmyk(2),
    "Adobe, JFIF": lambda: with_jfif(adobe_cmyk(0)),
    "Adobe, YCCK, JFIF": lambda: with_jfif(adobe_cmyk(2)),
}


@pytest.mark.parametrize("name", CMYK_JPEGS)
def test_inks_of_a_jpeg_are_inverted_only_if_adobe_wrote_them(tmp_path, name):
    data = CMYK_JPEGS[name]()
    (tmp_path / "page.jpg").write_bytes(data)
    expected = np.asarray(colours()).astype(int)
    if "EXIF" in name:
        expected = np.rot90(expected, -1)
    assert np.abs(read(tmp_path / "page.jpg") - expected).mean() <= JPEG_MEAN_DIFFERENCE
    pixels, _, stream, _ = embedded(tmp_path / "page.jpg")
    assert stream == data
    if "YCCK" not in name:  # which MuPDF takes for CMYK
        assert np.abs(pixels - expected).mean() <= CMYK_MEAN_DIFFERENCE
    in_chrome = shown_by_pdfium(tmp_path / "page.jpg", tuple(expected.shape[1::-1]))
    assert np.abs(in_chrome - expected).mean() <= CMYK_MEAN_DIFFERENCE


def shown_by_pdfium(path: Path, size: tuple[int, int]) -> np.ndarray:
    with pymupdf.open() as document:
        add_image_page(document, Frame(path))
        data = document.tobytes()
    document = pypdfium2.PdfDocument(data)
    shown = document[0].render(scale=size[0] / document[0].get_width()).to_pil().convert("RGB").resize(size)
    document.close()
    return np.asarray(shown).astype(int)


@pytest.mark.parametrize("compression", [None, "tiff_lzw", "jpeg"])
def test_inks_of_a_tiff_are_as_they_are(tmp_path, compression):
    inks().save(tmp_path / "page.tif", compression=compression, **({"quality": 95} if compression == "jpeg" else {}))
    expected = np.asarray(colours()).astype(int)
    pixels, *_ = embedded(tmp_path / "page.tif")
    assert np.abs(read(tmp_path / "page.tif") - expected).mean() <= JPEG_MEAN_DIFFERENCE
    assert np.abs(pixels - expected).mean() <= JPEG_MEAN_DIFFERENCE


def test_grey_of_10_bits_in_16_is_as_bright_in_the_pdf_as_it_is_read(tmp_path):
    values = (np.asarray(colours().convert("L")).astype(np.uint16) << 2) | 3
    values[0, 0] = 1023
    Image.fromarray(values).save(tmp_path / "deep.png")
    Image.fromarray(values).save(tmp_path / "deep.tif")
    pixels, *_ = embedded(tmp_path / "deep.tif")
    assert np.abs(pixels - read(tmp_path / "deep.tif")).max() <= 1
    assert pixels.max() == 255


def test_black_and_white_becomes_fax_and_stays_small(tmp_path):
    page = scan().point(lambda value: 255 if value > 128 else 0).convert("1")
    page.save(tmp_path / "page.png")
    pixels, _, _, kind = embedded(tmp_path / "page.png")
    page.save(tmp_path / "page.tif")
    tiff_pixels, _, fax, fax_kind = embedded(tmp_path / "page.tif")
    assert (kind, fax_kind) == ("/FlateDecode", "/CCITTFaxDecode")
    assert np.array_equal(pixels, tiff_pixels)
    assert len(fax) < page.width * page.height / 8 / 10


def test_the_data_of_a_plain_png_is_not_packed_again(tmp_path):
    colours().save(tmp_path / "page.png", compress_level=1)
    _, _, stream, _ = embedded(tmp_path / "page.png")
    assert stream in (tmp_path / "page.png").read_bytes()


def test_grey_of_16_bits_keeps_them(tmp_path):
    values = np.arange(60 * 90, dtype=np.uint16).reshape(60, 90) * 12
    Image.fromarray(values).save(tmp_path / "deep.png")
    with pymupdf.open() as document:
        add_image_page(document, Frame(tmp_path / "deep.png"))
        xref = document[0].get_images()[0][0]
        assert document.xref_get_key(xref, "BitsPerComponent")[1] == "16"


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", ["jpg", "png", "tif"])
def test_a_page_stands_as_its_exif_orientation_asks(tmp_path, orientation, suffix):
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / f"page.{suffix}"
    colours().save(path, exif=exif, quality=95)
    pixels, rect, *_ = embedded(path)
    expected = read(path)
    assert expected.shape[:2] == ((90, 60) if orientation >= 5 else (60, 90))
    assert pixels.shape == expected.shape
    assert np.abs(pixels - expected).mean() <= JPEG_MEAN_DIFFERENCE
    assert (rect.width > rect.height) == (orientation < 5)


@pytest.mark.parametrize(
    ("dpi", "width_pt", "height_pt"),
    [((200, 200), 90 * 0.36, 60 * 0.36), ((204, 98), 90 * 72 / 204, 60 * 72 / 98), ((72, 72), 90 * 0.24, 60 * 0.24)],
)
def test_the_page_is_as_large_as_its_resolution_says_if_that_is_credible(tmp_path, dpi, width_pt, height_pt):
    colours().save(tmp_path / "page.tif", dpi=dpi)
    _, rect, *_ = embedded(tmp_path / "page.tif")
    assert (rect.width, rect.height) == pytest.approx((width_pt, height_pt), abs=0.01)


def test_every_frame_of_a_tiff_is_a_page(tmp_path):
    frames = [colours(), colours().rotate(180), colours().convert("L")]
    frames[0].save(tmp_path / "many.tif", save_all=True, append_images=frames[1:])
    for index, frame in enumerate(frames):
        pixels, *_ = embedded(tmp_path / "many.tif", index)
        assert np.array_equal(pixels, np.asarray(frame.convert("RGB")))


def test_a_colour_profile_goes_with_its_image_and_one_of_another_kind_does_not(tmp_path):
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    spaces = {}
    for mode in ("RGB", "L"):
        colours().convert(mode).save(tmp_path / f"{mode}.png", icc_profile=profile)
        with pymupdf.open() as document:
            add_image_page(document, Frame(tmp_path / f"{mode}.png"))
            spaces[mode] = document.xref_get_key(document[0].get_images()[0][0], "ColorSpace")[1]
    assert spaces["RGB"].startswith("[/ICCBased")
    assert spaces["L"] == "/DeviceGray"
