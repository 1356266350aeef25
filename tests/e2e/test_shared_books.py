"""The main job on real scans: the long book's first forty pages and two pages of every book."""

from __future__ import annotations

import csv
import json
import re
import statistics
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from support.command import command, run
from support.failures.processes import children_of

from data_contracts.formats.jsonl import read_pages
from data_contracts.result import Line

pytestmark = [pytest.mark.shared_data, pytest.mark.e2e, pytest.mark.flow, pytest.mark.slow]

LONG_PAGES = 40
EARLY_PAGES, LATE_PAGES = (16, 27), (28, 39)
"""From the first decoded chunk on, and before the gate and the outputs are loaded; a chunk and a half each."""
MOST_GROWTH_RATIO = 1.05
"""Resident memory late in the book over early in it."""
SAMPLE_S = 0.2
TILT_RATIO = 0.15
"""Lines on drawings lean more than this; pdftotext takes their words apart, letter by letter."""
# Two pages a book are few: the project's own limit on whole books is 1.0 % (tomeflow bench readers).
MOST_CER_OF_FORTY_PAGES = 0.02


class ResidentMemory(threading.Thread):
    """Samples what a run and its process of steps hold, each sample with the pages that its log says are done."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        super().__init__(daemon=True)
        self.samples: list[tuple[int, int]] = []
        self._process, self._log = process, log
        self.start()

    def run(self) -> None:
        while self._process.poll() is None:
            steps = [
                pid for pid in children_of(self._process.pid) if "flows.execution.steps" in text_of(pid, "cmdline")
            ]
            held = [re.search(r"VmRSS:\s+(\d+)", text_of(pid, "status")) for pid in (self._process.pid, *steps)]
            if steps and all(held):
                self.samples.append((self._pages_done(), sum(int(found[1]) * 1024 for found in held if found)))
            time.sleep(SAMPLE_S)

    def _pages_done(self) -> int:
        lines = re.findall(r"^(\d+) of \d+ pages", self._log.read_text(), re.MULTILINE)
        return int(lines[-1]) if lines else 0

    def mean_bytes(self, pages: tuple[int, int]) -> float:
        """The mean, since a page in work takes 0.1 to 0.2 GB more for a moment, whenever that is."""
        return statistics.fmean(resident for done, resident in self.samples if pages[0] <= done <= pages[1])


def text_of(pid: int, file: str) -> str:
    """Return what the kernel says of a process, or nothing if it has ended."""
    try:
        return Path(f"/proc/{pid}/{file}").read_text()
    except OSError:
        return ""


@pytest.fixture(scope="module")
def long_book(shared_data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ResidentMemory]:
    """The document folder of pages 1-40, and the memory of the run that made it."""
    output = tmp_path_factory.mktemp("long")
    log = output / "log"
    source = shared_data_folder / "long" / "oldbooks_shared_156p.pdf"
    with log.open("w") as stderr:
        arguments = command("run", source, "-o", output, "--pages", f"1-{LONG_PAGES}", "--chunk-pages", "8")
        process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=stderr, text=True)
        memory = ResidentMemory(process, log)
        assert process.wait() == 0, log.read_text()
        memory.join()
    (manifest,) = output.glob("*/manifest.json")
    return manifest.parent, memory


def test_forty_pages_of_the_long_book_are_all_there_and_read_well(
    long_book: tuple[Path, ResidentMemory], shared_data: Path
) -> None:
    folder, _ = long_book
    manifest = json.loads((folder / "manifest.json").read_text())
    assert sum(manifest["status_counts"].values()) == LONG_PAGES
    assert manifest["status_counts"]["failed"] == 0
    done = run("eval", folder.parent, "--truth", shared_data / "long" / "oldbooks_shared_156p.gt.txt", "--json")
    assert done.returncode == 0, done.stderr
    evaluation = json.loads(done.stdout)
    assert evaluation["pages"] == LONG_PAGES
    assert evaluation["cer"] < MOST_CER_OF_FORTY_PAGES, evaluation


def test_memory_is_as_flat_late_as_early(long_book: tuple[Path, ResidentMemory]) -> None:
    _, memory = long_book
    early, late = memory.mean_bytes(EARLY_PAGES), memory.mean_bytes(LATE_PAGES)
    assert late <= early * MOST_GROWTH_RATIO, f"{early / 1e6:.0f} MB early, {late / 1e6:.0f} MB late"


def words(text: str) -> Counter[str]:
    return Counter(text.replace("\f", " ").split())


def is_tilted(line: Line) -> bool:
    (left, top), (right, level) = line.quad[0], line.quad[1]
    return abs(level - top) > TILT_RATIO * abs(right - left)


def test_the_searchable_pdf_says_the_same_words_as_the_text(
    long_book: tuple[Path, ResidentMemory], need_tool: Callable[[str], str]
) -> None:
    folder, _ = long_book
    extracted = subprocess.run(
        [need_tool("pdftotext"), "-raw", folder / "document.pdf", "-"], capture_output=True, text=True, check=True
    ).stdout
    text = (folder / "document.txt").read_text()
    level = [line.text for page in read_pages(folder / "pages.jsonl") for line in page.lines if not is_tilted(line)]
    assert Counter("".join(extracted.split())) == Counter("".join(text.split())), "a character is lost or invented"
    assert words(" ".join(level)) <= words(extracted)


def test_two_pages_of_every_book_are_accounted_for(shared_data: Path, tmp_path: Path) -> None:
    books = sorted((shared_data / "books").iterdir())
    sources = [book / f"{book.name}.pdf" for book in books]
    done = run("run", *sources, "-o", tmp_path, "--pages", "2-3", "--format", "txt,jsonl", "--json")
    assert done.returncode == 0, done.stderr
    documents = json.loads(done.stdout)["documents"]
    assert len(documents) == len(books)
    for book, document in zip(books, documents, strict=True):
        assert document["published"], document
        assert document["pages"] == sum(document["status_counts"].values()) == 2
        with (book / "pages.tsv").open() as table:
            assert len(list(csv.DictReader(table, delimiter="\t"))) >= 3
        done = run("eval", tmp_path, "--document", document["id"], "--truth", book, "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["pages"] == 2
