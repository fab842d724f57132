"""`penstock status` and `logs`."""

import threading
from typing import Annotated

import msgspec
import typer

from penstock.checkpoint.stats.checkpoint_history import CheckpointStats
from penstock.cli.count_texts import bytes_text, count_of_rows
from penstock.cli.flags import (
    DebugFlag,
    JobArgument,
    JsonFlag,
    SettingsFlag,
    parse_choice,
    parse_settings,
)
from penstock.cli.job_registry import open_registry
from penstock.cli.time_texts import lag_text, time_text, watermark_text
from penstock.control import job_queries
from penstock.control.registry import FailureRecord, JobRecord
from penstock.control.terminal import print_result, table
from penstock.errors import UserFunctionError
from penstock.model.ids import RESERVED_PREFIX
from penstock.model.recent_epoch import RecentEpoch
from penstock.model.snapshot import StateSize
from penstock.model.subtask_work import SubtaskFigures
from penstock.runtime.process.log_lines import LEVELS

LOG_NAME_CHARS = len("taskmanager-1-0")
FOLLOW_PAUSE_S = 0.25
HOT = 1.1
"""A key group is named if it has this many times the mean. Estimates that are spread evenly never reach it."""
STATE_COLUMNS = ("OPERATOR", "STATE", "ENTRIES", "BYTES", "HOTTEST KEY GROUP", "LARGEST KEY")
CHECKPOINT_COLUMNS = ("CHECKPOINT", "STATUS", "TYPE", "DURATION", "ALIGNMENT", "WRITTEN", "IN FLIGHT", "FAILURE")
SUBTASK_COLUMNS = ("SUBTASK", "ROWS IN", "ROWS OUT", "ROWS/S", "BUSY", "BACK-PRESSURED", "IDLE")
FAILURE_COLUMNS = ("ATTEMPT", "FAILED", "ERROR", "MESSAGE")


def status(
    *, job: JobArgument, settings: SettingsFlag = None, json: JsonFlag = False, debug: DebugFlag = False
) -> None:
    """Show the status of a job and its processes."""
    record = job_queries.job_status(open_registry(parse_settings(settings)), job)
    print_result(status_text(record), record)


