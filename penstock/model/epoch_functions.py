"""`KeyedEpochFunction`: a function that gets all records of a key in an epoch with one call.

Programs do not implement it: it is what Spark's stateful processors run on.
"""

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from penstock.model.functions import Function, TimerService
from penstock.model.time import TimeDomain


@dataclass(frozen=True)
class EpochTime:
    """Both clocks, in milliseconds since 1970; they stand still while an epoch is processed."""

    processing_ms: int
    watermark: int


class KeyedEpochFunction(Function):
    """Processes an epoch key by key: first the records of each key, then the timers that are due."""

    timers: TimerService
    """Of the current key; set before `open`."""
    time_domain: TimeDomain | None = None
    """Of its timers; None: it has none. In event time, late records are dropped."""
    discarded_states: frozenset[str] = frozenset()
    """Names of states whose entries are deleted in the first epoch, if a snapshot has brought any. Set in `open`."""
    has_initial_records = False
    """Whether `initial_records` returns any in the first epoch."""
    record_method = "process_records()"
    """What error messages call the method that processes records."""

    def initial_records(self) -> Iterable[tuple[Any, Any]]:
        """(key, record) pairs for `load_initial`; empty once they have been loaded."""
        return ()

    def load_initial(self, key: Any, record: Any, time: EpochTime) -> None:
        """Put an initial record of a key into its state. Called in the first epoch, before all other records."""
        return

    def initial_loaded(self) -> None:
        """All initial records of this subtask are in its state."""
        return

    @abstractmethod
    def process_records(self, key: Any, records: list[Any], time: EpochTime) -> Iterable[Any]:
        """The results for a key's records of an epoch."""

    @abstractmethod
    def on_timer(self, key: Any, timestamp: int, time: EpochTime) -> Iterable[Any]:
        """The results for a timer that is due."""
