"""The state variables of Spark's stateful processors on keyed state: the methods of pyspark's ValueState and so on.

Iterators hold a copy, so that a processor may change the state while it iterates.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from penstock.errors import UnsupportedValueError
from penstock.model.state import ListState, MapState, ValueState
from penstock.model.type_information import TypeInformation
from penstock.spark.processor_values import struct_reader, tuple_maker

Values = tuple[Any, ...]


class SparkValueState:
    """One tuple per key."""

    def __init__(self, state: ValueState[Any], value_type: TypeInformation) -> None:
        self._state = state
        self._to_tuple = tuple_maker(value_type)
        self._read = struct_reader(value_type)

    def exists(self) -> bool:
        """Whether the key has a value."""
        return self._state.value() is not None

    def get(self) -> Values | None:
        """The key's value, or None."""
        value = self._state.value()
        return None if value is None else self._to_tuple(value)

    def update(self, newValue: Values) -> None:
        """Replace the value."""
        self._state.update(self._read(newValue))

    def clear(self) -> None:
        """Remove the value."""
        self._state.clear()


class SparkListState:
    """A list of tuples per key."""

    def __init__(self, name: str, state: ListState[Any], element_type: TypeInformation) -> None:
        self._name = name
        self._state = state
        self._to_tuple = tuple_maker(element_type)
        self._read = struct_reader(element_type)

    def exists(self) -> bool:
        """Whether the key's list has elements."""
        return next(iter(self._state.get()), None) is not None

    def get(self) -> Iterator[Values]:
        """The elements."""
        return map(self._to_tuple, list(self._state.get()))

    def put(self, newState: Sequence[Values]) -> None:
        """Replace the list."""
        self._state.update(self._read_all(newState, "put"))

    def appendValue(self, newState: Values) -> None:
        """Add an element."""
        self._state.add(self._read(newState))

    def appendList(self, newState: Sequence[Values]) -> None:
        """Add elements."""
        self._state.add_all(self._read_all(newState, "appendList"))

    def clear(self) -> None:
        """Remove all elements."""
        self._state.clear()

    def _read_all(self, values: Sequence[Values], method: str) -> list[Any]:
        found = [self._read(value) for value in values]
        if not found:
            raise UnsupportedValueError(
                f"{method}() of list state {self._name!r} got no values, which Spark refuses too; call clear()"
            )
        return found


class SparkMapState:
    """A dictionary from tuples to tuples per key."""

    def __init__(self, state: MapState[Any, Any], key_type: TypeInformation, value_type: TypeInformation) -> None:
        self._state = state
        self._to_key, self._read_key = tuple_maker(key_type), struct_reader(key_type)
        self._to_value, self._read_value = tuple_maker(value_type), struct_reader(value_type)

    def exists(self) -> bool:
        """Whether the key has entries."""
        return not self._state.is_empty()

    def getValue(self, key: Values) -> Values | None:
        """The value of an entry, or None."""
        value = self._state.get(self._read_key(key))
        return None if value is None else self._to_value(value)

    def containsKey(self, key: Values) -> bool:
        """Whether there is such an entry."""
        return self._state.contains(self._read_key(key))

    def updateValue(self, key: Values, value: Values) -> None:
        """Add or replace an entry."""
        self._state.put(self._read_key(key), self._read_value(value))

    def iterator(self) -> Iterator[tuple[Values, Values]]:
        """All entries."""
        return ((self._to_key(key), self._to_value(value)) for key, value in list(self._state.items()))

    def keys(self) -> Iterator[Values]:
        """The keys of all entries."""
        return map(self._to_key, list(self._state.keys()))

    def values(self) -> Iterator[Values]:
        """The values of all entries."""
        return map(self._to_value, list(self._state.values()))

    def removeKey(self, key: Values) -> None:
        """Remove an entry."""
        self._state.remove(self._read_key(key))

    def clear(self) -> None:
        """Remove all entries."""
        self._state.clear()
