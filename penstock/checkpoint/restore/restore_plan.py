"""What a new attempt starts from (PROTOCOL section 5, R23 to R26).

The order of a recovery, each step after the one before it:

    log = JobLog.open(storage, clock)
    log.claim(Claim(log.view().attempt + 1, ...))
    finish_open_deletes(log)
    path = path_to_restore(log.view(), start_from)
    manifest = open_snapshot(path).manifest, or choose_restore(log, allow_fallback=..., sinks_idempotent=...)
    record_restore(log, manifest, why)
    recover_sinks(log, manifest, committer)
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

from penstock import failpoint
from penstock.checkpoint.log.entries import Complete, Restore
from penstock.checkpoint.log.job_log import RECENT_S, JobLog
from penstock.checkpoint.log.log_view import LogView
from penstock.checkpoint.restore.fallback import Damage, Fallback, nothing_intact
from penstock.checkpoint.restore.owned_snapshot import finish_claimed_deletes
from penstock.checkpoint.retention import delete_files
from penstock.checkpoint.sink_commits import SinkCommitter
from penstock.checkpoint.snapshot.manifest import load_manifest, verify_sizes
from penstock.errors import (
    CheckpointCorruptError,
    CheckpointError,
    CheckpointFailedError,
    CheckpointMissingError,
    PenstockError,
    StorageError,
)
from penstock.model.snapshot import Manifest, SubtaskSnapshot


def finish_open_deletes(log: JobLog) -> None:
    """Delete what earlier attempts have discarded but not deleted: the first thing after a claim (PROTOCOL R3).

    A file that cannot be deleted keeps no job from starting: it is tried again with every removal.
    """
    begun = set(log.view().open_deletes)
    for path in log.storage.list("") if begun else []:
        if path in begun:
            with suppress(StorageError):
                delete_files(log.storage, [path])
    if log.view().has_claimed_snapshot:
        finish_claimed_deletes(log)


def path_to_restore(view: LogView, start_from: str | None) -> str | None:
    """The snapshot elsewhere that an attempt starts from; None if it starts from a checkpoint of its own or nothing.

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
    """The newest checkpoint of the current line whose manifest and file sizes verify; None for a job without any.

    `sinks_idempotent`: every sink is idempotent, can revert or is AT_LEAST_ONCE, so that going behind a damaged
    checkpoint commits nothing twice. `damaged` are checkpoints whose contents were found wrong when they were read.
    `report` is told what is passed over and which input is read again. A storage that does not answer is a
    StorageError, never a reason to fall back or to start from nothing.
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
    """Append what this attempt starts from, before sinks are touched. Nothing for a job that starts from nothing."""
    if manifest is not None:
        log.append(Restore(manifest.checkpoint_id, None, why))


def recover_sinks(log: JobLog, manifest: Manifest | None, committer: SinkCommitter) -> None:
    """Commit what the restored manifest lists, then abort every other transaction of older attempts.

    May be done any number of times. An error ends the attempt; the next one does it again.
    """
    committables = manifest.committables if manifest is not None else []
    log.check_fenced()  # PROTOCOL R4: before commits
    # PROTOCOL R21: behind a later `complete` they were all confirmed, and a sink may have forgotten them since.
    is_confirmed = manifest is not None and manifest.checkpoint_id in log.view().confirmed
    try:
        for committable in committables if not is_confirmed else []:
            failpoint.before("C20")
            log.check_fenced(max_age_s=RECENT_S)
            committer.commit([committable])
            failpoint.after("C20")
        log.check_fenced()
        committer.sweep(committables, log.view().attempt)
    except PenstockError:
        raise
    except Exception as error:
        raise CheckpointFailedError(f"the sinks could not be brought to the restored checkpoint: {error}") from error


def plan_restore(
    manifest: Manifest, operator_uids: Collection[str], key_groups: tuple[int, int], max_parallelism: int
) -> list[SubtaskSnapshot]:
    """The old snapshots that may hold rows of a new subtask with these operators and key groups, in manifest order.

    Rows outside its key groups are to be left out when a snapshot is read. With another max parallelism a key group
    may have rows anywhere, so all snapshots of the operators are read.
    """
    is_same_split = manifest.max_parallelism == max_parallelism
    return [
        old
        for old in manifest.subtasks
        if not _operators(old).isdisjoint(operator_uids) and (not is_same_split or _overlap(old.key_groups, key_groups))
    ]


def _operators(old: SubtaskSnapshot) -> set[str]:
    return {*old.operator_uids, *(table.operator_uid for table in old.tables)}


def _overlap(left: tuple[int, int], right: tuple[int, int]) -> bool:
    return left[0] <= right[1] and right[0] <= left[1]
