"""A clock that only moves when told to."""

START_MS = 1_700_000_000_000


class ManualClock:
    """Wall and monotonic time, both set by the test."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_s(self) -> float:
        return self._now_ms / 1000

    def advance(self, milliseconds: int) -> None:
        """Let time pass."""
        self._now_ms += milliseconds

    def set_wall(self, now_ms: int) -> None:
        """Jump, also backwards, as wall clocks do."""
        self._now_ms = now_ms
