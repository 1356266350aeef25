"""Run ``tomeflow run`` on the inputs that broke the first version, and say of each whether it comes out right now.

    PYTHONPATH=$PWD python tests/stranger_cases.py [--cases FOLDER] [--only WORD] [--keep FOLDER]

A folder of cases holds the inputs and ``expected.json`` with the text of each page (an empty text: a blank page). One
line a case: right or WRONG, and what. The exit code is 1 if anything is wrong. Not part of the test suite: the inputs
are given, not drawn; the kinds they stand for are tested with drawn ones.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data_contracts.formats.jsonl import read_pages
from data_contracts.result import PageResult
from data_contracts.text import cer

MOST_CER = 0.02
LEAST_WORDS = 0.99
RUN_LIMIT_S = 900
START_APART_S = 2
HELLO = "Hello PDF-world!"
GOVDOCS_FIGURE = "72861"
BOOK = "en_lusitania_1915"
BRACKETED = re.compile(r"\(\s*(\d+)\s*\)")


@dataclass(frozen=True)
class Outcome:
    """What came of a run: its exit code, what it said, and the document's folder where one was published."""

    exit_code: int
    said: str
    folder: Path | None

    @property
    def pages(self) -> list[PageResult]:
        """The pages as published; none without a folder."""
        path = self.folder / "pages.jsonl" if self.folder else None
        return list(read_pages(path)) if path and path.is_file() else []

    @property
    def pdf(self) -> Path:
        """The searchable PDF."""
        assert self.folder is not None
        return self.folder / "document.pdf"


Faults = Iterator[str]
Check = Callable[[Outcome], Faults]


@dataclass(frozen=True)
class Case:
    """One input, and what has to hold of its outcome."""

    name: str
    source: Path
    check: Check
    options: tuple[str, ...] = ()


def command(source: Path, output: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "flows.commands.cli", "run", str(source), "-o", str(output), "--json", *options]


def run(source: Path, output: Path, *options: str) -> Outcome:
    done = subprocess.run(
        command(source, output, *options), capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False
    )
    return outcome(done.returncode, done.stdout, done.stderr)


def outcome(exit_code: int, printed: str, said: str) -> Outcome:
    try:
        documents = json.loads(printed)["documents"]
    except (ValueError, KeyError):
        documents = []
    report = documents[0] if documents else {}
    folder = Path(report["output"]) if report.get("published") else None
    return Outcome(exit_code, report.get("error") or (said.strip().splitlines() or ["nothing was said"])[-1], folder)


def succeeded(result: Outcome, pages: int) -> Faults:
    if result.exit_code or result.folder is None:
        yield f"exit code {result.exit_code}: {result.said[:160]}"
    elif len(result.pages) != pages:
        yield f"{len(result.pages)} pages, not {pages}"


def reads(texts: list[str]) -> Check:
    """Return the check that each page has its text, a page without text is blank, and the PDF has the same words."""

    def check(result: Outcome) -> Faults:
        yield from succeeded(result, len(texts))
        for page, truth in zip(result.pages, texts, strict=False):
            wanted = "text" if truth else "blank"
            if page.status != wanted:
                yield f"page {page.page_number} is {page.status} {page.blank_reason or ''}, not {wanted}"
            elif truth and (rate := cer(truth, page.text)) > MOST_CER:
                yield f"page {page.page_number}: {rate:.1%} of the characters are wrong"
        yield from words_in_pdf(result)

    return check


def words_in_pdf(result: Outcome) -> Faults:
    """Yield the pages whose words PDFium, as in Chrome, does not find in the PDF."""
    if not result.pages:
        return
    for number, found in enumerate(pdfium_texts(result.pdf)):
        words, seen = Counter(result.pages[number].text.split()), Counter(found.split())
        share = (words & seen).total() / words.total() if words else 1.0
        if share < LEAST_WORDS:
            yield f"page {number + 1}: PDFium finds {share:.1%} of the words"


def pdfium_texts(path: Path) -> list[str]:
    import pypdfium2

    with pypdfium2.PdfDocument(path) as document:
        return [page.get_textpage().get_text_bounded() for page in document]


def same_words(pages: int) -> Check:
    """Return the check that a file whose truth is not written down has its reading's words in the PDF."""

    def check(result: Outcome) -> Faults:
        yield from succeeded(result, pages)
        yield from (f"page {page.page_number} is {page.status}" for page in result.pages if page.status != "text")
        yield from words_in_pdf(result)

    return check


