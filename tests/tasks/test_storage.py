import hashlib
import os
import threading
from collections.abc import Iterator

import fsspec
import pytest
from support.failures.full_disk import no_file_larger_than

from data_contracts.errors import BrokenChecksum, StorageUnavailable
from tasks import storage

PLACES = ("local", "memory", "s3")


@pytest.fixture(params=PLACES)
def place(request, tmp_path) -> Iterator[str]:
    """A folder, local and in object stores."""
    if request.param == "local":
        yield str(tmp_path / "store")
        return
    if request.param == "s3":
        yield f"{request.getfixturevalue('s3_bucket')}/store"
        return
    yield "memory://store"
    fsspec.filesystem("memory").store.clear()
    fsspec.filesystem("memory").pseudo_dirs[:] = [""]


def test_what_is_written_is_read(place):
    uri = storage.join(place, "deep", "file.bin")
    storage.write_bytes(uri, b"old")
    storage.write_bytes(uri, b"new")
    assert storage.read_bytes(uri) == b"new"
    assert storage.file_names(storage.join(place, "deep")) == ["file.bin"], "nothing else is left beside it"
    assert storage.sha256_file(uri) == storage.sha256_bytes(b"new")
    assert storage.is_folder(place)
    assert not storage.is_folder(uri)


def test_of_two_exclusive_writers_the_first_wins(place):
    uri = storage.join(place, "manifest.json")
    storage.write_exclusive(uri, b"first")
    with pytest.raises(FileExistsError):
        storage.write_exclusive(uri, b"second")
    assert storage.read_bytes(uri) == b"first"


def test_of_many_exclusive_writers_at_once_one_wins(tmp_path):
    uri, won, start = str(tmp_path / "one"), [], threading.Barrier(8)

    def write(number: int) -> None:
        start.wait()
        try:
            storage.write_exclusive(uri, str(number).encode() * 1000)
        except FileExistsError:
            return
        won.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [storage.read_bytes(uri)] == [str(number).encode() * 1000 for number in won]


def test_a_missing_file_is_an_answer_not_a_failure(place):
    uri = storage.join(place, "none")
    with pytest.raises(FileNotFoundError):
        storage.read_bytes(uri)
    assert not storage.exists_with_sha256(uri, storage.sha256_bytes(b""))
    storage.delete(uri)


def test_a_file_is_there_only_with_its_content(place):
    uri = storage.join(place, "file")
    storage.write_bytes(uri, b"whole content")
    sha256 = storage.sha256_bytes(b"whole content")
    assert storage.exists_with_sha256(uri, sha256)
    storage.write_bytes(uri, b"whole con")
    assert not storage.exists_with_sha256(uri, sha256), "it exists, but cut off"


def test_verified_reading_refuses_what_is_damaged_or_gone(place):
    uri, sha256 = storage.join(place, "file"), storage.sha256_bytes(b"content")
    storage.write_bytes(uri, b"content")
    assert storage.read_verified(uri, sha256) == b"content"
    storage.write_bytes(uri, b"c0ntent")
    with pytest.raises(BrokenChecksum, match="damaged"):
        storage.read_verified(uri, sha256)
    storage.delete(uri)
    with pytest.raises(BrokenChecksum, match="is gone"):
        storage.read_verified(uri, sha256)


def test_a_full_disk_leaves_the_old_content_and_nothing_beside_it(tmp_path):
    uri = str(tmp_path / "file")
    storage.write_bytes(uri, b"old")
    with no_file_larger_than(1000), pytest.raises(StorageUnavailable) as caught:
        storage.write_bytes(uri, b"n" * 2000)
    assert storage.read_bytes(uri) == b"old"
    assert storage.file_names(str(tmp_path)) == ["file"]
    assert caught.value.retryable
    for part in (uri, "GB free there", "Make room"):
        assert part in str(caught.value)


