"""Writes whose outcome is known when they return (PROTOCOL R5)."""

from collections.abc import Callable

from penstock.errors import FileMissingError, NameTakenError, NotDurableError, StorageError, UnknownOutcomeError
from penstock.storage.storage import Storage

WAITS_S = (0.01, 0.05, 0.2, 0.5, 1.0, 2.0, 4.0)
"""Between two tries; then the outcome stays unknown and the attempt ends."""


def put_certain(storage: Storage, path: str, data: bytes, wait: Callable[[float], None]) -> None:
    """Write a new file and know that it is there. The data must be unlike that of any other writer of this name.

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
            doubtful = True  # PROTOCOL R5: absent is not failed, so the same write again until the name is taken
        except NameTakenError:
            raise
        except StorageError:
            if not doubtful:
                raise
        if seconds is not None:
            wait(seconds)
    tries = len(WAITS_S) + 1
    raise UnknownOutcomeError(f"no certain answer to the write of {path!r} in {storage.uri} after {tries} tries")


def _put_or_find(storage: Storage, path: str, data: bytes) -> None:
    """Write the file, or find it written by an earlier try."""
    try:
        storage.put_new(path, data)
    except NameTakenError:
        if not _holds(storage, path, data):
            raise


def _holds(storage: Storage, path: str, data: bytes) -> bool:
    """Whether the file is the one that was to be written. One that has gone again was another's."""
    try:
        return storage.read(path) == data
    except FileMissingError:
        return False
    except StorageError as error:
        raise UnknownOutcomeError(f"{path!r} is taken, but cannot be read back: {error}") from error
