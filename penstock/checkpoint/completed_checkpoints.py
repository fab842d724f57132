"""The completed checkpoints of an attempt: published, committed, built upon, and removed when they are not needed.

Only the completing thread calls it. What other threads read changes under the coordinator's lock.
"""

from collections.abc import Callable, Sequence
from functools import partial

from penstock.checkpoint.checkpoint_settings import CheckpointSettings
from penstock.checkpoint.completion import Predecessor, publish, require_own_files
from penstock.checkpoint.log.entries import Committing
from penstock.checkpoint.log.job_log import RECENT_S, JobLog
from penstock.checkpoint.restore.owned_snapshot import collect_claimed
from penstock.checkpoint.retention import SweepScope, collect_garbage
from penstock.checkpoint.sink_commits import CommitRun, SinkCommitter
from penstock.errors import CheckpointError, FencedError, LogCorruptError, NameTakenError, StorageError
from penstock.model.snapshot import Manifest

TakeScope = Callable[[Sequence[str]], SweepScope]


class CompletedCheckpoints:
    """What exists of an attempt's line, and its removal."""

    def __init__(
        self, settings: CheckpointSettings, log: JobLog, committer: SinkCommitter, restored: Manifest | None
    ) -> None:
        self._settings = settings
        self._log = log
        self._committer = committer
        self._commits: CommitRun | None = None
        self._is_final = False
        self.last, self.newest = _where_from(log, restored)
        """The end of the line; and what subtasks of the next epoch may build on, whose commits have ended."""
        self.collect_due = True
        self.cleaning_failure: str | None = None

    @property
    def is_committing(self) -> bool:
        """Commits of the newest checkpoint are not confirmed."""
        return self._commits is not None

    def publish(self, manifest: Manifest, base: Manifest | None) -> str | None:
        """Make the checkpoint exist; or say why it does not and never will."""
        try:
            require_own_files(manifest, base, self._log)
            publish(manifest, self._log)
        except (FencedError, LogCorruptError):
            raise
        except (StorageError, CheckpointError) as error:
            if self._log.in_doubt:
                raise  # PROTOCOL R5: it may exist, so nothing that depends on it may happen
            if isinstance(error, NameTakenError):
                self._log.check_fenced()  # PROTOCOL R7: a clash is with an attempt before or after this one
            return str(error)
        return None

    def published(self, manifest: Manifest) -> None:
        """Its commits come next. Under the lock."""
        self.last = Predecessor(manifest.checkpoint_id, manifest.epoch)
        self._commits = CommitRun(manifest, self._log.clock, self._settings.commit_timeout_ms / 1000)

    def commit(self) -> Manifest | None:
        """The checkpoint whose commits have all been confirmed now; None if none waits, or it must wait longer."""
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

    def committed(self, manifest: Manifest) -> None:
        """The next epochs may build on it. Under the lock."""
        self._commits = None
        self._is_final = manifest.final
        self.newest = manifest

    def clean_after(self, manifest: Manifest, take_scope: TakeScope) -> None:
        """Remove what the checkpoint has replaced; at the end the status comes before discards (PROTOCOL R31)."""
        if not self._is_final:
            self.collect(self._settings.retained, take_scope)
            self._sweep_sinks(manifest)

    def collect_if_due(self, take_scope: TakeScope) -> None:
        """Remove what aborted checkpoints left.

        Not before the first checkpoint, whose number is fixed already, and not between the last and the status.
        """
        if self.collect_due and self._log.view().started and not self._is_final:
            self.collect(self._settings.retained, take_scope)

    def collect(self, retained: int, take_scope: TakeScope) -> None:
        """Remove old files. A failure is kept to be shown; what is left goes the next time."""
        self.collect_due = False
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


def _where_from(log: JobLog, restored: Manifest | None) -> tuple[Predecessor, Manifest | None]:
    if restored is None:
        return Predecessor(None, 0), None
    line = log.view().lineage
    if line and line[-1].checkpoint == restored.checkpoint_id:
        return Predecessor(restored.checkpoint_id, restored.epoch), restored
    # From another folder nothing is shared: the first checkpoint is full (PROTOCOL R25).
    return Predecessor(None, restored.epoch), None
