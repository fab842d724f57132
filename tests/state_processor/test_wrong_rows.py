"""Rows that no state can have, as the tasks of a savepoint writer refuse them; one of them on Spark: tests/spark."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.common import Types
from penstock.errors import StateAccessError, UsageError
from penstock.model.key_groups import spark_hash
from penstock.model.snapshot import StateTableInfo
from penstock.model.types import TypeInformation
from penstock.spark.pipe import SUBTASK
from penstock.spark.state_writer import Target, WriteKeyed
from penstock.state.format.keyed_parquet import KEY_COLUMN, KEY_GROUP_COLUMN, parquet_schema
from penstock.state.format.table_rows import HASH_COLUMN, MAP_KEY_COLUMN, VALUE_COLUMN

MAX_PARALLELISM = 16
Row = tuple[Any, ...]


def write(folder: Path, key_type: TypeInformation, rows: list[Row], kind: str = "value") -> list[str]:
    """What a task writes for rows of a key, for a map a map key, and a value."""
    map_key = Types.STRING().text if kind == "map" else None
    info = StateTableInfo("op", "s", kind, [key_type.text], Types.LONG().text, map_key)
    hashes = [0 if row[0] is None else spark_hash([row[0]], [key_type]) for row in rows]
    columns: dict[str, Callable[[], list[Any]]] = {
        SUBTASK: lambda: [0] * len(rows),
        KEY_GROUP_COLUMN: lambda: [value % MAX_PARALLELISM for value in hashes],
        HASH_COLUMN: lambda: hashes,
        KEY_COLUMN: lambda: [row[0] for row in rows],
        MAP_KEY_COLUMN: lambda: [row[1] for row in rows],
        VALUE_COLUMN: lambda: [row[-1] for row in rows],
    }
    schema = pa.schema([(SUBTASK, pa.int32()), *parquet_schema(info)])
    batch = pa.RecordBatch.from_pydict({name: columns[name]() for name in schema.names}, schema)
    task = WriteKeyed(info, 0, Target(str(folder), "s0", 1, MAX_PARALLELISM))
    return [handle.column("file")[0].as_py() for handle in task(iter([batch]))]


def test_right_rows_are_written(tmp_path: Path) -> None:
    assert len(write(tmp_path, Types.STRING(), [("a", 1), ("b", 2)])) == 1
    assert len(write(tmp_path, Types.STRING(), [("a", "x", 1), ("a", "y", None)], "map")) == 1


@pytest.mark.parametrize(
    ("key_type", "rows", "kind", "message"),
    [
        (Types.STRING(), [("a", 1), ("b", 2), ("a", 3)], "value", "the key 'a' twice"),
        (Types.DOUBLE(), [(0.0, 1), (-0.0, 2)], "value", "the key 0.0 twice"),
        (Types.STRING(), [(None, 1)], "value", "a null key"),
        (Types.DOUBLE(), [(float("nan"), 1)], "value", "the key NaN"),
        (Types.STRING(), [("a", None)], "value", "a null value for the key 'a'"),
        (Types.STRING(), [("a", "x", 1), ("a", "x", 2)], "map", "twice"),
        (Types.STRING(), [("a", None, 1)], "map", "a null map key"),
    ],
)
def test_wrong_rows_are_refused_by_name(
    tmp_path: Path, key_type: TypeInformation, rows: list[Row], kind: str, message: str
) -> None:
    with pytest.raises((UsageError, StateAccessError), match=message):
        write(tmp_path, key_type, rows, kind)
    assert list(tmp_path.iterdir()) == []
