"""Functions that ask other systems without blocking the stream, and when they ask again, as in PyFlink."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import Any

from penstock.errors import ArgumentError
from penstock.model.functions import Function

ResultPredicate = Callable[[list[Any]], bool]
ExceptionPredicate = Callable[[Exception], bool]


class AsyncFunction(Function):
    """Asks something for each record, with many requests at a time; see `AsyncDataStream`."""

    @abstractmethod
    async def async_invoke(self, value: Any) -> list[Any]:
        """The results for a record. It runs in an event loop, so it must not block: await instead."""

    def timeout(self, value: Any) -> list[Any]:
        """The results for a record whose request took too long; without a method of its own, the job fails."""
        raise TimeoutError(f"Async function call has timed out for input: {value}")


class AsyncRetryPredicate(ABC):
    """Which results and errors make a request be repeated."""

    @abstractmethod
    def result_predicate(self) -> ResultPredicate | None:
        """Whether these results are a reason to ask again; None: no results are."""

    @abstractmethod
    def exception_predicate(self) -> ExceptionPredicate | None:
        """Whether this error is a reason to ask again; None: no error is."""


class AsyncRetryStrategy(ABC):
    """How often and when a request is repeated."""

    @abstractmethod
    def can_retry(self, current_attempts: int) -> bool:
        """Whether a request that was made so many times may be made again."""

    @abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """The pause before the next request, after so many were made."""

    @abstractmethod
    def get_retry_predicate(self) -> AsyncRetryPredicate:
        """Which results and errors count."""

    @staticmethod
    def no_restart() -> "AsyncRetryStrategy":
        """Never ask again."""
        return NO_RETRY_STRATEGY

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: ResultPredicate | None = None,
        exception_predicate: ExceptionPredicate | None = None,
    ) -> "AsyncRetryStrategy":
        """Ask again up to `max_attempts` times, with the same pause before each."""
        return FixedDelayRetryStrategy(max_attempts, backoff_time_millis, result_predicate, exception_predicate)

    @staticmethod
    def exponential_backoff(
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: ResultPredicate | None = None,
        exception_predicate: ExceptionPredicate | None = None,
    ) -> "AsyncRetryStrategy":
        """Ask again up to `max_attempts` times, with pauses that grow from `initial_delay` to `max_retry_delay` ms."""
        return ExponentialBackoffDelayRetryStrategy(
            max_attempts, initial_delay, max_retry_delay, multiplier, result_predicate, exception_predicate
        )


def empty_result_predicate(result: list[Any] | None) -> bool:
    """Whether a request had no result."""
    return not result


def has_exception_predicate(error: BaseException | None) -> bool:
    """Whether a request failed."""
    return error is not None


def exception_type_predicate(
    error: BaseException | None, expected_error_type: type[BaseException] | tuple[type[BaseException], ...]
) -> bool:
    """Whether a request failed with an error of this type: `lambda e: exception_type_predicate(e, OSError)`."""
    return isinstance(error, expected_error_type)


class RetryPredicate(AsyncRetryPredicate):
    """A predicate made of two functions."""

    def __init__(
        self, result_predicate: ResultPredicate | None, exception_predicate: ExceptionPredicate | None
    ) -> None:
        self._result_predicate = result_predicate
        self._exception_predicate = exception_predicate

    def result_predicate(self) -> ResultPredicate | None:
        return self._result_predicate

    def exception_predicate(self) -> ExceptionPredicate | None:
        return self._exception_predicate


class NoRetryStrategy(AsyncRetryStrategy):
    """Never asks again."""

    def can_retry(self, current_attempts: int) -> bool:
        return False

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return -1

    def get_retry_predicate(self) -> AsyncRetryPredicate:
        return RetryPredicate(None, None)


class FixedDelayRetryStrategy(AsyncRetryStrategy):
    """Asks again after the same pause each time."""

    def __init__(
        self,
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: ResultPredicate | None = None,
        exception_predicate: ExceptionPredicate | None = None,
    ) -> None:
        _require_positive(max_attempts=max_attempts, backoff_time_millis=backoff_time_millis)
        self._max_attempts = max_attempts
        self._backoff_time_millis = backoff_time_millis
        self._predicate = RetryPredicate(result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        return current_attempts <= self._max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return self._backoff_time_millis

    def get_retry_predicate(self) -> AsyncRetryPredicate:
        return self._predicate


class ExponentialBackoffDelayRetryStrategy(AsyncRetryStrategy):
    """Asks again after pauses that grow by a factor, up to a limit."""

    def __init__(
        self,
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: ResultPredicate | None = None,
        exception_predicate: ExceptionPredicate | None = None,
    ) -> None:
        _require_positive(
            max_attempts=max_attempts,
            initial_delay=initial_delay,
            max_retry_delay=max_retry_delay,
            multiplier=multiplier,
        )
        self._max_attempts = max_attempts
        self._initial_delay = initial_delay
        self._max_retry_delay = max_retry_delay
        self._multiplier = multiplier
        self._predicate = RetryPredicate(result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        return current_attempts <= self._max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """From the number of attempts alone: many requests share one strategy."""
        delay = float(self._initial_delay)
        for _ in range(current_attempts - 1):
            delay = int(min(delay * self._multiplier, self._max_retry_delay))
        return int(delay)

    def get_retry_predicate(self) -> AsyncRetryPredicate:
        return self._predicate


NO_RETRY_STRATEGY: AsyncRetryStrategy = NoRetryStrategy()


class AsyncFunctionDescriptor:
    """An AsyncFunction and how it is called."""

    class OutputMode(Enum):
        """The order in which results leave the operator."""

        ORDERED = 0
        UNORDERED = 1

    def __init__(
        self,
        async_function: AsyncFunction,
        timeout: Any,
        capacity: int = 100,
        async_retry_strategy: AsyncRetryStrategy = NO_RETRY_STRATEGY,
        output_mode: OutputMode = OutputMode.ORDERED,
    ) -> None:
        """`timeout` is a Time or Duration, text, or milliseconds; 0 means none."""
        self.async_function = async_function
        self.timeout = timeout
        self.capacity = capacity
        self.async_retry_strategy = async_retry_strategy
        self.output_mode = output_mode


def _require_positive(**numbers: float) -> None:
    for name, number in numbers.items():
        if not number > 0:
            raise ArgumentError(f"{name} should be greater than zero, not {number!r}")
