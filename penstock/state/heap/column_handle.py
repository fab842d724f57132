"""The handle of a value state in columns, for the current key: timers of clean-up, queries and tests use it."""

from typing import Any

from penstock.model.state import ValueState
from penstock.state.backend.current_key import CurrentKey
from penstock.state.backend.value_guard import Guard
from penstock.state.heap.column_table import ColumnTable
from penstock.state.heap.namespace_table import NamespaceTable


class ColumnValueState(ValueState[Any]):
    """One value per key."""

    __slots__ = ("_current", "_guard", "_table")

    def __init__(self, current: CurrentKey, table: ColumnTable | NamespaceTable, guard: Guard) -> None:
        self._current, self._table, self._guard = current, table, guard

    def value(self) -> Any:
        """The value, or None."""
        return self._table.value(self._current.key)

    def update(self, value: Any) -> None:
        """Replace the value; None removes it."""
        self._table.put_value(self._current.key, None if value is None else self._guard.stored(value))

    def clear(self) -> None:
        """Remove the value."""
        self._table.put_value(self._current.key, None)
