"""TIFF beyond what Pillow does: which frames of a file are pages, and pixels as the tags mean them.

Scanners and archives put thumbnails, smaller copies and transparency masks between the pages (TIFF 6.0, tag
NewSubfileType). Pillow hands all of them out, and takes some rare kinds of pixels for others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from data_contracts.errors import RenderFailed

if TYPE_CHECKING:
    from PIL.Image import Image

_WIDTH, _HEIGHT, _BITS, _PHOTOMETRIC = 256, 257, 258, 262
_NEW_SUBFILE_TYPE, _OLD_SUBFILE_TYPE = 254, 255
_SAMPLES, _PLANES, _COLOUR_MAP, _SAMPLE_FORMAT = 277, 284, 320, 339

_SMALLER_COPY, _MASK = 1, 4
"""Bits of NewSubfileType; 2 says "one page of several"."""
_OLD_SMALLER_COPY = 2
_WHITE_IS_ZERO, _IS_MASK = 0, 4
_SEPARATE_PLANES = 2
_UNSIGNED, _SIGNED = 1, 2

_DEEP_WHITE = 65_535
_NATIVE_ORDER = {"F;32BF": "F;32NF", "I;32BS": "I;32NS", "I;16BS": "I;16NS"}
"""libtiff returns the machine's byte order; Pillow knows it of unsigned 16 bits and forgets it of these."""


class _Frame(NamedTuple):
    width_px: int
    height_px: int
    is_smaller_copy: bool
    is_mask: bool
    next_place: int


def page_indexes(image: Image) -> list[int]:
    """Return which frames of the open TIFF ``image`` are pages, from 0, in order; never none.

    A frame that says it is a smaller copy of another is believed where a page larger than it is there.
    A frame whose pixels Pillow cannot read is a page: it fails by itself. The frame that ``image`` shows is another
    one afterwards.

    Raises:
        ValueError: the frames lead back to an earlier one. Pillow raises other errors where the file is cut off.
    """
    frames = _frames(image)
    if frames[-1].next_place:  # Pillow ends where the chain comes back to a frame that it has seen
        raise ValueError(f"page {len(frames)} is followed by an earlier one")
    whole = [frame for frame in frames if not frame.is_smaller_copy and not frame.is_mask]
    pages = [index for index, frame in enumerate(frames) if not frame.is_mask and not _is_copy(frame, whole)]
    return pages or list(range(len(frames)))


def _frames(image: Image) -> list[_Frame]:
    frames: list[_Frame] = []
    while True:
        try:
            image.seek(len(frames))
        except EOFError:
            return frames
        except SyntaxError:
            if _HEIGHT not in image.tag_v2:  # type: ignore[attr-defined]
                raise
        frames.append(_frame(image.tag_v2))  # type: ignore[attr-defined]


def _frame(tags: Any) -> _Frame:
    kind = int(tags.get(_NEW_SUBFILE_TYPE, 0))
    is_smaller_copy = bool(kind & _SMALLER_COPY) or tags.get(_OLD_SUBFILE_TYPE) == _OLD_SMALLER_COPY
    is_mask = bool(kind & _MASK) or tags.get(_PHOTOMETRIC) == _IS_MASK
    return _Frame(int(tags[_WIDTH]), int(tags[_HEIGHT]), is_smaller_copy, is_mask, int(tags.next or 0))


def _is_copy(frame: _Frame, whole: list[_Frame]) -> bool:
    return frame.is_smaller_copy and any(
        frame.width_px < other.width_px and frame.height_px < other.height_px for other in whole
    )


def as_tags_mean(image: Image) -> Image:
    """Return the open TIFF ``image`` with the pixels that its tags describe, where Pillow would return others.

    Raises:
        RenderFailed: its pixels are of a kind that would come out wrong.
    """
    tags: Any = image.tag_v2  # type: ignore[attr-defined]
    bits, sample_format = (_first(tags.get(tag, default)) for tag, default in ((_BITS, 1), (_SAMPLE_FORMAT, 1)))
    _refuse_unreadable(tags, bits, sample_format)
    tiles: list[Any] = image.tile  # type: ignore[attr-defined]
    tiles[:] = [tile._replace(args=_in_native_order(tile.args)) for tile in tiles]
    if image.mode == "P" and max(tags[_COLOUR_MAP]) <= 255:
        image = _with_palette(image, tags[_COLOUR_MAP])
    elif image.mode == "I" and sample_format == _UNSIGNED:
        image = _unsigned(image)
    is_inverted = tags.get(_PHOTOMETRIC, _WHITE_IS_ZERO) == _WHITE_IS_ZERO and image.mode.startswith(("I", "F"))
    return _inverted(image) if is_inverted else image


def _first(value: Any) -> int:
    return int(value[0] if isinstance(value, tuple) else value)


def _refuse_unreadable(tags: Any, bits: int, sample_format: int) -> None:
    samples, planes = int(tags.get(_SAMPLES, 1)), int(tags.get(_PLANES, 1))
    is_grey = tags.get(_PHOTOMETRIC, 0) <= 1
    if is_grey and planes == _SEPARATE_PLANES and samples > 1:
        raise RenderFailed("grey in several separate planes is not read. Save it as a TIFF without alpha channel.")
    if sample_format == _SIGNED and bits <= 8:
        raise RenderFailed(f"signed pixels of {bits} bits are not read. Save it as a TIFF of unsigned bytes.")


def _in_native_order(args: Any) -> Any:
    return (_NATIVE_ORDER.get(args[0], args[0]), *args[1:]) if isinstance(args, tuple) else args


def _with_palette(image: Image, colours: tuple[int, ...]) -> Image:
    """Return ``image`` in the ``colours`` of its tag taken as bytes: some programs write 255 where 65535 is white."""
    loaded = image.copy()
    third = len(colours) // 3
    loaded.putpalette(bytes(colours[part * third + index] for index in range(third) for part in range(3)), "RGB")
    return loaded


def _unsigned(image: Image) -> Image:
    """Return unsigned 32 bits, which Pillow holds as signed ones, as their upper 16."""
    import numpy as np
    import PIL.Image

    return PIL.Image.fromarray((np.asarray(image).view(np.uint32) >> 16).astype(np.uint16))


def _inverted(image: Image) -> Image:
    """Return deep grey in which white is zero the usual way round; floats are taken to end at their largest value."""
    import numpy as np
    import PIL.Image

    values = np.asarray(image)
    if image.mode == "F":
        return PIL.Image.fromarray((max(float(values.max(initial=1.0)), 1.0) - values).astype(np.float32))
    return PIL.Image.fromarray((_DEEP_WHITE - values.astype(np.int64)).clip(0, _DEEP_WHITE).astype(np.uint16))
