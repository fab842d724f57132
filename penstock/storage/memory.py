"""A storage in memory that fails, crashes and loses replies as a script says, for tests and the harness."""

import threading
from collections.abc import Callable
from enum import Enum
from typing import Protocol
from weakref import WeakValueDictionary

from penstock import failpoint
from penstock.errors import FileMissingError, NameTakenError, StorageError, UnknownOutcomeError
from penstock.storage.paths import TEMPORARY_MARK, Paths, confine, confine_new, folder_of


class Fault(Enum):
    """What goes wrong in one call."""

    FAIL = "nothing happens, and the caller is told so"
    LOST_BEFORE = "nothing happens, and the caller does not know"
    LOST_AFTER = "it happens, and the caller does not know"
    LATE = "it happens later, when `land` is called, and the caller does not know"


class StorageScript(Protocol):
    """Decides about faults and sees every change. An exception that it raises is a crash within the call."""

    def before(self, operation: str, path: str) -> Fault | None:
        """Called before each operation: put_new, read, list, delete or size."""
        ...

    def landed(self, path: str, data: bytes) -> None:
        """Called when a file has its name."""
        ...

    def deleted(self, path: str) -> None:
        """Called just before a file is deleted."""
        ...


class NoFaults:
    """A script without faults."""

    def before(self, operation: str, path: str) -> Fault | None:
        return None

    def landed(self, path: str, data: bytes) -> None:
        return None

    def deleted(self, path: str) -> None:
        return None


_storages: "WeakValueDictionary[str, MemoryStorage]" = WeakValueDictionary()


def memory_storage(uri: str) -> "MemoryStorage":
    """The storage of this process with that address."""
    if uri not in _storages:
        raise StorageError(f"{uri!r} is memory of another process, or was given up")
    return _storages[uri]


class MemoryStorage:
    """Files in a dictionary, with the steps and crash points of a local disk. Deterministic under its script."""

    def __init__(self, script: StorageScript | None = None) -> None:
        self.files: dict[str, bytes] = {}
        self.in_flight: list[tuple[str, bytes]] = []
        self._script: StorageScript = script or NoFaults()
        self._unsynced: set[str] = set()
        self._temporaries = 0
        self._naming = threading.Lock()
        _storages[self.uri] = self

    @property
    def uri(self) -> str:
        return f"memory://{id(self):x}"

    def put_new(self, path: str, data: bytes) -> None:
        fault = self._script.before("put_new", confine_new(path))
        if fault is Fault.FAIL:
            raise StorageError(f"cannot write {path!r}: injected")
        if fault is Fault.LATE:
            self.in_flight.append((path, bytes(data)))
        if fault in (Fault.LATE, Fault.LOST_BEFORE):
            raise UnknownOutcomeError(f"no reply to the write of {path!r}")
        taken = not self._write(path, bytes(data))
        if fault is Fault.LOST_AFTER:
            raise UnknownOutcomeError(f"no reply to the write of {path!r}")
        if taken:
            raise NameTakenError(f"{path!r} exists already")

    def read(self, path: str) -> bytes:
        self._reach("read", path)
        try:
            return self.files[confine(path)]
        except KeyError as error:
            raise FileMissingError(f"there is no file {path!r}") from error

    def list(self, prefix: str) -> Paths:
        self._reach("list", prefix)
        return sorted(path for path in tuple(self.files) if path.startswith(prefix))  # others may write meanwhile

    def folders(self) -> Paths:
        self._reach("list", "")
        return sorted({path.partition("/")[0] for path in tuple(self.files) if "/" in path})

    def delete(self, path: str) -> None:
        fault = self._reach("delete", path)
        if confine(path) in self.files and fault is not Fault.LOST_BEFORE:
            self._script.deleted(path)
            del self.files[path]
        if fault is not None:
            raise UnknownOutcomeError(f"no reply to the removal of {path!r}")

    def size(self, path: str) -> int:
        self._reach("size", path)
        if confine(path) not in self.files:
            raise FileMissingError(f"there is no file {path!r}")
        return len(self.files[path])

    def land(self, index: int = 0) -> bool:
        """Let a late write happen now; false if its name was taken meanwhile."""
        path, data = self.in_flight.pop(index)
        linked = self._link(path, data)
        self._unsynced.discard(path)
        return linked

    def lose_unsynced(self, survives: Callable[[str], bool] = lambda path: False) -> Paths:
        """A power cut: files that were not fsynced, or whose folder was not, are gone. Returns their names.

        Files for which `survives` is true are durable from now on; data that was not fsynced is cut in half.
        """
        unsynced = sorted(self._unsynced.intersection(self.files))
        lost = [path for path in unsynced if not survives(path)]
        for path in lost:
            del self.files[path]
        for path in unsynced:
            if TEMPORARY_MARK in path and path in self.files:
                self.files[path] = self.files[path][: len(self.files[path]) // 2]
        self._unsynced.clear()
        return lost

    def _reach(self, operation: str, path: str) -> Fault | None:
        fault = self._script.before(operation, path)
        if fault is Fault.FAIL:
            raise StorageError(f"cannot {operation} {path!r}: injected")
        return fault

    def _write(self, path: str, data: bytes) -> bool:
        """The steps of PROTOCOL R1; false if the name is taken."""
        self._temporaries += 1
        temporary = f"{path}{TEMPORARY_MARK}{self._temporaries:012x}"
        failpoint.before("C13")
        self.files[temporary] = data
        self._unsynced.add(temporary)
        failpoint.after("C13")
        failpoint.before("C14")
        self._unsynced.discard(temporary)
        failpoint.after("C14")
        failpoint.before("C15")
        linked = self._link(path, data)
        failpoint.after("C15")
        self.files.pop(temporary, None)
        self._sync_folder(path)
        return linked

    def _link(self, path: str, data: bytes) -> bool:
        with self._naming:
            if path in self.files:
                return False
            self.files[path] = data
        self._unsynced.add(path)
        self._script.landed(path, data)
        return True

    def _sync_folder(self, path: str) -> None:
        folder = folder_of(path)
        self._unsynced = {name for name in self._unsynced if folder_of(name) != folder or TEMPORARY_MARK in name}
