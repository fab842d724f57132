"""When a checkpoint starts: requests, interval, pause and concurrency. Arithmetic on an injected clock, no I/O."""

from collections import deque

from penstock.checkpoint.checkpoint_request import CheckpointRequest
from penstock.checkpoint.checkpoint_settings import CheckpointSettings
from penstock.clock import Clock

MIN_WORK_MS = 250
"""An epoch that finds spooled rows processes them for at least this long, however often checkpoints are due."""


class CheckpointSchedule:
    """When checkpoints start. The first periodic one is due one interval after the attempt started. Not thread safe."""

    def __init__(self, settings: CheckpointSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._last_start_s = clock.monotonic_s()
        self._last_completion_s: float | None = None
        self._requests: deque[CheckpointRequest] = deque()

    def add(self, request: CheckpointRequest) -> None:
        """Start a checkpoint as soon as there is room for one, whatever interval and pause say."""
        self._requests.append(request)

    def is_request_due(self, pending_count: int) -> bool:
        """Whether a requested checkpoint may start now, beside that many that have not ended."""
        return bool(self._requests) and self.has_room(pending_count)

    def take_request(self, pending_count: int) -> CheckpointRequest | None:
        """The oldest request, if its checkpoint may start now."""
        return self._requests.popleft() if self.is_request_due(pending_count) else None

    def drop_requests(self) -> list[CheckpointRequest]:
        """The open requests, for which no checkpoint will start."""
        dropped = list(self._requests)
        self._requests.clear()
        return dropped

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
        """How long an epoch processes rows before it spools the rest; None: it processes all of them (PROTOCOL R13).

        With a checkpoint this is the aligned timeout; without one, the time until the next checkpoint is due.
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
        """Whether another checkpoint may run beside that many. With a minimum pause only one may run."""
        return pending_count < (1 if self._settings.min_pause_ms > 0 else self._settings.max_concurrent)
