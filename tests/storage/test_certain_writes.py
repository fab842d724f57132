"""Lost replies, late writes, and the probe of a storage that overwrites (PROTOCOL R1, R5)."""

import pytest

from penstock.errors import NameTakenError, StorageError, UnknownOutcomeError
from penstock.storage import Fault, MemoryStorage, probe_two_writers, put_certain
from penstock.storage.certain_put import WAITS_S
from penstock.storage.memory import NoFaults
from penstock.storage.paths import Paths


class Script:
    """Injects faults one after the other, each into the next call of its operation."""

    def __init__(self, *faults: tuple[str, Fault]) -> None:
        self.faults = list(faults)

    def before(self, operation: str, path: str) -> Fault | None:
        if self.faults and self.faults[0][0] == operation:
            return self.faults.pop(0)[1]
        return None

    def landed(self, path: str, data: bytes) -> None: ...

    def deleted(self, path: str) -> None: ...


def no_wait(seconds: float) -> None: ...


@pytest.mark.parametrize("fault", [Fault.LOST_BEFORE, Fault.LOST_AFTER, Fault.LATE])
def test_a_write_without_reply_is_repeated_until_it_is_there(fault: Fault) -> None:
    storage = MemoryStorage(Script(("put_new", fault), ("put_new", fault)))
    put_certain(storage, "a", b"mine", no_wait)
    assert storage.files == {"a": b"mine"}


def test_a_write_that_landed_late_does_not_overwrite_another() -> None:
    storage = MemoryStorage(Script(("put_new", Fault.LATE)))
    with pytest.raises(UnknownOutcomeError):
        storage.put_new("a", b"late")
    storage.put_new("a", b"other")
    assert not storage.land()
    assert storage.files == {"a": b"other"}


def test_a_name_taken_by_another_is_not_mistaken_for_ones_own() -> None:
    storage = MemoryStorage(Script(("put_new", Fault.LOST_BEFORE)))
    storage.files["a"] = b"other"
    with pytest.raises(NameTakenError):
        put_certain(storage, "a", b"mine", no_wait)


def test_a_failure_after_a_lost_reply_is_still_unknown() -> None:
    failures = [("put_new", Fault.FAIL)] * (len(WAITS_S) + 1)
    storage = MemoryStorage(Script(("put_new", Fault.LATE), *failures))
    with pytest.raises(UnknownOutcomeError):
        put_certain(storage, "a", b"mine", no_wait)
    assert storage.land()


def test_a_plain_failure_is_known_at_once() -> None:
    storage = MemoryStorage(Script(("put_new", Fault.FAIL)))
    with pytest.raises(StorageError) as caught:
        put_certain(storage, "a", b"mine", no_wait)
    assert not isinstance(caught.value, UnknownOutcomeError)
    assert storage.files == {}


def test_a_name_that_cannot_be_read_back_is_tried_again() -> None:
    storage = MemoryStorage(Script(("put_new", Fault.LOST_AFTER), ("read", Fault.FAIL)))
    put_certain(storage, "a", b"mine", no_wait)
    assert storage.files == {"a": b"mine"}


def test_the_number_of_tries_is_limited() -> None:
    waited: list[float] = []
    storage = MemoryStorage(Script(*[("put_new", Fault.LOST_BEFORE)] * 100))
    with pytest.raises(UnknownOutcomeError):
        put_certain(storage, "a", b"mine", waited.append)
    assert waited == list(WAITS_S)


class Overwriting:
    """A storage that lets the last writer win."""

    uri = "broken://"

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def put_new(self, path: str, data: bytes) -> None:
        self.files[path] = data

    def read(self, path: str) -> bytes:
        return self.files[path]

    def list(self, prefix: str) -> "list[str]":
        return sorted(self.files)

    def folders(self) -> Paths:
        return []

    def delete(self, path: str) -> None:
        self.files.pop(path, None)

    def size(self, path: str) -> int:
        return len(self.files[path])


def test_a_storage_that_overwrites_cannot_hold_checkpoints() -> None:
    storage = Overwriting()
    with pytest.raises(StorageError, match="cannot hold checkpoints"):
        probe_two_writers(storage)
    assert storage.files == {}


def test_a_script_without_faults_changes_nothing() -> None:
    storage = MemoryStorage(NoFaults())
    storage.put_new("a", b"x")
    storage.delete("a")
    assert storage.files == {}


def test_a_power_cut_takes_names_whose_folder_was_not_synced() -> None:
    storage = MemoryStorage()
    storage.put_new("log/1", b"x")
    storage.files["log/2"] = b"y"
    storage.lose_unsynced()
    assert "log/1" in storage.files
