"""Character and word error rates of a published reading against its truth.

Knows nothing of models, Prefect or pixels: it reads ``manifest.json`` and ``pages.jsonl`` of one document and a
folder of transcriptions. A page without truth, or a truth without its page, is an error that names it, never a
page left out of the average.
"""

from __future__ import annotations

import csv
import re
import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from data_contracts.errors import ConfigError
from data_contracts.formats.manifest import MANIFEST
from data_contracts.quality.error_kinds import Kind, count_errors, count_kinds
from data_contracts.text import (
    ALL_STEPS,
    Step,
    bag_recall,
    edit_distance,
    error_ratio,
    is_ideographic,
    normalise_pair,
    words_like,
)
from data_contracts.warehouse.connection import is_begun
from flows.published import published_manifest, published_pages
from flows.truth_sources import FILES, SECOND_READER, TEXT_LAYER, Truth, read_again, read_text_layer
from tasks.collect import collect_accuracy
from tasks.validate import work_folder_of

MANY_ERRORS_RATIO = 0.05  # above this a page is listed among the bad ones, as in the published baselines
LISTED_PAGES = 12  # as many page numbers as a message names before it says how many more there are
KINDS = ("digits", "digit_errors", "punctuation", "punctuation_errors", "letter_errors", "case_errors")
PAGE_TRUTH = re.compile(r"page_(\d+)(?:\.gt)?\.txt")


class PageScore(BaseModel):
    """One page's errors. Invariant: the rates are errors over length, 0 or 1 where the truth is empty."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    page_number: int = Field(ge=1)
    characters: int = Field(ge=0, description="of the normalised truth [characters]")
    character_errors: int = Field(ge=0, description="edit distance, capped [characters]")
    words: int = Field(ge=0, description="of the normalised truth [words]")
    word_errors: int = Field(ge=0, description="edit distance, capped [words]")
    bag_recall: float = Field(
        ge=0, le=1, description="truth items read in any order: characters in Chinese, else words"
    )

    digits: int = Field(0, ge=0, description="of the normalised truth [characters]")
    digit_errors: int = Field(0, ge=0, description="digits misread, lost or invented, not capped [characters]")
    punctuation: int = Field(0, ge=0, description="marks and symbols of the truth [characters]")
    punctuation_errors: int = Field(0, ge=0, description="the same errors on them, not capped [characters]")
    letter_errors: int = Field(0, ge=0, description="the same errors on letters, not capped [characters]")
    case_errors: int = Field(0, ge=0, description="right letters in the wrong case, not capped [characters]")

    @property
    def cer(self) -> float:
        """Character error rate."""
        return error_ratio(self.character_errors, self.characters)

    @property
    def wer(self) -> float:
        """Word error rate."""
        return error_ratio(self.word_errors, self.words)


class Evaluation(BaseModel):
    """A document's errors. Totals are micro-averages: all errors over all characters of the truth."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    per_page: tuple[PageScore, ...] = Field(min_length=1)

    @property
    def characters(self) -> int:
        """Length of the whole truth [characters]."""
        return sum(page.characters for page in self.per_page)

    @property
    def cer(self) -> float:
        """Character error rate of the document."""
        return error_ratio(sum(page.character_errors for page in self.per_page), self.characters)

    @property
    def wer(self) -> float:
        """Word error rate of the document."""
        errors, words = (sum(page.word_errors for page in self.per_page), sum(page.words for page in self.per_page))
        return error_ratio(errors, words)

    def kinds(self) -> dict[str, int]:
        """Return the errors by kind of character, and how many digits and marks there are."""
        return {name: sum(getattr(page, name) for page in self.per_page) for name in KINDS}

    @property
    def median_page_cer(self) -> float:
        """Character error rate of the middle page, which one bad picture page does not move."""
        return statistics.median(page.cer for page in self.per_page)

    @property
    def over_5_percent_ratio(self) -> float:
        """Share of pages with a character error rate above five per cent."""
        return sum(page.cer > MANY_ERRORS_RATIO for page in self.per_page) / len(self.per_page)

    def as_json(self) -> dict[str, Any]:
        """Return what ``tomeflow eval --json`` prints."""
        return {
            "cer": self.cer,
            "wer": self.wer,
            "characters": self.characters,
            "pages": len(self.per_page),
            "median_page_cer": self.median_page_cer,
            "over_5_percent_ratio": self.over_5_percent_ratio,
            **self.kinds(),
            "per_page": [
                {"page_number": page.page_number, "cer": page.cer, "wer": page.wer, "characters": page.characters}
                | {name: getattr(page, name) for name in KINDS}
                for page in self.per_page
            ],
        }


