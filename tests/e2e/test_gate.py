"""The gate, from the command: a sound book passes; blanked, doubled and swapped pages are named and stop a book."""

from __future__ import annotations

import html
import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.command import run

from data_contracts.quality.verdict import Verdict
from flows.commands.query import run_query
from flows.sample.book import write_sample
from tasks.sources.pdf.mupdf import mupdf

pytestmark = [pytest.mark.e2e, pytest.mark.flow]

BLANK = "no blank page in place of a printed one"
DOUBLED = ("printed numbers are unique", "no page reads like another")
SWAPPED = "printed numbers ascend"
CONTRACT_VIOLATED = 40


def with_faults(source: Path, target: Path, pages: int, blanked: int, doubled: int, swapped: int) -> Path:
    """Copy the first pages of a PDF; one is made white, one comes twice, one changes places with the next."""
    with mupdf() as pymupdf, pymupdf.open(source) as document:
        order = list(range(pages))
        order[swapped - 1 : swapped + 1] = order[swapped], order[swapped - 1]
        order.insert(doubled, order[doubled - 1])
        document.select(order)
        size = document[blanked - 1].rect
        document.delete_page(blanked - 1)
        document.new_page(blanked - 1, width=size.width, height=size.height)
        document.save(target)
    return target


def verdict_of(output: Path, document_id: str) -> Verdict:
    return Verdict.model_validate_json((output / ".tomeflow" / "verdicts" / f"{document_id}.json").read_bytes())


def check_faults(output: Path, said: str, name: str, faults: Mapping[tuple[str, ...], set[int]]) -> None:
    """Every fault is named by its expectation in the verdict, the report and the message; nothing else is accused."""
    (folder,) = (output / ".tomeflow" / "quarantine").glob(f"{name}-*")
    verdict = verdict_of(output, folder.name)
    report = html.unescape((folder / "report.html").read_text(encoding="utf-8"))
    accused = {page.page_number: " ".join(page.reasons) for page in verdict.failing_pages}
    for expectations, possible in faults.items():
        found = [page for page in possible if any(each in accused.get(page, "") for each in expectations)]
        assert found, (expectations, accused)
        for expectation in expectations:
            if expectation in accused[found[0]]:
                assert expectation in report
                assert expectation in said
    assert set(accused) <= set().union(*faults.values()), accused
    assert not (output / folder.name).exists()


def test_a_sound_book_passes_and_a_faulty_one_is_kept_back(tmp_path: Path) -> None:
    sound = write_sample(tmp_path / "sound.pdf", 5, seed=11)
    longer = write_sample(tmp_path / "longer.pdf", 20, seed=11)
    faulty = with_faults(longer, tmp_path / "faulty.pdf", 15, blanked=4, doubled=8, swapped=12)
    out = tmp_path / "out"
    done = run("run", sound, faulty, "-o", out, "--gate", "--json")
    passed, quarantined = json.loads(done.stdout)["documents"]
    assert (passed["published"], quarantined["published"]) == (True, False), done.stderr
    assert done.returncode == CONTRACT_VIOLATED
    assert verdict_of(out, passed["id"]).failing_pages == ()
    assert (out / passed["id"] / "report.html").exists()
    check_faults(out, done.stderr, "faulty", {(BLANK,): {4}, DOUBLED: {9}, (SWAPPED,): {13, 14}})
    made = files_of(out)

    shutil.rmtree(out / ".tomeflow" / "quarantine")
    (out / passed["id"] / "document.pdf").write_bytes(b"damaged")
    (out / passed["id"] / "manifest.json").write_text("{")
    (out / ".tomeflow" / "verdicts" / f"{passed['id']}.json").write_text("{")
    again = run("run", sound, faulty, "-o", out, "--gate", "--json")
    assert again.returncode == CONTRACT_VIOLATED, again.stderr
    assert files_of(out) == made, "what was lost or damaged is there again, from the checkpoints"


def files_of(output: Path) -> dict[str, bytes]:
    """Return what was published and quarantined, but for what tells of the run itself."""
    return {
        f"{path.parent.name}/{path.name}": path.read_bytes()
        for path in (*output.glob("*/*.*"), *output.glob(".tomeflow/quarantine/*/*.*"))
        if path.name in ("document.txt", "document.pdf", "pages.jsonl")
    }


@pytest.mark.slow
@pytest.mark.shared_data
def test_faults_in_a_scanned_book_are_each_named(tmp_path: Path, shared_data: Path) -> None:
    book = shared_data / "books" / "fr_kovalewsky_1893" / "fr_kovalewsky_1893.pdf"
    faulty = with_faults(book, tmp_path / "faulty.pdf", 12, blanked=3, doubled=6, swapped=9)
    done = run("run", faulty, "-o", tmp_path / "out", "--gate", "--json")
    assert done.returncode == CONTRACT_VIOLATED, done.stderr
    check_faults(tmp_path / "out", done.stderr, "faulty", {(BLANK,): {3}, DOUBLED: {7}, (SWAPPED,): {10, 11}})


def test_without_the_gate_everything_is_published(tmp_path: Path) -> None:
    sound = write_sample(tmp_path / "sound.pdf", 1, seed=11)
    done = run("run", sound, "-o", tmp_path / "out", "--no-gate", "--json")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "out" / ".tomeflow" / "verdicts").exists()
    assert run_query(tmp_path / "out", "SELECT count(*) FROM pages")[1] == [(1,)]
