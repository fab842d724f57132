"""Bugs that were planted on purpose: each is a small change of the product that some test must notice.

Mutants M1 to M15 are in docs/internals/reliability.md; the others each break one rule of the protocol. What kills a
mutant is `sim N`, so many seeds of the simulator, or arguments for pytest.
"""

from dataclasses import dataclass

CRASH_STATES = "tests/checkpoint/test_crash_states.py"


@dataclass(frozen=True)
class Edit:
    """One place of a file, which has the old text exactly once."""

    path: str
    old: str
    new: str


@dataclass(frozen=True)
class Mutant:
    """A planted bug and the tests that should find it, the most telling first."""

    name: str
    what: str
    edits: tuple[Edit, ...]
    killers: tuple[str, ...]


def mutant(name: str, what: str, edit: tuple[str, str, str], *killers: str) -> Mutant:
    """A mutant of one change."""
    return Mutant(name, what, (Edit(*edit),), killers)


LOG = "penstock/checkpoint/log/job_log.py"
LOCAL = "penstock/storage/local.py"
PENDING = "penstock/checkpoint/pending_checkpoint.py"
RETENTION = "penstock/checkpoint/retention.py"
RESTORE = "penstock/checkpoint/restore/restore_choice.py"
REDISTRIBUTION = "penstock/checkpoint/restore/redistribution.py"
SINK_RECOVERY = "penstock/checkpoint/restore/sink_recovery.py"
COORDINATOR = "penstock/checkpoint/coordinator.py"
PUBLICATION = "penstock/checkpoint/publication.py"
WRITER = "penstock/runtime/snapshots/snapshot_writer.py"
TASK = "penstock/runtime/task.py"
SAVEPOINTS = "penstock/checkpoint/savepoints.py"
ROLL_BACK = '    def roll_back(self) -> None:\n        """Restore the old values."""'

PLANNED = (
    mutant(
        "M1",
        "folders are not fsynced",
        (LOCAL, "    try:\n        os.fsync(descriptor)\n    finally:", "    try:\n        pass\n    finally:"),
        CRASH_STATES,
    ),
    mutant(
        "M2",
        "a checkpoint is published before the last upload",
        (PENDING, "len(acks) == len(self.subtasks) else", "len(acks) >= len(self.subtasks) - 1 else"),
        "sim 200",
    ),
    mutant(
        "M3",
        "a file name is used again on a retry",
        (
            WRITER,
            "state_file_path(place.attempt, job.checkpoint, place.id)",
            "state_file_path(place.attempt, job.checkpoint, place.id, '0')",
        ),
        "sim 200",
    ),
    Mutant(
        "M4",
        "a takeover does not get an attempt of its own",
        (
            Edit("penstock/jobmanager/attempt/recovery.py", "log.view().attempt + 1", "max(log.view().attempt, 1)"),
            Edit(LOG, "claim.attempt != self._view.attempt + 1", "claim.attempt != max(self._view.attempt, 1)"),
            Edit(
                "penstock/checkpoint/log/log_view.py",
                "view.attempt + 1 if isinstance",
                "max(view.attempt, 1) if isinstance",
            ),
        ),
        ("sim 200",),
    ),
    mutant(
        "M5",
        "sinks are committed before the checkpoint exists",
        (
            PUBLICATION,
            "            require_own_files(manifest, base, self._log)\n",
            "            self._committer.commit(manifest.committables)\n"
            "            require_own_files(manifest, base, self._log)\n",
        ),
        "sim 200",
    ),
    mutant(
        "M6",
        "a key group is dropped when a job is rescaled",
        (REDISTRIBUTION, "left[0] <= right[1] and right[0] <= left[1]", "left[0] < right[1] and right[0] < left[1]"),
        "sim 600",
    ),
    mutant(
        "M7",
        "files that older retained checkpoints share are deleted",
        (RETENTION, "needed = _needed_files(log, kept)", "needed = _needed_files(log, kept[-1:])"),
        "sim 300",
    ),
    mutant(
        "M8",
        "hashes are not checked",
        ("penstock/checkpoint/snapshot/manifest.py", "    if digest(data) != file.sha256:", "    if False:"),
        "tests/checkpoint/test_manifest.py",
    ),
    mutant(
        "M9",
        "a query goes on one batch after the position",
        (
            "penstock/spark/offset_log.py",
            "    for number in (batch_id - 1, batch_id):\n        if number >= 0:\n            (commits",
            "    for number in (batch_id, batch_id + 1):\n        if number >= 0:\n            (commits",
        ),
        "tests/jobmanager/test_source_tracker.py",
    ),
    mutant(
        "M10",
        "TTL goes by the wall clock",
        (
            TASK,
            "backend.ttl.clock.now_ms = header.now_ms",
            "backend.ttl.clock.now_ms = __import__('time').time_ns() // 10**6",
        ),
        "tests/testing/test_ttl.py",
    ),
    mutant(
        "M11",
        "the newest manifest on storage is restored, not the log's",
        (
            RESTORE,
            "    manifest = load_manifest(log.storage, complete)\n",
            "    from penstock.checkpoint.snapshot.manifest import decode_manifest\n"
            "    names = [path for path in log.storage.list('chk-') if path.endswith('_metadata')]\n"
            "    path = max(names, key=lambda name: int(name[4:-10]))\n"
            "    manifest = decode_manifest(log.storage.read(path), path)\n",
        ),
        "sim 1000",
    ),
    mutant(
        "M12",
        "removals do not reach the changes of an epoch",
        (
            "penstock/state/heap/heap_tables.py",
            f"        return self.undo\n\n{ROLL_BACK}",
            f"        return [key for key in self.undo if key in self.live]\n\n{ROLL_BACK}",
        ),
        "tests/state/test_epochs_and_seals.py",
        "tests/state/test_backend_model.py",
    ),
    mutant(
        "M13",
        "an fsync error is swallowed",
        (
            LOCAL,
            "        os.fsync(file.fileno())\n",
            "        try:\n            os.fsync(file.fileno())\n        except OSError:\n            pass\n",
        ),
        "tests/storage/test_local_storage.py tests/storage/test_disk_faults.py",
    ),
    mutant(
        "M14",
        "a checkpoint that cannot be read now is none: the job starts from nothing",
        (
            RESTORE,
            "            passed.append(Damage(complete, error))\n            continue\n",
            "            passed.append(Damage(complete, error))\n            continue\n"
            "        except Exception as problem:\n            if type(problem).__name__ == 'StorageError':\n"
            "                return None\n            raise\n",
        ),
        "tests/checkpoint/test_restore.py",
        "sim 1000",
    ),
    mutant(
        "M15",
        "values of unknown types are pickled",
        (
            "penstock/codec/tagged.py",
            "    kind = type(value)\n    name = (",
            "    kind = type(value)\n    import pickle\n"
            "    return _encode_bytes(pickle.dumps(value), depth, table)\n    name = (",
        ),
        "tests/codec/test_tagged.py",
    ),
)

