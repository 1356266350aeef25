"""Copies of remote sources: made once, whole, as new as the source, below a cap and never taken from a reader."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import boto3
import fsspec
import pytest
import s3fs
from fsspec.implementations.memory import MemoryFileSystem
from support.failures.full_disk import no_file_larger_than
from support.s3_server import s3_environment
from support.sources import scanned_pdf

from data_contracts.errors import StorageUnavailable
from tasks import listing
from tasks.sources.fetch import fetch_document
from tasks.sources.spool import hold_spooled, spool


def test_a_local_source_is_used_where_it_lies(tmp_path):
    (tmp_path / "book.pdf").write_bytes(b"x")
    assert spool(str(tmp_path / "book.pdf"), tmp_path / "spool") == tmp_path / "book.pdf"
    assert not (tmp_path / "spool").exists()


@pytest.fixture
def remote():
    """An object store that clients reach by URI alone."""
    filesystem = fsspec.filesystem("memory")
    yield filesystem
    filesystem.store.clear()


def test_a_remote_file_is_copied_once_and_again_when_it_changed(remote, tmp_path):
    remote.pipe_file("/books/one.pdf", b"first")
    copy = spool("memory://books/one.pdf", tmp_path)
    assert (copy.name, copy.read_bytes()) == ("one.pdf", b"first")
    made = copy.stat().st_ino
    assert spool("memory://books/one.pdf", tmp_path).stat().st_ino == made
    remote.pipe_file("/books/one.pdf", b"second, longer")
    assert spool("memory://books/one.pdf", tmp_path).read_bytes() == b"second, longer"


def test_a_remote_folder_is_copied_as_a_whole(remote, tmp_path):
    for name in ("page1.png", "page2.png"):
        remote.pipe_file(f"/books/two/{name}", name.encode())
    copy = spool("memory://books/two", tmp_path)
    assert sorted(path.name for path in copy.iterdir()) == ["page1.png", "page2.png"]


def test_the_spool_forgets_what_was_unused_longest_but_never_the_newest(remote, tmp_path):
    copies = []
    for number in range(4):
        remote.pipe_file(f"/books/{number}.pdf", b"x" * 100)
        copies.append(spool(f"memory://books/{number}.pdf", tmp_path, cap_bytes=250))
        os.utime(copies[-1].parent, (number, number))
    assert [copy.exists() for copy in copies] == [False, False, True, True]
    assert spool("memory://books/3.pdf", tmp_path, cap_bytes=0).exists()


def test_a_copy_that_does_not_fit_leaves_nothing(remote, tmp_path):
    remote.pipe_file("/books/large.pdf", b"x" * 5000)
    with no_file_larger_than(1000), pytest.raises(StorageUnavailable):
        spool("memory://books/large.pdf", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_remote_source_is_said_to_be_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        spool("memory://books/none.pdf", tmp_path)


class GrowingFileSystem(MemoryFileSystem):
    """An object store in which somebody writes to every object while it is read, ``growths`` times."""

    protocol = "growing"
    store: dict = {}  # noqa: RUF012 - as fsspec has it
    growths = 0

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return super()._strip_protocol(path.removeprefix("growing://"))

    def get_file(self, rpath: str, lpath: str, **options: object) -> None:
        super().get_file(rpath, lpath, **options)
        if GrowingFileSystem.growths:
            GrowingFileSystem.growths -= 1
            self.pipe_file(rpath, self.cat_file(rpath) + b"+")


@pytest.mark.parametrize(("growths", "content"), [(1, b"x+"), (2, b"x++"), (9, None)])
def test_a_source_that_changes_while_it_is_copied_is_copied_again(
    tmp_path: Path, growths: int, content: bytes | None
) -> None:
    fsspec.register_implementation("growing", GrowingFileSystem, clobber=True)
    fsspec.filesystem("growing").pipe_file("/one.pdf", b"x")
    GrowingFileSystem.growths = growths
    if content is None:
        with pytest.raises(StorageUnavailable, match="changed 3 times"):
            spool("growing://one.pdf", tmp_path)
        assert list(tmp_path.iterdir()) == []
    else:
        assert spool("growing://one.pdf", tmp_path).read_bytes() == content


def test_a_copy_that_another_process_reads_is_never_dropped(remote, tmp_path):
    for number in range(3):
        remote.pipe_file(f"/books/{number}.pdf", b"x" * 100)
    first = spool("memory://books/0.pdf", tmp_path)
    code = (
        "import sys; from pathlib import Path; from tasks.sources.spool import hold_spooled\n"
        f"with hold_spooled(Path({str(first)!r}), Path({str(tmp_path)!r})): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        assert reader.stdout.readline() == b"held\n"
        spool("memory://books/1.pdf", tmp_path, cap_bytes=100)
        assert first.exists()
        reader.kill()
    spool("memory://books/2.pdf", tmp_path, cap_bytes=100)
    assert not first.exists(), "the lock dies with its holder"


def test_holding_what_was_dropped_is_refused_and_a_local_path_needs_no_holding(tmp_path):
    with pytest.raises(StorageUnavailable, match="dropped"), hold_spooled(tmp_path / "s" / "x" / "a", tmp_path / "s"):
        pass
    with hold_spooled(tmp_path / "book.pdf", tmp_path / "s"):
        pass


def test_what_a_killed_run_left_half_copied_is_dropped(remote, tmp_path):
    (tmp_path / ".abc.part").mkdir()
    (tmp_path / ".abc.part" / "half.pdf").write_bytes(b"x")
    remote.pipe_file("/books/0.pdf", b"x")
    copy = spool("memory://books/0.pdf", tmp_path)
    assert list(tmp_path.iterdir()) == [copy.parent]


def put(endpoint: str, uri: str, data: bytes) -> None:
    """Write to S3 past s3fs, as another machine would: this process's listings know nothing of it."""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    boto3.client("s3", endpoint_url=endpoint).put_object(Bucket=bucket, Key=key, Body=data)


