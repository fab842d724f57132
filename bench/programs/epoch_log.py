"""Follows the log of committed epochs that a Penstock driver writes to the file named by PENSTOCK_EPOCH_LOG.

One JSON line per epoch: `epoch`, `rows`, `started_ms`, `finished_ms` and, where it is counted, `rows_out`. A program
copies them to its file of batches, by which a client beside it knows how far it is.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO

POLL_S = 0.05
BATCH_FIELDS = ("rows", "rows_out", "started_ms", "finished_ms")


def committed_epochs(path: Path, is_running: Callable[[], bool]) -> Iterator[dict[str, Any]]:
    """Epochs as they are committed, until the job no longer runs and the last one was given."""
    position = 0
    while True:
        running = is_running()
        complete = read_lines(path, position)
        position += len(complete)
        for line in complete.splitlines():
            yield json.loads(line)
        if not running:
            return
        time.sleep(POLL_S)


def read_lines(path: Path, position: int) -> bytes:
    """The whole lines after a position; the driver may be in the middle of writing the last one."""
    if not path.exists():
        return b""
    with path.open("rb") as log:
        log.seek(position)
        data = log.read()
    return data[: data.rfind(b"\n") + 1]


def copy_until(rows: int, epochs: Iterable[dict[str, Any]], events: TextIO) -> int:
    """Report each epoch that has rows as a batch; how many rows came, fewer only if the job ended early."""
    seen = 0
    for epoch in epochs:
        if epoch["rows"]:
            events.write(json.dumps({name: epoch[name] for name in BATCH_FIELDS if name in epoch}) + "\n")
            events.flush()
            seen += epoch["rows"]
        if seen >= rows:
            break
    return seen


class Progress:
    """How far a program is, by its file of batches. Of one thread."""

    def __init__(self, events: Path, warmup_batches: int, rows: int) -> None:
        self._events = events
        self._warmup_batches = warmup_batches
        self._all_rows = rows
        self._position = self._batches = self._rows = 0

    def is_warm(self) -> bool:
        """Whether the batches of the warm-up are over."""
        self._read()
        return self._batches >= self._warmup_batches

    def is_done(self) -> bool:
        """Whether every row is in a batch. The program cancels its job only after that."""
        self._read()
        return self._rows >= self._all_rows

    def wait_until_warm(self) -> None:
        """Return at the end of the warm-up; the benchmark ends this process if the program fails before it."""
        while not self.is_warm():
            time.sleep(POLL_S)

    def _read(self) -> None:
        lines = read_lines(self._events, self._position)
        self._position += len(lines)
        for line in lines.splitlines():
            self._batches += 1
            self._rows += json.loads(line)["rows"]
