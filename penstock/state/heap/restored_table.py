"""Restored tables that no function has asked for yet."""

from collections.abc import Callable, Hashable, Iterable
from typing import Any

import pyarrow as pa

from penstock.model.snapshot import StateTableInfo
from penstock.state.format.conversion import evolved
from penstock.state.format.schema_evolution import common_info
from penstock.state.format.table_rows import DELETED_COLUMN, Rows, empty_table
from penstock.state.heap.change_log import ChangeLog


class UnclaimedTable:
    """Rows as they were read. They are decoded when a function asks for the state, and carried on unchanged otherwise.

    So a state that the program no longer uses stays in later snapshots, and a pickled one is never unpickled unless the
    program declares it as pickled too.
    """

    __slots__ = ("changes", "info", "parts", "undo")

    def __init__(self, info: StateTableInfo) -> None:
        self.info = info
        self.parts: list[pa.Table] = []
        """In the order in which they are to be applied."""
        self.undo: dict[Any, Any] = {}
        self.changes = ChangeLog()

    def add(self, rows: pa.Table, info: StateTableInfo) -> None:
        """Put rows behind the others. Where types or stamps differ, all get those that hold everything."""
        merged = common_info(self.info, info)
        self.parts = [evolved(part, self.info, merged) for part in self.parts]
        self.info = merged
        self.parts.append(evolved(rows, info, merged))

    def changed(self) -> Iterable[Hashable]:
        """Nothing changes here."""
        return ()

    def roll_back(self) -> None:
        """Nothing to take back."""

    def seal_all(self) -> Callable[[], pa.Table]:
        """All parts, one behind the other."""
        parts = list(self.parts) or [empty_table(self.info)]
        return lambda: pa.concat_tables(parts)

    def seal_changes(self, changed: Iterable[Any]) -> Callable[[], Rows]:
        """No rows."""
        map_keys: list[Any] | None = None if self.info.map_key_type is None else []
        return lambda: Rows([], map_keys, [], None)

    def entry_count(self) -> int:
        """About how many entries there are: an entry in two parts counts twice."""
        return sum(len(part) - int(part[DELETED_COLUMN].to_numpy().sum()) for part in self.parts)

    def has_at_most(self, count: int) -> bool:
        """Whether there are no more than `count` rows."""
        return sum(map(len, self.parts)) <= count
