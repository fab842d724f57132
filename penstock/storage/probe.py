"""The question asked of every storage before it may hold checkpoints (PROTOCOL R1)."""

from penstock.errors import NameTakenError, StorageError
from penstock.model.ids import new_nonce
from penstock.storage.blobs import Storage


def probe_two_writers(storage: Storage) -> None:
    """Return if a second writer of a name is refused; raise StorageError if the storage cannot hold checkpoints."""
    path = f"probe-{new_nonce()}"
    try:
        storage.put_new(path, b"first")
        try:
            storage.put_new(path, b"second")
        except NameTakenError:
            pass
        else:
            raise StorageError(_refusal(storage, "it let a second writer take a name that exists"))
        if storage.read(path) != b"first":
            raise StorageError(_refusal(storage, "a second writer changed a file that exists"))
        if path not in storage.list("probe-"):
            raise StorageError(_refusal(storage, "a listing does not show a file that was written before"))
    finally:
        storage.delete(path)


def _refusal(storage: Storage, why: str) -> str:
    return f"{storage.uri} cannot hold checkpoints: {why}; use a local disk or an object store with conditional writes"
