"""Exports a state of a snapshot to one file, row group by row group."""

import csv
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.checkpoint.snapshot.readable_state import ReadableState
from penstock.control.inspect.state_rows import RowSelection, plain_rows
from penstock.errors import PathNotFoundError, UsageError
from penstock.model.ids import new_nonce

FORMATS = ("parquet", "csv", "json")


def export(selection: RowSelection, target: Path) -> int:
    """Write the rows to a new file in the format of its extension; returns their number.

    The file appears when it is complete. An existing file is never overwritten.
    """
    form = target.suffix.lstrip(".").lower()
    form = "json" if form == "jsonl" else form
    if form not in FORMATS:
        raise UsageError(f"--to {str(target)!r} does not end in .parquet, .csv or .json")
    if target.exists():
        raise UsageError(f"{str(target)!r} already exists; remove it, or choose another name")
    if not target.parent.is_dir():
        raise PathNotFoundError(f"there is no folder {str(target.parent)!r}")
    hidden = target.with_name(f".{target.name}.{new_nonce()}")
    write = {"parquet": _write_parquet, "csv": _write_csv, "json": _write_json}[form]
    try:
        rows = write(selection.tables(), selection.readable, hidden)
        os.link(hidden, target)
    except FileExistsError as error:
        raise UsageError(f"{str(target)!r} was created meanwhile; choose another name") from error
    finally:
        hidden.unlink(missing_ok=True)
    return rows


def _write_parquet(tables: Iterator[pa.Table], selected: ReadableState, path: Path) -> int:
    from pyarrow.parquet import ParquetWriter  # it takes long, and other commands need none

    rows = 0
    with ParquetWriter(path, selected.schema, compression="zstd") as writer:
        for table in tables:
            writer.write_table(table)
            rows += len(table)
    return rows


def _write_json(tables: Iterator[pa.Table], selected: ReadableState, path: Path) -> int:
    """One document per line."""
    rows = 0
    with path.open("w", encoding="utf-8", errors="backslashreplace") as file:
        for table in tables:
            for row in plain_rows(table, selected):
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
            rows += len(table)
    return rows


def _write_csv(tables: Iterator[pa.Table], selected: ReadableState, path: Path) -> int:
    """Lists, rows and untyped values are JSON inside their cells."""
    rows = 0
    with path.open("w", encoding="utf-8", newline="", errors="backslashreplace") as file:
        writer = csv.writer(file)
        writer.writerow(selected.schema.names)
        for table in tables:
            writer.writerows([_cell(value) for value in row.values()] for row in plain_rows(table, selected))
            rows += len(table)
    return rows


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value
