"""Functions on two connected streams, as in PyFlink. On keyed streams both inputs share the state of a key."""

from abc import abstractmethod
from typing import Any, TypeAlias

from penstock.model.functions import Function, KeyedProcessFunction, ProcessFunction


class CoMapFunction(Function):
    """Turns each record of two streams into one record; a result of None is dropped."""

    @abstractmethod
    def map1(self, value: Any) -> Any:
        """The result for a record of the first stream."""

    @abstractmethod
    def map2(self, value: Any) -> Any:
        """The result for a record of the second stream."""


class CoFlatMapFunction(Function):
    """Turns each record of two streams into any number of records."""

    @abstractmethod
    def flat_map1(self, value: Any) -> Any:
        """The results for a record of the first stream: an iterable or a generator, or None for no records."""

    @abstractmethod
    def flat_map2(self, value: Any) -> Any:
        """The results for a record of the second stream: an iterable or a generator, or None for no records."""


class CoProcessFunction(Function):
    """The most general function on two streams without timers."""

    Context: TypeAlias = ProcessFunction.Context

    @abstractmethod
    def process_element1(self, value: Any, ctx: "CoProcessFunction.Context") -> Any:
        """The results for a record of the first stream: an iterable or a generator, or None for no records."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: "CoProcessFunction.Context") -> Any:
        """The results for a record of the second stream: an iterable or a generator, or None for no records."""


class KeyedCoProcessFunction(Function):
    """The most general function on two keyed streams, with state and timers of the key."""

    Context: TypeAlias = KeyedProcessFunction.Context
    OnTimerContext: TypeAlias = KeyedProcessFunction.OnTimerContext

    @abstractmethod
    def process_element1(self, value: Any, ctx: "KeyedCoProcessFunction.Context") -> Any:
        """The results for a record of the first stream: an iterable or a generator, or None for no records."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: "KeyedCoProcessFunction.Context") -> Any:
        """The results for a record of the second stream: an iterable or a generator, or None for no records."""

    def on_timer(self, timestamp: int, ctx: "KeyedCoProcessFunction.OnTimerContext") -> Any:
        """The results for a timer that fires: an iterable or a generator, or None for no records."""
        return None
