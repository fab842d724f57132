"""Which snapshot a new attempt starts from (PROTOCOL R23 to R25)."""

from collections.abc import Callable, Mapping
from contextlib import suppress

from penstock.checkpoint.log.entries import Complete, Restore
from penstock.checkpoint.log.job_log import JobLog
from penstock.checkpoint.log.log_view import LogView
from penstock.checkpoint.restore.fallback import Damage, Fallback, nothing_intact
from penstock.checkpoint.restore.owned_snapshot import finish_claimed_deletes
from penstock.checkpoint.retention import delete_files
from penstock.checkpoint.snapshot.manifest import load_manifest, verify_sizes
from penstock.errors import (
    CheckpointCorruptError,
    CheckpointError,
    CheckpointMissingError,
    StorageError,
)
from penstock.model.snapshot import Manifest


def finish_open_deletes(log: JobLog) -> None:
    """Delete what earlier attempts have discarded but not deleted: the first thing after a claim (PROTOCOL R3).

    A file that cannot be deleted does not keep the job from starting: every later removal tries it again.
    """
    begun = set(log.view().open_deletes)
    for path in log.storage.list("") if begun else []:
        if path in begun:
            with suppress(StorageError):
                delete_files(log.storage, [path])
    if log.view().has_claimed_snapshot:
        finish_claimed_deletes(log)


def path_to_restore(view: LogView, start_from: str | None) -> str | None:
    """The snapshot outside the job's folder that an attempt starts from; None: from its own checkpoint or nothing.

    `start_from` counts for a new job. One that has completed no checkpoint since starts there again (PROTOCOL R25).
    """
    if not view.started:
        return start_from or (view.claim.start_from if view.claim is not None else "") or None
    return view.origin


def choose_restore(
    log: JobLog,
    *,
    allow_fallback: bool,
    sinks_idempotent: bool = False,
    damaged: Mapping[int, CheckpointError] | None = None,
    report: Callable[[str], None] | None = None,
) -> Manifest | None:
    """The newest checkpoint of the current lineage whose manifest and file sizes verify; None for a job without any.

    `sinks_idempotent`: every sink is idempotent, can revert or is AT_LEAST_ONCE, so that falling back behind a damaged
    checkpoint commits nothing twice. `damaged` are checkpoints whose contents were found wrong when they were read.
    `report` is called with a warning that says what is skipped and which input is read again. A storage that does not
    answer is a StorageError, never a reason to fall back or to start from nothing.
    """
    view = log.view()
    if not view.started:
        return None  # PROTOCOL R23: only a log without `restore` and `complete` starts from nothing
    if not view.lineage:
        raise CheckpointError("the job has had checkpoints, but none is left in its log; start a new job")
    passed: list[Damage] = []
    for complete in reversed(view.lineage):
        try:
            manifest = _verified(log, complete, damaged or {})
        except (CheckpointMissingError, CheckpointCorruptError) as error:
            log.check_fenced()  # PROTOCOL R4: a newer attempt may have deleted it
            passed.append(Damage(complete, error))
            continue
        if passed:
            fallback = Fallback(manifest, passed, max(complete.epoch for complete in view.retained))
            # PROTOCOL R24: without a `committing` or `restore` in the log nothing of a checkpoint is visible yet.
            is_visible = any(damage.complete.checkpoint <= view.commits_begun for damage in passed)
            if is_visible and not (allow_fallback or sinks_idempotent):
                raise CheckpointError(fallback.refusal())
            if report is not None:
                report(fallback.warning())
        return manifest
    raise CheckpointError(nothing_intact(passed))


def _verified(log: JobLog, complete: Complete, damaged: Mapping[int, CheckpointError]) -> Manifest:
    if complete.checkpoint in damaged:
        raise damaged[complete.checkpoint]
    manifest = load_manifest(log.storage, complete)
    verify_sizes(log.storage, manifest)
    return manifest


def record_restore(log: JobLog, manifest: Manifest | None, why: str) -> None:
    """Append what this attempt starts from, before sinks are touched. No entry for a job that starts from nothing."""
    if manifest is not None:
        log.append(Restore(manifest.checkpoint_id, None, why))
