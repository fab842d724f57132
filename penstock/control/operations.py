"""Operations that take longer than one HTTP request: savepoints, checkpoints and disposals, with their results.

An operation has an id. The same id is the same operation, so a request whose answer was lost can be repeated. Results
are kept for five minutes; expired ones are removed by the next call.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
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
    """The work of an operation: `wait` returns its result or raises."""

    wait: Callable[[], object]
    progress: Callable[[], float] = lambda: 0.0


class Operation:
    """One operation. Any thread may read it."""

    def __init__(self, trigger_id: str, work: Work) -> None:
        self.trigger_id = trigger_id
        self._work = work
        self.future: Future[object] = Future()
        self.ended_at_s: float | None = None
        self.seen = False
        """A client has seen the result."""

    @property
    def is_ended(self) -> bool:
        """Whether it has succeeded or failed."""
        return self.future.done()

    @property
    def answer(self) -> object | Failure:
        """Its result or its failure; waits for its end."""
        error = self.future.exception()
        return self.future.result() if error is None else Failure(type(error).__name__, str(error))

    @property
    def percent(self) -> int:
        """How much of it is done, in percent."""
        return 100 if self.is_ended else max(0, min(99, int(100 * self._work.progress())))

    def run(self, now_s: Callable[[], float]) -> None:
        """Do the work, in this thread."""
        try:
            result = self._work.wait()
        except Exception as error:
            self.ended_at_s = now_s()
            self.future.set_exception(error)
        else:
            self.ended_at_s = now_s()
            self.future.set_result(result)


class Operations:
    """The operations of one job, by their kind and id."""

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
        """The operation with this id, started now unless it exists. `begin` raises if it cannot start."""
        with self._changed:
            self._forget_old()
            found = self._found.get((kind, trigger_id))
            if found is not None:
                return found
            if len(self._found) >= MAX_OPERATIONS:
                raise RequestRefusedError(
                    503, "TOO_MANY_OPERATIONS", "too many operations; fetch the results of older ones, or wait"
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
        """The operation with this id; None if there is none, or if it has expired."""
        with self._changed:
            self._forget_old()
            return self._found.get((kind, trigger_id))

    def mark_seen(self, operation: Operation) -> None:
        """Note that a client has seen the result."""
        with self._changed:
            operation.seen = True
            self._changed.notify_all()

    def wait_until_seen(self, timeout_s: float) -> bool:
        """Wait until clients have seen every result; False after the timeout."""
        with self._changed:
            self._forget_old()
            return self._changed.wait_for(lambda: all(o.seen for o in self._found.values()), timeout_s)

    def _forget_old(self) -> None:
        limit_s = self._clock.monotonic_s() - KEPT_S
        old = [key for key, found in self._found.items() if found.ended_at_s is not None and found.ended_at_s < limit_s]
        for key in old:
            del self._found[key]
