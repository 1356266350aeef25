"""The same scan bound twice is told from two scans, in PDFs and in folders of images."""

from __future__ import annotations

from pathlib import Path

import pymupdf
from support.readings import blank_page, text_page
from support.sources import drawn_pdf, jpeg, scanned_pdf

from data_contracts.quality.page_facts import gather_page_facts
from tasks.sources.scan_digest import scan_digests


def with_first_page_twice(path: Path) -> Path:
    with pymupdf.open(scanned_pdf(path.with_suffix(".once"), pages=3)) as document:
        document.fullcopy_page(0, -1)
        document.save(path)
    return path


def test_a_page_bound_twice_has_the_digest_of_the_first(tmp_path: Path) -> None:
    digests = scan_digests(with_first_page_twice(tmp_path / "book.pdf"), "pdf", [1, 2, 4])
    assert list(digests) == [1, 2, 4]
    assert digests[1] == digests[4] != digests[2]


def test_a_folder_of_images_is_told_by_its_files(tmp_path: Path) -> None:
    for number, seed in enumerate([1, 2, 1], start=1):
        (tmp_path / f"page{number}.jpg").write_bytes(jpeg(seed))
    digests = scan_digests(tmp_path, "folder", [1, 2, 3])
    assert digests[1] == digests[3] != digests[2]


def test_a_page_without_pictures_has_none(tmp_path: Path) -> None:
    assert scan_digests(drawn_pdf(tmp_path / "drawn.pdf", ["one", "two"]), "pdf", [1, 2]) == {}


def test_a_copy_is_named_only_where_picture_and_text_agree() -> None:
    titles = ["PLATE IV", "PLATE V", "Plate  IV"]
    pages = [*(text_page([title], n) for n, title in enumerate(titles, start=1)), blank_page(4), blank_page(5)]
    same = dict.fromkeys(range(1, 6), "same")
    found = {
        fact.page_number: fact.near_duplicate_fault
        for fact in gather_page_facts(pages, same)
        if fact.near_duplicate_fault
    }
    assert found == {3: "page 3 is the same scan as page 1 and reads like it"}
    assert not any(fact.near_duplicate_fault for fact in gather_page_facts(pages, {n: str(n) for n in same}))
