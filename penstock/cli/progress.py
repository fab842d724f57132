"""The output of `penstock run` while its jobs run.

The first line of a job (its id) and the last one (how it ended) are the command's result and go to stdout. Between
them progress goes to stderr: one line that changes in place on a terminal, elsewhere plain lines, for each phase of the
start and then every few seconds as long as rows come.
"""

import sys
import threading

from rich.console import Console
from rich.live import Live
from rich.text import Text

from penstock.cli.count_texts import bytes_text, count_of_rows
from penstock.cli.time_texts import lag_text, watermark_text
from penstock.clock import Clock, SystemClock
from penstock.control.registry import JobRecord
from penstock.control.terminal import print_message, print_result

LINE_INTERVAL_S = 5.0


class Progress:
    """A report callback for the JobManager. Any thread may call it; `close` ends the display."""

    def __init__(self, clock: Clock | None = None, console: Console | None = None) -> None:
        self._clock = clock or SystemClock()
        self._console = console or Console(stderr=True)
        self._console.soft_wrap = True  # long rows and paths that are printed meanwhile are not wrapped
        self._lock = threading.Lock()
        self._jobs: dict[str, JobRecord] = {}
        self._announced_end: set[str] = set()
        self._line_at_s: float | None = None
        self._line: tuple[object, ...] = ()
        """The status and phase of the last plain line, which is not repeated."""
        self._live: Live | None = None

    def announce(self, text: str) -> None:
        """Show what happens before there is a job."""
        with self._lock:
            if self._is_live:
                self._show_live(text)
            else:
                print_message(text)

    def __call__(self, record: JobRecord) -> None:
        """Show a job's newest record."""
        with self._lock:
            before = self._jobs.get(record.job_id)
            if before is None:
                self._announce_ends()
                print_result(submitted_line(record), {"job_id": record.job_id, "name": record.name})
            self._jobs[record.job_id] = record
            if record.ended:
                self._stop_live()
            elif self._is_live:
                self._show_live(progress_line(record))
            else:
                self._show_line(record, changed=_has_changed(before, record))

    def close(self) -> None:
        """Print how every job ended. Called after the end of the program, so that this comes last."""
        with self._lock:
            self._stop_live()
            self._announce_ends()

    @property
    def any_failed(self) -> bool:
        """Whether a job of the program has failed."""
        return any(record.status == "FAILED" for record in self._jobs.values())

    @property
    def _is_live(self) -> bool:
        return self._console.is_terminal and not self._console.is_dumb_terminal

    def _announce_ends(self) -> None:
        for record in self._jobs.values():
            if record.ended and record.job_id not in self._announced_end:
                self._announced_end.add(record.job_id)
                print_result(ended_line(record), record)

    def _show_live(self, text: str) -> None:
        if self._live is None:
            # Only a terminal's stdout may go through the display; a pipe must get its rows unchanged.
            self._live = Live(
                console=self._console, transient=True, auto_refresh=False, redirect_stdout=sys.stdout.isatty()
            )
            self._live.start()
        self._live.update(Text(text, no_wrap=True, overflow="ellipsis"), refresh=True)

    def _stop_live(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _show_line(self, record: JobRecord, *, changed: bool) -> None:
        now_s = self._clock.monotonic_s()
        if self._line_at_s is None:
            self._line_at_s = now_s
        about = (record.job_id, record.status, record.attempt, record.rows + record.epoch_rows)
        if changed or (now_s - self._line_at_s >= LINE_INTERVAL_S and about != self._line):
            self._line_at_s, self._line = now_s, about
            print_message(progress_line(record))


def _has_changed(before: JobRecord | None, record: JobRecord) -> bool:
    """Return whether the status or the phase is another one."""
    phases = [one.phase.name if one is not None and one.phase is not None else None for one in (before, record)]
    return (before is not None and before.status != record.status) or (phases[1] is not None and phases[0] != phases[1])


def submitted_line(record: JobRecord) -> str:
    """The first line of a job."""
    return f"Job has been submitted with JobID {record.job_id}"


def ended_line(record: JobRecord) -> str:
    """The last line of a job."""
    return f"Job {record.job_id} {record.status}"


def progress_line(record: JobRecord) -> str:
    """The progress of a job in one line."""
    parts = [f"{record.name} {record.status}"]
    if record.phase is not None:
        parts += [str(record.phase)] + ([f"{count_of_rows(record.epoch_rows)} so far"] if record.epoch_rows else [])
    else:
        running = f" + {record.epoch_rows} in epoch {record.epoch + 1}" if record.epoch_rows else ""
        checkpoint = "none yet" if record.last_checkpoint is None else str(record.last_checkpoint)
        parts += [
            f"epoch {record.epoch}",
            f"{count_of_rows(record.rows)}{running}",
            f"{record.rows_per_s:.0f} rows/s",
            f"watermark {watermark_text(record.watermark)}{lag_text(record.watermark, record.updated_ms)}",
            f"checkpoint {checkpoint}",
            *([f"state {bytes_text(record.state_bytes)}"] if record.state_bytes is not None else []),
            *(["more input waits"] if record.has_backlog else []),
        ]
    if record.attempt > 1:
        parts.append(f"attempt {record.attempt}")
    return " | ".join(parts)