def shows_through(texts: list[str]) -> Check:
    """Return the check of :func:`reads` that also wants the last page to be blank for what shines through it."""

    def check(result: Outcome) -> Faults:
        yield from reads(texts)(result)
        if result.pages and result.pages[-1].blank_reason != "show_through":
            yield f"the last page is blank for {result.pages[-1].blank_reason}, not show_through"

    return check


def right_or_failed(texts: list[str]) -> Check:
    """Return the check that a page is read rightly or failed by name: never wrong pixels with exit code 0."""

    def check(result: Outcome) -> Faults:
        if result.exit_code == 0:
            yield from reads(texts)(result)
        elif "page" not in result.said and "tif" not in result.said:
            yield f"exit code {result.exit_code} without the name of page or file: {result.said[:120]}"

    return check


def hello(result: Outcome) -> Faults:
    yield from succeeded(result, 1)
    for page in result.pages:
        if cer(HELLO, page.text) > MOST_CER:
            yield f"read as {page.text[:60]!r} ({page.status}), not {HELLO!r}"


def hello_or_failed(result: Outcome) -> Faults:
    if result.exit_code == 0:
        yield from hello(result)


def one_blank_page(result: Outcome) -> Faults:
    yield from succeeded(result, 1)
    yield from (
        f"page {page.page_number} is {page.status}, not blank" for page in result.pages if page.status != "blank"
    )


def figures(result: Outcome) -> Faults:
    """Yield what is wrong with the bar chart: its figures without the ends of bars before them."""
    yield from succeeded(result, 1)
    if not result.pages:
        return
    found = re.sub(r"[^0-9 \n]", "", result.pages[0].text).split()
    if GOVDOCS_FIGURE not in found:
        yield f"{GOVDOCS_FIGURE} is not among the figures of page 1"
    invented = [figure for figure in found if len(figure) == len(GOVDOCS_FIGURE) + 1 and figure.startswith("1")]
    if invented:
        yield f"figures with a bar's end before them: {', '.join(invented)}"


def structure(wanted: Mapping[str, Any]) -> Check:
    """Return the check that the chosen pages keep what belongs to them."""

    def check(result: Outcome) -> Faults:
        yield from succeeded(result, len(wanted["page_labels"]))
        if result.folder is not None:
            found = structure_of(result.pdf)
            yield from (
                f"{key} is {found[key]!r}, not {value!r}" for key, value in wanted.items() if found[key] != value
            )

    return check


def structure_of(path: Path) -> dict[str, Any]:
    import pikepdf

    with pikepdf.open(path) as document:
        with document.open_outline() as outline:
            titles = [item.title for item in outline.root]
        form = document.Root.get("/AcroForm", {})
        return {
            "page_labels": [page.label for page in document.pages],
            "outline": titles,
            "attachments": list(document.attachments),
            "form_fields": len(form.get("/Fields", [])),
            "lang": str(document.Root.get("/Lang", "")),
            "xmp": "/Metadata" in document.Root,
        }


def brackets(truths: Mapping[int, str]) -> Check:
    """Return the check that every bracketed number of each page (page number -> truth) is read as it stands."""

    def check(result: Outcome) -> Faults:
        yield from succeeded(result, len(truths))
        for page in result.pages:
            wanted, found = (Counter(BRACKETED.findall(text)) for text in (truths[page.page_number], page.text))
            if wanted - found:
                yield f"page {page.page_number} lacks ({'), ('.join((wanted - found).elements())})"

    return check


def cases(folder: Path) -> Iterator[Case]:
    """Yield the cases whose inputs lie in ``folder``."""
    texts = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    for name, check in checks_by_file(texts).items():
        yield Case(name, folder / name, check)
    kept = structure(texts["structured --pages 2-3"])
    yield Case("structured.pdf --pages 2-3", folder / "structured.pdf", kept, ("--pages", "2-3"))
    yield Case("govdocs_033689.pdf --pages 1", folder / "govdocs_033689.pdf", figures, ("--pages", "1"))