RULES = (
    mutant(
        "R1",
        "a file that is there is overwritten",
        (LOCAL, "os.link(temporary, target, follow_symlinks=False)", "os.replace(temporary, target)"),
        "tests/storage/test_storage_conformance.py",
    ),
    mutant(
        "R3",
        "files are deleted before their discard",
        (
            RETENTION,
            "    _discard(log, [complete.checkpoint for complete in dropped], useless)\n",
            "    delete_files(log.storage, useless)\n"
            "    _discard(log, [complete.checkpoint for complete in dropped], useless)\n",
        ),
        "sim 200",
    ),
    mutant(
        "R4",
        "no listing after an append",
        (LOG, "        if highest != record.number:\n", "        if False:\n"),
        "tests/checkpoint/test_fencing_writers.py",
        "sim 2000",
    ),
    mutant(
        "R5",
        "an append without a reply has failed",
        (
            "penstock/storage/certain_put.py",
            "            doubtful = True  # PROTOCOL R5",
            "            raise StorageError('failed') from None  # PROTOCOL R5",
        ),
        "sim 600",
    ),
    mutant(
        "R7",
        "numbers of checkpoints on storage are used again",
        ("penstock/checkpoint/checkpoint_numbers.py", '_first_free(log.storage.list(""))', "0"),
        "sim 2000",
        "tests/checkpoint/test_coordinator_files.py tests/checkpoint/test_coordinator.py",
    ),
    mutant(
        "R10",
        "a task runs on any version of the state",
        ("penstock/runtime/ownership.py", "        if self._version != header.parent:\n", "        if False:\n"),
        "tests/runtime/test_owner.py",
    ),
    mutant(
        "R11",
        "a function is kept after its run was dropped",
        (TASK, "        self._chain.discard_functions()\n        self.open()\n", ""),
        "tests/testing/test_operator_state.py tests/runtime/test_task.py",
    ),
    mutant(
        "R12",
        "a sealed state is read when it is written, not when it is sealed",
        (
            "penstock/state/heap/heap_tables.py",
            "        keys, values = list(self.live), list(self.live.values())\n"
            "        return lambda: Rows(keys, None, values, None)\n",
            "        return lambda: Rows(list(self.live), None, list(self.live.values()), None)\n",
        ),
        "sim 400",
    ),
    mutant(
        "R13",
        "a dropped run takes the rows in flight with it",
        (
            "penstock/runtime/snapshots/spool.py",
            "        self._segments, self._skip = list(self._saved.segments), self._saved.skip\n",
            "",
        ),
        "sim 600",
    ),
    mutant(
        "R13 event time",
        "event time passes rows that wait",
        (TASK, "            watermarks = dict.fromkeys(watermarks, MIN_WATERMARK)\n", "            pass\n"),
        "tests/testing/test_unaligned_time.py",
    ),
    mutant(
        "R13 downstream",
        "event time that is made downstream passes rows that wait",
        (TASK, "advance(header, watermarks, waits=waits)", "advance(header, watermarks, waits=self.spool.rows > 0)"),
        "tests/testing/test_unaligned_time.py",
    ),
    mutant(
        "R17",
        "an ack of any version counts",
        (
            PENDING,
            "found = [self.acks.get((subtask, version)) for subtask, version in keys if version is not None]",
            "found = [next((a for (s, _), a in self.acks.items() if s == subtask), None) for subtask, _ in keys]",
        ),
        "tests/checkpoint/test_coordinator.py",
        "tests/checkpoint/test_random_schedules.py",
    ),
    mutant(
        "R18 base",
        "a snapshot builds on the newest checkpoint written, not on the header's",
        (
            WRITER,
            "            chain = self._chains.get(base) if base is not None and",
            "            chain = self._chains.get(max(self._chains, default=-1)) if base is not None and",
        ),
        "sim 400",
    ),
    mutant(
        "R18 pin",
        "what a pending checkpoint builds on is not pinned",
        (RETENTION, "    needed |= scope.pinned\n", ""),
        "sim 2000",
        "tests/checkpoint/test_coordinator_files.py",
    ),
    mutant(
        "R20",
        "committables of later epochs are in the checkpoint",
        (PENDING, "if after < epoch <= up_to]", "if after < epoch]"),
        "sim 400",
    ),
    mutant(
        "R21",
        "the next checkpoint completes before the commits of the former",
        (COORDINATOR, "while not self._publication.state.is_committing and (pending", "while (pending"),
        "sim 1000",
        "tests/checkpoint/test_coordinator.py",
    ),
    mutant(
        "R22",
        "files of pending checkpoints are swept",
        (
            RETENTION,
            "    if name.number in scope.pending and name.attempt in (None, scope.attempt):\n",
            "    if False:\n",
        ),
        "sim 1000",
    ),
    mutant(
        "5.3",
        "a recovery sweeps the sinks before it commits",
        (
            SINK_RECOVERY,
            "    try:\n        for group in commit_groups(committables if not is_confirmed",
            "    try:\n        committer.sweep([], log.view().attempt)\n"
            "        for group in commit_groups(committables if not is_confirmed",
        ),
        "sim 400",
    ),
    mutant(
        "R24",
        "a damaged checkpoint is always fallen back from",
        (RESTORE, "if is_visible and not (allow_fallback or sinks_idempotent):", "if False:"),
        "tests/testing/test_damaged_checkpoints.py tests/checkpoint/test_restore.py",
    ),
    mutant(
        "R29",
        "a savepoint is published before its checkpoint is committed",
        (SAVEPOINTS, "        return self._coordinator.covers(pending.epoch)\n", "        return True\n"),
        "tests/checkpoint/test_savepoints.py",
    ),
    mutant(
        "R29 order",
        "a savepoint is published before the log knows of it",
        (
            SAVEPOINTS,
            '        failpoint.before("C28")\n',
            '        folder.put_metadata(data, self._log.wait)\n        failpoint.before("C28")\n',
        ),
        "tests/testing/test_savepoints.py",
    ),
    mutant(
        "R30",
        "an attempt that finds a stop goes on",
        (
            "penstock/jobmanager/job_savepoints.py",
            "        if stopping is not None:\n",
            "        if False:\n",
        ),
        "tests/testing/test_savepoints.py",
    ),
    mutant(
        "R30 resumed",
        "a stop that fails is not taken back in the log",
        (SAVEPOINTS, "            self._log.append(Resumed(reason))\n", "            pass\n"),
        "tests/testing/test_savepoints.py",
    ),
    mutant(
        "R17 savepoint",
        "a savepoint takes the part of a dropped run",
        (
            PENDING,
            "found = [self.acks.get((subtask, version)) for subtask, version in keys if version is not None]",
            "found = [next((a for (s, _), a in self.acks.items() if s == subtask), None) for subtask, _ in keys]",
        ),
        "tests/checkpoint/test_savepoints.py",
    ),
    mutant(
        "I-6",
        "a checkpoint is written with the watermarks of later epochs",
        (
            "penstock/jobmanager/attempt/epoch_tracker.py",
            "dict(state.watermarks),  # a checkpoint",
            "state.watermarks,  # a checkpoint",
        ),
        "sim 400",
    ),
)

MUTANTS = PLANNED + RULES
