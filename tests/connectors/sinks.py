"""What the tests of the file sink share: sinks, contexts, and the readers of finished files."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from penstock.connectors.file.file_sink import FileSink
from penstock.connectors.file.output_files import RollingPolicy
from penstock.model.ids import StageId, SubtaskId
from penstock.model.sink import SinkContext, SinkWriter
from penstock.model.snapshot import Committable
from penstock.model.types import TypeInformation, resolve_type

JOB = "0123456789abcdef0123456789abcdef"
ROWS = resolve_type("name string, n bigint")
FORMATS = ("json", "csv", "parquet")


def sink_of(folder: Path | str, format_name: str, part_size: int | None = None) -> FileSink:
    """A sink of that format, rolled by size if one is given."""
    if format_name == "parquet":
        builder = FileSink.for_bulk_format(str(folder), "parquet")
    else:
        builder = FileSink.for_row_format(str(folder), format_name)
    if part_size is not None:
        builder.with_rolling_policy(RollingPolicy.default_rolling_policy(part_size))
    return builder.build()


def context(
    attempt: int = 1, subtask: int = 0, sink_uid: str = "out", job: str = JOB, record_type: TypeInformation = ROWS
) -> SinkContext:
    """The context of a writer."""
    return SinkContext(job, attempt, sink_uid, SubtaskId(StageId("s1"), subtask), record_type)


def pre_commit(writer: SinkWriter, who: SinkContext, epoch: int = 1) -> list[Committable]:
    """Pre-commit, and wrap the result as the runtime does."""
    return [
        Committable(who.sink_uid, who.subtask, epoch, transaction, data) for transaction, data in writer.pre_commit()
    ]


def finished(folder: Path) -> list[Path]:
    """The files that a reader sees."""
    return sorted(path for path in folder.iterdir() if not path.name.startswith((".", "_")))


def hidden(folder: Path) -> list[str]:
    """The names of all other files."""
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The rows of one finished file."""
    if path.suffix == ".parquet":
        return list(pq.read_table(path).to_pylist())
    if path.suffix == ".csv":
        return list(pa_csv.read_csv(path).to_pylist())
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def numbers(paths: Sequence[Path]) -> list[int]:
    """The column n of all rows, sorted."""
    return sorted(row["n"] for path in paths for row in rows_of(path))


def records(*values: int) -> list[tuple[str, int]]:
    """Rows with these numbers."""
    return [(f"name {value}", value) for value in values]
