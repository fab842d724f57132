"""Time as an argument: the one place that reads the machine's clocks."""

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for users, monotonic time for waits."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, may jump."""
        ...

    def monotonic_s(self) -> float:
        """Seconds that only grow, for intervals and timeouts."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()
