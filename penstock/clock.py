"""The clocks that code gets as an argument; the only module that reads the machine's clocks."""

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for users, monotonic time for waits."""

    def now_ms(self) -> int:
        """Milliseconds since 1970. May jump."""
        ...

    def monotonic_s(self) -> float:
        """Seconds that never go back, for intervals and timeouts."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()
