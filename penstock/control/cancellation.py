"""Cancelling a job that nobody runs: it was suspended, has failed, or its driver is gone."""

import msgspec

from penstock.checkpoint.log.entries import Status
from penstock.checkpoint.log.job_log import JobLog
from penstock.checkpoint.snapshot.manifest import digest
from penstock.clock import Clock, SystemClock
from penstock.control.registry import JobRecord, Registry
from penstock.errors import JobConflictError
from penstock.model.execution import JobStatus
from penstock.model.ids import new_token
from penstock.storage.address import join_address
from penstock.storage.storage import open_storage

CANCELABLE = ("SUSPENDED", "FAILED")
"""Ended, but such a job can be resumed."""
WRITER = "cancel"


def is_idle(registry: Registry, record: JobRecord) -> bool:
    """Whether nobody runs the job, but somebody could resume it."""
    return record.status in CANCELABLE or not (record.ended or registry.is_running(record))


def cancel_idle_job(registry: Registry, record: JobRecord, clock: Clock | None = None) -> str | None:
    """End the job for good: `--resume` no longer finds it. The address of its newest checkpoint, which stays, or None.

    The job is taken over first, so that a driver that still exists can write nothing more (PROTOCOL R4).
    """
    if not is_idle(registry, record):
        raise JobConflictError(f"job {record.job_id} is {record.status}, and its driver is alive")
    clock = clock or SystemClock()
    newest = _end_in_log(record, clock) if record.checkpoint_dir is not None else None
    now_ms = clock.now_ms()
    registry.write(
        msgspec.structs.replace(record, status=JobStatus.CANCELED.name, updated_ms=now_ms, ended_ms=now_ms, rest=None)
    )
    return newest


def _end_in_log(record: JobRecord, clock: Clock) -> str | None:
    address = join_address(record.checkpoint_dir or "", record.job_id)
    log = JobLog.open(open_storage(address), clock)
    view = log.view()
    if view.claim is None:
        return None
    if view.status is None or view.status.status not in ("finished", "cancelled"):
        token_hash = digest(new_token().encode())[:16]
        log.claim(
            msgspec.structs.replace(view.claim, attempt=view.attempt + 1, token_hash=token_hash, writer=WRITER),
            reopen=True,
        )
        log.append(Status("cancelled"))
    retained = log.view().retained
    return f"{address}/{retained[-1].metadata_path.rpartition('/')[0]}" if retained else None
