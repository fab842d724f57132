"""Parquet files as columns: widened types, missing and additional columns, row groups, and what is refused."""

from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.connectors.file_source.file_parts import FilePart, whole_file
from penstock.connectors.file_source.parquet_files import divide_parquet, read_parquet
from penstock.errors import UnsupportedValueError

MICROSECONDS = pa.timestamp("us", tz="UTC")


def write(path: Path, columns: dict[str, pa.Array], **options: Any) -> FilePart:
    pq.write_table(pa.table(columns), path, **options)
    return whole_file(str(path))


def rows(part: FilePart, *fields: tuple[str, pa.DataType], batch_rows: int = 1_000) -> list[dict[str, Any]]:
    schema = pa.schema(fields)
    batches = list(read_parquet(part, schema, batch_rows))
    assert all(batch.schema == schema for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [
        (pa.array([1, None, -(2**31)], pa.int32()), pa.int64()),
        (pa.array([1, None, 2**32 - 1], pa.uint32()), pa.int64()),
        (pa.array([1, None, -5], pa.int8()), pa.int16()),
        (pa.array([1.5, None, -0.0], pa.float32()), pa.float64()),
        (pa.array([1, None, -5], pa.int32()), pa.float64()),
        (pa.array(["é", None, ""], pa.large_string()), pa.string()),
        (pa.array(["é", None, "é"]).dictionary_encode(), pa.string()),
        (pa.array(["a", None, ""]), pa.string()),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else str(value),
)
def test_a_column_of_a_smaller_type_is_widened(tmp_path: Path, stored: pa.Array, wanted: pa.DataType) -> None:
    part = write(tmp_path / "a.parquet", {"x": stored})
    assert [row["x"] for row in rows(part, ("x", wanted))] == stored.to_pylist()


@pytest.mark.parametrize("unit", ["ms", "us"])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_timestamps_are_the_same_moments(tmp_path: Path, unit: str, zone: str) -> None:
    moments = [datetime(1969, 12, 31, 23, 59, 59, 123_000, timezone.utc), None]
    part = write(tmp_path / "a.parquet", {"x": pa.array(moments, pa.timestamp(unit, tz=zone))})
    assert [row["x"] for row in rows(part, ("x", MICROSECONDS))] == moments


def test_old_timestamps_of_96_bits_are_read_to_the_microsecond(tmp_path: Path) -> None:
    moments = [datetime(1, 1, 1, 0, 0, 0, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999), None]
    column = pa.array(moments, pa.timestamp("us"))
    part = write(tmp_path / "a.parquet", {"x": column}, use_deprecated_int96_timestamps=True)
    expected = [None if at is None else at.replace(tzinfo=timezone.utc) for at in moments]
    assert [row["x"] for row in rows(part, ("x", MICROSECONDS))] == expected


def test_missing_columns_are_null_and_additional_ones_are_not_read(tmp_path: Path) -> None:
    columns = {"B": pa.array([1, 2]), "c.d": pa.array([3, 4]), "other": pa.array([[1], [2]])}
    part = write(tmp_path / "a.parquet", columns)
    wanted = [("a", pa.string()), ("b", pa.int64()), ("c.d", pa.int64())]
    assert rows(part, *wanted) == [{"a": None, "b": 1, "c.d": 3}, {"a": None, "b": 2, "c.d": 4}]
    assert rows(part, ("a", pa.string()), batch_rows=1) == [{"a": None}, {"a": None}]


def test_row_groups_are_read_alone_and_in_batches(tmp_path: Path) -> None:
    part = write(tmp_path / "a.parquet", {"x": pa.array(range(100))}, row_group_size=10)
    parts = divide_parquet(part, 1)
    assert [(p.start, p.stop) for p in parts] == [(n, n + 1) for n in range(10)]
    assert [row["x"] for row in rows(parts[3], ("x", pa.int64()))] == list(range(30, 40))
    assert sum(p.size_bytes for p in parts) == sum(p.size_bytes for p in divide_parquet(part, 200))
    schema = pa.schema([("x", pa.int64())])
    assert max(batch.num_rows for batch in read_parquet(part, schema, 7)) == 7
    assert [row["x"] for row in rows(part, ("x", pa.int64()))] == list(range(100))


def test_empty_files_and_files_without_rows_give_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").touch()
    assert rows(whole_file(str(tmp_path / "a.parquet")), ("x", pa.int64())) == []
    assert rows(write(tmp_path / "b.parquet", {"x": pa.array([], pa.int64())}), ("x", pa.int64())) == []


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [
        (pa.array([1]), pa.int32()),
        (pa.array([1]), pa.string()),
        (pa.array(["1"]), pa.int64()),
        (pa.array([1], pa.uint64()), pa.int64()),
        (pa.array([[1]]), pa.int64()),
        (pa.array([{"a": 1}]), pa.string()),
        (pa.array([1], pa.timestamp("ns", tz="UTC")), MICROSECONDS),
        (pa.array([1], pa.timestamp("us", tz="UTC")), pa.timestamp("us")),
        (pa.array([date(2026, 1, 1)]), MICROSECONDS),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else str(value),
)
def test_a_type_that_spark_would_read_otherwise_is_refused(
    tmp_path: Path, stored: pa.Array, wanted: pa.DataType
) -> None:
    part = write(tmp_path / "a.parquet", {"x": stored})
    with pytest.raises(UnsupportedValueError, match=r"column 'x' of the file .* is of type .*packed: never"):
        rows(part, ("x", wanted))


def test_two_columns_that_differ_only_in_case_are_refused_if_they_are_read(tmp_path: Path) -> None:
    part = write(tmp_path / "a.parquet", {"x": pa.array([1]), "X": pa.array([2]), "y": pa.array([3])})
    assert rows(part, ("y", pa.int64())) == [{"y": 3}]
    with pytest.raises(UnsupportedValueError, match="'x', 'X', which differ only in case"):
        rows(part, ("x", pa.int64()))


@pytest.mark.parametrize("metadata", [{"org.apache.spark.version": "2.4.8"}, {"org.apache.spark.legacyDateTime": ""}])
def test_dates_of_the_old_calendar_are_left_to_spark(tmp_path: Path, metadata: dict[str, str]) -> None:
    table = pa.table({"at": pa.array([date(2026, 1, 1)]), "x": pa.array([1])}).replace_schema_metadata(metadata)
    pq.write_table(table, tmp_path / "a.parquet")
    part = whole_file(str(tmp_path / "a.parquet"))
    assert rows(part, ("x", pa.int64())) == [{"x": 1}]
    with pytest.raises(UnsupportedValueError, match="calendar of Spark 2"):
        rows(part, ("at", pa.date32()))
