"""Watches storage and sinks, and knows what must always hold (PROTOCOL section 9).

It sees every file appear and go, and every commit, in the order in which they really happen. It keeps its own record
of what the log says, so that a mistake in the product's reading of the log is found too.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

from penstock.checkpoint.file_names import FileKind, metadata_path, parse_name
from penstock.checkpoint.log.entries import Base, Claim, Complete, Discard, Record, Restore, decode_record
from penstock.checkpoint.snapshot.manifest import decode_manifest, file_paths, state_files
from penstock.model.snapshot import Committable, Manifest
from penstock.storage import Fault, MemoryStorage


class Violation(BaseException):
    """An invariant does not hold. A BaseException, so that no handler of ordinary errors swallows it."""


def require(holds: bool, what: str) -> None:
    if not holds:
        raise Violation(what)


class Checker:
    """The storage's script: passes calls to `on_call` for faults, and checks every change."""

    def __init__(self, on_call: Callable[[str, str], Fault | None] | None = None) -> None:
        self.on_call = on_call
        self.storage = MemoryStorage(self)
        self.owner = 0
        self.ghosts: set[str] = set()
        self.retained: dict[int, Manifest] = {}
        self.completed: dict[int, Manifest] = {}
        self.newest: Manifest | None = None
        self.discarded: set[str] = set()
        self.bases: list[int] = []
        self.complete_count = 0
        self._before_entry: tuple[str, dict[str, Any]] = ("", {})

    def power_cut(self) -> None:
        """Lose what was not fsynced; a log entry that is lost was never there."""
        path, state = self._before_entry
        if path in self.storage.lose_unsynced():
            self.__dict__.update(state)

    # ---- the storage's script

    def before(self, operation: str, path: str) -> Fault | None:
        return self.on_call(operation, path) if self.on_call is not None else None

    def landed(self, path: str, data: bytes) -> None:
        name = parse_name(path)
        require(name is not None, f"a file with a name of nobody: {path}")
        if name is not None and name.kind is FileKind.LOG:
            state = {
                key: copy(value) for key, value in vars(self).items() if isinstance(value, int | set | dict | list)
            }
            self._before_entry = (path, {**state, "newest": self.newest})
            self._entry(name.number, decode_record(data, path))

    def deleted(self, path: str) -> None:
        name = parse_name(path)
        if name is not None and name.kind is FileKind.LOG and not name.temporary:
            require(any(name.number < base for base in self.bases), f"log entry {path} deleted without a base")
            return
        if name is not None and name.kind is FileKind.LOG and any(name.number < base for base in self.bases):
            return
        require(path in self.discarded, f"R3: {path} deleted without a discard")
        for number, manifest in self.retained.items():
            needed = file_paths(manifest) | {metadata_path(number)}
            require(path not in needed, f"I-3: {path} of retained checkpoint {number} deleted")

    # ---- the log

    def _entry(self, number: int, record: Record) -> None:
        others = [int(path[4:]) for path in self.storage.files if path.startswith("log/") and "~" not in path]
        if max(other for other in others) > number:
            self.ghosts.add(record.entry_id)
            return
        entry = record.entry
        if isinstance(entry, Claim):
            require(entry.attempt == self.owner + 1, "a claim skips an attempt")
            self.owner = entry.attempt
        require(record.attempt == self.owner, f"I-2: attempt {record.attempt} appended, {self.owner} owns the job")
        if isinstance(entry, Complete):
            self._complete(entry)
        elif isinstance(entry, Discard):
            self._discard(entry)
        elif isinstance(entry, Restore) and entry.checkpoint is not None:
            require(entry.checkpoint in self.retained, f"restore of {entry.checkpoint}, which is not retained")
            self.newest = self.retained[entry.checkpoint]
        elif isinstance(entry, Base):
            self.bases.append(number)

    def _complete(self, entry: Complete) -> None:
        number = entry.checkpoint
        require(number not in self.completed, f"R7: checkpoint {number} completes twice")
        require(number > max(self.completed, default=-1), f"I-6: checkpoint {number} goes back")
        data = self.storage.files.get(entry.metadata_path)
        require(data is not None, f"I-3: complete {number} without its manifest")
        manifest = decode_manifest(data or b"", entry.metadata_path, sha256=entry.metadata_sha256)
        for file in state_files(manifest):
            require(file.inline is not None or file.path not in self.discarded, f"I-11: {file.path} is discarded")
            content = file.inline if file.inline is not None else self.storage.files.get(file.path)
            require(content is not None, f"I-3: complete {number} names {file.path}, which is not there")
            require(hashlib.sha256(content or b"").hexdigest() == file.sha256, f"I-3: {file.path} is damaged")
        self.retained[number] = self.completed[number] = self.newest = manifest
        self.complete_count += 1

    def _discard(self, entry: Discard) -> None:
        for number in entry.checkpoints:
            require(number in self.retained, f"checkpoint {number} is discarded twice")
            del self.retained[number]
        for number, manifest in self.retained.items():
            needed = file_paths(manifest) | {metadata_path(number)}
            require(needed.isdisjoint(entry.files), f"a discard lists a file of retained checkpoint {number}")
        self.discarded.update(entry.files)

    # ---- at rest

    def orphans(self) -> list[str]:
        """Files that no retained checkpoint needs; the log's own entries are none."""
        needed = {path for manifest in self.retained.values() for path in file_paths(manifest)}
        needed |= {metadata_path(number) for number in self.retained}
        return [
            path for path in sorted(self.storage.files) if path not in needed and ("~" in path or path[:4] != "log/")
        ]


class Sinks:
    """Transactions of numbered rows. Every row must become visible once."""

    def __init__(self, checker: Checker, fails: Callable[[], bool] | None = None) -> None:
        self._checker = checker
        self._fails = fails or (lambda: False)
        self.rows: dict[str, list[int]] = {}
        self.aborted: set[str] = set()
        self.committed: set[str] = set()
        self.visible: Counter[int] = Counter()

    def prepare(self, name: str, rows: Sequence[int]) -> None:
        require(name not in self.rows, f"transaction {name} is made twice")
        self.rows[name] = list(rows)

    def commit(self, committables: Sequence[Committable]) -> None:
        for committable in committables:
            name = committable.transaction
            listed = [m for m in self._checker.completed.values() if committable in m.committables]
            require(bool(listed), f"I-5: {name} is committed, but no complete checkpoint lists it")
            require(name not in self.aborted, f"I-5: the output of {name} is lost")
            if self._fails():
                raise OSError("the sink does not answer")
            if name not in self.committed:
                self.committed.add(name)
                self.visible.update(self.rows[name])
                require(max(self.visible.values(), default=0) <= 1, f"I-5: rows of {name} are committed twice")
            if self._fails():
                raise OSError("the sink's reply is lost")

    def sweep(self, keep: Sequence[Committable], attempt: int) -> None:
        kept = {committable.transaction for committable in keep}
        for name in self.rows:
            if name not in kept | self.committed and json.loads(name)[0] < attempt:
                self.aborted.add(name)

    def require_rows(self, position: int) -> None:
        """The visible rows are exactly the first ones, each once (I-5)."""
        require(self.visible == Counter(range(position)), f"I-5: {sorted(self.visible)} for {position} rows")
