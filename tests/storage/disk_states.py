"""What a disk may hold after a power cut at any moment of a recorded run (as ALICE enumerates it).

`recorded` replaces the calls of `penstock.storage.local` that change a disk by ones that record themselves. A
`Disk` replays such a list of operations: what was fsynced is safe; of the rest any part may be there. A file's data
may be lost, zeroed or torn until its fsync, and each change of a folder kept or lost until the fsync of the folder.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from penstock.storage import local

MAX_FREE_CHANGES = 4
"""Up to so many changes of folders that may be lost are tried in every combination."""
BLOCK_BYTES = 512

Operation = tuple[Any, ...]


@contextmanager
def recorded(tell: Callable[[Operation], None]) -> Iterator[None]:
    """Within the block every change that LocalStorage makes is recorded, with the paths of the real disk."""
    opened: dict[int, str] = {}

    def open_descriptor(path: Any, flags: int, mode: int = 0o777) -> int:
        descriptor = os.open(path, flags, mode)
        opened[descriptor] = str(path)
        if flags & os.O_CREAT:
            tell(("create", str(path)))
        return descriptor

    def fsync(descriptor: int) -> None:
        os.fsync(descriptor)
        path = opened[descriptor]
        tell(("fsync folder" if os.path.isdir(path) else "fsync", path))

    def link(source: Any, target: Any, **options: Any) -> None:
        os.link(source, target, **options)
        tell(("link", str(source), str(target)))

    class RecordingPath(type(Path())):  # type: ignore[misc]
        """A path that records its changes."""

        def unlink(self, missing_ok: bool = False) -> None:  # noqa: FBT001, FBT002
            existed = os.path.lexists(self)
            super().unlink(missing_ok=missing_ok)
            if existed:
                tell(("unlink", str(self)))

        def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:  # noqa: FBT001, FBT002
            existed = self.is_dir()
            super().mkdir(mode, parents, exist_ok)
            if not existed:
                tell(("mkdir", str(self)))

        def rmdir(self) -> None:
            super().rmdir()
            tell(("rmdir", str(self)))

    class RecordingFile:
        """A file that is written through a descriptor."""

        def __init__(self, descriptor: int, mode: str, buffering: int) -> None:
            self._file = open(descriptor, mode, buffering=buffering)
            self._path = opened[descriptor]

        def __enter__(self) -> "RecordingFile":
            return self

        def __exit__(self, *_: object) -> None:
            self._file.close()

        def write(self, data: Any) -> int:
            written = self._file.write(data)
            tell(("write", self._path, bytes(data[:written])))
            return int(written)

        def fileno(self) -> int:
            return int(self._file.fileno())

    def open_file(file: Any, mode: str = "r", buffering: int = -1) -> Any:
        return RecordingFile(file, mode, buffering) if "w" in mode else open(file, mode, buffering=buffering)

    names = {name: getattr(os, name) for name in dir(os) if not name.startswith("__")}
    shim = SimpleNamespace(**{**names, "open": open_descriptor, "fsync": fsync, "link": link})
    saved = {name: vars(local).get(name) for name in ("os", "Path", "open")}
    vars(local).update(os=shim, Path=RecordingPath, open=open_file)
    try:
        yield
    finally:
        vars(local).update({name: value for name, value in saved.items() if value is not None})
        vars(local).pop("open")


@dataclass
class _File:
    data: bytes = b""
    synced: bytes = b""


@dataclass
class Disk:
    """The files of a folder, in memory: what is durable, and what is not yet."""

    files: list[_File] = field(default_factory=list)
    durable: dict[str, int] = field(default_factory=dict)
    """Path -> file, as it survives a power cut."""
    changes: list[tuple[str, str, int | None]] = field(default_factory=list)
    """(folder, path, file or None for a removal) that are not durable yet, in their order."""

    def apply(self, operation: Operation) -> None:
        """One more operation has returned."""
        kind, path = operation[0], operation[1]
        if kind == "create":
            self.files.append(_File())
            self._change(path, len(self.files) - 1)
        elif kind == "write":
            self.files[self._find(path)].data += operation[2]
        elif kind == "fsync":
            file = self.files[self._find(path)]
            file.synced = file.data
        elif kind == "link":
            self._change(operation[2], self._find(path))
        elif kind == "unlink":
            self._change(path, None)
        elif kind == "fsync folder":
            for folder, name, number in self.changes:
                if folder == path:
                    _set(self.durable, name, number)
            self.changes = [change for change in self.changes if change[0] != path]
        # Folders themselves are not modelled: LocalStorage makes them durable with the file, or removes them empty.

    def _change(self, path: str, number: int | None) -> None:
        self.changes.append((os.path.dirname(path), path, number))

    def _find(self, path: str) -> int:
        found = dict(self.durable)
        for _, name, number in self.changes:
            _set(found, name, number)
        return found[path]

    def states(self) -> Iterator[dict[str, bytes]]:
        """Every tree of files that a power cut now may leave; some more than once."""
        for kept in _subsets(len(self.changes)):
            names = dict(self.durable)
            for index in kept:
                _, path, number = self.changes[index]
                _set(names, path, number)
            for damage in (_lost, _zeroed, _torn, _whole):
                yield {path: damage(self.files[number]) for path, number in names.items()}
                if all(self.files[number].synced == self.files[number].data for number in names.values()):
                    break  # nothing to damage


def _set(names: dict[str, int], path: str, number: int | None) -> None:
    if number is None:
        names.pop(path, None)
    else:
        names[path] = number


def _subsets(count: int) -> Iterable[tuple[int, ...]]:
    if count <= MAX_FREE_CHANGES:
        for size in range(count + 1):
            yield from combinations(range(count), size)
        return
    everything = tuple(range(count))
    yield ()
    yield everything
    for index in everything:
        yield (index,)
        yield everything[:index] + everything[index + 1 :]
        yield everything[:index]


def _lost(file: _File) -> bytes:
    return file.synced


def _zeroed(file: _File) -> bytes:
    return file.synced + bytes(len(file.data) - len(file.synced))


def _torn(file: _File) -> bytes:
    end = len(file.data) // 2 if len(file.data) <= BLOCK_BYTES else len(file.data) // BLOCK_BYTES * BLOCK_BYTES
    return file.data[: max(end, len(file.synced))]


def _whole(file: _File) -> bytes:
    return file.data
