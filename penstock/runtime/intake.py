"""How the rows of an epoch enter a subtask: first those that wait in the spool, then the input to its end.

Without a time limit every row is processed. With one (PROTOCOL R13), rows are processed in small portions until the
limit has passed; the rest of the keyed input is appended to the spool. Rows of one key never overtake each other: once
one row waits, all that come after it wait too.
"""

import logging
from collections.abc import Callable, Iterable
from functools import partial

from penstock.clock import Clock
from penstock.errors import SupersededTaskError
from penstock.model.options import checkpointing_options
from penstock.runtime.operators.batch import Batch, EdgeBatch
from penstock.runtime.process.messages import Barrier, EpochHeader
from penstock.runtime.snapshots.spool import Spool

PORTION_S = 0.02
"""Time budget for one portion: the limit is checked between portions."""
FIRST_PORTION, MAX_PORTION = 1, 10_000


class Limit:
    """When an epoch stops processing rows."""

    def __init__(self, clock: Clock, after_ms: int) -> None:
        self._clock = clock
        self._end_s = clock.monotonic_s() + after_ms / 1000
        self._is_over = False

    def is_over(self) -> bool:
        """Whether the time has passed; never becomes false again."""
        self._is_over = self._is_over or self._clock.monotonic_s() >= self._end_s
        return self._is_over


class Pace:
    """How many rows to process before the clock is read again, by the duration of the last portions."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.portion = FIRST_PORTION

    def work(self, step: Callable[[], None]) -> None:
        """Process a portion, and choose the size of the next one."""
        started_s = self._clock.monotonic_s()
        step()
        elapsed_s = self._clock.monotonic_s() - started_s
        if elapsed_s > 2 * PORTION_S:
            self.portion = max(1, self.portion // 2)
        elif elapsed_s < PORTION_S:
            self.portion = min(MAX_PORTION, self.portion * 2)


class Intake:
    """The entry of one subtask. `process` processes a batch."""

    def __init__(self, spool: Spool, clock: Clock, process: Callable[[EdgeBatch], None]) -> None:
        self._spool = spool
        self._clock = clock
        self._process = process
        self._pace = Pace(clock)
        self._limit: Limit | None = None
        self._is_owed = False
        """Rows have waited and none was processed yet. At least one is, even if reading them exceeds the limit."""
        self._cancelled: Callable[[], bool] = lambda: False

    def run(
        self, header: EpochHeader, items: Iterable[EdgeBatch | Barrier], cancelled: Callable[[], bool]
    ) -> list[Barrier]:
        """Process the input to its end; return its barriers. Raises SupersededTaskError once the run is cancelled."""
        self._limit = None if header.spool_after_ms is None else Limit(self._clock, header.spool_after_ms)
        self._cancelled = cancelled
        self._is_owed = self._spool.rows > 0
        self._spool.work_off(self._process_some)
        barriers: list[Barrier] = []
        for item in items:
            self._require_current()
            if isinstance(item, Barrier):
                barriers.append(item)
            elif self._limit is None or not self._spool.takes(item.edge):
                self._process(item)
            else:
                self._process_or_spool(item)
        self._spool.flush()
        return barriers

    def _process_or_spool(self, item: EdgeBatch) -> None:
        if item.dropped:  # counted now: dropped rows do not wait
            self._process(EdgeBatch(item.edge, Batch([]), 0, item.dropped))
        done = 0 if self._spool.rows else self._process_some(item)
        if done < len(item.batch):
            self._spool.add(item.slice(done, len(item.batch)))
        if self._spool.is_full:
            logging.getLogger("penstock.spool").warning(
                "more rows are waiting than %s or the disk allows: this epoch processes all of them (aligned)",
                checkpointing_options.MAX_SPOOL.key,
            )
            self._limit = None
            self._spool.work_off(self._process_some)

    def _process_some(self, item: EdgeBatch) -> int:
        """Process a batch until the limit has passed; return how many rows were processed."""
        self._require_current()
        if self._limit is None:
            self._process(item)
            return len(item.batch)
        done, count = 0, len(item.batch)
        while done < count and (self._is_owed or not self._limit.is_over()):
            self._require_current()
            part = item.slice(done, done + self._pace.portion)
            self._pace.work(partial(self._process, part))
            self._is_owed = False
            done += len(part.batch)
        return done

    def _require_current(self) -> None:
        if self._cancelled():
            raise SupersededTaskError("the run was cancelled: another task has taken its place")
