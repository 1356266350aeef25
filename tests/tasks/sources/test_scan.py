"""What an archive holds: files, folders of page images, and what is neither."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.sources import jpeg

from data_contracts.errors import ConfigError, UnreadableDocument
from tasks.sources.scan import names_gone, scan_archive, why_not_a_document


def archive(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(jpeg(len(name)))
    return folder


def test_page_images_of_a_folder_are_one_document_and_all_else_is_its_own(tmp_path: Path) -> None:
    names = (
        "b10.pdf",
        "b2.pdf",
        "cover.jpg",
        "vol/p1.jpg",
        "vol/p2.TIF",
        "vol/notes.txt",
        "mixed/a.pdf",
        "mixed/c.png",
    )
    prefix = archive(tmp_path / "in", *names)
    items = scan_archive(str(prefix), str(tmp_path / "out"))
    assert [item.name for item in items] == [
        "b2.pdf",
        "b10.pdf",
        "cover.jpg",
        "mixed/a.pdf",
        "mixed/c.png",
        "vol/notes.txt",
        "vol/",
    ]
    assert [Path(item.uri).exists() for item in items] == [True] * 7
    assert [len(item.files) for item in items][-1] == 2


def test_the_version_of_a_folder_changes_with_any_of_its_pages_and_with_their_number(tmp_path: Path) -> None:
    prefix = archive(tmp_path / "in", "vol/p1.jpg", "vol/p2.jpg")

    def version() -> str:
        (item,) = scan_archive(str(prefix), str(tmp_path / "out"))
        return item.version

    versions = [version(), version()]
    stamp = (prefix / "vol/p2.jpg").stat()
    (prefix / "vol/p2.jpg").write_bytes(jpeg(99)[: stamp.st_size].ljust(stamp.st_size, b"\0"))
    os.utime(prefix / "vol/p2.jpg", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    versions.append(version())
    archive(prefix, "vol/p3.jpg")
    versions.append(version())
    assert versions[0] == versions[1]
    assert len(set(versions)) == 3, "also with size and modification time of before"


def test_what_is_no_document_is_told_by_its_first_bytes_and_damaged_by_its_name(tmp_path: Path) -> None:
    prefix = archive(tmp_path / "in", "scan")
    (prefix / "a.pdf").write_bytes(b"")
    (prefix / "b.txt").write_text("text")
    a, b, scan = scan_archive(str(prefix), str(tmp_path / "out"))
    assert "empty" in (why_not_a_document(a) or "")
    assert "whatever its name says" in (why_not_a_document(b) or "")
    assert why_not_a_document(scan) is None, "an image without a suffix is one"
    assert [item.claims_to_be_a_document for item in (a, b, scan)] == [True, False, False]


def test_an_output_inside_the_archive_and_an_archive_that_is_not_there_are_refused(tmp_path: Path) -> None:
    prefix = archive(tmp_path / "in", "a.pdf")
    for output in (prefix, prefix / "out"):
        with pytest.raises(ConfigError, match="ingested again"):
            scan_archive(f"{prefix}/", str(output))
    scan_archive(str(prefix), f"{prefix}-out")
    with pytest.raises(UnreadableDocument, match="no folder or prefix"):
        scan_archive(str(tmp_path / "none"), str(tmp_path / "out"))


def test_an_empty_folder_holds_nothing_and_what_was_there_is_gone(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    assert names_gone(["b", "a"], scan_archive(str(tmp_path / "in"), str(tmp_path / "out"))) == ["a", "b"]
