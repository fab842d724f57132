"""Rows of a job, counted: in all, and per second."""

import threading

from penstock.clock import Clock


class EpochCount:
    """Counts rows by epoch; those of epochs that a recovery takes back do not count. Thread safe."""

    KEPT = 100

    def __init__(self) -> None:
        self._certain = 0
        self._certain_at: list[tuple[int, int]] = [(0, 0)]
        """(epoch, rows up to it) of the last checkpoints, oldest first."""
        self._waiting: dict[int, int] = {}
        self._lock = threading.Lock()

    @property
    def total(self) -> int:
        """Rows of every epoch that holds now."""
        with self._lock:
            return self._certain + sum(self._waiting.values())

    def add(self, epoch: int, rows: int) -> None:
        """An epoch is committed."""
        with self._lock:
            self._waiting[epoch] = rows

    def release(self, epoch: int) -> None:
        """A checkpoint of this epoch is complete."""
        with self._lock:
            for number in [number for number in self._waiting if number <= epoch]:
                self._certain += self._waiting.pop(number)
            if epoch > self._certain_at[-1][0]:
                self._certain_at = [*self._certain_at, (epoch, self._certain)][-self.KEPT :]

    def roll_back(self, epoch: int) -> None:
        """Epochs after this one are run again; 0: all of them."""
        with self._lock:
            self._waiting = {number: rows for number, rows in self._waiting.items() if number <= epoch}
            while self._certain_at and self._certain_at[-1][0] > epoch:  # behind a damaged checkpoint
                del self._certain_at[-1]
                self._certain = self._certain_at[-1][1] if self._certain_at else 0
            self._certain_at = self._certain_at or [(0, 0)]


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
