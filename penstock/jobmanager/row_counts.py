"""How many rows a job has processed: in all, in the epoch that runs, in the last epochs, and per second."""

import threading
from collections import deque

from penstock.clock import Clock
from penstock.jobmanager.attempt.epoch_tracker import EpochSummary
from penstock.jobmanager.epoch_phases import epoch_phases
from penstock.model.recent_epoch import RecentEpoch

RECENT_EPOCHS = 120
RECENT_RATES = 600
RATE_PERIOD_MS = 1000


class RowCounts:
    """The rows of a job's committed epochs, and of the one that runs. Those that a recovery undoes do not count.

    Thread safe.
    """

    def __init__(self, clock: Clock, *, checkpointing: bool) -> None:
        """Without `checkpointing` no recovery undoes an epoch."""
        self._checkpointing = checkpointing
        self._rows = EpochCount()
        self._dropped = EpochCount()
        self._late = EpochCount()
        self._rate = Rate(clock)
        self._clock = clock
        self._recent: deque[RecentEpoch] = deque(maxlen=RECENT_EPOCHS)
        self._rates: deque[tuple[int, float]] = deque(maxlen=RECENT_RATES)
        self._committed_epoch = 0
        self._lock = threading.Lock()

    @property
    def rows(self) -> int:
        """Read from the sources by committed epochs."""
        return self._rows.total

    @property
    def dropped(self) -> int:
        """Dropped because they had no event time."""
        return self._dropped.total

    @property
    def late(self) -> int:
        """Dropped by windows because they came too late."""
        return self._late.total

    @property
    def per_second(self) -> float:
        """Rows per second over the last few seconds."""
        with self._lock:
            return self._rate.per_second()

    @property
    def last(self) -> RecentEpoch | None:
        """The last committed epoch."""
        with self._lock:
            return self._recent[-1] if self._recent else None

    def recent(self) -> list[RecentEpoch]:
        """The last committed epochs, oldest first."""
        with self._lock:
            return list(self._recent)

    def rates(self) -> list[tuple[int, float]]:
        """When somebody looked, and the rows per second then, of the last ten minutes; oldest first."""
        with self._lock:
            return list(self._rates)

    def observe(self, running: tuple[int, int] | None) -> tuple[int, int]:
        """The rows of committed epochs and, apart from them, those of the running one.

        `running`: an epoch and its rows so far. They do not count if the epoch was committed meanwhile.
        """
        with self._lock:
            rows = self._rows.total
            unfinished = running[1] if running is not None and running[0] > self._committed_epoch else 0
            self._rate.note(rows + unfinished)
            now_ms = self._clock.now_ms()
            if not self._rates or now_ms - self._rates[-1][0] >= RATE_PERIOD_MS:
                self._rates.append((now_ms, self._rate.per_second()))
            return rows, unfinished

    def committed(self, summary: EpochSummary) -> None:
        """Count a committed epoch."""
        with self._lock:
            self._rows.add(summary.epoch, summary.rows_in)
            self._dropped.add(summary.epoch, summary.untimed)
            self._late.add(summary.epoch, summary.late)
            self._committed_epoch = summary.epoch
            self._rate.note(self._rows.total)
            now_ms, rows = self._clock.now_ms(), (summary.rows_in, summary.rows_out)
            phases = epoch_phases(summary, now_ms)
            self._recent.append(RecentEpoch(summary.epoch, summary.now_ms, now_ms, *rows, summary.checkpoint, phases))
        if not self._checkpointing:
            self.release(summary.epoch)

    def release(self, epoch: int) -> None:
        """A checkpoint of this epoch is complete."""
        self._rows.release(epoch)
        self._dropped.release(epoch)
        self._late.release(epoch)

    def roll_back(self, epoch: int) -> None:
        """Epochs after this one run again."""
        with self._lock:
            self._rows.roll_back(epoch)
            self._dropped.roll_back(epoch)
            self._late.roll_back(epoch)
            self._committed_epoch = epoch


class EpochCount:
    """Counts rows by epoch, so that a recovery can undo epochs. Thread safe."""

    KEPT = 100

    def __init__(self) -> None:
        self._final = 0
        self._final_at: list[tuple[int, int]] = [(0, 0)]
        """(epoch, rows up to it) of the last checkpoints, oldest first."""
        self._waiting: dict[int, int] = {}
        self._lock = threading.Lock()

    @property
    def total(self) -> int:
        """Rows of every epoch that holds now."""
        with self._lock:
            return self._final + sum(self._waiting.values())

    def add(self, epoch: int, rows: int) -> None:
        """An epoch is committed."""
        with self._lock:
            self._waiting[epoch] = rows

    def release(self, epoch: int) -> None:
        """A checkpoint of this epoch is complete."""
        with self._lock:
            for number in [number for number in self._waiting if number <= epoch]:
                self._final += self._waiting.pop(number)
            if epoch > self._final_at[-1][0]:
                self._final_at = [*self._final_at, (epoch, self._final)][-self.KEPT :]

    def roll_back(self, epoch: int) -> None:
        """Epochs after this one run again; 0: all of them."""
        with self._lock:
            self._waiting = {number: rows for number, rows in self._waiting.items() if number <= epoch}
            while self._final_at and self._final_at[-1][0] > epoch:  # fallen back behind a damaged checkpoint
                del self._final_at[-1]
                self._final = self._final_at[-1][1] if self._final_at else 0
            self._final_at = self._final_at or [(0, 0)]


class Rate:
    """Rows per second over the last few seconds, from totals that were noted now and then."""

    WINDOW_S = 5.0
    LEAST_S = 1.0

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._totals: list[tuple[float, int]] = [(clock.monotonic_s(), 0)]

    def note(self, total: int) -> None:
        """All rows so far. Fewer than before: some were undone, and the rate is measured again."""
        now_s = self._clock.monotonic_s()
        if total < self._totals[-1][1]:
            self._totals = []
        self._totals = [*self._totals, (now_s, total)]
        while len(self._totals) > 1 and now_s - self._totals[1][0] >= self.WINDOW_S:
            del self._totals[0]

    def per_second(self) -> float:
        """The mean over the window, or since the start if that is later."""
        now_s = self._clock.monotonic_s()
        old = [noted for noted in self._totals if now_s - noted[0] >= self.WINDOW_S]
        since_s, before = old[-1] if old else self._totals[0]
        return (self._totals[-1][1] - before) / max(now_s - since_s, self.LEAST_S)
