"""A clock that moves only when the test moves it."""

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
        """Set the wall time; it may go back."""
        self._now_ms = now_ms
