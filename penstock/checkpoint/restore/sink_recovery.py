"""Brings the sinks to the restored checkpoint: commits what it lists, aborts everything else (PROTOCOL section 5)."""

from penstock import failpoint
from penstock.checkpoint.log.job_log import RECENT_S, JobLog
from penstock.checkpoint.sink_commits import SinkCommitter
from penstock.errors import CheckpointFailedError, PenstockError
from penstock.model.snapshot import Manifest, commit_groups


def recover_sinks(log: JobLog, manifest: Manifest | None, committer: SinkCommitter) -> None:
    """Commit what the restored manifest lists, then abort every other transaction of older attempts.

    May be repeated. An error ends the attempt; the next one does it again.
    """
    committables = manifest.committables if manifest is not None else []
    log.check_fenced()  # PROTOCOL R4: before commits
    # PROTOCOL R21: a later `complete` means that all were confirmed, and a sink may have forgotten them since.
    is_confirmed = manifest is not None and manifest.checkpoint_id in log.view().confirmed
    try:
        for group in commit_groups(committables if not is_confirmed else []):
            failpoint.before("C20")
            log.check_fenced(max_age_s=RECENT_S)
            committer.commit(group)
            failpoint.after("C20")
        log.check_fenced()
        committer.sweep(committables, log.view().attempt)
    except PenstockError:
        raise
    except Exception as error:
        raise CheckpointFailedError(f"the sinks could not be brought to the restored checkpoint: {error}") from error
