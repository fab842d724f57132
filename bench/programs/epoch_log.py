"""Follows the log of committed epochs that a Penstock driver writes to the file named by PENSTOCK_EPOCH_LOG.

One JSON line per epoch: `epoch`, `rows`, `started_ms`, `finished_ms` and, where it is counted, `rows_out`.
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
