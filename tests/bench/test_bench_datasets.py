"""The events: their shape, their files, and that they are the same every time."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet
import pytest

from bench.datasets import DATASETS, JITTER_MS, START_MS, Dataset, ensure_dataset, generate_events
from bench.errors import BenchUsageError

TINY = Dataset("tiny", rows=800, keys=30, events_per_s=100)


def read_parquet_files(folder: Path) -> list[pa.Table]:
    """Oldest first, as Spark takes them."""
    paths = sorted((folder / "parquet").iterdir(), key=lambda path: path.stat().st_mtime)
    return [pa_parquet.read_table(path) for path in paths]


def test_events_have_the_promised_shape() -> None:
    events = generate_events(TINY)
    assert events.schema == pa.schema({"key": pa.string(), "ts": pa.int64(), "value": pa.float64()})
    assert pc.all(pc.match_substring_regex(events["key"], r"^user-\d{7}$")).as_py()
    assert pc.count_distinct(events["key"]).as_py() == TINY.keys


def test_timestamps_rise_with_a_jitter_of_at_most_five_seconds() -> None:
    for index, ts in enumerate(generate_events(TINY)["ts"].to_pylist()):
        assert 0 <= ts - START_MS - index * 10 <= JITTER_MS


def test_events_are_the_same_every_time() -> None:
    assert generate_events(TINY).equals(generate_events(TINY))


def test_the_oldest_parquet_file_holds_the_first_events(tmp_path: Path) -> None:
    tables = read_parquet_files(ensure_dataset(TINY, tmp_path))
    assert [table.num_rows for table in tables] == [50] * 16
    assert pa.concat_tables(tables).equals(generate_events(TINY))


def test_the_csv_files_hold_alternate_rows(tmp_path: Path) -> None:
    folder = ensure_dataset(TINY, tmp_path)
    options = pa_csv.ReadOptions(column_names=["key", "ts", "value"])
    rows = [pa_csv.read_csv(folder / "csv" / f"part-{n}.csv", options).to_pylist() for n in range(2)]
    interleaved = [row for pair in zip(*rows, strict=True) for row in pair]
    assert interleaved == generate_events(TINY).to_pylist()


def test_a_folder_that_is_there_is_used_as_it_is(tmp_path: Path) -> None:
    TINY.folder(tmp_path).mkdir()
    assert list(ensure_dataset(TINY, tmp_path).iterdir()) == []


def test_a_batch_is_a_whole_number_of_files_and_leaves_one_after_the_warm_up() -> None:
    big = DATASETS["big"]
    assert [big.files_per_trigger(rows) for rows in (250_000, 500_000, 1_000_000)] == [2, 4, 8]
    for rows in (0, 100, 750_000, 2_000_000, 4_000_000):
        with pytest.raises(BenchUsageError, match="250000, 500000, 1000000"):
            big.files_per_trigger(rows)
