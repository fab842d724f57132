"""A small job over the real log and coordinator: numbered input rows, two subtasks, one sink, incremental state.

The state of a subtask is the set of its rows; a state file holds those that are new since the checkpoint it builds on.
So a restore can be compared with the input, row by row.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from penstock.checkpoint.checkpoint_settings import CheckpointSettings, WriterIdentity
from penstock.checkpoint.coordinator import CheckpointCoordinator
from penstock.checkpoint.file_names import source_file_path, state_file_path
from penstock.checkpoint.log.entries import Claim, Status
from penstock.checkpoint.log.job_log import JobLog
from penstock.checkpoint.pending_checkpoint import EpochRecord
from penstock.checkpoint.restore.restore_choice import choose_restore, finish_open_deletes, record_restore
from penstock.checkpoint.restore.sink_recovery import recover_sinks
from penstock.checkpoint.snapshot.manifest import verify_file
from penstock.errors import StorageError
from penstock.model.ids import CheckpointId, JobId, StageId, SubtaskId, Version
from penstock.model.snapshot import (
    CheckpointAck,
    CheckpointDecline,
    Committable,
    Manifest,
    SourcePosition,
    StateFile,
    StateTableInfo,
    SubtaskSnapshot,
)
from penstock.testing.clocks import ManualClock
from tests.checkpoint.checker import Checker, Sinks, require

SUBTASKS = (SubtaskId(StageId("s0"), 0), SubtaskId(StageId("s0"), 1))
KEY_GROUPS = {0: (0, 3), 1: (4, 7)}
TABLE = StateTableInfo("op", "rows", "value", ["LONG"], "LONG")
SETTINGS = CheckpointSettings(interval_ms=100, timeout_ms=60_000, retained=1, tolerable_failures=1_000_000)


@dataclass
class World:
    """What outlives a crash: storage, sinks, the clock. And the seeded choices."""

    checker: Checker
    sinks: Sinks
    random: Random
    clock: ManualClock = field(default_factory=ManualClock)
    nonces: int = 0

    def nonce(self) -> str:
        self.nonces += 1
        return f"{self.nonces:06x}"


@dataclass
class Write:
    """A sealed state on its way to storage."""

    checkpoint: int
    subtask: SubtaskId
    version: Version
    rows: frozenset[int]
    base: SubtaskSnapshot | None
    base_rows: frozenset[int]


class Driver:
    """One attempt. `begin` first; after any error, or a crash, it is thrown away."""

    def __init__(self, world: World, settings: CheckpointSettings = SETTINGS) -> None:
        self.world = world
        self.settings = settings
        self.told: list[int] = []
        self.queue: list[Write] = []
        self.rows: dict[SubtaskId, frozenset[int]] = {}
        self.epoch = 0
        self.position = 0
        self.manifest: Manifest | None = None

    # ---- recovery

    def begin(self, first_id: int = 0) -> None:
        """Claim, restore, recover the sinks, and complete checkpoint 0 if there is nothing to restore."""
        world = self.world
        self.log = JobLog.open(world.checker.storage, world.clock, wait=lambda _: None, new_id=world.nonce)
        self.attempt = self.log.view().attempt + 1
        self.log.claim(Claim(self.attempt, "hash", f"writer-{world.nonce()}", "job", "job.py", 2, 8))
        finish_open_deletes(self.log)
        manifest = choose_restore(self.log, allow_fallback=False)
        record_restore(self.log, manifest, "recovery")
        recover_sinks(self.log, manifest, world.sinks)
        self._load(manifest)
        identity = WriterIdentity(JobId("0" * 32), self.attempt, "hash", first_id)
        self.coordinator = CheckpointCoordinator(
            self.settings, self.log, identity, world.sinks, self, restored=manifest
        )
        if manifest is None:
            self.coordinator.first_checkpoint(self._source(self.coordinator.next_id))

    def _load(self, manifest: Manifest | None) -> None:
        self.manifest = manifest
        self.rows = {subtask: frozenset() for subtask in SUBTASKS}
        if manifest is None:
            return
        for snapshot in manifest.subtasks:
            self.rows[snapshot.subtask] = self._read(snapshot)
        self.epoch, self.position = manifest.epoch, manifest.sources.batch_id
        for subtask, rows in self.rows.items():
            require(rows == self._expected(subtask), f"I-1: {subtask} restored {sorted(rows)} at {self.position}")

    def _read(self, snapshot: SubtaskSnapshot) -> frozenset[int]:
        parts = [json.loads(verify_file(self.world.checker.storage, file)) for file in snapshot.files]
        rows = [row for part in parts for row in part]
        require(len(set(rows)) == len(rows), "I-1: a row is in two files of one chain")
        return frozenset(rows)

    def _expected(self, subtask: SubtaskId) -> frozenset[int]:
        return frozenset(row for row in range(self.position) if row % 2 == subtask.index)

    # ---- epochs

    def run_epoch(self, row_count: int, *, forced: bool = False, final: bool = False) -> CheckpointId | None:
        """One epoch with that many new rows; the checkpoint of its barrier, if any. No state is written yet."""
        world = self.world
        number = self.coordinator.start(self.epoch + 1, SUBTASKS, forced=forced)
        base = self.coordinator.base_of(number) if number is not None else None
        epoch, first = self.epoch + 1, self.position
        versions, transactions = {}, []
        new = range(first, first + row_count)
        for subtask in SUBTASKS:
            mine = [row for row in new if row % 2 == subtask.index]
            if number is not None and world.random.random() < 0.2:  # a run that is dropped, with its sealed state
                self._seal(number, subtask, Version(self.attempt, epoch, world.nonce()), base, frozenset({-1}))
            versions[subtask] = Version(self.attempt, epoch, world.nonce())
            self.rows[subtask] |= frozenset(mine)
            if number is not None:
                self._seal(number, subtask, versions[subtask], base, self.rows[subtask])
            transactions.append(self._prepare(subtask, epoch, mine))
        source = None
        if number is not None:
            self.position = first + row_count
            source = self._source(number)
        self.epoch, self.position = epoch, first + row_count
        record = EpochRecord(epoch, world.clock.now_ms(), versions, transactions, source, {}, {}, 8, final)
        self.coordinator.epoch_committed(record)
        return number

    def _prepare(self, subtask: SubtaskId, epoch: int, rows: list[int]) -> Committable:
        name = json.dumps([self.attempt, epoch, subtask.index, self.world.nonce()])
        self.world.sinks.prepare(name, rows)
        return Committable("sink", subtask, epoch, name, {})

    def _seal(
        self, number: int, subtask: SubtaskId, version: Version, base: Manifest | None, rows: frozenset[int]
    ) -> None:
        found = None
        if base is not None and self.world.random.random() < 0.7:
            found = next((part for part in base.subtasks if part.subtask == subtask), None)
        before = frozenset(range(base.sources.batch_id)) if base is not None and found is not None else frozenset()
        self.queue.append(Write(number, subtask, version, rows, found, before))

    def _source(self, number: int) -> SourcePosition:
        data = json.dumps(self.position).encode()
        if self.world.random.random() < 0.5:
            return SourcePosition(self.position, self._file("", data, inline=True))
        path = source_file_path(self.attempt, number, self.world.nonce())
        self.world.checker.storage.put_new(path, data)
        return SourcePosition(self.position, self._file(path, data, inline=False))

    # ---- the writers of the subtasks

    def write_one(self) -> None:
        """Put a sealed state into storage and acknowledge it; a failing storage makes it a decline."""
        write = self.queue.pop(self.world.random.randrange(len(self.queue)))
        new = sorted(row for row in write.rows if row not in write.base_rows)
        data = json.dumps(new).encode()
        try:
            file = self._put(write, data)
        except StorageError as error:
            self.coordinator.decline(CheckpointDecline(write.checkpoint, write.subtask, write.version, str(error)))
            return
        files = [*(write.base.files if write.base is not None else []), file]
        groups = KEY_GROUPS[write.subtask.index]
        snapshot = SubtaskSnapshot(write.subtask, write.version, groups, files, [TABLE], 0, ["op"])
        ack = CheckpointAck(write.checkpoint, snapshot, 0.0, 0.0, len(data))
        self.coordinator.ack(ack)
        if self.world.random.random() < 0.1:
            self.coordinator.ack(ack)

    def _put(self, write: Write, data: bytes) -> StateFile:
        if self.world.random.random() < 0.2:
            return self._file("", data, inline=True)
        path = state_file_path(self.attempt, write.checkpoint, write.subtask, self.world.nonce())
        self.world.checker.storage.put_new(path, data)
        return self._file(path, data, inline=False)

    def _file(self, path: str, data: bytes, *, inline: bool) -> StateFile:
        return StateFile(path, len(data), hashlib.sha256(data).hexdigest(), data if inline else None)

    def write_all(self) -> None:
        while self.queue:
            self.write_one()

    # ---- completion

    def completed(self, checkpoint_id: CheckpointId) -> None:
        """Told by the coordinator: the checkpoint exists, counts, and its output is there (I-5, I-10)."""
        checker = self.world.checker
        require(checkpoint_id in checker.completed, f"I-10: checkpoint {checkpoint_id} is told of, but not in the log")
        manifest = checker.completed[checkpoint_id]
        require(manifest.attempt == self.attempt, f"I-10: checkpoint {checkpoint_id} is another attempt's")
        visible = self.world.sinks.visible
        require(all(row in visible for row in range(manifest.sources.batch_id)), "I-5: told before it was committed")
        self.told.append(checkpoint_id)

    def aborted(self, checkpoint_id: CheckpointId, reason: str) -> None:
        """Told by the coordinator: a checkpoint of this attempt will never exist."""
        found = self.world.checker.completed.get(checkpoint_id)
        require(found is None or found.attempt != self.attempt, f"complete checkpoint {checkpoint_id} is aborted")

    def checkpoint(self, row_count: int = 3) -> CheckpointId:
        """An epoch with a checkpoint, until that is complete and committed."""
        number = self.run_epoch(row_count, forced=True)
        assert number is not None
        self.write_all()
        self.settle()
        return number

    def settle(self, tries: int = 100) -> None:
        """Let the completing thread work until nothing is pending."""
        for _ in range(tries):
            self.coordinator.complete_ready()
            if self.coordinator.is_settled:
                return
            self.world.clock.advance(1000)
        raise AssertionError("the coordinator does not settle")

    def finish(self, word: str = "finished", *, keep: bool = True) -> None:
        self.coordinator.finish(Status(word), keep_checkpoints=keep)  # type: ignore[arg-type]


def new_world(seed: int = 0, fails: Callable[[], bool] | None = None) -> World:
    checker = Checker()
    return World(checker, Sinks(checker, fails), Random(seed))


def new_driver(world: World, settings: CheckpointSettings = SETTINGS) -> Driver:
    driver = Driver(world, settings)
    driver.begin()
    return driver


def retaining(count: int, **changes: Any) -> CheckpointSettings:
    return replace(SETTINGS, retained=count, **changes)


def pending_epoch(driver: Driver, rows: int = 2) -> int:
    """An epoch with a checkpoint whose state is not written yet."""
    number = driver.run_epoch(rows, forced=True)
    assert number is not None
    return number


def last_reason(driver: Driver) -> str:
    return driver.coordinator.history()[-1].failure or ""
