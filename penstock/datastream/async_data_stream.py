"""`AsyncDataStream`: async I/O, with many requests in flight for the records of a stream."""

from typing import Any

from penstock.datastream.data_stream import DataStream
from penstock.errors import ArgumentError
from penstock.model.async_functions import (
    NO_RETRY_STRATEGY,
    AsyncFunction,
    AsyncFunctionDescriptor,
    AsyncRetryStrategy,
)

__all__ = ["AsyncDataStream"]

Mode = AsyncFunctionDescriptor.OutputMode


class AsyncDataStream:
    """Applies an AsyncFunction to a stream.

    `timeout` is for one record, with all its retries: a Time, text such as "5s", or milliseconds; 0 means none.
    `capacity` is how many records of a subtask can be in flight; if that many are, the stream waits.
    """

    @staticmethod
    def unordered_wait(
        data_stream: DataStream,
        async_function: AsyncFunction,
        timeout: Any,
        capacity: int = 100,
        output_type: Any = None,
    ) -> DataStream:
        """The results of the function, in the order in which they arrive. They never overtake a watermark."""
        call = AsyncFunctionDescriptor(async_function, timeout, capacity, NO_RETRY_STRATEGY, Mode.UNORDERED)
        return _apply(data_stream, call, output_type)

    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream,
        async_function: AsyncFunction,
        timeout: Any,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = 100,
        output_type: Any = None,
    ) -> DataStream:
        """The same as `unordered_wait`; the strategy says which requests are repeated."""
        call = AsyncFunctionDescriptor(async_function, timeout, capacity, async_retry_strategy, Mode.UNORDERED)
        return _apply(data_stream, call, output_type)

    @staticmethod
    def ordered_wait(
        data_stream: DataStream,
        async_function: AsyncFunction,
        timeout: Any,
        capacity: int = 100,
        output_type: Any = None,
    ) -> DataStream:
        """The results of the function, in the order of the records."""
        call = AsyncFunctionDescriptor(async_function, timeout, capacity, NO_RETRY_STRATEGY, Mode.ORDERED)
        return _apply(data_stream, call, output_type)

    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream,
        async_function: AsyncFunction,
        timeout: Any,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = 100,
        output_type: Any = None,
    ) -> DataStream:
        """The same as `ordered_wait`; the strategy says which requests are repeated."""
        call = AsyncFunctionDescriptor(async_function, timeout, capacity, async_retry_strategy, Mode.ORDERED)
        return _apply(data_stream, call, output_type)


def _apply(data_stream: DataStream, call: AsyncFunctionDescriptor, output_type: Any) -> DataStream:
    if not isinstance(data_stream, DataStream):
        raise ArgumentError(f"the first argument must be a DataStream, not {data_stream!r}")
    return data_stream._operator("async_wait", "async wait operator", call, output_type)
