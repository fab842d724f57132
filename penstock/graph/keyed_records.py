"""Records of a keyed stream with their keys, as `KeyedStream.execute_and_collect` returns them, and without."""

from typing import Any

from penstock.graph.stream_graph import KeyBy
from penstock.model.functions import MapFunction, RuntimeContext
from penstock.model.row import row_class
from penstock.model.type_information import row_of, tuple_of
from penstock.model.types import TypeInformation

NAMES = ("f0", "f1")


class WithKey(MapFunction):
    """Turns a record into a row of its key and itself."""

    def __init__(self, key_by: KeyBy) -> None:
        self._columns = key_by.columns
        self._selector = key_by.selector

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the function that computes keys."""
        if self._selector is not None:
            self._selector.open(runtime_context)

    def close(self) -> None:
        """Close it."""
        if self._selector is not None:
            self._selector.close()

    def map(self, value: Any) -> Any:
        """The key and the record. A key of one column is its value, of several a tuple."""
        return row_class(NAMES).make((self._key(value), value))

    def _key(self, record: Any) -> Any:
        if self._columns is None:
            return self._selector.get_key(record)
        parts = tuple(record[column] for column in self._columns)
        return parts[0] if len(parts) == 1 else parts


class Unkeyed(MapFunction):
    """Passes the records on behind the exchange by key, which they have passed."""

    def map(self, value: Any) -> Any:
        """The record."""
        return value


def pairs_with_keys(key_by: KeyBy, record_type: TypeInformation) -> tuple[WithKey, TypeInformation]:
    """The function that adds the keys to records of a type, and the type of its results."""
    key_types = key_by.key_types
    key_type = key_types[0] if len(key_types) == 1 else tuple_of(key_types)
    return WithKey(key_by), row_of(NAMES, (key_type, record_type))
