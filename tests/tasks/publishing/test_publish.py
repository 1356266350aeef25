import json
from pathlib import Path

import fsspec
import pymupdf
import pytest
from support.failures.full_disk import no_file_larger_than
from support.readings import blank_page, failed_page, text_page
from support.sources import drawn_pdf, scanned_pdf

from data_contracts.document import DocumentRef
from data_contracts.errors import LedgerUnbalanced, StorageUnavailable
from data_contracts.formats.jsonl import read_pages
from tasks import storage
from tasks.publishing.publication import Publication
from tasks.publishing.publish import MANIFEST, publish_document, published_page_numbers
from tasks.sources.fetch import fetch_document
from tasks.storage import sha256_file

ALL = ("txt", "pdf", "jsonl")
FIELDS = {"config_sha256": "cd" * 32, "versions": {"tomeflow": "0.1.0"}}


@pytest.fixture
def book(tmp_path) -> tuple[DocumentRef, Path]:
    return fetch_document(str(scanned_pdf(tmp_path / "book.pdf", 5)), tmp_path / "spool")


PAGES = [text_page(["one"], 1), blank_page(2), text_page(["three", "lines"], 3), failed_page(4), text_page(["five"], 5)]


def publish(book, folder, pages=PAGES, formats=ALL, run=None):
    return publish_document(Publication(*book, lambda: iter(pages)), folder, formats, FIELDS, run or {})


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def assert_files_match_the_manifest(folder: Path) -> None:
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    assert names(folder) == sorted([*manifest["files"], MANIFEST])
    for name, entry in manifest["files"].items():
        assert entry == {"sha256": sha256_file(str(folder / name)), "size_bytes": (folder / name).stat().st_size}


def test_every_format_holds_every_page_and_the_manifest_describes_them(book, tmp_path):
    folder = tmp_path / "out" / book[0].document_id
    manifest = publish(book, folder, run={"seconds": 1.5})
    assert names(folder) == ["document.pdf", "document.txt", "manifest.json", "pages.jsonl"]
    assert_files_match_the_manifest(folder)
    assert (folder / "document.txt").read_text() == "one\n\f\fthree\nlines\n\f\ffive\n"
    assert list(read_pages(folder / "pages.jsonl")) == PAGES
    with pymupdf.open(folder / "document.pdf") as pdf:
        assert [page.get_text().split() for page in pdf] == [["one"], [], ["three", "lines"], [], ["five"]]
    assert manifest == json.loads((folder / MANIFEST).read_text())
    assert manifest["status_counts"] == {"text": 3, "blank": 1, "failed": 1, "truncated": 0}
    assert (manifest["selected_pages"], manifest["unselected_page_count"]) == ([1, 2, 3, 4, 5], 0)
    assert manifest["document"]["sha256"] == book[0].sha256
    assert manifest["config_sha256"] == FIELDS["config_sha256"]
    assert manifest["run"] == {"seconds": 1.5}


def test_a_selection_is_published_as_such(book, tmp_path):
    manifest = publish(book, tmp_path / "out", [PAGES[2], PAGES[4]])
    assert (manifest["selected_pages"], manifest["unselected_page_count"]) == ([3, 5], 3)
    assert published_page_numbers(str(tmp_path / "out")) == {3, 5}
    assert published_page_numbers(str(tmp_path / "nothing")) == set()
    assert (tmp_path / "out" / "document.txt").read_text() == "three\nlines\n\ffive\n"
    with pymupdf.open(tmp_path / "out" / "document.pdf") as pdf:
        assert [page.get_text().split() for page in pdf] == [["three", "lines"], ["five"]]


@pytest.mark.parametrize("formats", [("txt",), ("pdf",), ("jsonl",), ("jsonl", "txt")])
def test_only_what_is_asked_for_is_written(book, tmp_path, formats):
    publish(book, tmp_path / "out", formats=formats)
    expected = {"txt": "document.txt", "pdf": "document.pdf", "jsonl": "pages.jsonl"}
    assert names(tmp_path / "out") == sorted([*(expected[name] for name in formats), MANIFEST])


