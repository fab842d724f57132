"""Requests of an AsyncFunction, run by an event loop in a thread of their own.

The operator's thread starts requests and takes finished ones; the loop's thread calls the user's coroutines. Between
them is one condition, under which outcomes are set. Timeouts and pauses are those of the event loop.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from penstock.clock import SystemClock
from penstock.errors import UnsupportedValueError, UsageError
from penstock.model.async_functions import AsyncFunctionDescriptor
from penstock.model.readable_values import shortened
from penstock.model.time import milliseconds
from penstock.runtime.user_errors import USER_ERRORS

JOIN_S = 10.0
LOOK_S = 0.1
"""How often a waiting thread checks whether its run was cancelled."""
NOT_RECORDS = (str, bytes, bytearray, dict)


@dataclass(frozen=True)
class RequestOutcome:
    """How a request ended."""

    results: list[Any]
    error: BaseException | None = None
    where: str = ""
    """The method that raised the error."""


class Request:
    """One record whose results are requested."""

    __slots__ = ("number", "outcome", "record", "stored", "timestamp", "watermark")

    def __init__(self, record: Any, timestamp: int | None, watermark: int, stored: Any) -> None:
        self.record = record
        self.timestamp = timestamp
        self.watermark = watermark
        """The last watermark before the record: its results leave before any later watermark does."""
        self.stored = stored
        """What the state keeps while the request is in flight."""
        self.number = -1
        """Its place among the requests that were started."""
        self.outcome: RequestOutcome | None = None


class RequestLoop:
    """A thread with an event loop. `start` requests, `wait` for some to finish, `close` to cancel the others."""

    def __init__(self, call: AsyncFunctionDescriptor, name: str) -> None:
        self._function = call.async_function
        self._strategy = call.async_retry_strategy
        predicate = self._strategy.get_retry_predicate()
        self._is_bad_result = predicate.result_predicate() or (lambda results: False)
        self._is_bad_error = predicate.exception_predicate() or (lambda error: False)
        self._timeout_s = milliseconds(call.timeout) / 1000
        self._clock = SystemClock()
        self._changed = threading.Condition()
        self._finished: deque[Request] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._has_ended = False
        self._ended_by: BaseException | None = None
        """What the user's code ended the thread with."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run_loop, name=f"async {name}", daemon=True)
        self._thread.start()

    # ---- the operator's thread

    def start(self, requests: Sequence[Request]) -> None:
        """Begin the requests. If the loop has ended, `wait` says so."""
        self._call_soon(self._begin, requests)

    def finished(self) -> list[Request]:
        """The requests that have ended since the last call, in the order in which they ended."""
        with self._changed:
            ended = list(self._finished)
            self._finished.clear()
        return ended

    def wait(self, until_s: float | None, is_cancelled: Callable[[], bool]) -> bool:
        """Wait until a request has ended that `finished` will return. False if time runs out or the run is cancelled.

        `until_s` is a time of the monotonic clock; None: no limit. An error if the user's code has ended the loop.
        """
        with self._changed:
            while not self._finished:
                if not self._thread.is_alive():
                    raise self._ended_error()
                left_s = LOOK_S if until_s is None else min(LOOK_S, until_s - self._clock.monotonic_s())
                if left_s <= 0 or is_cancelled():
                    return False
                self._changed.wait(left_s)
        return True

    def close(self) -> None:
        """Cancel what is in flight and end the thread. Code that blocks the loop is left behind after a while."""
        self._call_soon(self._loop.stop)
        self._thread.join(JOIN_S)

    def _call_soon(self, call: Callable[..., Any], *arguments: Any) -> None:
        """Have the loop's thread call this, unless the user's code has ended it."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(call, *arguments)

    def _ended_error(self) -> UsageError:
        cause = "" if self._ended_by is None else f" with {self._ended_by!r}"
        return UsageError(
            f"the event loop of async_invoke() was ended by a request{cause}, and the requests in flight are lost; "
            f"a request and its tasks must not stop the loop, exit or raise KeyboardInterrupt: return results or raise "
            f"an Exception"
        )

    # ---- the loop's thread

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._run_until_stopped()
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                self._loop.run_until_complete(asyncio.wait(self._tasks))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    def _run_until_stopped(self) -> None:
        try:
            self._loop.run_forever()
        except BaseException as error:  # SystemExit and KeyboardInterrupt of a task leave the loop
            self._ended_by = error
        self._has_ended = True

    def _begin(self, requests: Sequence[Request]) -> None:
        for request in requests:
            task = self._loop.create_task(self._run(request))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run(self, request: Request) -> None:
        try:
            outcome = await self._ask_in_time(request.record)
        except BaseException as error:  # cancelled by the user's own code, or something that is no Exception
            if self._has_ended:
                raise
            outcome = RequestOutcome([], error, "async_invoke()")
        with self._changed:
            request.outcome = outcome
            self._finished.append(request)
            self._changed.notify_all()

    async def _ask_in_time(self, record: Any) -> RequestOutcome:
        """The outcome of a request with its retries, or that of `timeout` when time runs out."""
        if self._timeout_s <= 0:
            return await self._ask(record)
        asking = asyncio.ensure_future(self._ask(record))
        try:
            done, _ = await asyncio.wait({asking}, timeout=self._timeout_s)
        finally:
            if not asking.done():
                asking.cancel()
        if done:
            return asking.result()
        try:
            return RequestOutcome(_records(self._function.timeout(record), "timeout"))
        except USER_ERRORS as error:
            return RequestOutcome([], error, "timeout()")

    async def _ask(self, record: Any) -> RequestOutcome:
        attempts = 0
        while True:
            attempts += 1
            try:
                outcome = RequestOutcome(_records(await self._function.async_invoke(record), "async_invoke"))
            except USER_ERRORS as error:
                outcome = RequestOutcome([], error, "async_invoke()")
            try:
                if not self._is_bad(outcome) or not self._strategy.can_retry(attempts):
                    return outcome
                pause_s = self._strategy.get_backoff_time_millis(attempts) / 1000
            except USER_ERRORS as error:
                return RequestOutcome([], error, "the retry strategy")
            await asyncio.sleep(pause_s)

    def _is_bad(self, outcome: RequestOutcome) -> bool:
        """Whether the strategy's predicate accepts the results or the error."""
        if outcome.error is None:
            return self._is_bad_result(outcome.results)
        return isinstance(outcome.error, Exception) and self._is_bad_error(outcome.error)


def _records(results: Any, method: str) -> list[Any]:
    """The results as a list; an error if they are not a list of records."""
    if results is None:
        raise UnsupportedValueError(
            f"The result of AsyncFunction cannot be none, but {method}() returned it; return a list of results: [] for "
            f"no result"
        )
    try:
        if not isinstance(results, NOT_RECORDS):
            return list(results)
    except TypeError:
        pass
    raise UnsupportedValueError(
        f"The result of AsyncFunction should be of list type, but {method}() returned {shortened(results, 80)}, of "
        f"type {type(results).__name__}; write `return [result]`"
    )
