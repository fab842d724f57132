"""A job as its record in the registry shows it."""

import os
import socket
from collections.abc import Iterable

from penstock.control.registry import JobRecord, ProcessRecord
from penstock.jobmanager.attempt.spark_attempt import SparkAttempt
from penstock.jobmanager.job_end import JobEnd
from penstock.jobmanager.job_parts import JobParts
from penstock.jobmanager.job_request import JobRequest
from penstock.model.execution import JobStatus
from penstock.runtime.process.messages import Register


def job_record(
    request: JobRequest, parts: JobParts, end: JobEnd, attempt: SparkAttempt | None, now_ms: int
) -> JobRecord:
    """The job as it is now, with what is known of the attempt that runs or ran last. Never waits."""
    settings, history, rows = request.settings, parts.history, parts.rows
    driver, *taskmanagers = _process_records(attempt.processes() if attempt is not None else ())
    tracker = attempt.tracker if attempt is not None else None
    row_count, epoch_rows = rows.observe(attempt.rows_so_far() if attempt is not None else None)
    return JobRecord(
        job_id=request.identity.job_id,
        name=request.identity.name,
        status=history.status.name,
        pid=driver.pid,
        host=driver.host,
        started_ms=end.started_ms,
        updated_ms=now_ms,
        log_dir=str(parts.log.folder),
        rest=request.rest if end.ended_ms is None else None,
        ended_ms=end.ended_ms,
        attempt=parts.attempt_number,
        phase=attempt.phase if attempt is not None and history.status is JobStatus.RUNNING else None,
        epoch=tracker.epoch if tracker is not None else 0,
        parallelism=parts.scaling.graph.parallelism,
        **parts.scaling.figures(),
        checkpoint_dir=settings.storage.address if settings.takes_checkpoints else None,
        last_checkpoint=parts.checkpoints.last_completed,
        state_bytes=parts.checkpoints.state_bytes,
        watermark=tracker.watermark if tracker is not None else None,
        rows=row_count,
        epoch_rows=epoch_rows,
        has_backlog=attempt is not None and attempt.has_backlog,
        rows_dropped=rows.dropped,
        rows_late=rows.late,
        rows_per_s=rows.per_second,
        processes=[driver, *taskmanagers],
        failure=str(end.failure) if end.failure is not None else None,
        **history.figures(),
        metrics=parts.metrics.merged(),
        subtasks=parts.metrics.work.subtasks(epoch_runs=epoch_rows > 0),
        last_epoch=rows.last,
    )


def _process_records(taskmanagers: Iterable[tuple[Register, list[str]]]) -> list[ProcessRecord]:
    """This driver, then the TaskManagers with the subtasks that each owns."""
    driver = ProcessRecord(os.getpid(), socket.gethostname(), "driver")
    return [
        driver,
        *(ProcessRecord(r.pid, r.host, "taskmanager", subtasks, r.taskmanager) for r, subtasks in taskmanagers),
    ]
