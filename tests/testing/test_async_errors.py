"""Async I/O: whatever raises, the request ends and the job fails with a message; it never waits for ever."""

import asyncio
from typing import Any

import pytest

from penstock.datastream import AsyncFunction, AsyncRetryStrategy
from penstock.datastream.functions import AsyncFunctionDescriptor
from penstock.errors import UserFunctionError
from penstock.model.async_functions import FixedDelayRetryStrategy
from penstock.testing import Harness


class OwnError(BaseException):
    """An error that is no Exception, as those of some test frameworks."""


class Failing(AsyncFunction):
    def __init__(self, error: BaseException | None) -> None:
        self.error = error

    async def async_invoke(self, value: Any) -> list[Any]:
        if self.error is not None:
            raise self.error
        return [value]


def message(error: BaseException | None, strategy: AsyncRetryStrategy | None = None) -> str:
    """What the job fails with."""
    more: Any = {} if strategy is None else {"async_retry_strategy": strategy}
    harness = Harness.non_keyed(AsyncFunctionDescriptor(Failing(error), 60_000, **more))
    with pytest.raises(UserFunctionError) as raised:
        harness.feed(["ada"]).finish()
    return str(raised.value)


def test_an_error_that_is_no_exception_ends_the_request() -> None:
    assert "no answer" in message(OwnError("no answer"))


def broken(given: Any) -> bool:
    raise AttributeError("it has no status")


@pytest.mark.parametrize("error", [OSError("no answer"), None], ids=["error", "results"])
def test_an_error_of_a_predicate_fails_the_job(error: BaseException | None) -> None:
    text = message(error, AsyncRetryStrategy.fixed_delay(3, 1, result_predicate=broken, exception_predicate=broken))
    assert "it has no status" in text and "in the retry strategy of" in text and "record: 'ada'" in text


class NoPause(FixedDelayRetryStrategy):
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        raise KeyError(f"attempt {current_attempts}")


def test_an_error_of_a_strategy_fails_the_job() -> None:
    text = message(OSError("no answer"), NoPause(3, 1, None, lambda error: True))
    assert "attempt 1" in text and "in the retry strategy of" in text


class Ending(AsyncFunction):
    """Ends the loop that runs it: by a task of its own that exits, or by stopping it."""

    def __init__(self, way: str) -> None:
        self.way = way

    async def async_invoke(self, value: Any) -> list[Any]:
        if self.way == "interrupt":
            raise KeyboardInterrupt
        loop = asyncio.get_running_loop()
        loop.call_soon(exit if self.way == "exit" else loop.stop)
        if value == "first":
            return [value]
        await asyncio.sleep(60)
        return [value]


@pytest.mark.parametrize("way", ["exit", "interrupt"])
def test_a_request_that_ends_the_event_loop_fails_the_job(way: str) -> None:
    harness = Harness.non_keyed(AsyncFunctionDescriptor(Ending(way), 60_000))
    with pytest.raises(UserFunctionError, match="the event loop of async_invoke.* was ended by a request with"):
        harness.feed(["ada"]).finish()


def test_requests_behind_one_that_stopped_the_event_loop_fail_the_job() -> None:
    harness = Harness.non_keyed(AsyncFunctionDescriptor(Ending("stop"), 60_000, capacity=1))
    with pytest.raises(UserFunctionError, match="was ended by a request, and"):
        harness.feed(["first", "second"]).finish()
