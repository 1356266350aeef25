"""The typefaces of generated documents: what ``install_fonts.sh`` installs, and nothing else.

Every family is under the SIL Open Font License, the GPL with the font exception, the MIT licence or in the public
domain. Each fourth family of a script is held out and never trained on.
"""

from __future__ import annotations

import itertools
import random
import zlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from PIL import ImageFont

from models.training.drawing.text import DocumentText

DEBIAN_FONTS = Path("/usr/share/fonts")

LATIN_FAMILIES = (
    "EBGaramond-|EBGaramond08-|EBGaramond12-", "LinLibertine_", "Junicode", "Cardo", "OldStandard", "GFSDidot",
    "GFSArtemisia", "GFSBaskerville", "GFSBodoni", "Caladea", "Carlito", "GoudyBookletter", "GenBas|GenBkBas|GenR|GenI",
    "CharisSIL", "AccanthisADFStd", "BaskervaldADFStd", "RomandeADFStd", "BerenisADFPro", "cmunr|cmunb|cmunti",
    "cmuntt|cmunit", "Vollkorn-", "Prociono", "Fanwood", "Courier Prime|CourierPrime", "STIX-", "STIXGeneral",
    "Quattrocento", "AveriaSerif", "Inconsolata", "LiberationSerif", "LiberationMono", "Essays1743", "GnuTypewriter",
    "Compagnon",
)  # fmt: skip
FRAKTUR_FAMILIES = ("unifrakturmaguntia", "unifrakturcook", "Blankenburg", "Gamaliel", "Jessen")
CHINESE_FAMILIES = ("NotoSerifCJK", "NotoSansCJK", "LXGWWenKai-", "wqy-zenhei", "LXGWWenKaiMono")
HELD_OUT = ("Cardo", "GFSArtemisia", "BaskervaldADFStd", "Vollkorn-", "Caladea", "LiberationMono", "wqy-zenhei")
"""Families for measuring only."""
FRAKTUR_HELD_OUT = ("unifrakturcook", "Gamaliel")
NEEDED_LATIN = "abcxyzABCXYZ0189.,;:'’“”—«»éèàüöäßç&"
NEEDED_FRAKTUR = "abcABCäöüß.,"
FRAKTUR_RATE = 0.75
"""Share of historical German documents in Fraktur; the rest is early Roman type."""


@dataclass(frozen=True)
class Face:
    """One font file and the index within a collection."""

    path: Path
    index: int = 0

    def at(self, size_px: int) -> ImageFont.FreeTypeFont:
        """Open it at ``size_px``."""
        return ImageFont.truetype(str(self.path), size_px, index=self.index)


def choose_face(document: DocumentText, rng: random.Random, fonts: Path, *, held_out: bool) -> Face:
    """Return a face for ``document``: each family is as likely as the next, however many cuts it has.

    Raises:
        FileNotFoundError: none is installed; the message says how to install them.
    """
    if document.language == "zh":
        return rng.choice(_chinese_faces(fonts, held_out))
    fraktur = document.historical and document.language == "de" and rng.random() < FRAKTUR_RATE
    families = _latin_faces(fonts, FRAKTUR_FAMILIES if fraktur else LATIN_FAMILIES, held_out)
    return rng.choice(rng.choice(families))


def drawable(face: Face, text: str) -> str:
    """Return ``text`` with a round s for each long one where ``face`` has none."""
    return text if has_letters(face, "ſ") else text.replace("ſ", "s")


@lru_cache(maxsize=4)
def _latin_faces(fonts: Path, families: tuple[str, ...], held_out: bool) -> tuple[tuple[Face, ...], ...]:
    needed = NEEDED_LATIN if families is LATIN_FAMILIES else NEEDED_FRAKTUR
    found = []
    for family in families:
        files = _files(fonts, (family,), held_out)
        found.append(tuple(face for face in files if has_letters(face, needed)))
    return tuple(faces for faces in found if _some(tuple(itertools.chain(*found)), fonts) and faces)


@lru_cache(maxsize=2)
def _chinese_faces(fonts: Path, held_out: bool) -> tuple[Face, ...]:
    faces = []
    for face in _files(fonts, CHINESE_FAMILIES, held_out):
        indices = (2, 3) if face.path.name.startswith("Noto") else (0,)  # SC and TC of Noto's collections
        faces += [Face(face.path, index) for index in indices]
    return _some(tuple(faces), fonts)


def _files(fonts: Path, families: tuple[str, ...], held_out: bool) -> list[Face]:
    files = sorted(p for f in {fonts, DEBIAN_FONTS} if f.is_dir() for p in f.rglob("*") if _is_font(p))
    chosen = []
    for family in families:
        if (family in HELD_OUT + FRAKTUR_HELD_OUT) != held_out:
            continue
        stems = tuple(family.split("|"))
        chosen += [Face(p) for p in files if p.name.startswith(stems) and not _is_odd(p.name)]
    return chosen


def _is_font(path: Path) -> bool:
    return path.suffix.lower() in (".ttf", ".otf", ".ttc", ".woff")


def _is_odd(name: str) -> bool:
    """True for cuts whose letters are not what is written: small capitals, initials, alternates, outlines."""
    return any(part in name for part in ("SC", "Initial", "Swash", "Alt", "Dings", "Outline", "Cap")) and not (
        name.startswith(("Noto", "Cardo"))
    )


def _some(faces: tuple[Face, ...], fonts: Path) -> tuple[Face, ...]:
    if not faces:
        raise FileNotFoundError(f"no suitable font in {fonts} or {DEBIAN_FONTS}; run models/training/install_fonts.sh")
    return faces


@lru_cache(maxsize=256)
def has_letters(face: Face, letters: str) -> bool:
    """True when the face draws each of ``letters`` as something of its own."""
    font = face.at(24)
    missing = _ink(font, "\ufffe")
    inks = [_ink(font, letter) for letter in letters]
    return all(ink != missing and ink[0] > 0 for ink in inks) and _ink(font, "a") != _ink(font, "A")


def _ink(font: ImageFont.FreeTypeFont, letter: str) -> tuple[int, int]:
    mask = font.getmask(letter)
    return (mask.size[0] if mask.getbbox() else 0, zlib.crc32(bytes(mask)))
