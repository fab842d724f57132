"""The demo's output: four steps, the job's progress between them, and what to try next.

Progress is a bar on a terminal, with the checkpoints below it as they complete. Elsewhere it is a plain line every few
seconds.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from penstock.cli.demo.demo_check import Verdict
from penstock.cli.demo.demo_data import SESSION_GAP_MS, ClickStream
from penstock.cli.progress import LINE_INTERVAL_S, progress_line
from penstock.clock import Clock, SystemClock
from penstock.control.registry import JobRecord, ProcessRecord


class DemoView:
    """The demo's output on one console."""

    def __init__(self, console: Console, clicks: int, clock: Clock | None = None) -> None:
        self._console = console
        self._clicks = clicks
        self._clock = clock or SystemClock()
        self._progress: Progress | None = None
        self._line_at_s: float | None = None
        self._shown: tuple[str, int] | None = None
        self._line: str | None = None
        self._last_checkpoint: int | None = None
        self._events = Text("   checkpoints", overflow="ellipsis", no_wrap=True)

    # ---- the steps

    def introduce(self, stream: ClickStream, files: int) -> None:
        """Print what will happen."""
        gap_s = SESSION_GAP_MS // 1000
        self._print("[bold]Penstock demo[/]: a job loses one of its processes and still counts right", "")
        self._step(1, f"{stream.clicks:,} clicks of {stream.users:,} users, in {files} files")
        self._step(2, "A job on local Spark with 2 TaskManagers and a checkpoint every 2 s")
        self._note("clicks by user -> running totals (value state)               -> files, exactly once")
        self._note(f"               -> sessions with {gap_s} s gaps (event-time timers) -> files, exactly once")

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Shown while Spark starts."""
        if self._is_live:
            with self._console.status("   starting Spark", spinner="dots"):
                yield
        else:
            self._note("starting Spark")
            yield

    @contextmanager
    def running(self) -> Iterator[None]:
        """Shown while the job runs."""
        if not self._is_live:
            yield
            return
        columns: list[ProgressColumn] = [
            TextColumn("   {task.fields[status]:<10}"),
            BarColumn(bar_width=24, complete_style="cyan", finished_style="green"),
            TextColumn("[progress.percentage]{task.percentage:>3.0f}%"),
            _FactsColumn(),
        ]
        self._progress = Progress(*columns, console=self._console)
        self._progress.add_task("clicks", total=self._clicks, status="starting", record=None)
        with Live(Group(self._progress, self._events), console=self._console):
            yield
        self._progress = None

    def show_progress(self, record: JobRecord) -> None:
        """Show the job's progress."""
        if record.last_checkpoint not in (None, self._last_checkpoint):
            self._last_checkpoint = record.last_checkpoint
            self._events.append(f" {record.last_checkpoint}", "green")
        if self._progress is not None:
            task = self._progress.task_ids[0]
            self._progress.update(task, completed=record.rows, status=record.status.lower(), record=record)
            return
        now_s = self._clock.monotonic_s()
        line = progress_line(record)
        changed = self._shown != (record.status, record.attempt)
        is_due = self._line_at_s is None or now_s - self._line_at_s >= LINE_INTERVAL_S
        if changed or (is_due and line != self._line):
            self._line_at_s, self._shown, self._line = now_s, (record.status, record.attempt), line
            self._note(line)

    def killed(self, process: ProcessRecord, record: JobRecord) -> None:
        """Report that a TaskManager has been killed."""
        subtasks = " and ".join(process.subtasks)
        self._events.append(" killed", "bold red")
        self._step(3, f"[bold red]kill -9 {process.pid}[/]: a TaskManager, with the state of {subtasks} in its memory")
        self._note(f"{record.rows:,} clicks were counted; the newest checkpoint is {record.last_checkpoint}")

    def recovered(self, attempt: int, checkpoint: int | None, seconds: float) -> None:
        """Report that the job has recovered."""
        self._events.append(f" restored {checkpoint}", "bold green")
        self._note(
            f"[bold green]recovered[/] after {seconds:.1f} s: attempt {attempt} has restored checkpoint {checkpoint}, "
            f"and Spark continues from its position"
        )

    def checking(self) -> None:
        """Report that the job has ended."""
        self._step(4, "The job has finished; a batch program reads the same clicks and compares")

    def show_verdict(self, verdict: Verdict) -> None:
        """Print the result of the comparison, except its last line."""
        mark = "[green]equal[/]" if verdict.is_exact else "[bold red]not equal[/]"
        self._note(f"a row for each of {verdict.events:,} clicks, totals of {verdict.users:,} users,")
        self._note(f"{verdict.sessions:,} sessions: {mark}")
        self._print("")

    def propose(self, commands: list[tuple[str, str]]) -> None:
        """Print the commands to try next."""
        self._print("", "Try next:")
        for command, purpose in commands:
            self._print(f"  [dim]# {escape(purpose)}[/]", f"  {escape(command)}")

    # ---- printing

    @property
    def _is_live(self) -> bool:
        return self._console.is_terminal and not self._console.is_dumb_terminal

    def _step(self, number: int, text: str) -> None:
        self._print(f"[bold cyan]{number}[/]  {text}")

    def _note(self, text: str) -> None:
        self._print(f"   {text}")

    def _print(self, *lines: str) -> None:
        for line in lines:
            # Without a terminal there is no width to wrap at.
            self._console.print(line, soft_wrap=True)


class _FactsColumn(ProgressColumn):
    """The figures beside the bar."""

    def render(self, task: Task) -> Text:
        record: JobRecord | None = task.fields["record"]
        if record is None:
            return Text("")
        checkpoint = "-" if record.last_checkpoint is None else str(record.last_checkpoint)
        return Text(
            f"{record.rows_per_s:,.0f} clicks/s, epoch {record.epoch}, checkpoint {checkpoint}",
            no_wrap=True,
            overflow="ellipsis",
        )
