"""May a checkpoint start now? Arithmetic on an injected clock, nothing else."""

from penstock.checkpoint.settings import CheckpointSettings
from penstock.clock import Clock


class Decider:
    """Interval, pause and concurrency of periodic checkpoints. The first is due one interval after the start."""

    def __init__(self, settings: CheckpointSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._last_start_s = clock.monotonic_s()
        self._last_completion_s: float | None = None

    def may_start(self, pending_count: int) -> bool:
        """Whether a periodic checkpoint may start now, beside that many that have not ended."""
        due = self.next_due(pending_count)
        return due is not None and self._clock.monotonic_s() >= due

    def next_due(self, pending_count: int) -> float | None:
        """When the next one may start, in monotonic seconds; None if never, or not before a pending one ends."""
        interval_ms = self._settings.interval_ms
        if interval_ms is None or not self.has_room(pending_count):
            return None
        due = self._last_start_s + interval_ms / 1000
        if self._last_completion_s is not None:
            due = max(due, self._last_completion_s + self._settings.min_pause_ms / 1000)
        return due

    def started(self) -> None:
        """Note that a checkpoint starts now."""
        self._last_start_s = self._clock.monotonic_s()

    def completed(self) -> None:
        """Note that a checkpoint is complete now."""
        self._last_completion_s = self._clock.monotonic_s()

    def has_room(self, pending_count: int) -> bool:
        """Whether another checkpoint may run beside that many. A pause between two leaves room for one alone."""
        return pending_count < (1 if self._settings.min_pause_ms > 0 else self._settings.max_concurrent)
