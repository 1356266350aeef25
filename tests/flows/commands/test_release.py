"""A person may overrule the gate, by name and with a reason, and nothing else may."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
from support.judged import judge_document, prose_page
from support.readings import blank_page

from data_contracts.errors import ConfigError
from data_contracts.result import PageResult
from flows.commands.query import run_query
from flows.commands.release import main, release_pages
from flows.commands.status import read_statuses

BLANKED = (4, 8, 10)


def faulty_book() -> list[PageResult]:
    return [blank_page(n) if n in BLANKED else prose_page(n) for n in range(1, 13)]


def manifest(folder: Path) -> dict[str, object]:
    return dict(json.loads((folder / "manifest.json").read_text()))


def test_a_released_document_goes_from_the_quarantine_to_the_shelf(tmp_path: Path) -> None:
    output = tmp_path / "out"
    verdict, kept = judge_document(output, faulty_book())
    published_folder = output / verdict.document_id
    assert kept.parent.name == "quarantine"
    assert not published_folder.exists()
    assert {path.name for path in kept.iterdir()} >= {"document.txt", "document.pdf", "manifest.json", "verdict.json"}

    (status,) = read_statuses(str(output))
    assert f"tomeflow release {verdict.document_id} --pages 4,8,10 --why REASON -o {output}" in status.next

    still_kept = release_pages(str(output), verdict.document_id, "4", "blank in print", "Ada")
    assert not still_kept.is_publishable
    assert not published_folder.exists()

    released = release_pages(str(output), verdict.document_id, "8,10", "blank in print", "Grace")
    assert released.is_publishable
    assert not kept.exists()
    assert manifest(published_folder)["gate"] == {
        "quality_version": 3,
        "quarantined_pages": [],
        "released_pages": [4, 8, 10],
    }
    assert (published_folder / "document.txt").read_text().count("\f") == 11
    assert "released by Grace" in (published_folder / "report.html").read_text()
    rows = run_query(output, "SELECT page_number, released_by, released_at > '2026-01-01' FROM releases ORDER BY 1")[1]
    assert rows == [(4, "Ada", True), (8, "Grace", True), (10, "Grace", True)]
    assert run_query(output, "SELECT count(*) FROM page_measures WHERE gate_status = 'released'")[1] == [(3,)]


def test_a_release_in_a_published_document_is_in_its_manifest(tmp_path: Path) -> None:
    pages = [blank_page(4) if n == 4 else prose_page(n) for n in range(1, 31)]
    verdict, published_folder = judge_document(tmp_path / "out", pages)
    assert manifest(published_folder)["gate"] == {"quality_version": 3, "quarantined_pages": [4], "released_pages": []}
    release_pages(str(tmp_path / "out"), verdict.document_id, "4", "blank in print", "Ada")
    assert manifest(published_folder)["gate"] == {"quality_version": 3, "quarantined_pages": [], "released_pages": [4]}


def test_what_cannot_be_released_is_refused_by_name(tmp_path: Path) -> None:
    output = str(tmp_path / "out")
    verdict, _ = judge_document(tmp_path / "out", faulty_book())
    with pytest.raises(ConfigError, match=r"pages 5 of .* are not in quarantine; in quarantine: 4, 8, 10"):
        release_pages(output, verdict.document_id, "4,5", "why not", "Ada")
    with pytest.raises(ConfigError, match="needs a reason"):
        release_pages(output, verdict.document_id, "4", " ", "Ada")
    with pytest.raises(ConfigError, match=r"no verdict on a document 'other'.*book-000000000000"):
        release_pages(output, "other", "4", "why not", "Ada")
    assert run_query(tmp_path / "out", "SELECT count(*) FROM releases")[1] == [(0,)]


def test_the_command_says_what_became_of_the_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    verdict, _ = judge_document(tmp_path / "out", faulty_book())
    options = argparse.Namespace(
        output=str(tmp_path / "out"), document=verdict.document_id, pages="4", why="blank in print", by="Ada"
    )
    assert main(options) == 0
    assert "stays in quarantine" in capsys.readouterr().out
    assert main(argparse.Namespace(**{**vars(options), "pages": "8"})) == 0
    assert "is released" in capsys.readouterr().out
