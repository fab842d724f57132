"""The interfaces of functions that join two streams, after Flink's Java API; PyFlink has none of them."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from penstock.model.functions import Function


class ProcessJoinFunction(Function):
    """For an interval join: called with each pair of records whose timestamps are near enough."""

    class Context(ABC):
        """The timestamps of the pair, in milliseconds."""

        @abstractmethod
        def get_left_timestamp(self) -> int:
            """Of the record of the first stream."""

        @abstractmethod
        def get_right_timestamp(self) -> int:
            """Of the record of the second stream."""

        @abstractmethod
        def get_timestamp(self) -> int:
            """Of the results: the later one of the two."""

    @abstractmethod
    def process_element(self, left: Any, right: Any, ctx: "ProcessJoinFunction.Context") -> Any:
        """The results for a pair: an iterable or a generator, or None for no records."""


class JoinFunction(Function):
    """For a window join: turns each pair of records of a key and window into one record."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Any:
        """The result for a pair."""


class FlatJoinFunction(Function):
    """For a window join: turns each pair of records of a key and window into any number of records."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Any:
        """The results for a pair: an iterable or a generator, or None for no records."""


class CoGroupFunction(Function):
    """Gets all records of a key and window, of both streams, even if only one of them has any."""

    @abstractmethod
    def co_group(self, first: Sequence[Any], second: Sequence[Any]) -> Any:
        """The results for a key and window: an iterable or a generator, or None for no records."""
