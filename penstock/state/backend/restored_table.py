"""Restored rows of a state that no function has declared yet."""

from collections.abc import Callable

import pyarrow as pa

from penstock.model.snapshot import StateTableInfo
from penstock.state.format.conversion import Conversion, evolved
from penstock.state.format.keyed_parquet import in_order
from penstock.state.format.schema_evolution import common_info
from penstock.state.format.table_rows import empty_table


class RestoredTable:
    """Rows as they were read. They are decoded when a function declares the state, and until then copied to snapshots.

    So a state that the program no longer uses stays in later snapshots, and a pickled one is never unpickled unless the
    program declares it as pickled too.
    """

    __slots__ = ("info", "parts")

    def __init__(self, info: StateTableInfo) -> None:
        self.info = info
        self.parts: list[pa.Table] = []
        """In the order in which they must be applied."""

    def add(self, rows: pa.Table, info: StateTableInfo) -> None:
        """Append rows. If their types differ, all rows are converted to a type that fits both."""
        merged = common_info(self.info, info)
        self.parts = [evolved(part, self.info, merged) for part in self.parts]
        self.info = merged
        self.parts.append(evolved(rows, info, merged))

    def converted(self, conversion: Conversion, max_parallelism: int) -> list[pa.Table]:
        """The rows converted to the declared type, in the order in which they must be applied.

        A user's migration is called once per entry, so parts are merged first if there is one.
        """
        if conversion.migration is None or not self.parts:
            return [conversion.rows(part) for part in self.parts]
        return [conversion.rows(in_order(pa.concat_tables(self.parts), self.info, max_parallelism))]

    def seal(self) -> Callable[[], pa.Table]:
        """All parts in order."""
        parts = list(self.parts) or [empty_table(self.info)]
        return lambda: pa.concat_tables(parts)
