"""Reducing and aggregating states of any backend: a function applied to a value state."""

from typing import Any

from penstock.model.functions import AggregateFunction, ReduceFunction
from penstock.model.state import AggregatingState, ReducingState, ValueState


class ReducingHandle(ReducingState[Any]):
    """One value per key, combined by a function."""

    __slots__ = ("_reduce", "_value")

    def __init__(self, value: ValueState[Any]) -> None:
        self._value = value

    def bind(self, function: ReduceFunction) -> None:
        """Use this function from now on."""
        self._reduce = function.reduce

    def get(self) -> Any:
        """The combined value; None if nothing was added."""
        return self._value.value()

    def add(self, value: Any) -> None:
        """Combine a value with the stored one; None clears the state."""
        if value is None:
            self._value.clear()
            return
        current = self._value.value()
        self._value.update(value if current is None else self._reduce(current, value))

    def replace(self, value: Any) -> None:
        """Store a value that was combined elsewhere; None clears the state."""
        self._value.update(value)

    def clear(self) -> None:
        """Remove the value."""
        self._value.clear()


class AggregatingHandle(AggregatingState[Any, Any]):
    """One accumulator per key, updated by a function. The accumulator is what is stored."""

    __slots__ = ("_function", "_value")

    def __init__(self, value: ValueState[Any]) -> None:
        self._value = value

    def bind(self, function: AggregateFunction) -> None:
        """Use this function from now on."""
        self._function = function

    def get(self) -> Any:
        """The result of the accumulator; None when nothing was added."""
        accumulator = self._value.value()
        return None if accumulator is None else self._function.get_result(accumulator)

    def add(self, value: Any) -> None:
        """Add a value to the accumulator; None clears the state."""
        if value is None:
            self._value.clear()
            return
        accumulator = self._value.value()
        if accumulator is None:
            accumulator = self._function.create_accumulator()
        self._value.update(self._function.add(value, accumulator))

    def accumulator(self) -> Any:
        """The stored accumulator; None if nothing was added."""
        return self._value.value()

    def merge(self, accumulator: Any) -> None:
        """Merge an accumulator into the stored one."""
        stored = self._value.value()
        self._value.update(accumulator if stored is None else self._function.merge(stored, accumulator))

    def replace(self, accumulator: Any) -> None:
        """Store an accumulator that was updated elsewhere; None clears the state."""
        self._value.update(accumulator)

    def clear(self) -> None:
        """Remove the accumulator."""
        self._value.clear()
