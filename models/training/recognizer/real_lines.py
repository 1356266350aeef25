"""Lines of real scans with transcriptions: read from tar files, their spelling made one.

A folder holds ``lines.tsv`` (source, split, shard, member, book, page, language, script, century, ...) and tar files
with one picture and one text a line. Books are either trained on or measured on, never both.
"""

from __future__ import annotations

import csv
import tarfile
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import cv2
import numpy as np
import numpy.typing as npt

Split = Literal["train", "val"]
Image = npt.NDArray[np.uint8]

NOT_AS_PRINTED = frozenset({"gallicorpora_15e", "setaf_gothique", "setaf_faictz", "verard", "boccace"})
"""Sets that write u for a printed v, or s for a long s, or resolve signs of abbreviation."""
ROUND_S_ONLY = frozenset({"nubis"})
"""Sets that write s for a long s: only what was printed when no long s was is taken from them."""
LONG_S_UNTIL = 18
LINE_END_DASH = frozenset({"gt4hist_fraktur19"})
"""Sets that write a dash for the double oblique hyphen at a line's end."""
SPELLINGS = {"¬": "-", "ʼ": "’", "\N{NO-BREAK SPACE}": " "}


@dataclass(frozen=True)
class RealLine:
    """Grey picture [height, width] of a line, its text as printed, and where it is from."""

    image: Image
    text: str
    source: str
    script: str
    language: str
    century: str


def read_lines(folder: Path, split: Split) -> Iterator[RealLine]:
    """Yield the lines of ``split`` below ``folder``, shard by shard.

    Raises:
        OSError: the folder lacks ``lines.tsv`` or one of the shards that it names.
    """
    with (folder / "lines.tsv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file, delimiter="\t") if row["split"] == split and _is_as_printed(row)]
    for shard in dict.fromkeys(row["shard"] for row in rows):
        with tarfile.open(folder / shard) as tar:
            for row in (row for row in rows if row["shard"] == shard):
                text = _member(tar, row["member"].rsplit(".", 1)[0] + ".txt").decode("utf-8")
                image = cv2.imdecode(np.frombuffer(_member(tar, row["member"]), np.uint8), cv2.IMREAD_GRAYSCALE)
                if image is None:
                    raise OSError(f"{shard}: {row['member']} is no picture")
                yield RealLine(
                    np.asarray(image, np.uint8),
                    spelled(text, row["source"]),
                    row["source"],
                    row["script"],
                    row["language"],
                    row["century"],
                )


def spelled(text: str, source: str) -> str:
    """Return the transcription ``text`` in the spelling of all sets: NFC, one sign for a hyphen."""
    text = unicodedata.normalize("NFC", text).strip()
    for written, meant in SPELLINGS.items():
        text = text.replace(written, meant)
    if source in LINE_END_DASH and text.endswith(("—", "-")):
        text = text[:-1] + "⸗"
    return text


def _is_as_printed(row: dict[str, str]) -> bool:
    if row["source"] in NOT_AS_PRINTED:
        return False
    return row["source"] not in ROUND_S_ONLY or int(row["century"].split("-")[0]) > LONG_S_UNTIL


def _member(tar: tarfile.TarFile, name: str) -> bytes:
    file = tar.extractfile(name)
    if file is None:
        raise OSError(f"{name} is no file of its shard")
    return file.read()
