"""How far apart the timestamps of two joined records may be, and what is kept until then."""

from dataclasses import dataclass

from penstock.model.type_information import TypeInformation

INTERVAL_JOIN = "keyed_co_interval_join"
"""The kind of the operator."""


@dataclass(frozen=True)
class IntervalBounds:
    """A pair is joined if `left + lower_ms <= right <= left + upper_ms`, both inclusive."""

    lower_ms: int
    upper_ms: int
    left_type: TypeInformation
    right_type: TypeInformation
    left_late: str | None = None
    """The id of the side output of late records of the first stream; None: they are dropped."""
    right_late: str | None = None

    def partners(self, timestamp: int, *, is_left: bool) -> tuple[int, int]:
        """The first and the last timestamp of the other stream that a record is joined with."""
        if is_left:
            return timestamp + self.lower_ms, timestamp + self.upper_ms
        return timestamp - self.upper_ms, timestamp - self.lower_ms

    @property
    def left_kept_ms(self) -> int:
        """How long a record of the first stream waits for partners after its timestamp."""
        return max(self.upper_ms, 0)

    @property
    def right_kept_ms(self) -> int:
        return max(-self.lower_ms, 0)
