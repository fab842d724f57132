"""How many rows a job has processed: in all, and per second."""

import threading

from penstock.clock import Clock
from penstock.jobmanager.attempt.epoch_tracker import EpochSummary


class RowCounts:
    """The rows of a job's committed epochs. Those of epochs that a recovery undoes do not count."""

    def __init__(self, clock: Clock, *, checkpointing: bool) -> None:
        """Without `checkpointing` no recovery undoes an epoch."""
        self._checkpointing = checkpointing
        self._rows = EpochCount()
        self._dropped = EpochCount()
        self._rate = Rate(clock)

    @property
    def rows(self) -> int:
        """Read from the sources."""
        return self._rows.total

    @property
    def dropped(self) -> int:
        """Dropped because they had no event time."""
        return self._dropped.total

    @property
    def per_second(self) -> float:
        """Rows per second over the last few seconds."""
        return self._rate.per_second()

    def committed(self, summary: EpochSummary) -> None:
        """Count a committed epoch."""
        self._rows.add(summary.epoch, summary.rows_in)
        self._dropped.add(summary.epoch, summary.untimed)
        if not self._checkpointing:
            self.release(summary.epoch)
        self._rate.add(summary.rows_in)

    def release(self, epoch: int) -> None:
        """A checkpoint of this epoch is complete."""
        self._rows.release(epoch)
        self._dropped.release(epoch)

    def roll_back(self, epoch: int) -> None:
        """Epochs after this one run again."""
        self._rows.roll_back(epoch)
        self._dropped.roll_back(epoch)


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
    """Rows per second over the last few seconds."""

    WINDOW_S = 5.0

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._samples: list[tuple[float, int]] = []

    def add(self, rows: int) -> None:
        """Rows that came now."""
        now = self._clock.monotonic_s()
        self._samples = [(at, n) for at, n in self._samples if now - at < self.WINDOW_S] + [(now, rows)]

    def per_second(self) -> float:
        """The mean over the window."""
        now = self._clock.monotonic_s()
        return sum(n for at, n in self._samples if now - at < self.WINDOW_S) / self.WINDOW_S
