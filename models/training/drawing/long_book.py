"""Draws a book of a thousand bad pages in which names come back only from afar: ``python -m ... --data DIR``.

A name stands on a page, then on none for longer than the widest window, then again: the window cannot help with it,
only references can. Typeface and names are held out; the text is that of training, of which little comes twice.
Pages are kept in files of twenty; those on disk are not made again.
"""

from __future__ import annotations

import argparse
import itertools
import random
from collections.abc import Iterator
from pathlib import Path

from models.training.drawing import shards
from models.training.drawing.draw import draw_document
from models.training.drawing.generate import CACHE, Reader
from models.training.drawing.invented_names import invent_name
from models.training.drawing.text import Corpus, DocumentText, LineText

SEED = 700_000_002
PAGES, LINES, BLOCK_PAGES = 1000, 25, 20
NAMES, NAMES_OF_A_PAGE = 400, 6
"""So a name comes back after 20 to 150 pages mostly, 67 in the mean."""
LEAST_GAP_PAGES = 20
"""More than the widest window."""
SEVERITY = 0.72


def compose(corpus: Corpus, rng: random.Random, pages: int) -> DocumentText:
    """Compose a book of ``pages``."""
    last_page = {invent_name(rng, held_out=True): -1 - LEAST_GAP_PAGES for _ in range(NAMES)}
    drawn: list[tuple[LineText, ...]] = []
    for page in range(pages):
        free = [name for name, last in last_page.items() if page - last > LEAST_GAP_PAGES]
        names = rng.sample(free, NAMES_OF_A_PAGE)
        last_page.update(dict.fromkeys(names, page))
        drawn.append(corpus.page(rng, LINES, names))
    return DocumentText(corpus.language, historical=False, pages=tuple(drawn))


def make_blocks(text: DocumentText, fonts: Path, folder: Path, severity: float) -> Iterator[Path]:
    """Draw and read ``text`` block by block into ``folder``, and yield the files."""
    reader = Reader()
    crops = draw_document(text, fonts, SEED, held_out=True, severity=severity)
    for block, group in itertools.groupby(crops, key=lambda crop: crop[0] // BLOCK_PAGES):
        path = folder / f"{block:04d}.safetensors"
        if path.exists():
            for _ in group:  # later crops depend on the random numbers of these
                pass
        else:
            lines = [
                (reader.sample(crop, line, page, shared.severity), shared.style) for page, shared, line, crop in group
            ]
            samples = tuple(sample for sample, _ in lines)
            shards.save(shards.Document(block, text.language, text.historical, lines[0][1], samples), path)
        yield path


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with en/*.txt")
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--pages", type=int, default=PAGES)
    parser.add_argument("--severity", type=float, default=SEVERITY)
    options = parser.parse_args()
    folder = options.cache / "long_book"
    folder.mkdir(parents=True, exist_ok=True)
    text = compose(Corpus(options.data / "en", "en", held_out=False), random.Random(SEED), options.pages)
    for path in make_blocks(text, options.cache / "fonts", folder, options.severity):
        print(path, flush=True)


if __name__ == "__main__":
    main()