@pytest.fixture
def s3(s3_bucket: str) -> str:
    return f"{s3_bucket}/Archive of 1890"


def test_s3_a_file_is_spooled_once_and_again_when_it_changed(s3: str, s3_endpoint: str, tmp_path: Path) -> None:
    put(s3_endpoint, f"{s3}/Bücher/one.pdf", b"first")
    copy = spool(f"{s3}/Bücher/one.pdf", tmp_path)
    assert (copy.name, copy.read_bytes()) == ("one.pdf", b"first")
    made = copy.stat().st_ino
    put(s3_endpoint, f"{s3}/Bücher/one.pdf", b"first")
    assert spool(f"{s3}/Bücher/one.pdf", tmp_path).stat().st_ino == made, "the same content again is not copied again"
    put(s3_endpoint, f"{s3}/Bücher/one.pdf", b"second")
    assert spool(f"{s3}/Bücher/one.pdf", tmp_path).read_bytes() == b"second"


def test_s3_a_large_object_comes_in_parts_and_whole(s3: str, s3_endpoint: str, tmp_path: Path) -> None:
    content = os.urandom(13 << 20) * 5
    put(s3_endpoint, f"{s3}/large.pdf", content)
    assert spool(f"{s3}/large.pdf", tmp_path).read_bytes() == content


def test_s3_listings_are_never_those_of_before(s3: str, s3_endpoint: str, tmp_path: Path) -> None:
    put(s3_endpoint, f"{s3}/book/page1.png", b"1")
    assert [file.name for file in listing.list_files(s3)] == ["book/page1.png"]
    put(s3_endpoint, f"{s3}/book/page2.png", b"2")
    put(s3_endpoint, f"{s3}/deep/er/x.pdf", b"")
    listed = listing.list_files(s3)
    assert sorted(file.name for file in listed) == ["book/page1.png", "book/page2.png", "deep/er/x.pdf"]
    assert len(list(spool(f"{s3}/book", tmp_path).iterdir())) == 2
    assert {file.name: listing.read_head(file, 9) for file in listed}["deep/er/x.pdf"] == b""


def test_s3_a_missing_source_bucket_or_prefix_is_said_to_be_missing(s3: str, tmp_path: Path) -> None:
    for uri in (f"{s3}/none.pdf", "s3://no-such-bucket-here/none.pdf"):
        with pytest.raises(FileNotFoundError):
            spool(uri, tmp_path)
        with pytest.raises(FileNotFoundError):
            listing.list_files(uri)


def test_s3_a_pdf_is_a_document_like_a_local_one(s3: str, s3_endpoint: str, tmp_path: Path) -> None:
    source = scanned_pdf(tmp_path / "Mein Buch.pdf", 2)
    put(s3_endpoint, f"{s3}/Mein Buch.pdf", source.read_bytes())
    local, _ = fetch_document(str(source), tmp_path / "spool")
    remote, copy = fetch_document(f"{s3}/Mein Buch.pdf", tmp_path / "spool")
    assert remote.model_dump() == local.model_dump() | {"uri": f"{s3}/Mein Buch.pdf"}
    assert copy.read_bytes() == source.read_bytes()


def test_s3_an_endpoint_that_is_gone_is_storage_that_does_not_answer(tmp_path: Path) -> None:
    os.environ.update(s3_environment("http://127.0.0.1:9"))
    s3fs.S3FileSystem.clear_instance_cache()  # a file system keeps the endpoint it was made with
    with pytest.raises(StorageUnavailable, match="endpoint answers"):
        spool("s3://bucket/one.pdf", tmp_path)
    s3fs.S3FileSystem.clear_instance_cache()
