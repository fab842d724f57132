"""What the conformance suite needs to know of a sink: how to make it, what a reader sees, what a crash left behind."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from penstock.model.sink import Sink, SinkWriter
from penstock.model.types import TypeInformation, Types

T = TypeVar("T")

RECORD_TYPE = Types.ROW_NAMED(["id", "value"], [Types.LONG(), Types.LONG()])
"""The type of all records of the suite: pairs of integers."""


class Faults:
    """Lets one call to the other system fail: before it has an effect, or after."""

    def __init__(self) -> None:
        self.was_hit = False
        self._step: int | None = None
        self._error: BaseException = Exception()
        self._is_crash = False
        self._count = 0

    def call(self, function: Callable[..., T], *args: Any, **named: Any) -> T:
        """Call a function of the other system. Counts two steps: one before the call and one after it."""
        self._next()
        result = function(*args, **named)
        self._next()
        return result

    @contextmanager
    def at(self, step: int, error: BaseException, *, is_crash: bool) -> Iterator[None]:
        """In the block, step number `step` raises `error`, and after a crash each later one too."""
        self.was_hit, self._step, self._error, self._is_crash, self._count = False, step, error, is_crash, 0
        try:
            yield
        finally:
            self._step = None

    def _next(self) -> None:
        if self._step is None:
            return
        self._count += 1
        if self._count == self._step or (self._is_crash and self.was_hit):
            self.was_hit = True
            raise self._error


class SinkSystem(ABC):
    """A sink and the system that it writes to. The system outlives every process of the suite's jobs."""

    record_type: TypeInformation = RECORD_TYPE
    """The declared type of the sink's input, if it is not RECORD_TYPE."""
    upserts = False
    """Whether a row replaces the row with its id."""

    def __init__(self) -> None:
        self.faults = Faults()

    @abstractmethod
    def sink(self) -> Sink:
        """The sink. Called for each process, and for each of several jobs that write to the same place."""

    @abstractmethod
    def rows(self) -> list[tuple[int, int]]:
        """What a reader sees now. The rows of one subtask are in the order in which the reader gets them."""

    @abstractmethod
    def leftovers(self) -> Sequence[object]:
        """The transactions in the system that are neither committed nor aborted."""

    def clear(self) -> None:  # noqa: B027
        """Remove visible rows, or do nothing. Called between the many runs of one check, to make it faster."""

    def kill(self, writer: SinkWriter) -> None:  # noqa: B027
        """End a writer as the death of its process does: close its connections, and do nothing else."""

    def record(self, id: int, value: int) -> Any:
        """A record that the sink takes."""
        return (id, value)
