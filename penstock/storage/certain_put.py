"""Writes whose outcome is known when they return (PROTOCOL R5)."""

from collections.abc import Callable

from penstock.errors import FileMissingError, NameTakenError, NotDurableError, StorageError, UnknownOutcomeError
from penstock.storage.storage import Storage

WAITS_S = (0.01, 0.05, 0.2, 0.5, 1.0, 2.0, 4.0)
"""The pauses between tries. After the last try the outcome is unknown, and the attempt ends."""


def put_certain(storage: Storage, path: str, data: bytes, wait: Callable[[float], None]) -> None:
    """Write a new file and make sure that it is there. No other writer of this name may have the same data.

    Raises NameTakenError if another writer's file is there, UnknownOutcomeError if that cannot be found out or if the
    file may not survive a power failure, and any other StorageError if nothing was written under this name and nothing
    will be.
    """
    doubtful = False
    for seconds in (*WAITS_S, None):
        try:
            return _put_or_find(storage, path, data)
        except NotDurableError:
            raise  # PROTOCOL R1: after an fsync error the name is dead
        except UnknownOutcomeError:
            doubtful = True  # PROTOCOL R5: it may still land, so the write is repeated until the name is taken
        except NameTakenError:
            raise
        except StorageError:
            if not doubtful:
                raise
        if seconds is not None:
            wait(seconds)
    tries = len(WAITS_S) + 1
    raise UnknownOutcomeError(f"no definite reply to the write of {path!r} in {storage.uri} after {tries} tries")


def _put_or_find(storage: Storage, path: str, data: bytes) -> None:
    """Write the file, or find it written by an earlier try."""
    try:
        storage.put_new(path, data)
    except NameTakenError:
        if not _holds(storage, path, data):
            raise


def _holds(storage: Storage, path: str, data: bytes) -> bool:
    """Whether the file has this data. A file that is gone again was another writer's."""
    try:
        return storage.read(path) == data
    except FileMissingError:
        return False
    except StorageError as error:
        raise UnknownOutcomeError(f"{path!r} is taken, but cannot be read back: {error}") from error
