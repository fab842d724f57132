"""May a checkpoint start now? Arithmetic on an injected clock, nothing else."""

from penstock.checkpoint.checkpoint_settings import CheckpointSettings
from penstock.clock import Clock

MIN_WORK_MS = 250
"""An epoch that finds rows waiting works on them at least so long, however often checkpoints are due."""


class CheckpointSchedule:
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

    def spool_after_ms(self, pending_count: int, *, checkpoint: bool, waiting: bool) -> int | None:
        """How long an epoch works on its rows before the others wait; None: until it has done all (PROTOCOL R13).

        With a checkpoint that is the aligned timeout; without one, until the next checkpoint is due.
        """
        settings = self._settings
        if not settings.unaligned:
            return None
        if checkpoint:
            return max(settings.aligned_timeout_ms, MIN_WORK_MS) if waiting else settings.aligned_timeout_ms
        if settings.interval_ms is None:
            return None
        due_s = self.next_due(pending_count)
        left_ms = settings.interval_ms if due_s is None else round(1000 * (due_s - self._clock.monotonic_s()))
        return max(MIN_WORK_MS, left_ms)

    def started(self) -> None:
        """Note that a checkpoint starts now."""
        self._last_start_s = self._clock.monotonic_s()

    def completed(self) -> None:
        """Note that a checkpoint is complete now."""
        self._last_completion_s = self._clock.monotonic_s()

    def has_room(self, pending_count: int) -> bool:
        """Whether another checkpoint may run beside that many. A pause between two leaves room for one alone."""
        return pending_count < (1 if self._settings.min_pause_ms > 0 else self._settings.max_concurrent)
