"""What an attempt shows of itself while it runs: the phase of its start, and its events."""

from collections.abc import Callable
from dataclasses import dataclass

from penstock.control.registry import PhaseRecord
from penstock.jobmanager.attempt.epoch_tracker import EpochSummary

STARTING = "starting TaskManagers"


@dataclass(frozen=True)
class AttemptObserver:
    """Receives what an attempt does, from any of its threads."""

    committed: Callable[[EpochSummary], None] = lambda summary: None
    """An epoch is committed."""
    changed: Callable[[], None] = lambda: None
    """The phase is another one."""
    log: Callable[[str], None] = lambda text: None
    """A line for the driver's log."""


class StartPhases:
    """The phases of an attempt's start, one after the other, until its first epoch is committed."""

    def __init__(self, observer: AttemptObserver) -> None:
        self._observer = observer
        self._name: str | None = STARTING
        self._done: Callable[[], int] = lambda: 0
        self._total = 0

    def enter(self, name: str, done: Callable[[], int] = lambda: 0, total: int = 0) -> None:
        """The next phase. `done` of `total` things are done, if the phase consists of things."""
        self._name, self._done, self._total = name, done, total
        self._observer.changed()

    def end(self) -> None:
        """The attempt has started."""
        if self._name is not None:
            self._name = None
            self._observer.changed()

    def record(self) -> PhaseRecord | None:
        """The phase now; None once the attempt has started."""
        name = self._name
        if name is None:
            return None
        return PhaseRecord(name, min(self._done(), self._total), self._total)
