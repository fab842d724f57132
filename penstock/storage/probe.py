"""The test that every storage must pass before it may hold checkpoints (PROTOCOL R1)."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

from penstock.errors import NameTakenError, StorageError
from penstock.model.ids import new_nonce
from penstock.storage.storage import Storage


def probe_two_writers(storage: Storage) -> None:
    """Return if one of two writers of a name is refused; raise StorageError if the storage cannot hold checkpoints."""
    path = f"probe-{new_nonce()}"
    try:
        with ThreadPoolExecutor(2) as pool:
            outcomes = list(pool.map(partial(_wins, storage, path), (b"one", b"two")))
        if outcomes.count(True) != 1:
            raise StorageError(_refusal(storage, f"it told {outcomes.count(True)} of two writers that they had won"))
        winner = b"one" if outcomes[0] else b"two"
        if _wins(storage, path, b"three"):
            raise StorageError(_refusal(storage, "it let a second writer take a name that exists"))
        if storage.read(path) != winner:
            raise StorageError(_refusal(storage, "a second writer changed a file that exists"))
        if path not in storage.list("probe-"):
            raise StorageError(_refusal(storage, "a listing does not show a file that was written before"))
    finally:
        storage.delete(path)
    if path in storage.list("probe-"):
        raise StorageError(_refusal(storage, "a listing shows a file that was deleted before"))


def _wins(storage: Storage, path: str, data: bytes) -> bool:
    try:
        storage.put_new(path, data)
    except NameTakenError:
        return False
    return True


def _refusal(storage: Storage, why: str) -> str:
    return f"{storage.uri} cannot hold checkpoints: {why}; use a local disk or an object store with conditional writes"