def test_a_full_disk_leaves_no_exclusive_file(tmp_path):
    with no_file_larger_than(1000), pytest.raises(StorageUnavailable):
        storage.write_exclusive(str(tmp_path / "file"), b"n" * 2000)
    assert list(tmp_path.iterdir()) == []


def test_a_path_through_a_file_is_storage_that_does_not_answer(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageUnavailable, match="could not write"):
        storage.write_bytes(str(tmp_path / "file" / "below"), b"x")


def test_faults_of_our_own_are_not_blamed_on_the_disk(tmp_path):
    with pytest.raises(TypeError):
        storage.write_bytes(str(tmp_path / "file"), "text")  # type: ignore[arg-type]


def test_a_file_is_moved_in_over_the_old_one(place, tmp_path):
    uri = storage.join(place, "file")
    storage.write_bytes(uri, b"old")
    (tmp_path / "new").write_bytes(b"new")
    storage.move_in(tmp_path / "new", uri)
    assert storage.read_bytes(uri) == b"new"


def test_a_local_source_is_used_where_it_lies(tmp_path):
    (tmp_path / "book.pdf").write_bytes(b"x")
    assert storage.spool(str(tmp_path / "book.pdf"), tmp_path / "spool") == tmp_path / "book.pdf"
    assert not (tmp_path / "spool").exists()


@pytest.fixture
def remote():
    """An object store that clients reach by URI alone."""
    filesystem = fsspec.filesystem("memory")
    yield filesystem
    filesystem.store.clear()


def test_a_remote_file_is_copied_once_and_again_when_it_changed(remote, tmp_path):
    remote.pipe_file("/books/one.pdf", b"first")
    copy = storage.spool("memory://books/one.pdf", tmp_path)
    assert (copy.name, copy.read_bytes()) == ("one.pdf", b"first")
    made = copy.stat().st_ino
    assert storage.spool("memory://books/one.pdf", tmp_path).stat().st_ino == made
    remote.pipe_file("/books/one.pdf", b"second, longer")
    assert storage.spool("memory://books/one.pdf", tmp_path).read_bytes() == b"second, longer"


def test_a_remote_folder_is_copied_as_a_whole(remote, tmp_path):
    for name in ("page1.png", "page2.png"):
        remote.pipe_file(f"/books/two/{name}", name.encode())
    copy = storage.spool("memory://books/two", tmp_path)
    assert sorted(path.name for path in copy.iterdir()) == ["page1.png", "page2.png"]


def test_the_spool_forgets_what_was_unused_longest_but_never_the_newest(remote, tmp_path):
    copies = []
    for number in range(4):
        remote.pipe_file(f"/books/{number}.pdf", b"x" * 100)
        copies.append(storage.spool(f"memory://books/{number}.pdf", tmp_path, cap_bytes=250))
        os.utime(copies[-1].parent, (number, number))
    assert [copy.exists() for copy in copies] == [False, False, True, True]
    assert storage.spool("memory://books/3.pdf", tmp_path, cap_bytes=0).exists()


def test_a_copy_that_does_not_fit_leaves_nothing(remote, tmp_path):
    remote.pipe_file("/books/large.pdf", b"x" * 5000)
    with no_file_larger_than(1000), pytest.raises(StorageUnavailable):
        storage.spool("memory://books/large.pdf", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_remote_source_is_said_to_be_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        storage.spool("memory://books/none.pdf", tmp_path)


def test_the_oldest_files_of_a_folder_go_first(tmp_path):
    for number in range(4):
        (tmp_path / str(number)).write_bytes(b"x" * 100)
        os.utime(tmp_path / str(number), (number, number))
    storage.trim_folder(tmp_path, 250)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2", "3"]


def test_hashing_reads_in_portions(tmp_path):
    content = os.urandom(storage.READ_BYTES + 17)
    (tmp_path / "large").write_bytes(content)
    assert storage.sha256_file(str(tmp_path / "large")) == hashlib.sha256(content).hexdigest()
