"""State handles for user functions. The backends implement them.

Returned values are copies or immutable: a change takes effect only when it is written back through the handle.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")


class State(ABC):
    """State of the current key."""

    @abstractmethod
    def clear(self) -> None:
        """Clear the state of the current key."""


class ValueState(State, Generic[T]):
    """One value."""

    @abstractmethod
    def value(self) -> T | None:
        """The value, or None."""

    @abstractmethod
    def update(self, value: T | None) -> None:
        """Replace the value; None clears it."""


class AppendingState(State, Generic[IN, OUT]):
    """State to which elements are added."""

    @abstractmethod
    def get(self) -> OUT | None:
        """The result of the added elements."""

    @abstractmethod
    def add(self, value: IN) -> None:
        """Add one element."""


class MergingState(AppendingState[IN, OUT]):
    """Appending state that can be merged."""


class ReducingState(MergingState[T, T]):
    """One value, combined by a ReduceFunction; `get` returns None if nothing was added."""


class AggregatingState(MergingState[IN, OUT]):
    """An accumulator, updated by an AggregateFunction; `get` returns its result, or None if nothing was added."""


class ListState(MergingState[T, Iterable[T]]):
    """Elements in the order they were added; `get` returns an empty iterable if there are none."""

    @abstractmethod
    def get(self) -> Iterable[T]:
        """The elements."""

    @abstractmethod
    def update(self, values: list[T]) -> None:
        """Replace all elements."""

    @abstractmethod
    def add_all(self, values: list[T]) -> None:
        """Add several elements."""

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())


class MapState(State, Generic[K, V]):
    """A dictionary for each key."""

    @abstractmethod
    def get(self, key: K) -> V | None:
        """The value of a map key, or None."""

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Set the value of a map key."""

    @abstractmethod
    def put_all(self, dict_value: dict[K, V]) -> None:
        """Set the values of several map keys."""

    @abstractmethod
    def remove(self, key: K) -> None:
        """Remove a map key if it exists."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Whether the map key exists."""

    @abstractmethod
    def items(self) -> Iterable[tuple[K, V]]:
        """All (map key, value) pairs."""

    @abstractmethod
    def keys(self) -> Iterable[K]:
        """All map keys."""

    @abstractmethod
    def values(self) -> Iterable[V]:
        """All values."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Whether the map has no keys."""

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())
