"""What every Storage must do. A test runs each of `CHECKS` on a fresh, empty storage of its own.

`python -m penstock.testing.conformance_storage ADDRESS` runs them below an address and leaves nothing there.
"""

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from penstock.errors import FileMissingError, NameTakenError, StorageError
from penstock.model.ids import new_nonce
from penstock.storage.address import join_address
from penstock.storage.probe import probe_two_writers
from penstock.storage.storage import Storage, open_storage

BAD_PATHS = ("", "/a", "../a", "a/../b", "a//b", "a/", "./a", "a/.", "a\\b", "a\0b", "a\nb", "s3://a/b", "x" * 300)

ODD_NAMES = (
    "a b+c", "ü%41", "x?y#z&a=b", "'q'\"", "a*b", "%2e%2e", "日本", "a=b@c,d;e", "[x]{y}^`|", "..a", "a..", "...", "<$",
)  # fmt: skip


def what_was_written_is_read_back(storage: Storage) -> None:
    for data in (b"", b"x", bytes(range(256)) * 1000):
        path = f"folder/file-{len(data)}"
        storage.put_new(path, data)
        assert storage.read(path) == data
        assert storage.size(path) == len(data)


def a_name_is_never_written_twice(storage: Storage) -> None:
    storage.put_new("a/b", b"first")
    _expect(NameTakenError, lambda: storage.put_new("a/b", b"second"))
    _expect(NameTakenError, lambda: storage.put_new("a/b", b"first"))
    assert storage.read("a/b") == b"first"


def a_deleted_name_is_free_again(storage: Storage) -> None:
    storage.put_new("a/b", b"first")
    storage.delete("a/b")
    assert storage.list("") == []
    storage.put_new("a/b", b"second")
    assert storage.read("a/b") == b"second"


def deleting_what_is_not_there_is_fine(storage: Storage) -> None:
    storage.delete("a/b")
    storage.put_new("c", b"")
    storage.delete("c/d")
    assert storage.list("") == ["c"]


def a_missing_file_is_said_to_be_missing(storage: Storage) -> None:
    storage.put_new("a/b", b"")
    for path in ("b", "a/c", "a", "a/b/c"):
        _expect(FileMissingError, lambda path=path: storage.size(path))  # type: ignore[misc]
    for path in ("b", "a/c", "a/b/c"):
        _expect(FileMissingError, lambda path=path: storage.read(path))  # type: ignore[misc]


def a_listing_is_sorted_and_holds_what_starts_with_the_prefix(storage: Storage) -> None:
    paths = ["chk-1/_metadata", "chk-1/x", "chk-10/_metadata", "chk-2/_metadata", "log/01", "top"]
    for path in reversed(paths):
        storage.put_new(path, b"")
    assert storage.list("") == paths
    assert storage.list("chk-1/") == paths[:2]
    assert storage.list("chk-1") == paths[:3]
    assert storage.list("chk-") == paths[:4]
    assert storage.list("log/") == ["log/01"]
    assert storage.list("nothing/") == []


def folders_are_those_directly_below_the_root(storage: Storage) -> None:
    assert storage.folders() == []
    for path in ("b/c/d", "a/b", "a/c", "top"):
        storage.put_new(path, b"")
    assert storage.folders() == ["a", "b"]


def a_name_may_have_any_printable_character(storage: Storage) -> None:
    paths = sorted(f"odd/{name}" for name in ODD_NAMES)
    for path in paths:
        storage.put_new(path, path.encode())
    assert storage.list("odd/") == paths
    for path in paths:
        assert storage.read(path) == path.encode()
        _expect(NameTakenError, lambda path=path: storage.put_new(path, b"x"))  # type: ignore[misc]
        storage.delete(path)
    assert storage.list("") == []


def of_many_writers_of_one_name_one_wins(storage: Storage) -> None:
    def write(number: int) -> int | None:
        try:
            storage.put_new("log/1", b"%d" % number)
        except NameTakenError:
            return None
        return number

    for _ in range(5):
        with ThreadPoolExecutor(4) as pool:
            winners = [number for number in pool.map(write, range(4)) if number is not None]
        assert len(winners) == 1, f"{len(winners)} writers were told that they had won"
        assert storage.read("log/1") == b"%d" % winners[0]
        storage.delete("log/1")


def a_delete_leaves_nothing_in_its_place(storage: Storage) -> None:
    for path in ("chk-1/x", "chk-1/y", "chk-2/x"):
        storage.put_new(path, b"x")
    for path in ("chk-1/x", "chk-1/y", "chk-2/x"):
        storage.delete(path)
    assert storage.list("") == []
    for path in ("chk-1", "chk-1/x"):
        _expect(FileMissingError, lambda path=path: storage.size(path))  # type: ignore[misc]


def a_refused_write_leaves_no_trace(storage: Storage) -> None:
    storage.put_new("a/b", b"first")
    _expect(NameTakenError, lambda: storage.put_new("a/b", b"second"))
    assert storage.list("") == ["a/b"]


def no_path_leads_out_of_the_root(storage: Storage) -> None:
    for path in BAD_PATHS:
        _expect(StorageError, lambda path=path: storage.put_new(path, b"x"))  # type: ignore[misc]
        _expect(StorageError, lambda path=path: storage.read(path))  # type: ignore[misc]
        _expect(StorageError, lambda path=path: storage.delete(path))  # type: ignore[misc]
        _expect(StorageError, lambda path=path: storage.size(path))  # type: ignore[misc]
    for prefix in ("../", "/", "a/../", "../../etc/", "./"):
        assert storage.list(prefix) == []
    assert storage.list("") == []


def names_of_temporary_files_cannot_be_written(storage: Storage) -> None:
    _expect(StorageError, lambda: storage.put_new("a~1", b"x"))
    assert storage.list("") == []


def it_passes_the_probe_and_the_probe_leaves_nothing(storage: Storage) -> None:
    probe_two_writers(storage)
    assert storage.list("") == []


CHECKS: tuple[Callable[[Storage], None], ...] = (
    what_was_written_is_read_back,
    a_name_is_never_written_twice,
    a_deleted_name_is_free_again,
    deleting_what_is_not_there_is_fine,
    a_missing_file_is_said_to_be_missing,
    a_listing_is_sorted_and_holds_what_starts_with_the_prefix,
    folders_are_those_directly_below_the_root,
    a_name_may_have_any_printable_character,
    of_many_writers_of_one_name_one_wins,
    a_delete_leaves_nothing_in_its_place,
    a_refused_write_leaves_no_trace,
    no_path_leads_out_of_the_root,
    names_of_temporary_files_cannot_be_written,
    it_passes_the_probe_and_the_probe_leaves_nothing,
)


def _expect(error: type[StorageError], call: Callable[[], object]) -> None:
    try:
        call()
    except error:
        return
    raise AssertionError(f"expected {error.__name__}")


def main(address: str) -> int:
    """Run every check below the address; the number of those that failed."""
    failed = 0
    for check in CHECKS:
        storage = open_storage(join_address(address, f"conformance-{new_nonce()}"))
        try:
            check(storage)
            print(f"passed: {check.__name__}")
        except (AssertionError, StorageError) as error:
            failed += 1
            print(f"FAILED: {check.__name__}: {type(error).__name__}: {error}")
        finally:
            for path in storage.list(""):
                storage.delete(path)
    print(f"{len(CHECKS) - failed} of {len(CHECKS)} passed")
    return failed


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1]) else 0)
