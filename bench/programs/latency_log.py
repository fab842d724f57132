"""How long rows take from their creation to their output: writes down each row at the output, and sums up at the end.

Rows have numbers, and each must come out once. The first half of the time is warm-up.
"""

import json
import math
import time
import uuid
from array import array
from collections.abc import Iterable
from operator import add
from pathlib import Path

POLL_S = 0.1
ROW_BYTES = 24


def now_us() -> int:
    """The clock of creation and output."""
    return time.time_ns() // 1000


class LatencyLog:
    """A file of one writer: for each row its number, the time of its creation and the microseconds since then."""

    def __init__(self, work: str) -> None:
        self._file = Path(work, f"latency-{uuid.uuid4().hex}.bin").open("ab")

    def add(self, rows: Iterable[tuple[int, int]]) -> None:
        """Rows that have come out now: number and time of creation."""
        now = now_us()
        self._file.write(array("q", [part for number, made in rows for part in (number, made, now - made)]).tobytes())
        self._file.flush()

    def close(self) -> None:
        """No more rows come."""
        self._file.close()


def wait_for_rows(work: Path, rows: int) -> None:
    """Return when so many rows have come out; the benchmark ends a program that never gets there."""
    while sum(path.stat().st_size for path in work.glob("latency-*.bin")) < rows * ROW_BYTES:
        time.sleep(POLL_S)


def sum_up(work: Path, events: Path, rows: int) -> None:
    """Write the batch of the whole run, and the figures of the rows that were made in its second half."""
    parts = array("q")
    for path in work.glob("latency-*.bin"):
        parts.frombytes(path.read_bytes())
    numbers, made, latencies = parts[0::3], parts[1::3], parts[2::3]
    is_once = len(numbers) == rows and set(numbers) == set(range(rows))
    start, end = min(made), max(made)
    batch = {
        "rows": rows,
        "rows_out": len(numbers) if is_once else -1,
        "started_ms": start / 1000,
        "finished_ms": max(map(add, made, latencies)) / 1000,
    }
    events.write_text(json.dumps(batch) + "\n")
    half = (start + end) // 2
    steady = [latency / 1000 for made_us, latency in zip(made, latencies, strict=True) if made_us >= half]
    (work / "figures.json").write_text(json.dumps(percentiles(steady)))


def percentiles(latencies_ms: list[float]) -> dict[str, float]:
    """The usual ones.

    >>> percentiles([4.0, 1.0, 3.0, 2.0])
    {'p50 ms': 2.0, 'p95 ms': 4.0, 'p99 ms': 4.0, 'max ms': 4.0}
    """
    ordered = sorted(latencies_ms)
    figures = {f"p{part} ms": ordered[math.ceil(len(ordered) * part / 100) - 1] for part in (50, 95, 99)}
    return {**figures, "max ms": ordered[-1]}
