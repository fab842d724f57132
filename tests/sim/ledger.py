"""Watches storage and sinks of a simulated job, and knows what must always hold (PROTOCOL section 9).

It sees every file appear and go and every commit in the order in which they really happen, and keeps its own record of
what the log says: a mistake in the product's reading of the log is found too. Where PROTOCOL I-1 to I-11 and
reliability I1 to I16 are checked:

| id | check |
|---|---|
| I-1, I1 | `Process` compares the state with the oracle after every restore and every epoch |
| I-2 | `Ledger._entry`: the newest claim's attempt alone appends entries that count |
| I-3, I6 | `Ledger._complete`: all files are there, size and hash right; `_discard`, `deleted`: none goes too early |
| I-4, I9 | `Ledger.orphans` at the end, after a quiet attempt; `tests/checkpoint/test_garbage_machine.py` bounds them |
| I-5, I2, I3, I4 | `Ledger.commit`, and the committed rows against the oracle at each told completion and at the end |
| I-6, I13 | `Ledger._follows`: numbers, epochs, `now` and watermarks; fired timers are part of the oracle's state |
| I-7 | `Process._run_task`: a task that asks again gets the very output of the first |
| I-8, I14 | `Ledger._key_groups` at each `complete`; every key is looked up in the subtask that its hash names |
| I-9, I12 | `Simulation.calm_down`: the faults stop, a checkpoint completes within `EPOCHS_TO_PROGRESS` epochs |
| I-10 | `Ledger.told`: what an attempt calls complete counts in the log and is its own; nothing is done once fenced |
| I-11 | `Ledger._complete`: no file of any `discard` |
| I5 | `Ledger._complete`: one part per subtask, of a committed version, on the base that the log has |
| I7 | the restored state is compared with the oracle at another parallelism; A→B in `tests/state/test_restore.py` |
| I8 | `Ledger._follows`: each `complete` names the former of its line as parent, numbers grow |
| I10 | the state holds exactly the events before the manifest's position (I-1 with the restored position) |
| I11 | `Simulation.ended`: any error but the expected ones of ours fails the seed |
| I15 | queryable state is not there yet |
| I16 | `Outcome`: planned crash points against reached ones; over all seeds each is reached |
"""

import hashlib
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

from penstock.checkpoint.file_names import FileKind, metadata_path, parse_name
from penstock.checkpoint.log.entries import Base, Claim, Complete, Discard, Record, Restore, Status, decode_record
from penstock.checkpoint.snapshot.manifest import decode_manifest, file_paths, state_files
from penstock.model.snapshot import Manifest
from penstock.storage.memory import Fault, MemoryStorage
from tests.checkpoint.checker import Violation, require


