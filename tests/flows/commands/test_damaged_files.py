"""Files of a document that are not the published ones any more: one error that names the file and what to do."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.judged import judge_document, prose_page
from support.readings import blank_page

from data_contracts.formats.manifest import MANIFEST
from flows.commands.cli import main
from flows.commands.query import run_query
from flows.commands.status import read_statuses

PAGES = 12
DOCUMENT = "book-000000000000"
BLANKED = (4, 8)
"""So many that the gate keeps the document back."""

BROKEN_PROMISE = 40


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def without_last_line(file: Path) -> None:
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-1]))


def garbage(file: Path) -> None:
    file.write_bytes(b"\xff\x00 neither JSON nor PDF\n")


def nothing(file: Path) -> None:
    file.write_bytes(b"")


def another_record(file: Path) -> None:
    file.write_bytes(b"{}\n")


def of_a_later_version(file: Path) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | {"schema_version": 99}))


DAMAGES = (cut, without_last_line, garbage, nothing, another_record)
Damage = Callable[[Path], None]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one output whose document is published, and one whose document is quarantined."""
    folder = tmp_path_factory.mktemp("outputs")
    judge_document(folder / "published", [prose_page(n) for n in range(1, PAGES + 1)])
    judge_document(folder / "kept", [blank_page(n) if n in BLANKED else prose_page(n) for n in range(1, PAGES + 1)])
    (folder / "truth.txt").write_text("\f".join(prose_page(n).text for n in range(1, PAGES + 1)))
    return folder


@pytest.fixture
def published(outputs: Path, tmp_path: Path) -> Path:
    return shutil.copytree(outputs / "published", tmp_path / "out")


@pytest.fixture
def kept(outputs: Path, tmp_path: Path) -> Path:
    return shutil.copytree(outputs / "kept", tmp_path / "out")


def said(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str]:
    code = main([str(argument) for argument in arguments])
    return code, capsys.readouterr().err


def release(output: Path) -> tuple[str, ...]:
    pages = ",".join(map(str, BLANKED))
    return ("release", DOCUMENT, "--pages", pages, "--why", "blank in print", "--by", "Ada", "-o", str(output))


def quarantined(output: Path) -> Path:
    return output / ".tomeflow" / "quarantine" / DOCUMENT


@pytest.mark.parametrize(
    ("name", "damage"),
    [(MANIFEST, damage) for damage in (*DAMAGES, of_a_later_version)]
    + [("pages.jsonl", damage) for damage in (*DAMAGES, Path.unlink)],
)
def test_whatever_reads_a_damaged_document_names_the_file_and_the_remedy(
    outputs: Path, published: Path, capsys: pytest.CaptureFixture[str], name: str, damage: Damage
) -> None:
    folder = published / DOCUMENT
    damage(folder / name)
    for command in (("report", folder), ("eval", folder, "--truth", outputs / "truth.txt")):
        code, told = said(capsys, *command)
        assert code == BROKEN_PROMISE, told
        assert told.count("\n") == 1
        for part in (name, str(folder), "Run the document again", "finished chunks are kept"):
            assert part in told
    (status,) = read_statuses(str(published))
    if name == MANIFEST:
        assert not status.is_published
        assert status.next.startswith("publish it: tomeflow run")


def test_a_page_whose_reading_was_edited_is_not_measured(
    outputs: Path, published: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = published / DOCUMENT / "pages.jsonl"
    file.write_text(file.read_text().replace("word", "w0rd"))
    code, told = said(capsys, "eval", published, "--truth", outputs / "truth.txt")
    assert (code, "not what was published" in told) == (BROKEN_PROMISE, True)


def test_an_export_that_cannot_be_replaced_is_named(published: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = published / ".tomeflow" / "export" / "pages.parquet"
    file.unlink()
    file.mkdir()
    code, told = said(capsys, "export", "--to", published / "metrics", "-o", published)
    assert (code, str(file) in told) == (50, True), told


@pytest.mark.parametrize("damage", [cut, garbage, nothing])
def test_a_report_shows_what_it_can_beside_a_damaged_pdf(published: Path, damage: Damage) -> None:
    damage(published / DOCUMENT / "document.pdf")
    assert main(["report", str(published / DOCUMENT)]) == 0
    report = (published / DOCUMENT / "report.html").read_text()
    assert "Missing, or not what was written: document.pdf" in report


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_verdict_is_named(kept: Path, capsys: pytest.CaptureFixture[str], damage: Damage) -> None:
    verdict = kept / ".tomeflow" / "verdicts" / f"{DOCUMENT}.json"
    damage(verdict)
    for command in (("report", quarantined(kept)), release(kept)):
        code, told = said(capsys, *command)
        assert code == BROKEN_PROMISE, told
        assert f"{verdict} is damaged" in told


@pytest.mark.parametrize("name", [MANIFEST, "pages.jsonl", "document.pdf", "document.txt"])
def test_a_damaged_copy_that_was_kept_back_is_not_released(
    kept: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    cut(quarantined(kept) / name)
    code, told = said(capsys, *release(kept))
    assert code == BROKEN_PROMISE, told
    assert name in told
    assert not (kept / DOCUMENT).exists()
    assert run_query(kept, "SELECT count(*) FROM releases")[1] == [(0,)], "nothing is released"


def test_a_release_of_what_is_gone_says_how_it_is_published(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(quarantined(kept))
    assert main(list(release(kept))) == 0
    assert "what was quarantined is gone. Run the document again" in capsys.readouterr().out