def logs(  # noqa: PLR0913 - the parameters are the command's flags
    *,
    job: JobArgument,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Follow until the job ends.")] = False,
    lines: Annotated[int | None, typer.Option("-n", "--lines", min=0, help="Only the last lines so far.")] = None,
    level: Annotated[
        str, typer.Option("--level", metavar="|".join(LEVELS), help="Only lines of this level and above.")
    ] = LEVELS[0],
    settings: SettingsFlag = None,
    json: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Print the logs of a job."""
    ending = threading.Event()
    pause = (lambda: ending.wait(FOLLOW_PAUSE_S)) if follow else None
    selection = job_queries.LogSelection(parse_choice("--level", level, LEVELS) or level, lines)
    for line in job_queries.job_logs(open_registry(parse_settings(settings)), job, selection, pause):
        if not print_result(f"{line.file.removesuffix('.log'):<{LOG_NAME_CHARS}} {line.text}", line):
            break


def failure_row(failure: FailureRecord) -> list[str]:
    """The table row of a failed attempt."""
    reason = (failure.message.strip().splitlines() or ["-"])[-1]
    if failure.error == UserFunctionError.__name__ and failure.root_cause:
        reason = failure.root_cause  # its message starts with the traceback and ends with the record
    return [str(failure.attempt), time_text(failure.at_ms), failure.error, reason]


def state_row(size: StateSize) -> list[str]:
    """The table row of a state; `~` marks an estimate."""
    measure = " uncompressed" if size.on_disk else ""
    largest = f"{size.largest[0][0]} ({bytes_text(size.largest[0][1])}{measure})" if size.largest else "-"
    entries = f"{'' if size.entries_exact else '~'}{size.entries}"
    return [
        size.operator_uid,
        size.name,
        entries,
        f"{'' if size.bytes_exact else '~'}{bytes_text(size.size_bytes)}",
        hottest_text(size),
        largest,
    ]


def checkpoint_row(stats: CheckpointStats) -> list[str]:
    """The table row of a checkpoint."""
    duration = "-" if stats.duration_ms is None else f"{stats.duration_ms} ms"
    figures = [duration, f"{stats.alignment_ms} ms", bytes_text(stats.written_bytes), bytes_text(stats.persisted_bytes)]
    return [str(stats.checkpoint_id), stats.status, stats.checkpoint_type, *figures, stats.failure or ""]


def subtask_row(figures: SubtaskFigures) -> list[str]:
    """The table row of a subtask."""
    shares = (figures.busy_ms_per_s, figures.back_pressured_ms_per_s, figures.idle_ms_per_s)
    rows = (figures.rows_in, figures.rows_out, round(figures.rows_in_per_s))
    return [f"{figures.vertex}/{figures.subtask}", *map(str, rows), *(f"{share / 10:.0f} %" for share in shares)]


def epoch_text(epoch: RecentEpoch) -> str:
    """How long an epoch took, and where its time went.

    >>> from penstock.model.recent_epoch import EpochPhases
    >>> epoch_text(RecentEpoch(7, 1000, 1400, 50, 20, 3, EpochPhases(30, 200, 120, 15, 5, 30)))
    '400 ms (scheduling 30, reading 200, functions 120, state 15, sealing 5, committing 30)'
    """
    phases = msgspec.structs.asdict(epoch.phases)
    parts = ", ".join(f"{name.removesuffix('_ms')} {value}" for name, value in phases.items())
    return f"{epoch.committed_ms - epoch.started_ms} ms ({parts})"


def hottest_text(size: StateSize) -> str:
    """The key group with the most bytes, if it stands out."""
    most = max(size.group_bytes, default=0)
    if most * len(size.group_bytes) <= HOT * sum(size.group_bytes):
        return "-"
    estimate = "~" if size.on_disk else ""
    return f"{size.first_key_group + size.group_bytes.index(most)} ({estimate}{bytes_text(most)})"


def status_text(record: JobRecord) -> str:
    """The status of a job as text."""
    facts = {
        "job": f"{record.job_id} {record.name!r}",
        "status": record.status,
        "started": time_text(record.started_ms),
        "ended": None if record.ended_ms is None else time_text(record.ended_ms),
        "attempt": record.attempt,
        "parallelism": record.parallelism,
        "rescaled": None if record.rescale is None else str(record.rescale),
        "phase": None if record.phase is None else str(record.phase),
        "epoch": record.epoch,
        "rows": f"{record.rows} ({record.rows_per_s:.0f} rows/s)",
        "backlog": "more input waits than an epoch may read" if record.has_backlog else None,
        "in epoch": f"{count_of_rows(record.epoch_rows)} so far" if record.epoch_rows else None,
        "dropped": f"{count_of_rows(record.rows_dropped)} without event time" if record.rows_dropped else None,
        "late": f"{count_of_rows(record.rows_late)} dropped by windows" if record.rows_late else None,
        "watermark": watermark_text(record.watermark) + lag_text(record.watermark, record.updated_ms),
        "last epoch": None if record.last_epoch is None else epoch_text(record.last_epoch),
        "checkpoint": record.last_checkpoint,
        "checkpoints": record.checkpoint_dir,
        "logs": record.log_dir,
    }
    lines = [f"{name:<12} {value}" for name, value in facts.items() if value is not None]
    # Every keyed function may have timers; most have none.
    states = [size for size in record.states or () if size.entries or not size.name.startswith(RESERVED_PREFIX)]
    if states:
        lines += ["", table(STATE_COLUMNS, [state_row(size) for size in states])]
    if record.processes:
        rows = [[str(p.pid), p.host, p.role, " ".join(p.subtasks) or "-"] for p in record.processes]
        lines += ["", table(("PID", "HOST", "ROLE", "SUBTASKS"), rows)]
    if record.subtasks:
        lines += ["", table(SUBTASK_COLUMNS, [subtask_row(figures) for figures in record.subtasks])]
    if record.checkpoints:
        lines += ["", table(CHECKPOINT_COLUMNS, [checkpoint_row(stats) for stats in record.checkpoints])]
    if record.failures:
        lines += ["", table(FAILURE_COLUMNS, [failure_row(failure) for failure in record.failures])]
    if record.failure:
        lines += ["", record.failure.rstrip()]
    return "\n".join(lines)
