"""The input of a workload for one kind of engine, and the results that are right. Made once, kept under `.bench/data`.

An input is the rows of the dataset, behind copies of them that warm the engine up: with earlier timestamps or other
keys, so that no copy touches the results of another one. A folder that has its final name is complete.
"""

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from bench.datasets import CSV_FILES, PARQUET_FILES, START_MS, Dataset
from bench.workload import Copy, Tables, Workload

FORMAT = 1  # Part of the folder's name: a change of this module or of a generator makes new folders.


class Form(Enum):
    """How an engine reads its input: a folder for each stream."""

    BATCHES = "batches"
    """Parquet files of equal size, oldest first; at the end a row that lets all windows fire, where there are any."""
    LINES = "lines"
    """Two CSV files without a header, which hold alternate rows."""
    HEADED = "headed"
    """CSV files with a header, in the order of their names."""


@dataclass(frozen=True)
class Expected:
    """What a complete and correct run reads and writes. `warmup_rows` are left out of the steady figure."""

    rows: int
    rows_out: int
    warmup_rows: int = 0
    inner_rows: int = 0
    """Results that one step of the workload hands to the next one."""
    closing_rows: int = 0
    """Rows at the end that only let windows fire; not part of `rows`."""


@dataclass(frozen=True)
class Reading:
    """Which rows: so many files of copies, then so many of the dataset. The first `warmup_files` do not count."""

    form: Form
    repeated_files: int
    measured_files: int
    warmup_files: int

    def places(self) -> list[tuple[int, int]]:
        """The files in order: how many times over the file is a copy, and its index in the dataset."""
        copies = -(-self.repeated_files // PARQUET_FILES)
        earlier = [(copy, index) for copy in range(copies, 0, -1) for index in range(PARQUET_FILES)]
        kept = earlier[len(earlier) - self.repeated_files :]
        return [*kept, *((0, index) for index in range(self.measured_files))]


@dataclass(frozen=True)
class Input:
    """A folder with the input, and what is expected of who reads it."""

    folder: Path
    expected: Expected


def ensure_input(workload: Workload, dataset: Dataset, reading: Reading, root: Path) -> Input:
    """The input, made now if it is not there."""
    sizes = f"{reading.repeated_files}-{reading.measured_files}-{reading.warmup_files}"
    folder = root / f"{workload.name}-{dataset.name}-{reading.form.value}-{sizes}-v{FORMAT}"
    if not folder.exists():
        unfinished = folder.with_name(f".{folder.name}.{os.getpid()}")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        expected = write_input(workload, dataset, reading, unfinished)
        (unfinished / "expected.json").write_text(json.dumps(asdict(expected)) + "\n")
        unfinished.rename(folder)
    return Input(folder, Expected(**json.loads((folder / "expected.json").read_text())))


def write_input(workload: Workload, dataset: Dataset, reading: Reading, folder: Path) -> Expected:
    """Write the files and compute what is right."""
    tables = workload.tables(dataset)
    parts = list(cut(workload, tables, dataset, reading))
    closing = workload.closing_rows(tables) if reading.form is Form.BATCHES else {}
    for stream in tables:
        own = [part[stream] for _, part in parts]
        write = {Form.BATCHES: write_batches, Form.LINES: write_lines, Form.HEADED: write_headed}[reading.form]
        write([*own, *([closing[stream]] if stream in closing else [])], folder / stream)
    rows_of_parts = [sum(table.num_rows for table in part.values()) for _, part in parts]
    rows_out = inner_rows = 0
    for copy in dict.fromkeys(copy for copy, _ in parts):
        own_parts = [part for other, part in parts if other == copy]
        together = {stream: pa.concat_tables([part[stream] for part in own_parts]) for stream in tables}
        rows_out += workload.results(together)
        inner_rows += workload.inner_results(together)
    return Expected(
        rows=sum(rows_of_parts),
        rows_out=rows_out,
        warmup_rows=sum(rows_of_parts[: reading.warmup_files]),
        inner_rows=inner_rows,
        closing_rows=len(closing),
    )


def cut(workload: Workload, tables: Tables, dataset: Dataset, reading: Reading) -> Iterator[tuple[int, Tables]]:
    """The rows of each file of each stream, with the number of its copy."""
    for place, (copy, index) in enumerate(reading.places()):
        part = {}
        for stream, table in tables.items():
            size = table.num_rows // PARQUET_FILES
            rows = table.slice(index * size, size)
            part[stream] = workload.copy(rows, Copy(copy, place * size, dataset)) if copy else rows
        yield copy, part


def write_batches(parts: list[pa.Table], folder: Path) -> None:
    """Parquet files, whose modification times rise: Spark's file source takes them in this order."""
    folder.mkdir()
    for number, table in enumerate(parts):
        path = folder / f"part-{number:05d}.parquet"
        pa_parquet.write_table(table, path)
        stamp_s = START_MS // 1000 + number
        os.utime(path, (stamp_s, stamp_s))


def write_lines(parts: list[pa.Table], folder: Path) -> None:
    """Two files; the first holds the even rows of each part, the second the odd ones."""
    folder.mkdir()
    options = pa_csv.WriteOptions(include_header=False, quoting_style="none")
    for index in range(CSV_FILES):
        with pa_csv.CSVWriter(folder / f"part-{index}.csv", parts[0].schema, write_options=options) as file:
            for table in parts:
                file.write_table(table.take(pa.array(np.arange(index, table.num_rows, CSV_FILES))))


def write_headed(parts: list[pa.Table], folder: Path) -> None:
    """A file for each part."""
    folder.mkdir()
    for number, table in enumerate(parts):
        pa_csv.write_csv(table, folder / f"part-{number:05d}.csv", pa_csv.WriteOptions(quoting_style="none"))
