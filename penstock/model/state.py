"""State handles as user functions see them; the backends implement them.

What a handle returns is a copy or immutable: changing it changes nothing until it is written back through the handle.
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
        """Forget the state of the current key."""


class ValueState(State, Generic[T]):
    """One value."""

    @abstractmethod
    def value(self) -> T | None:
        """The value; None when there is none."""

    @abstractmethod
    def update(self, value: T | None) -> None:
        """Replace the value; None clears it."""


class AppendingState(State, Generic[IN, OUT]):
    """State to which elements are added."""

    @abstractmethod
    def get(self) -> OUT | None:
        """What the added elements amount to."""

    @abstractmethod
    def add(self, value: IN) -> None:
        """Add one element."""


class MergingState(AppendingState[IN, OUT]):
    """Appending state of which two can be merged."""


class ReducingState(MergingState[T, T]):
    """One value, folded by a ReduceFunction; `get` is None when nothing was added."""


class AggregatingState(MergingState[IN, OUT]):
    """An accumulator, fed by an AggregateFunction; `get` is its result, None when nothing was added."""


class ListState(MergingState[T, Iterable[T]]):
    """Elements in the order they were added; `get` is an empty iterable when there are none."""

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
    """A dictionary of its own for each key."""

    @abstractmethod
    def get(self, key: K) -> V | None:
        """The value of a map key; None when it is absent."""

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Set the value of a map key."""

    @abstractmethod
    def put_all(self, dict_value: dict[K, V]) -> None:
        """Set the values of several map keys."""

    @abstractmethod
    def remove(self, key: K) -> None:
        """Remove a map key; an absent one is fine."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Whether the map key is there."""

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
        """Whether there is no map key."""

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
