"""The progress of a savepoint while a command waits for it."""

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from penstock.control.terminal import print_message

PERCENT_STEP = 10


class PercentBar:
    """The progress of a savepoint, on stderr: a bar on a terminal, elsewhere a line for every 10 %."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._shown = 0
        self._bar: Progress | None = None
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
            self._bar = Progress(*columns, console=self._console, transient=True)
            self._task = self._bar.add_task("savepoint", total=100)

    def __enter__(self) -> "PercentBar":
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, percent: int) -> None:
        """Show the percentage."""
        if self._bar is not None:
            self._bar.update(self._task, completed=percent)
        elif percent - self._shown >= PERCENT_STEP:
            self._shown = percent
            print_message(f"savepoint {percent} %")
