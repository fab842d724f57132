"""How a checkpoint becomes true, and what follows: one thread, one checkpoint at a time, in this order (PROTOCOL R21):

    check the files -> put `_metadata` -> append `complete` -> append `committing` -> commit the sinks
        -> notify the functions -> append `discard` -> delete

The append of `complete` is the commit point. After a crash before it, the checkpoint has never existed. After a crash
behind it, the next attempt restores the checkpoint and commits its output again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from penstock import failpoint
from penstock.checkpoint.checkpoint_request import CheckpointRequest
from penstock.checkpoint.checkpoint_schedule import CheckpointSchedule
from penstock.checkpoint.checkpoint_settings import CheckpointSettings
from penstock.checkpoint.file_names import metadata_path, parse_name
from penstock.checkpoint.log.entries import Committing, Complete, Status
from penstock.checkpoint.log.job_log import RECENT_S, JobLog
from penstock.checkpoint.restore.owned_snapshot import collect_claimed
from penstock.checkpoint.retention import SweepScope, collect_garbage
from penstock.checkpoint.sink_commits import CommitRun, SinkCommitter
from penstock.checkpoint.snapshot.manifest import digest, encode_manifest, file_paths
from penstock.errors import (
    CheckpointError,
    CheckpointFailedError,
    FencedError,
    LogCorruptError,
    NameTakenError,
    StorageError,
)
from penstock.model.ids import CheckpointId
from penstock.model.snapshot import Manifest
from penstock.storage.certain_put import put_certain

TakeScope = Callable[[Sequence[str]], SweepScope]


def complete(manifest: Manifest, log: JobLog) -> int:
    """Make the checkpoint exist: put `_metadata`, then append `complete`. Returns the size of `_metadata`.

    Raises StorageError if it does not exist and never will, UnknownOutcomeError from the log if that is not known.
    """
    data = encode_manifest(manifest)
    path = metadata_path(manifest.checkpoint_id)
    failpoint.before("C18")
    log.check_fenced(max_age_s=RECENT_S)  # a manifest of a fenced attempt would block the name for its successor
    put_certain(log.storage, path, data, log.wait)
    failpoint.after("C18")
    failpoint.before("C19")
    log.append(Complete(manifest.checkpoint_id, manifest.epoch, path, digest(data)))  # THE COMMIT POINT (PROTOCOL R2)
    failpoint.after("C19")
    return len(data)


class CheckpointListenerHook(Protocol):
    """Learns how each checkpoint ended, and notifies the functions through their TaskManagers."""

    def completed(self, checkpoint_id: CheckpointId) -> None:
        """The checkpoint exists and its sinks are committed."""
        ...

    def aborted(self, checkpoint_id: CheckpointId, reason: str) -> None:
        """The checkpoint will never exist."""
        ...


@dataclass(frozen=True)
class Published:
    """What is complete. The publication replaces it as a whole, so other threads read it without a lock."""

    last_id: int | None
    """The last checkpoint of the lineage; None: the job has restored a snapshot of another folder, or nothing."""
    last_epoch: int
    newest: Manifest | None
    """The newest checkpoint whose commits have ended: subtasks of the next epoch may build on it."""
    is_committing: bool = False
    """The commits of the last checkpoint have not ended."""

    @staticmethod
    def restored(manifest: Manifest | None, log: JobLog) -> "Published":
        """What an attempt starts with."""
        if manifest is None:
            return Published(None, 0, None)
        lineage = log.view().lineage
        if lineage and lineage[-1].checkpoint == manifest.checkpoint_id:
            return Published(manifest.checkpoint_id, manifest.epoch, manifest)
        # From another folder nothing is shared: the first checkpoint is full (PROTOCOL R25).
        return Published(None, manifest.epoch, None)


class Publication:
    """Publishes the checkpoints of one attempt. Only the completing thread calls its methods."""

    def __init__(
        self,
        settings: CheckpointSettings,
        log: JobLog,
        committer: SinkCommitter,
        listener: CheckpointListenerHook,
        schedule: CheckpointSchedule,
        *,
        restored: Manifest | None,
    ) -> None:
        self._settings = settings
        self._log = log
        self._committer = committer
        self._listener = listener
        self._schedule = schedule
        self._commits: CommitRun | None = None
        self._request: CheckpointRequest | None = None
        """For the checkpoint whose commits have not ended."""
        self._is_final = False
        self._is_collection_due = True
        self.cleaning_failure: str | None = None
        """Why the last removal of old files and transactions failed; it is tried again after the next checkpoint."""
        self.metadata_bytes = 0
        """Of the newest checkpoint."""
        self.state = Published.restored(restored, log)

    # ---- put `_metadata`, append `complete`

    def publish(self, manifest: Manifest, base: Manifest | None, request: CheckpointRequest | None) -> str | None:
        """Make the checkpoint exist, or say why it does not and never will. `settle` does the rest."""
        try:
            require_own_files(manifest, base, self._log)
            self.metadata_bytes = complete(manifest, self._log)
        except (FencedError, LogCorruptError):
            raise
        except (StorageError, CheckpointError) as error:
            if self._log.in_doubt:
                raise  # PROTOCOL R5: it may exist, so nothing that depends on it may happen
            if isinstance(error, NameTakenError):
                self._log.check_fenced()  # PROTOCOL R7: a clash is with an attempt before or after this one
            return str(error)
        self._commits = CommitRun(manifest, self._log.clock, self._settings.commit_timeout_ms / 1000)
        self._request = request
        self.state = replace(self.state, last_id=manifest.checkpoint_id, last_epoch=manifest.epoch, is_committing=True)
        return None

    def publish_first(self, manifest: Manifest) -> None:
        """Make the checkpoint before the first epoch exist. It has no output to commit (PROTOCOL R23)."""
        number = manifest.checkpoint_id
        try:
            require_own_files(manifest, None, self._log)
            complete(manifest, self._log)
            # Nothing is committed, but rows follow. Were the `complete` lost while it is the last entry, nobody would
            # miss it, and the sources would begin somewhere else.
            self._log.append(Committing(number))
        except NameTakenError as error:
            raise CheckpointFailedError(f"checkpoint {number} was put by another attempt: {error}") from error
        self.state = Published(number, manifest.epoch, manifest)

    # ---- commit the sinks, notify, discard, delete

    def settle(self, take_scope: TakeScope) -> CheckpointId | None:
        """Commit, notify and clean up after the last checkpoint; its number, once its commits have ended.

        None if nothing is left to do, or if a commit failed: it is repeated by a later call.
        """
        manifest = self._commit_sinks()
        if manifest is None:
            return None
        number = CheckpointId(manifest.checkpoint_id)
        failpoint.before("C21")
        request, self._commits, self._request = self._request, None, None
        self._is_final = manifest.final
        self._schedule.completed()  # before the next checkpoint may start
        self.state = replace(self.state, newest=manifest, is_committing=False)
        failpoint.after("C21")
        self._listener.completed(number)
        if request is not None:
            request.complete(number)
        if not self._is_final:  # at the end the status comes before discards (PROTOCOL R31)
            self._collect(self._settings.retained, take_scope)
            self._sweep_sinks(manifest)
        return number

    def _commit_sinks(self) -> Manifest | None:
        """The checkpoint whose commits have all been confirmed now; None if there is none, or if it must wait."""
        run = self._commits
        if run is None or not run.is_due:
            return None
        number = run.manifest.checkpoint_id
        try:
            if self._log.view().commits_begun < number:
                self._log.append(Committing(number))  # PROTOCOL R24: from here on output may be visible
            else:
                self._log.check_fenced()  # PROTOCOL R4: before commits
        except StorageError as error:
            if self._log.in_doubt:
                raise
            run.postpone(error)
            return None
        require_owner = partial(self._log.check_fenced, max_age_s=RECENT_S)
        return run.manifest if run.advance(self._committer, require_owner) else None

    # ---- the end, and removal

    def finish(self, status: Status, retained: int, take_scope: TakeScope) -> None:
        """Append how the job ended, then remove all but the newest `retained` checkpoints (PROTOCOL R31)."""
        self._log.append(status)
        self.state = replace(self.state, newest=None)  # nothing builds on it any more
        self._collect(retained, take_scope)

    def fail_request(self, reason: str) -> None:
        """The attempt ends: who waits for the checkpoint that is being committed is not left waiting. Any thread."""
        request = self._request
        if request is not None:
            request.fail(reason)

    def collect_later(self) -> None:
        """An aborted checkpoint has left files. Any thread."""
        self._is_collection_due = True

    def collect_if_due(self, take_scope: TakeScope) -> None:
        """Remove what aborted checkpoints left.

        Not before the first checkpoint, whose number is fixed already, and not between the last and the status.
        """
        if self._is_collection_due and self._log.view().started and not self._is_final:
            self._collect(self._settings.retained, take_scope)

    def _collect(self, retained: int, take_scope: TakeScope) -> None:
        """Discard and delete old files. A failure is kept to be shown; what is left is removed the next time."""
        self._is_collection_due = False
        self.cleaning_failure = None
        try:
            collect_garbage(self._log, retained, take_scope)
            if self._log.view().has_claimed_snapshot:
                self.cleaning_failure = collect_claimed(self._log, retained)
            self._log.shorten_if_due()
        except (FencedError, LogCorruptError):
            raise
        except (StorageError, CheckpointError) as error:
            if self._log.in_doubt:
                raise
            self.cleaning_failure = str(error)

    def _sweep_sinks(self, manifest: Manifest) -> None:
        try:
            self._committer.sweep(manifest.committables, self._log.view().attempt)
        except FencedError:
            raise
        except Exception as error:
            self.cleaning_failure = f"old sink transactions could not be swept: {error}"


def require_own_files(manifest: Manifest, base: Manifest | None, log: JobLog) -> None:
    """Return if every file of the manifest is one that it may name; raise CheckpointError otherwise.

    A file is either written for this checkpoint, or belongs to the checkpoint that its subtasks build on. None is under
    a `discard` (PROTOCOL R18, I-11), and all exist.
    """
    inherited = file_paths(base) if base is not None else set()
    needed = file_paths(manifest)
    number = manifest.checkpoint_id
    for path in sorted(needed - inherited):
        name = parse_name(path)
        if name is None or (name.attempt, name.number) != (manifest.attempt, number):
            raise CheckpointError(f"checkpoint {number} names {path!r}, which is neither its own nor of its base")
    discarded = (needed | {metadata_path(number)}).intersection(log.view().open_deletes)
    if discarded:
        raise CheckpointError(f"checkpoint {number} names {min(discarded)!r}, which is discarded")
    missing = needed.difference(log.storage.list("")) if needed else set()
    if missing:
        log.check_fenced()  # PROTOCOL R4: a newer attempt may have deleted it
        raise CheckpointError(f"checkpoint {number} names {min(missing)!r}, which is not in {log.storage.uri}")
