"""`penstock top`: all jobs, live."""

import threading
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from penstock.cli.count_texts import bytes_text
from penstock.cli.flags import DebugFlag, JsonFlag, SettingsFlag, parse_settings
from penstock.cli.job_registry import open_registry
from penstock.cli.time_texts import duration_text
from penstock.clock import SystemClock
from penstock.control import job_queries
from penstock.control.registry import JobRecord, Registry
from penstock.control.terminal import MODE, print_result, table, visible
from penstock.errors import UsageError
from penstock.model.time import MAX_WATERMARK, MIN_WATERMARK

COLUMNS = ("JOB", "NAME", "STATUS", "EPOCH", "ROWS", "ROWS/S", "LAG", "BUSY", "CHECKPOINT", "AGE", "STATE", "UPTIME")
ID_CHARS = 8
NAME_CHARS = 24


def top(
    *,
    interval: Annotated[float, typer.Option("--interval", metavar="SECONDS", help="How often to look.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Print once instead of live.")] = False,
    settings: SettingsFlag = None,
    json: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Show all jobs that have not ended, live."""
    if not 0.1 <= interval <= 3600:
        raise UsageError(f"--interval {interval:g} is not between 0.1 and 3600 seconds")
    registry = open_registry(parse_settings(settings))
    console = Console()
    if MODE.json or once or not console.is_terminal or console.is_dumb_terminal:
        records = read_jobs(registry)
        print_result(top_text(records, SystemClock().now_ms()), records)
        return
    show_live(registry, console, interval)


def show_live(registry: Registry, console: Console, interval_s: float) -> None:
    """Replace the table until the user interrupts."""
    clock, pause = SystemClock(), threading.Event()
    with Live(console=console, screen=True, auto_refresh=False) as live:
        try:
            while True:
                shown = visible(top_text(read_jobs(registry), clock.now_ms()))
                live.update(Text(shown, no_wrap=True, overflow="crop"), refresh=True)
                pause.wait(interval_s)
        except KeyboardInterrupt:
            return


def read_jobs(registry: Registry) -> list[JobRecord]:
    """The jobs that have not ended, with the sizes of their states and their last checkpoints."""
    return [
        msgspec.structs.replace(
            record,
            states=registry.read_sizes(record.job_id),
            checkpoints=registry.read_checkpoints(record.job_id),
        )
        for record in job_queries.list_jobs(registry)
    ]


def top_text(records: list[JobRecord], now_ms: int) -> str:
    """The head line and the table."""
    running = sum(record.status == "RUNNING" for record in records)
    rate = sum(record.rows_per_s for record in records if record.status == "RUNNING")
    head = f"{len(records)} {'job' if len(records) == 1 else 'jobs'}, {running} running, {rate:.0f} rows/s; Ctrl-C ends"
    if not records:
        return f"{head}\n\nno jobs; start one with `penstock run job.py`"
    return f"{head}\n\n{table(COLUMNS, [job_row(record, now_ms) for record in records])}"


def job_row(record: JobRecord, now_ms: int) -> list[str]:
    """The table row of a job. BUSY is that of its busiest subtask."""
    runs = record.status == "RUNNING"
    busy = max((figures.busy_ms_per_s for figures in record.subtasks if runs), default=None)
    size = sum(size.size_bytes for size in record.states or ())
    done = [stats.complete_ms for stats in record.checkpoints or () if stats.status == "completed"]
    age = (now_ms - done[-1]) / 1000 if done and done[-1] is not None else None
    return [
        record.job_id[:ID_CHARS],
        record.name if len(record.name) <= NAME_CHARS else record.name[: NAME_CHARS - 1] + "…",
        record.status if record.phase is None else record.phase.name,
        str(record.epoch),
        str(record.rows + record.epoch_rows),
        f"{record.rows_per_s:.0f}" if runs else "-",
        lag_of(record) if runs else "-",
        "-" if busy is None else f"{busy / 10:.0f} %",
        "-" if record.last_checkpoint is None else str(record.last_checkpoint),
        "-" if age is None else duration_text(max(0.0, age)),
        bytes_text(size) if size else "-",
        duration_text(max(0, (now_ms if record.ended_ms is None else record.ended_ms) - record.started_ms) / 1000),
    ]


def lag_of(record: JobRecord) -> str:
    """How far event time is behind the clock."""
    if record.watermark in (None, MIN_WATERMARK, MAX_WATERMARK):
        return "-"
    assert record.watermark is not None
    return duration_text(max(0, record.updated_ms - record.watermark) / 1000)