def evaluate(
    output_folder: Path,
    truth: Path,
    document: str | None = None,
    steps: Collection[Step] = ALL_STEPS,
    *,
    cap: bool = True,
) -> Evaluation:
    """Compare the published reading of one document with its truth.

    ``output_folder`` is the folder given to ``tomeflow run``, or one document's folder in it. ``truth`` is a folder
    or a file, see :func:`read_truth`. Only the pages that the run selected count.

    Raises:
        ConfigError: no document, or several and none named; a page without truth; a truth without page.
        ContractViolated: what is in the folder is not what was published.
    """
    folder = find_document(output_folder, document)
    readings = read_pages(folder)
    truths = find_truth(folder, str(truth)).pages
    return score(((number, truths[number], readings[number]) for number in truths), steps, cap=cap)


def score(
    pages: Iterable[tuple[int, str, str]], steps: Collection[Step] = ALL_STEPS, *, cap: bool = True
) -> Evaluation:
    """Return the errors of (page number, truth, reading) triples, whoever read them."""
    return Evaluation(per_page=tuple(_score_page(*page, steps=steps, cap=cap) for page in pages))


def _score_page(page_number: int, truth: str, reading: str, *, steps: Collection[Step], cap: bool) -> PageScore:
    truth, reading = normalise_pair(truth, reading, steps=steps)
    truth_words, reading_words = words_like(truth, truth), words_like(truth, reading)
    bags: tuple[Sequence[str], Sequence[str]] = (truth_words, reading_words)
    if is_ideographic(truth):
        bags = (truth, reading)
    wrong, of_truth = count_errors(truth, reading), count_kinds(truth)
    return PageScore(
        page_number=page_number,
        characters=len(truth),
        character_errors=edit_distance(truth, reading, cap=cap),
        words=len(truth_words),
        word_errors=edit_distance(truth_words, reading_words, cap=cap),
        bag_recall=bag_recall(*bags),
        digits=of_truth[Kind.DIGITS],
        digit_errors=wrong[Kind.DIGITS],
        punctuation=of_truth[Kind.PUNCTUATION],
        punctuation_errors=wrong[Kind.PUNCTUATION],
        letter_errors=wrong[Kind.LETTERS],
        case_errors=wrong[Kind.CASE],
    )


def find_document(output_folder: Path, document: str | None = None) -> Path:
    """Return the folder of the one published document, or of the named one.

    Raises:
        ConfigError: there is none, it is not the named one, or there are several and none was named.
    """
    if document is None and (output_folder / MANIFEST).is_file():
        return output_folder
    published = {path.parent.name: path.parent for path in sorted(output_folder.glob(f"*/{MANIFEST}"))}
    if not published:
        raise ConfigError(f"{output_folder} holds no published document: run `tomeflow run INPUT -o {output_folder}`.")
    if document is None and len(published) > 1:
        raise ConfigError(
            f"{output_folder} holds {len(published)} documents: name one with --document: {', '.join(published)}."
        )
    name = document or next(iter(published))
    if name not in published:
        raise ConfigError(f"{output_folder} holds no document {name!r}; it holds {', '.join(published)}.")
    return published[name]


def read_pages(folder: Path) -> dict[int, str]:
    """Return page number -> text of one published document; a page that failed or is blank has an empty text.

    Raises:
        ConfigError: the document was published without the format jsonl.
        ContractViolated: what is in the folder is not what was published.
    """
    return {page.page_number: page.text for page in published_pages(folder, published_manifest(folder))}


def read_truth(truth: Path, page_count: int) -> dict[int, str]:
    r"""Return page number -> transcription.

    In this order: a file holds all pages with form feeds between; a folder with ``pages.tsv`` says in its n-th row,
    column ``page``, which ``page_NNNN.gt.txt`` or ``page_NNNN.txt`` belongs to page n; without it, page_NNNN is
    page N; without any page_NNNN, the folder's only text file holds all pages with form feeds between.

    Raises:
        ConfigError: none of these is there, two files claim one page, or a row names a file that is not there.
    """
    if truth.is_file():
        return _split_pages(truth, page_count)
    files = _page_files(truth)
    if (truth / "pages.tsv").is_file():
        return _pages_by_table(truth / "pages.tsv", files)
    if files:
        return {number: _read_text(path) for number, path in sorted(files.items())}
    texts = sorted(truth.glob("*.txt"))
    if len(texts) != 1:
        raise ConfigError(
            f"{truth} is no truth: expected a file with form feeds between pages, or a folder with page_NNNN.gt.txt or "
            f"page_NNNN.txt, or with exactly one text file; found {len(texts)} text files."
        )
    return _split_pages(texts[0], page_count)


