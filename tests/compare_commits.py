"""Reads the same sources with two commits and compares what was published: ``python tests/compare_commits.py A B``.

Every published ``document.txt``, ``pages.jsonl`` and the text of ``document.pdf`` must be the same bytes. For a change
that only moves or renames code; ``--renamed old=new`` names values of ``pages.jsonl`` that were renamed on purpose.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pymupdf

ROOT = Path(__file__).resolve().parent.parent
BOOKS = ("en_lusitania_1915", "fr_argus_brevets_1910_twocol_b", "de_mimili_1815", "zh_siku_jianming_mulu_juan1")
ODD_PDFS = 8
COMMAND_LINES = ("flows/commands/cli.py", "flows/cli.py")


@contextmanager
def checked_out(commit: str, folder: Path) -> Iterator[Path]:
    """Check ``commit`` out below ``folder`` for the block."""
    tree = folder / commit.replace("/", "-")
    subprocess.run(["git", "worktree", "add", "--detach", "--quiet", tree, commit], cwd=ROOT, check=True)
    try:
        yield tree
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=ROOT, check=True)


def sources(data: Path, pages: int) -> Iterator[tuple[Path, list[str]]]:
    """Yield what is read, with the arguments that it is read with."""
    for book in BOOKS:
        yield data / "books" / book / f"{book}.pdf", ["--pages", f"1-{pages}"]
    small = sorted((data / "oddpdf").glob("*.pdf"), key=lambda path: (path.stat().st_size, path.name))
    for path in small[:: max(1, len(small) // ODD_PDFS)][:ODD_PDFS]:
        yield path, []


def read_all(tree: Path, inputs: Sequence[tuple[Path, list[str]]], output: Path) -> dict[str, bytes]:
    """Return the published files of every input, by document and name, as the code in ``tree`` writes them."""
    module = next(path for path in COMMAND_LINES if (tree / path).is_file()).removesuffix(".py").replace("/", ".")
    for number, (source, arguments) in enumerate(inputs):
        command = [sys.executable, "-m", module, "run", source, "-o", output / f"{number:02d}", "--no-gate", *arguments]
        subprocess.run(command, cwd=tree, env={**os.environ, "PYTHONPATH": str(tree)}, capture_output=True, check=False)
    return dict(_published(output))


def _published(output: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(output.glob("*/*/*")):
        name = str(path.relative_to(output))
        if path.name in ("document.txt", "pages.jsonl"):
            yield name, path.read_bytes()
        elif path.name == "document.pdf":
            with pymupdf.open(path) as document:
                yield name, "\f".join(page.get_text() for page in document).encode()


def with_new_names(files: dict[str, bytes], renamed: Sequence[str]) -> dict[str, bytes]:
    """Return ``files`` with every ``old=new`` of ``renamed`` applied to the records of pages."""
    for old, new in (pair.split("=", 1) for pair in renamed):
        for name in files:
            if name.endswith(".jsonl"):
                files[name] = files[name].replace(f'"{old}"'.encode(), f'"{new}"'.encode())
    return files


def main() -> int:
    """Compare two commits; 1 where anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TOMEFLOW_SHARED_DATA", "../shared/data")))
    parser.add_argument("--pages", type=int, default=4, help="of each book, from its first")
    parser.add_argument("--renamed", action="append", default=[], metavar="OLD=NEW")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, checked_out(options.before, Path(name)) as before:
        sample = Path(name) / "sample.pdf"
        module = next(path for path in COMMAND_LINES if (before / path).is_file()).removesuffix(".py").replace("/", ".")
        command = [sys.executable, "-m", module, "sample", "--pages", "6", "--seed", "3", "-o", sample]
        subprocess.run(command, cwd=before, env={**os.environ, "PYTHONPATH": str(before)}, check=True)
        inputs = [(sample, []), *sources(options.data.resolve(), options.pages)]
        old = with_new_names(read_all(before, inputs, Path(name) / "old"), options.renamed)
        with checked_out(options.after, Path(name)) as after:
            new = read_all(after, inputs, Path(name) / "new")
    different = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    print(f"{len(inputs)} inputs, {len(old)} files before, {len(new)} after, {len(different)} differ")
    print(*different, sep="\n")
    return 1 if different or not old else 0


if __name__ == "__main__":
    sys.exit(main())