def checks_by_file(texts: Mapping[str, list[str]]) -> dict[str, Check]:
    return {
        "smask_1x1_base_page4.pdf": reads(texts["colour_spaces"]),
        "mrc_foreground_25dpi_mask_300dpi.pdf": reads(texts["mrc_fg25"]),
        "cmyk_noadobe.jpg": reads(texts["cmyk_noadobe"]),
        "boxes_rotate_userunit.pdf": reads(texts["boxes_rotate_userunit"]),
        "u2.pdf": same_words(1),
        "u3_90.pdf": same_words(1),
        "garbage_tounicode.pdf": reads(texts["garbage_tounicode"]),
        "half_layer.pdf": reads(texts["half_layer"]),
        "tiff_thumbnails.tif": reads(texts["tiff_thumbnails"]),
        "tiff16_rgb_planar_uncompressed.tif": right_or_failed(texts["tiff16_rgb_planar"]),
        "mirrored_ghost_page5.pdf": shows_through(texts["h34_blanks"]),
        "opf_T01_007_header-no-version-info.pdf": hello,
        "opf_T02-01_005_document-catalog-type-key-missing.pdf": hello,
        "opf_T02-02_008_page-tree-node-no-count.pdf": hello,
        "opf_T02-03_009_page-object-mediabox-not-rectangle.pdf": hello_or_failed,
        "pikepdf_cyclic-toc.pdf": one_blank_page,
    }


def book_case(data: Path) -> Case:
    """Return the case of the shared book: pages 9 to 20 of its PDF with their bracketed numbers."""
    folder = data / "books" / BOOK
    truths = [path.read_text(encoding="utf-8") for path in sorted(folder.glob("page_*.gt.txt"))]
    chosen = {number: truths[number - 1] for number in range(9, 21)}
    return Case(f"{BOOK} --pages 9-20", folder / f"{BOOK}.pdf", brackets(chosen), ("--pages", "9-20"))


def three_first_starts(folder: Path, output: Path) -> list[str]:
    """Return what is wrong when three commands start at once into one new output folder."""
    copies = []
    for number in range(3):
        copies.append(output.parent / f"first_start_{number}.pdf")
        copies[-1].write_bytes((folder / "one_empty.pdf").read_bytes() + b"\n%%" + str(number).encode() + b"\n")
    started = []
    for copy in copies:
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(command(copy, output), stdout=pipe, stderr=pipe, text=True))
        time.sleep(START_APART_S)
    faults = []
    for copy, process in zip(copies, started, strict=True):
        printed, said = process.communicate(timeout=RUN_LIMIT_S)
        faults += [f"{copy.name}: {fault}" for fault in one_blank_page(outcome(process.returncode, printed, said))]
    return faults


def faults_of(case: Case, output: Path) -> list[str]:
    if not case.source.is_file():
        return [f"{case.source} is not there"]
    try:
        return list(case.check(run(case.source, output, *case.options)))
    except subprocess.TimeoutExpired:
        return [f"still running after {RUN_LIMIT_S} s"]


def say(name: str, faults: list[str]) -> bool:
    """Print the line of one case; return whether it is right."""
    print(f"{'WRONG' if faults else 'right'}  {name}{': ' if faults else ''}{'; '.join(faults)}", flush=True)
    return not faults


def check_all(arguments: argparse.Namespace, outputs: Path) -> bool:
    """Run the cases one after the other; return whether all are right."""
    data = os.environ.get("TOMEFLOW_SHARED_DATA", "")
    chosen = [*cases(arguments.cases), *([book_case(Path(data))] if data else [])]
    right = [
        say(case.name, faults_of(case, outputs / f"case_{number}"))
        for number, case in enumerate(chosen)
        if arguments.only in case.name
    ]
    starts = "three first starts at once"
    if arguments.only in starts:
        right.append(say(starts, three_first_starts(arguments.cases, outputs / "first_starts")))
    print("not run  cross_origin.html: it needs a served page and a browser; tests/e2e has its test")
    if not data:
        print(f"not run  {BOOK}: TOMEFLOW_SHARED_DATA does not say where the shared books are")
    print(f"{sum(right)} of {len(right)} right")
    return all(right)


def main() -> int:
    data = os.environ.get("TOMEFLOW_SHARED_DATA")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=Path, default=Path(data).parent / "cases" if data else None)
    parser.add_argument("--only", default="", help="only cases with this in their name")
    parser.add_argument("--keep", type=Path, help="where outputs stay; without it they are deleted")
    arguments = parser.parse_args()
    if arguments.cases is None or not (arguments.cases / "expected.json").is_file():
        parser.error("there is no expected.json in --cases (default: beside TOMEFLOW_SHARED_DATA)")
    with tempfile.TemporaryDirectory(prefix="stranger-cases-") as folder:
        outputs = arguments.keep or Path(folder)
        outputs.mkdir(parents=True, exist_ok=True)
        return 0 if check_all(arguments, outputs) else 1


if __name__ == "__main__":
    sys.exit(main())
