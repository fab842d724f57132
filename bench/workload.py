"""What a workload is: the rows that go in, and how many results are right."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from bench.datasets import Dataset

DAY_MS = 86_400_000

Tables: TypeAlias = Mapping[str, pa.Table]
"""The streams of a workload by name."""


@dataclass(frozen=True)
class Copy:
    """Which copy it is: `number` counts down to 1, and `rows_before` counts the rows of the stream before these."""

    number: int
    rows_before: int
    dataset: Dataset


def as_they_are(table: pa.Table, copy: Copy) -> pa.Table:
    """The same rows."""
    return table


def none(tables: Tables) -> int:
    """No rows."""
    return 0


def rows_of(dataset: Dataset) -> int:
    """All rows of the dataset."""
    return dataset.rows


def row_count(tables: Tables) -> int:
    """One result for each row."""
    return sum(table.num_rows for table in tables.values())


@dataclass(frozen=True)
class Workload:
    """One workload: its streams, and the number of their results by an oracle that no engine takes part in."""

    name: str
    title: str
    tables: Callable[[Dataset], Tables]
    """All rows of the dataset in time order."""
    results: Callable[[Tables], int] = row_count
    """How many rows must come out for these that go in."""
    copy: Callable[[pa.Table, Copy], pa.Table] = as_they_are
    """What the warm-up reads in place of these rows."""
    inner_results: Callable[[Tables], int] = none
    """How many rows its first step hands to its second one."""
    fires_windows: bool = False
    """Whether a last row, a day later, lets windows fire."""
    fills_keys: bool = False
    """Whether the warm-up writes every key of the dataset."""
    reads_input: bool = True
    """False: the program makes its rows itself, as many as `made_rows` says."""
    made_rows: Callable[[Dataset], int] = rows_of
    data: str = "big"
    quick_data: str = "smoke"

    def closing_rows(self, tables: Tables) -> Tables:
        """The last row of each stream, if there is one."""
        return {name: later(table) for name, table in tables.items()} if self.fires_windows else {}


def later(table: pa.Table) -> pa.Table:
    """The last row of a table, a day later."""
    last = table.slice(table.num_rows - 1)
    moved = pa.array([last["ts"][0].as_py() + DAY_MS], pa.int64())
    return last.set_column(last.schema.get_field_index("ts"), "ts", moved)


def days_before(table: pa.Table, copy: Copy) -> pa.Table:
    """The same rows, as many days earlier: windows and pairs of copies have nothing in common."""
    moved = pc.subtract(table["ts"], copy.number * DAY_MS)
    return table.set_column(table.schema.get_field_index("ts"), "ts", moved)


def other_keys(table: pa.Table, copy: Copy) -> pa.Table:
    """The same rows, with keys that only this copy has."""
    renamed = pc.replace_substring(table["key"], "user", f"copy{copy.number}")
    return table.set_column(table.schema.get_field_index("key"), "key", renamed)