class Ledger:
    """The storage's script: asks `on_call` for faults, and checks every change."""

    def __init__(self, on_call: Callable[[str, str], Fault | None]) -> None:
        self._on_call = on_call
        self.storage = MemoryStorage(self)
        self.owner = 0
        """The newest attempt that has claimed the job."""
        self.retained: dict[int, Manifest] = {}
        self.completed: dict[int, Manifest] = {}
        self.newest: Manifest | None = None
        """Of the current lineage."""
        self.discarded: set[str] = set()
        self.base = 0
        self.ghosts = 0
        """Entries that were written below a higher number: they count for nobody (PROTOCOL R4)."""
        self.listed: set[str] = set()
        """Sink transactions of any completed checkpoint."""
        self.ended_by: set[int] = set()
        """Attempts whose `finished` counts."""
        self.entries: dict[int, str] = {}
        """Number -> entry id, of all entries that ever counted."""
        self._highest = 0
        self._before_entry: tuple[str, dict[str, Any]] = ("", {})

    def power_cut(self, survives: Callable[[str], bool]) -> None:
        """Lose what was not fsynced; a log entry that is lost was never there."""
        path, state = self._before_entry
        if path in self.storage.lose_unsynced(survives):
            self.__dict__.update(state)

    # ---- the storage's script

    def before(self, operation: str, path: str) -> Fault | None:
        return self._on_call(operation, path)

    def landed(self, path: str, data: bytes) -> None:
        name = parse_name(path)
        require(name is not None, f"a file with a name of nobody: {path}")
        assert name is not None
        is_unique = name.attempt is not None  # a manifest's name may be wanted by a sleeping attempt too (R7)
        require(not is_unique or path not in self.discarded, f"R1: {path} appears again after its discard")
        if name.kind is FileKind.LOG:
            kept = (int, set, dict)
            state = {key: copy(value) for key, value in vars(self).items() if isinstance(value, kept)}
            self._before_entry = (path, {**state, "newest": self.newest})
            self._entry(name.number, decode_record(data, path))

    def deleted(self, path: str) -> None:
        name = parse_name(path)
        require(name is not None, f"{path} is not one of the job's files")
        assert name is not None
        if name.kind is FileKind.LOG and name.number < self.base:
            return
        require(path in self.discarded, f"R3: {path} deleted without a discard")
        for number, manifest in self.retained.items():
            needed = file_paths(manifest) | {metadata_path(number)}
            require(path not in needed, f"I-3: {path} of retained checkpoint {number} deleted")

    # ---- the log

    def _entry(self, number: int, record: Record) -> None:
        if number <= self._highest:
            self.ghosts += 1
            return
        require(number == self._highest + 1, f"log entry {number} follows entry {self._highest}")
        self._highest = number
        self.entries[number] = record.entry_id
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
            newest = self.newest.checkpoint_id if self.newest is not None else None
            require(entry.checkpoint == newest, f"R24: restore of {entry.checkpoint}, the newest is {newest}")
        elif isinstance(entry, Base):
            self.base = number
        elif isinstance(entry, Status):
            self.ended_by.add(record.attempt)

    def _complete(self, entry: Complete) -> None:
        number = entry.checkpoint
        require(number > max(self.completed, default=-1), f"I-6: checkpoint {number} goes back")
        data = self.storage.files.get(entry.metadata_path)
        require(data is not None, f"I-3: complete {number} without its manifest")
        manifest = decode_manifest(data or b"", entry.metadata_path, sha256=entry.metadata_sha256)
        require(manifest.attempt == self.owner, f"I-2: checkpoint {number} is of attempt {manifest.attempt}")
        for file in state_files(manifest):
            require(file.inline is not None or file.path not in self.discarded, f"I-11: {file.path} is discarded")
            content = file.inline if file.inline is not None else self.storage.files.get(file.path)
            require(content is not None, f"I-3: complete {number} names {file.path}, which is not there")
            assert content is not None
            intact = len(content) == file.size and hashlib.sha256(content).hexdigest() == file.sha256
            require(intact, f"I-3: {file.path} is damaged")
        subtasks = [snapshot.subtask for snapshot in manifest.subtasks]
        require(len(set(subtasks)) == len(subtasks), f"I5: checkpoint {number} has a subtask twice")
        _key_groups(manifest)
        self._follows(manifest)
        repeated = self.listed.intersection(c.transaction for c in manifest.committables)
        require(not repeated, f"I4: {repeated} are in two checkpoints")
        self.listed.update(committable.transaction for committable in manifest.committables)
        self.retained[number] = self.completed[number] = self.newest = manifest

    def _follows(self, newer: Manifest) -> None:
        older = self.newest
        if older is None:
            require(newer.parent is None, f"I8: the first checkpoint has the parent {newer.parent}")
            return
        require(newer.parent == older.checkpoint_id, f"I8: {newer.checkpoint_id} follows {newer.parent}")
        require(newer.epoch > older.epoch and newer.now_ms >= older.now_ms, "I-6: epoch or time goes back")
        require(newer.attempt >= older.attempt, "I-2: an older attempt completes a checkpoint")
        require(newer.sources.batch_id >= older.sources.batch_id, "I-6: the source goes back")
        for uid, watermark in older.watermarks.items():
            require(newer.watermarks.get(uid, watermark - 1) >= watermark, f"I-6: the watermark of {uid} goes back")
        then, now = _stage_watermarks(older), _stage_watermarks(newer)
        for stage, watermark in then.items():
            require(now.get(stage, watermark - 1) >= watermark, f"I-6: the watermark of stage {stage} goes back")

    def _discard(self, entry: Discard) -> None:
        for number in entry.checkpoints:
            require(number in self.retained, f"checkpoint {number} is discarded twice")
            del self.retained[number]
        require(self.newest is None or self.newest.checkpoint_id in self.retained, "the newest checkpoint is discarded")
        for number, manifest in self.retained.items():
            needed = file_paths(manifest) | {metadata_path(number)}
            lost = needed.intersection(entry.files)
            require(not lost, f"I-3: {lost} of retained checkpoint {number} are discarded")
        self.discarded.update(entry.files)

    # ---- what attempts and sinks say

    def told(self, attempt: int, checkpoint: int) -> Manifest:
        """An attempt says that its checkpoint is complete: it counts, and is that attempt's own (I-10)."""
        manifest = self.completed.get(checkpoint)
        if manifest is None or manifest.attempt != attempt:
            raise Violation(f"I-10: attempt {attempt} calls checkpoint {checkpoint} complete, the log does not")
        return manifest

    def commit(self, transaction: str) -> None:
        """A sink is about to commit: only what a completed checkpoint lists (I-5)."""
        require(transaction in self.listed, f"I-5: {transaction} is committed, no completed checkpoint lists it")

    # ---- at rest

    def orphans(self) -> Sequence[str]:
        """Files that no retained checkpoint needs; the log's own entries are none."""
        needed = {path for manifest in self.retained.values() for path in file_paths(manifest)}
        needed |= {metadata_path(number) for number in self.retained}
        return [
            path for path in sorted(self.storage.files) if path not in needed and ("~" in path or path[:4] != "log/")
        ]


def _key_groups(manifest: Manifest) -> None:
    """I-8: every key group of a stage is in one subtask."""
    for stage in sorted({snapshot.subtask.stage for snapshot in manifest.subtasks}):
        ranges = [snapshot.key_groups for snapshot in manifest.subtasks if snapshot.subtask.stage == stage]
        groups = [group for first, last in ranges for group in range(first, last + 1)]
        require(sorted(groups) == list(range(manifest.max_parallelism)), f"I-8: {stage} has the key groups {ranges}")


def _stage_watermarks(manifest: Manifest) -> dict[str, int]:
    """Stage -> the lowest watermark of its subtasks."""
    lowest: dict[str, int] = {}
    for snapshot in manifest.subtasks:
        stage = snapshot.subtask.stage
        lowest[stage] = min(snapshot.watermark, lowest.get(stage, snapshot.watermark))
    return lowest
