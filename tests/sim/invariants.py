"""The invariants of PROTOCOL section 9 that the storage and the sinks of a harness can tell: I-3 to I-6, I-8, I-11, R3.

A `Watch` is the script of a MemoryStorage: it sees every file appear and go, and checks each `complete` and each delete
when it happens. What concerns a whole run is checked after a crash and at the end.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.checkpoint.file_names import FileKind, parse_name
from penstock.checkpoint.log.entries import Complete, Discard, Record, decode_record
from penstock.checkpoint.log.log_reader import read_log
from penstock.checkpoint.snapshot.manifest import file_paths, load_manifest, verify_file
from penstock.model.snapshot import Manifest, StateFile
from penstock.storage.memory import Fault, MemoryStorage
from penstock.testing.memory_sink import SinkStore


@dataclass(frozen=True)
class Completed:
    """A checkpoint that exists, and where the log says so."""

    entry: str
    manifest: Manifest


class Watch:
    """Sees all that happens in a storage."""

    def __init__(self) -> None:
        self.storage = MemoryStorage(self)
        self.completed: list[Completed] = []
        """In the order of their `complete` entries."""
        self._discarded: dict[str, str] = {}
        """File -> the log entry that discards it."""
        self._trace = hashlib.blake2b(digest_size=8)

    @property
    def trace(self) -> str:
        """A hash of everything that was asked of the storage, in its order."""
        return self._trace.hexdigest()

    # ---- the storage's script

    def before(self, operation: str, path: str) -> Fault | None:
        self._trace.update(f"{operation} {path}".encode())
        return None

    def landed(self, path: str, data: bytes) -> None:
        name = parse_name(path)
        if name is not None and name.kind is FileKind.LOG:
            record = decode_record(data, path)
            if isinstance(record.entry, Complete):
                self._complete(path, record.entry)
            elif isinstance(record.entry, Discard):
                self._discard(path, record)

    def deleted(self, path: str) -> None:
        name = parse_name(path)
        assert name is not None, f"{path} is not one of the job's files"
        if name.kind is not FileKind.LOG:
            assert path in self._discarded, f"R3: {path} was deleted before its discard"
        elif not name.temporary:
            assert name.number < read_log(self.storage).base_number, f"log entry {path} was deleted above the base"

    def power_cut(self) -> None:
        """Lose what was not durable, and forget what the lost entries said."""
        lost = set(self.storage.lose_unsynced())
        self.completed = [completed for completed in self.completed if completed.entry not in lost]
        self._discarded = {path: entry for path, entry in self._discarded.items() if entry not in lost}

    def _complete(self, path: str, entry: Complete) -> None:
        manifest = load_manifest(self.storage, entry)
        for file in _files(manifest):
            assert not file.path or file.path not in self._discarded, f"I-11: {path} names {file.path}, discarded"
            verify_file(self.storage, file)
        _check_key_groups(manifest)
        if self.completed:
            _check_order(self.completed[-1].manifest, manifest)
        self.completed.append(Completed(path, manifest))

    def _discard(self, path: str, record: Record) -> None:
        assert isinstance(record.entry, Discard)
        kept = [c for c in read_log(self.storage).retained if c.checkpoint not in record.entry.checkpoints]
        needed = {file for complete in kept for file in file_paths(load_manifest(self.storage, complete))}
        lost = needed.intersection(record.entry.files)
        assert not lost, f"I-3: {path} discards {lost}, which a retained checkpoint needs"
        self._discarded |= dict.fromkeys(record.entry.files, path)

    # ---- at any time, and at the end

    def check_committed(self, stores: Sequence[SinkStore]) -> None:
        """I-5: what is committed lies between the outputs of the last two completed checkpoints, each row once."""
        listed = [{c.transaction for c in completed.manifest.committables} for completed in self.completed]
        committed = [name for store in stores for name in store.committed]
        assert len(set(committed)) == len(committed), "I-5: a transaction was committed twice"
        too_early = set(committed).difference(*listed)
        assert not too_early, f"I-5: {too_early} are committed, and no completed checkpoint lists them"
        missing = set[str]().union(*listed[:-1]).difference(committed)
        assert not missing, f"I-5: {missing} are of an older checkpoint, and not committed"

    def check_end(self, stores: Sequence[SinkStore]) -> None:
        """I-3, I-4 and I-5 in a quiet job, two checkpoints after its last fault."""
        self.check_committed(stores)
        committed = {name for store in stores for name in store.committed}
        last = {committable.transaction for committable in self.completed[-1].manifest.committables}
        assert last <= committed, "I-5: the last checkpoint is not committed"
        left = [transaction.name for store in stores for transaction in store.unsettled]
        assert not left, f"I-4: sink transactions are left behind: {left}"
        view = read_log(self.storage)
        needed = {complete.metadata_path for complete in view.retained}
        for complete in view.retained:
            manifest = load_manifest(self.storage, complete)
            for file in _files(manifest):
                verify_file(self.storage, file)
            needed |= file_paths(manifest)
        names = {path: parse_name(path) for path in self.storage.files}
        orphans = [
            path
            for path, name in names.items()
            if path not in needed and (name is None or name.kind is not FileKind.LOG or name.temporary)
        ]
        assert not orphans, f"I-4: files that nothing needs: {orphans}"


def _files(manifest: Manifest) -> list[StateFile]:
    files = [file for snapshot in manifest.subtasks for file in snapshot.files]
    files += [snapshot.operator_file for snapshot in manifest.subtasks if snapshot.operator_file is not None]
    return files if manifest.sources.file is None else [*files, manifest.sources.file]


def _check_order(older: Manifest, newer: Manifest) -> None:
    assert newer.checkpoint_id > older.checkpoint_id, "I-6: checkpoint numbers go back"
    assert newer.epoch > older.epoch and newer.now_ms >= older.now_ms, "I-6: epoch or time goes back"
    assert newer.attempt >= older.attempt, "I-2: an older attempt completes a checkpoint"
    for uid, watermark in older.watermarks.items():
        assert newer.watermarks.get(uid, watermark - 1) >= watermark, f"I-6: the watermark of {uid} goes back"
    for stage, watermark in _watermarks(older).items():
        assert _watermarks(newer)[stage] >= watermark, f"I-6: the watermark of stage {stage} goes back"


def _watermarks(manifest: Manifest) -> dict[str, int]:
    """Stage -> the lowest watermark of its subtasks."""
    lowest: dict[str, int] = {}
    for snapshot in manifest.subtasks:
        stage = snapshot.subtask.stage
        lowest[stage] = min(snapshot.watermark, lowest.get(stage, snapshot.watermark))
    return lowest


def _check_key_groups(manifest: Manifest) -> None:
    """I-8: every key group of a stage is in one subtask."""
    for stage in {snapshot.subtask.stage for snapshot in manifest.subtasks}:
        ranges = [snapshot.key_groups for snapshot in manifest.subtasks if snapshot.subtask.stage == stage]
        groups = [group for first, last in ranges for group in range(first, last + 1)]
        assert sorted(groups) == list(range(manifest.max_parallelism)), f"I-8: {stage} has the key groups {ranges}"
