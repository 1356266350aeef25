"""TIFF files of any kind of pixels, written from TIFF 6.0 and not by the library that reads them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

Tags = Mapping[int, Sequence[int]]

_SHORT, _LONG, _RATIONAL = 3, 4, 5
_LONG_TAGS = (254, 256, 257, 273, 278, 279, 322, 323, 324, 325)
DEFLATE = 8


def tiff_frame(
    pixels: npt.NDArray[np.generic],
    photometric: int,
    order: str = "<",
    tile: int | None = None,
    tags: Tags | None = None,
) -> tuple[list[bytes], dict[int, Sequence[int]]]:
    """Return the strips (of seven rows) or square tiles of ``pixels`` and the tags that describe them, places left out.

    ``tags`` are further ones: 284 (planes), 259 (compression), 317 (predictor), 258 (bits) and 266 change the data too.
    """
    given = dict(tags or {})
    array = pixels if pixels.ndim == 3 else pixels[:, :, None]
    height, width, samples = array.shape
    bits = given.get(258, [array.dtype.itemsize * 8])[0]
    planes = [array[:, :, [k]] for k in range(samples)] if given.get(284) == [2] else [array]
    kind = {"u": 1, "i": 2, "f": 3}[array.dtype.kind]
    described: dict[int, Sequence[int]] = {
        256: [width], 257: [height], 258: [bits] * samples, 259: [1], 262: [photometric], 277: [samples],
        282: [150], 283: [150], 284: [1], 296: [2], 339: [kind] * samples, **given,
    }  # fmt: skip
    described[258] = [bits] * samples
    if tile:
        described |= {322: [tile], 323: [tile]}
        parts = [
            _padded(plane[top : top + tile, left : left + tile], tile)
            for plane in planes
            for top in range(0, height, tile)
            for left in range(0, width, tile)
        ]
    else:
        described |= {278: [7]}
        parts = [plane[top : top + 7] for plane in planes for top in range(0, height, 7)]
    return [_packed(part, bits, order, described) for part in parts], described


def _padded(part: npt.NDArray[np.generic], tile: int) -> npt.NDArray[np.generic]:
    return np.pad(part, ((0, tile - part.shape[0]), (0, tile - part.shape[1]), (0, 0)))


def _packed(part: npt.NDArray[np.generic], bits: int, order: str, tags: Tags) -> bytes:
    if bits not in (8, 16, 32, 64):
        rows = part.reshape(part.shape[0], -1).astype(np.uint32)
        each = (rows[:, :, None] >> np.arange(bits)[::-1].astype(np.uint32)) & 1
        data = np.packbits(each.reshape(part.shape[0], -1).astype(np.uint8), axis=1).tobytes()
    else:
        if tags.get(317) == [2]:
            part = np.concatenate([part[:, :1], np.diff(part, axis=1)], axis=1)
        data = part.astype(part.dtype.newbyteorder(order)).tobytes()
    if tags.get(266) == [2]:
        data = data.translate(bytes(int(f"{value:08b}"[::-1], 2) for value in range(256)))
    return zlib.compress(data) if tags[259] == [DEFLATE] else data


def tiff_file(frames: Sequence[tuple[list[bytes], dict[int, Sequence[int]]]], order: str = "<") -> bytes:
    """Return a TIFF file of ``frames``, each as ``tiff_frame`` makes them."""
    file = bytearray((b"II" if order == "<" else b"MM") + struct.pack(f"{order}HI", 42, 0))
    link = 4
    for parts, tags in frames:
        places = []
        for part in parts:
            places.append(len(file))
            file += part + b"\0" * (len(part) % 2)
        lengths = [len(part) for part in parts]
        where = {324: places, 325: lengths} if 322 in tags else {273: places, 279: lengths}
        struct.pack_into(f"{order}I", file, link, len(file))
        link = _add_directory(file, {**tags, **where}, order)
    return bytes(file)


def _add_directory(file: bytearray, tags: Tags, order: str) -> int:
    """Append the directory of ``tags``; return where the place of the next one belongs."""
    start = len(file)
    beside = start + 2 + 12 * len(tags) + 4
    entries, far = struct.pack(f"{order}H", len(tags)), b""
    for tag in sorted(tags):
        kind = _RATIONAL if tag in (282, 283) else _LONG if tag in _LONG_TAGS else _SHORT
        values = [part for value in tags[tag] for part in (value, 1)] if kind == _RATIONAL else list(tags[tag])
        data = struct.pack(f"{order}{len(values)}{'H' if kind == _SHORT else 'I'}", *values)
        if len(data) > 4:
            place = beside + len(far)
            far += data + b"\0" * (len(data) % 2)
            data = struct.pack(f"{order}I", place)
        entries += struct.pack(f"{order}HHI", tag, kind, len(tags[tag])) + data.ljust(4, b"\0")
    file += entries + b"\0\0\0\0" + far
    return start + len(entries)