def test_two_runs_differ_in_the_run_alone(book, tmp_path):
    first = publish(book, tmp_path / "one", run={"seconds": 1})
    second = publish(book, tmp_path / "two", run={"seconds": 2})
    for name in ("document.pdf", "document.txt", "pages.jsonl"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert first.pop("run") != second.pop("run")
    assert first == second


def test_pages_that_keep_their_own_text_are_named(tmp_path):
    book = fetch_document(str(drawn_pdf(tmp_path / "drawn.pdf", ["printed words", "more of them"])), tmp_path / "spool")
    manifest = publish(book, tmp_path / "out", [text_page(["printed w0rds"], 1), blank_page(2)])
    assert manifest["pages_with_own_text"] == [1, 2], "a page that shows nothing to read keeps what it has, too"
    assert manifest["text_layers"] == {"kept": [1, 2]}
    assert manifest["pages_with_rubbish_text"] == []


def test_a_new_version_replaces_the_old_and_leaves_what_is_not_ours(book, tmp_path):
    folder = tmp_path / "out"
    publish(book, folder)
    (folder / "notes of the owner.txt").write_text("keep")
    publish(book, folder, formats=("txt",))
    assert names(folder) == ["document.txt", MANIFEST, "notes of the owner.txt"]
    assert names(tmp_path) == ["book.pdf", "out"], "no staging folder is left"


@pytest.mark.parametrize("pages", [[PAGES[0], PAGES[0]], [PAGES[2], PAGES[0]]])
def test_pages_twice_or_out_of_order_are_not_published(book, tmp_path, pages):
    with pytest.raises(LedgerUnbalanced):
        publish(book, tmp_path / "out", pages)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("format_name", ALL)
def test_a_full_disk_leaves_the_published_version_as_it_was(book, tmp_path, format_name):
    folder = tmp_path / "out"
    publish(book, folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    long_page = text_page([f"line {number} of many" for number in range(30)], 1)
    with no_file_larger_than(400), pytest.raises(StorageUnavailable, match="free there") as caught:
        publish(book, folder, [long_page], formats=(format_name,))
    assert caught.value.retryable
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert names(tmp_path) == ["book.pdf", "out"]


def test_a_disk_that_fills_up_while_the_text_layer_is_added_is_storage_too(book, tmp_path):
    limit = Path(book[1]).stat().st_size + 100
    with no_file_larger_than(limit), pytest.raises(StorageUnavailable):
        publish(book, tmp_path / "out", formats=("pdf",))
    assert not (tmp_path / "out").exists()


def test_who_finds_a_manifest_finds_its_files_at_every_step_of_the_exchange(book, tmp_path, monkeypatch):
    folder = tmp_path / "out"
    publish(book, folder)
    from tasks import storage

    seen = []

    def watched(action):
        def step(*arguments):
            action(*arguments)
            if (folder / MANIFEST).exists():
                assert_files_match_the_manifest(folder)
            seen.append(action.__name__)

        return step

    monkeypatch.setattr(storage, "delete", watched(storage.delete))
    monkeypatch.setattr(storage, "move_in", watched(storage.move_in))
    publish(book, folder, [text_page(["other"], number) for number in (1, 2, 3)], formats=("pdf", "jsonl"))
    assert seen == ["delete", "delete", "move_in", "move_in", "move_in"]


def test_an_exchange_that_was_interrupted_is_not_published_and_the_next_one_is(book, tmp_path, monkeypatch):
    from tasks import storage

    folder = tmp_path / "out"
    publish(book, folder)
    move_in = storage.move_in

    def cut_off(source, uri):
        if uri.endswith("document.txt"):
            raise KeyboardInterrupt
        move_in(source, uri)

    monkeypatch.setattr(storage, "move_in", cut_off)
    with pytest.raises(KeyboardInterrupt):
        publish(book, folder, [text_page(["other"], 1)])
    assert not (folder / MANIFEST).exists()
    monkeypatch.undo()
    publish(book, folder, [text_page(["other"], 1)])
    assert_files_match_the_manifest(folder)


def test_a_staging_folder_that_a_killed_run_left_is_no_hindrance(book, tmp_path):
    leftover = tmp_path / ".out.publishing"
    leftover.mkdir()
    (leftover / "document.pdf").write_bytes(b"half a file")
    publish(book, tmp_path / "out")
    assert_files_match_the_manifest(tmp_path / "out")
    assert not leftover.exists()


def test_publishing_goes_to_an_object_store_as_well(book):
    remote = fsspec.filesystem("memory")
    try:
        publish(book, "memory://shelf/book")
        publish(book, "memory://shelf/book", formats=("txt", "jsonl"))
        manifest = json.loads(remote.cat_file("/shelf/book/manifest.json"))
        assert sorted(remote.ls("/shelf/book", detail=False)) == [
            "/shelf/book/document.txt",
            "/shelf/book/manifest.json",
            "/shelf/book/pages.jsonl",
        ]
        for name, entry in manifest["files"].items():
            assert sha256_file(f"memory://shelf/book/{name}") == entry["sha256"]
    finally:
        remote.store.clear()


def test_of_two_machines_that_publish_at_once_one_wins_and_the_other_says_so(book, s3_bucket, monkeypatch):
    folder = f"{s3_bucket}/out/book"
    move_in = storage.move_in

    def overtaken(source, uri):
        move_in(source, uri)
        storage.write_bytes(f"{folder}/{MANIFEST}", b"the other's")

    monkeypatch.setattr(storage, "move_in", overtaken)
    with pytest.raises(StorageUnavailable, match="another machine has published"):
        publish(book, folder)
    assert storage.read_bytes(f"{folder}/{MANIFEST}") == b"the other's"
    monkeypatch.undo()
    publish(book, folder)
    assert json.loads(storage.read_bytes(f"{folder}/{MANIFEST}"))["selected_pages"] == [1, 2, 3, 4, 5]
