"""Things that take longer than a request: savepoints, checkpoints, disposals, and how they ended.

An operation has an id. The same id is the same operation, so that a request whose answer was lost can be repeated.
What came of it is kept for five minutes. Nothing here wakes up by itself: what has expired goes at the next look.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from penstock.clock import Clock, SystemClock
from penstock.errors import RequestRefusedError

KEPT_S = 300.0
MAX_OPERATIONS = 1000


@dataclass(frozen=True)
class Failure:
    """Why an operation failed."""

    kind: str
    """The error's class."""
    message: str


@dataclass(frozen=True)
class Work:
    """What an operation does once it has begun: `wait` blocks until its result is there, or raises."""

    wait: Callable[[], object]
    progress: Callable[[], float] = lambda: 0.0


class Operation:
    """One operation. Any thread may ask it."""

    def __init__(self, trigger_id: str, work: Work) -> None:
        self.trigger_id = trigger_id
        self._work = work
        self._ended = threading.Event()
        self._answer: object | Failure = None
        self.ended_at_s: float | None = None
        self.seen = False
        """Somebody was told how it ended."""

    @property
    def is_ended(self) -> bool:
        """Whether it is known what came of it."""
        return self._ended.is_set()

    @property
    def answer(self) -> object | Failure:
        """What came of it, once it has ended."""
        return self._answer

    @property
    def percent(self) -> int:
        """How much of it is done."""
        return 100 if self.is_ended else max(0, min(99, int(100 * self._work.progress())))

    def wait(self, timeout_s: float | None = None) -> bool:
        """Whether it has ended, at the latest after this time."""
        return self._ended.wait(timeout_s)

    def run(self, now_s: Callable[[], float]) -> None:
        """Do the work, in this thread."""
        try:
            self._answer = self._work.wait()
        except Exception as error:
            self._answer = Failure(type(error).__name__, str(error))
        self.ended_at_s = now_s()
        self._ended.set()


class Operations:
    """The operations of one job, by what they are about and by their id."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._found: dict[tuple[str, str], Operation] = {}
        self._changed = threading.Condition()

    def start(
        self,
        kind: str,
        trigger_id: str,
        begin: Callable[[], Work],
        ended: Callable[[Operation], None] = lambda operation: None,
    ) -> Operation:
        """The operation of this id, begun now unless it is there; `begin` raises where it cannot begin."""
        with self._changed:
            self._forget_old()
            found = self._found.get((kind, trigger_id))
            if found is not None:
                return found
            if len(self._found) >= MAX_OPERATIONS:
                raise RequestRefusedError(
                    503, "TOO_MANY_OPERATIONS", "too many operations; ask for the results of older ones, or wait"
                )
            operation = Operation(trigger_id, begin())
            self._found[kind, trigger_id] = operation

        def run() -> None:
            operation.run(self._clock.monotonic_s)
            ended(operation)
            with self._changed:
                self._changed.notify_all()

        threading.Thread(target=run, name=f"{kind}-{trigger_id[:8]}", daemon=True).start()
        return operation

    def find(self, kind: str, trigger_id: str) -> Operation | None:
        """The operation of this id; None if there is none, or none any more."""
        with self._changed:
            self._forget_old()
            return self._found.get((kind, trigger_id))

    def saw(self, operation: Operation) -> None:
        """Somebody was told how the operation ended."""
        with self._changed:
            operation.seen = True
            self._changed.notify_all()

    def wait_until_seen(self, timeout_s: float) -> bool:
        """Whether all that has begun has ended and was told to somebody, at the latest after this time."""
        with self._changed:
            self._forget_old()
            return self._changed.wait_for(lambda: all(o.seen for o in self._found.values()), timeout_s)

    def _forget_old(self) -> None:
        limit_s = self._clock.monotonic_s() - KEPT_S
        old = [key for key, found in self._found.items() if found.ended_at_s is not None and found.ended_at_s < limit_s]
        for key in old:
            del self._found[key]
