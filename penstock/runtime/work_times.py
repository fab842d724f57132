"""Where the time of one subtask's epoch goes. Clocks are read a few times per batch of rows, never per row."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Literal, TypeVar

from penstock.clock import Clock

Part = Literal["waiting", "state", "sealing", "handing"]
Item = TypeVar("Item")
_MICROSECONDS = 1_000_000


class WorkTimes:
    """Adds up times. The thread that runs the epoch uses it; output may be handed on by another thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seconds: dict[Part, float] = {}
        self._started_s = 0.0
        self._handing_s = 0.0
        self.began_ms = 0

    def begin(self) -> None:
        """A run begins. What was handed on since the last one belongs to it."""
        self._handing_s = self._seconds.get("handing", 0.0)
        self._seconds = {}
        self._started_s, self.began_ms = self._clock.monotonic_s(), self._clock.now_ms()

    @contextmanager
    def measured(self, part: Part) -> Iterator[None]:
        """Count the time of a block as this part of the work."""
        started_s = self._clock.monotonic_s()
        try:
            yield
        finally:
            self._seconds[part] = self._seconds.get(part, 0.0) + self._clock.monotonic_s() - started_s

    def waiting_for(self, items: Iterable[Item]) -> Iterator[Item]:
        """The same items. The time until each one arrives counts as waiting."""
        iterator = iter(items)
        while True:
            with self.measured("waiting"):
                item = next(iterator, None)
            if item is None:
                return
            yield item

    def microseconds(self) -> tuple[int, int, int, int]:
        """Of this run so far: functions (which is the rest, without waiting), state, sealing, handing on."""
        waiting_s, state_s, sealing_s = (self._seconds.get(part, 0.0) for part in ("waiting", "state", "sealing"))
        rest_s = self._clock.monotonic_s() - self._started_s - waiting_s - state_s - sealing_s
        seconds = (max(0.0, rest_s), state_s, sealing_s, self._handing_s)
        functions, state, sealing, handing = (round(part * _MICROSECONDS) for part in seconds)
        return functions, state, sealing, handing
