"""Jobs on the tests' Spark session."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from penstock.common import Configuration
from penstock.control.registry import JobRecord, Registry
from penstock.datastream import DataStream, StreamExecutionEnvironment


@dataclass(frozen=True)
class Jobs:
    """Makes environments; nothing of them is left outside `folder`."""

    spark: SparkSession
    folder: Path

    def environment(self, parallelism: int = 2, settings: dict[str, str] | None = None) -> StreamExecutionEnvironment:
        """An environment without checkpoints and without restarts, unless the settings say so."""
        values = {
            "parallelism.default": str(parallelism),
            "execution.checkpointing.dir": str(self.folder / "checkpoints"),
            "penstock.registry.dir": str(self.registry.folder),
            "restart-strategy.type": "none",
            **(settings or {}),
        }
        return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(values), spark=self.spark)

    @property
    def registry(self) -> Registry:
        return Registry(self.folder / "registry")

    def record(self) -> JobRecord:
        """Of the one job that the test has started."""
        (record,) = self.registry.list()
        return record

    def json_stream(self, ddl: str, folder: Path | None = None) -> DataFrame:
        """An unbounded stream of the JSON files in a folder, `in` if none is given."""
        path = folder or self.folder / "in"
        path.mkdir(parents=True, exist_ok=True)
        return self.spark.readStream.schema(ddl).json(str(path))

    def write_json(self, name: str, rows: Iterable[dict[str, Any]], folder: Path | None = None) -> None:
        """A file that appears whole."""
        path = folder or self.folder / "in"
        path.mkdir(parents=True, exist_ok=True)
        hidden = path / f".{name}"
        hidden.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        hidden.rename(path / name)


def collect(stream: DataStream) -> "Counter[Any]":
    """The records of a bounded job, without their order."""
    records = stream.execute_and_collect("test")
    return Counter(records)


def finished_files(folder: Path) -> list[Path]:
    """What a FileSink shows to its readers."""
    return sorted(path for path in folder.glob("*") if not path.name.startswith((".", "_")))


def read_json(folder: Path) -> list[dict[str, Any]]:
    """The rows of a FileSink's finished JSON files."""
    lines: Sequence[str] = [line for path in finished_files(folder) for line in path.read_text("utf-8").splitlines()]
    return [json.loads(line) for line in lines]
