"""The events that every engine reads, made once from a fixed seed and kept under `.bench/data`.

The same rows are stored twice: as sixteen Parquet files in time order, two or more of them a micro-batch of engines on
Spark (one would leave a core without input), and as two CSV files that hold alternate rows, one for each process of the
others. A folder that has its final name is complete: it is written under another name and renamed.
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from bench.errors import BenchUsageError

PARQUET_FILES = 16
CSV_FILES = 2
START_MS = 1_700_000_000_000
JITTER_MS = 5_000
FORMAT = 2  # Part of the folder's name: a change of the generator makes new folders.


@dataclass(frozen=True)
class Dataset:
    """How many events over how many keys, and how fast their timestamps rise."""

    name: str
    rows: int
    keys: int
    events_per_s: int

    @property
    def rows_per_file(self) -> int:
        """Rows of one Parquet file."""
        return self.rows // PARQUET_FILES

    @property
    def rows_per_batch(self) -> int:
        """Rows of the smallest micro-batch: a file for each of two cores."""
        return 2 * self.rows_per_file

    def folder(self, root: Path) -> Path:
        """Where the files are, once made."""
        return root / f"{self.name}-v{FORMAT}"

    def files_per_trigger(self, rows_per_batch: int) -> int:
        """How many Parquet files make a micro-batch of so many rows."""
        files, rest = divmod(rows_per_batch, self.rows_per_file)
        if rest or files < 2 or PARQUET_FILES % files or files == PARQUET_FILES:
            fitting = ", ".join(str(self.rows_per_file * n) for n in (2, 4, 8))
            raise BenchUsageError(
                f"data {self.name!r} cannot be read in batches of {rows_per_batch} rows; it fits batches of {fitting}"
            )
        return files


DATASETS = {
    dataset.name: dataset
    for dataset in (
        Dataset("big", rows=2_000_000, keys=100_000, events_per_s=10_000),
        Dataset("mid", rows=200_000, keys=10_000, events_per_s=1_000),
        Dataset("small", rows=200_000, keys=100_000, events_per_s=1_000),
        Dataset("smoke", rows=20_000, keys=1_000, events_per_s=1_000),
        Dataset("keys_1k", rows=2_000_000, keys=1_000, events_per_s=10_000),
        Dataset("keys_100k", rows=2_000_000, keys=100_000, events_per_s=10_000),
        Dataset("keys_1m", rows=2_000_000, keys=1_000_000, events_per_s=10_000),
        Dataset("keys_10m", rows=2_000_000, keys=10_000_000, events_per_s=10_000),
        # Rows are those that a query reads, and keys auctions.
        Dataset("nexmark", rows=2_000_000, keys=130_000, events_per_s=10_000),
        Dataset("nexmark_smoke", rows=20_000, keys=1_300, events_per_s=1_000),
        # A minute of rows that are made while the job runs.
        Dataset("rate_1k", rows=60_000, keys=1_000, events_per_s=1_000),
        Dataset("rate_10k", rows=600_000, keys=10_000, events_per_s=10_000),
        Dataset("rate_50k", rows=3_000_000, keys=10_000, events_per_s=50_000),
        Dataset("rate_smoke", rows=16_000, keys=100, events_per_s=1_000),
    )
}


def ensure_dataset(dataset: Dataset, root: Path) -> Path:
    """The folder with `parquet/` and `csv/`, made now if it is not there."""
    folder = dataset.folder(root)
    if not folder.exists():
        unfinished = folder.with_name(f".{folder.name}.{os.getpid()}")
        shutil.rmtree(unfinished, ignore_errors=True)
        table = generate_events(dataset)
        write_parquet(table, unfinished / "parquet")
        write_csv(table, unfinished / "csv")
        unfinished.rename(folder)
    return folder


def generate_events(dataset: Dataset) -> pa.Table:
    """`key` such as user-0001234, `ts` in epoch millis, `value`: the same rows every time.

    Keys are drawn uniformly; timestamps rise, each late by up to 5 s.
    """
    random = np.random.default_rng([dataset.rows, dataset.keys])
    keys = random.integers(0, dataset.keys, dataset.rows)
    names = pa.array([f"user-{key:07d}" for key in range(dataset.keys)], pa.string())
    rising_ms = np.arange(dataset.rows, dtype=np.int64) * 1000 // dataset.events_per_s
    jitter_ms = random.integers(0, JITTER_MS + 1, dataset.rows)
    cents = random.integers(0, 10_000, dataset.rows)
    return pa.table(
        {
            "key": names.take(pa.array(keys)),
            "ts": pa.array(START_MS + rising_ms + jitter_ms, pa.int64()),
            "value": pa.array(cents / 100.0, pa.float64()),
        }
    )


def write_parquet(table: pa.Table, folder: Path) -> None:
    """Sixteen files of equal size, in time order by name and by modification time."""
    folder.mkdir(parents=True)
    rows = table.num_rows // PARQUET_FILES
    for index in range(PARQUET_FILES):
        path = folder / f"part-{index:05d}.parquet"
        pa_parquet.write_table(table.slice(index * rows, rows), path)
        # Spark's file source takes files in the order of their modification times.
        stamp_s = START_MS // 1000 + index
        os.utime(path, (stamp_s, stamp_s))


def write_csv(table: pa.Table, folder: Path) -> None:
    """Two files without a header; the first holds the even rows, the second the odd ones."""
    folder.mkdir(parents=True)
    options = pa_csv.WriteOptions(include_header=False, quoting_style="none")
    for index in range(CSV_FILES):
        rows = table.take(pa.array(np.arange(index, table.num_rows, CSV_FILES)))
        pa_csv.write_csv(rows, folder / f"part-{index}.csv", options)
