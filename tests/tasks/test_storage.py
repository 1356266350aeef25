import hashlib
import os
import threading
from collections.abc import Iterator

import fsspec
import pytest
from support.failures.full_disk import no_file_larger_than

from data_contracts.errors import BrokenChecksum, StorageUnavailable
from tasks import listing, storage

PLACES = ("local", "memory", "s3")
X100 = hashlib.sha256(b"x" * 100).hexdigest()


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


def test_a_name_with_two_colons_is_a_name_and_a_chain_is_a_chain(tmp_path, s3_bucket):
    for folder in (str(tmp_path / "x::y"), f"{s3_bucket}/x::y"):
        uri = storage.join(folder, "a::b.bin")
        storage.write_bytes(uri, b"content")
        assert storage.read_bytes(uri) == b"content"
        (found,) = listing.list_files(folder)
        assert listing.read_head(found, 3) == b"con"
    (tmp_path / "plain.bin").write_bytes(b"chained")
    assert storage.read_bytes(f"simplecache::file://{tmp_path}/plain.bin") == b"chained"


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


def test_the_oldest_files_of_a_folder_go_first(tmp_path):
    for number in range(4):
        (tmp_path / str(number)).write_bytes(b"x" * 100)
        os.utime(tmp_path / str(number), (number, number))
    storage.trim_folder(str(tmp_path), 250)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2", "3"]


def test_a_folder_is_trimmed_at_any_depth_and_may_be_missing(place):
    storage.trim_folder(storage.join(place, "none"), 250)
    for number in range(4):
        storage.write_bytes(storage.join(place, "cache", str(number), "file"), b"x" * 100)
    storage.trim_folder(storage.join(place, "cache"), 250)
    left = [storage.exists_with_sha256(storage.join(place, "cache", str(n), "file"), X100) for n in range(4)]
    assert sum(left) == 2
    assert left[3], "the one written last"


def test_hashing_reads_in_portions(tmp_path):
    content = os.urandom(storage.READ_BYTES + 17)
    (tmp_path / "large").write_bytes(content)
    assert storage.sha256_file(str(tmp_path / "large")) == hashlib.sha256(content).hexdigest()