def _page_files(folder: Path) -> dict[int, Path]:
    files: dict[int, Path] = {}
    for path in sorted(folder.glob("page_*.txt")):
        if match := PAGE_TRUTH.fullmatch(path.name):
            number = int(match[1])
            if number in files:
                raise ConfigError(f"{files[number].name} and {path.name} in {folder} both claim page {number}.")
            files[number] = path
    return files


def _pages_by_table(table: Path, files: Mapping[int, Path]) -> dict[int, str]:
    with table.open(encoding="utf-8-sig", newline="") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    try:
        scans = [int(row["page"]) for row in rows]
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{table} needs a column `page` with the number of each truth file: {error!r}.") from error
    if absent := [number for number in scans if number not in files]:
        raise ConfigError(f"{table} names truth files that are not there: page_NNNN for {listed(absent)}.")
    return {row: _read_text(files[scan]) for row, scan in enumerate(scans, start=1)}


def _split_pages(path: Path, page_count: int) -> dict[int, str]:
    pages = _read_text(path).split("\f")
    if len(pages) == page_count + 1 and not pages[-1].strip():  # a form feed after each page, not only between
        pages.pop()
    return dict(enumerate(pages, start=1))


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8: {error.reason} at byte {error.start}.") from error


def _refuse_mismatch(truth: Path, page_count: int, selected: Sequence[int], truths: Mapping[int, str]) -> None:
    faults = []
    if without_truth := [number for number in selected if number not in truths]:
        faults.append(f"no truth for pages {listed(without_truth)}")
    if without_page := [number for number in truths if number > page_count or number < 1]:
        faults.append(f"truth for pages {listed(without_page)}, but the document has {page_count}")
    if faults:
        raise ConfigError(
            f"{truth} does not fit the document: {'; '.join(faults)}. Is it the truth of another edition?"
        )


def listed(numbers: Sequence[int]) -> str:
    """Return the first ``LISTED_PAGES`` page numbers for a message, and how many more there are."""
    more = f" and {len(numbers) - LISTED_PAGES} more" if len(numbers) > LISTED_PAGES else ""
    return ", ".join(map(str, numbers[:LISTED_PAGES])) + more


def find_truth(folder: Path, truth: str, language: str = "eng") -> Truth:
    """Return the truth about the document in ``folder`` that ``truth`` names: a path, or a kind of its own.

    Raises:
        ConfigError: it is not there or does not fit the document.
        ModelUnavailable: the second reader is not installed.
    """
    manifest = published_manifest(folder)
    if truth == TEXT_LAYER:
        return read_text_layer(folder, manifest)
    if truth == SECOND_READER:
        return read_again(folder, manifest, language)
    page_count, selected = manifest["document"]["page_count"], manifest["selected_pages"]
    truths = read_truth(Path(truth), page_count)
    _refuse_mismatch(Path(truth), page_count, selected, truths)
    return Truth(FILES, {number: truths[number] for number in selected})


def record(folder: Path, truth: Truth, evaluation: Evaluation) -> bool:
    """Write the rates of the document in ``folder`` into its warehouse; return whether it has one.

    Raises:
        StorageUnavailable: the warehouse cannot be written.
    """
    work = work_folder_of(folder)
    if not is_begun(work):
        return False  # a folder that was copied elsewhere
    collect_accuracy(work, list(_accuracy_rows(published_manifest(folder), truth, evaluation)))
    return True


def _accuracy_rows(manifest: Mapping[str, Any], truth: Truth, evaluation: Evaluation) -> Iterator[dict[str, Any]]:
    now = datetime.now(UTC)
    for page in evaluation.per_page:
        yield {
            "document_sha256": manifest["document"]["sha256"],
            "config_sha256": manifest["config_sha256"],
            "model_fingerprint": manifest["model_fingerprint"],
            "source": truth.source,
            "is_estimate": truth.is_estimate,
            **page.model_dump(),
            "cer": page.cer,
            "wer": page.wer,
            "measured_at": now,
        }
