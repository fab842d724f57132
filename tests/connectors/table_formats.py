"""Delta and Iceberg tables in a temporary folder, as the tests of their sinks read and change them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from penstock.connectors.delta import DeltaSink
from penstock.connectors.iceberg import IcebergSink
from penstock.connectors.staged.staged_sink import StagedSink
from penstock.model.ids import StageId, SubtaskId
from penstock.model.sink import SinkContext
from penstock.model.snapshot import Committable
from penstock.model.types import TypeInformation
from penstock.storage.memory import MemoryStorage

JOB = "0123456789abcdef0123456789abcdef"


class TableFormat(ABC):
    """One table, by one format."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def sink(self, **options: Any) -> StagedSink: ...
    @abstractmethod
    def read(self) -> pa.Table: ...
    @abstractmethod
    def append(self, rows: pa.Table) -> None:
        """As another writer, which makes the table if it is missing."""

    @abstractmethod
    def commit_count(self) -> int: ...
    @abstractmethod
    def file_count(self) -> int: ...
    @abstractmethod
    def forget_history(self) -> None:
        """Remove everything that readers of the newest rows do not need."""

    def rows(self) -> list[dict[str, Any]]:
        """In the order of their first column."""
        found = self.read()
        return [] if found.num_rows == 0 else list(found.sort_by(found.column_names[0]).to_pylist())


class Delta(TableFormat):
    @property
    def path(self) -> str:
        return str(self.folder / "table")

    def sink(self, **options: Any) -> DeltaSink:
        return DeltaSink(self.path, **options)

    def read(self) -> pa.Table:
        return DeltaTable(self.path).to_pyarrow_table()

    def append(self, rows: pa.Table) -> None:
        write_deltalake(self.path, rows, mode="append")

    def commit_count(self) -> int:
        return sum(entry["operation"] == "WRITE" for entry in DeltaTable(self.path).history())

    def file_count(self) -> int:
        return len(DeltaTable(self.path).file_uris())

    def forget_history(self) -> None:
        table = DeltaTable(self.path)
        table.alter.set_table_properties({"delta.logRetentionDuration": "interval 0 days"})
        table = DeltaTable(self.path)
        table.create_checkpoint()
        for entry in (self.folder / "table" / "_delta_log").glob("*.json"):
            entry.unlink()  # a checkpoint replaces them


class Iceberg(TableFormat):
    NAME = "db.table"

    @property
    def properties(self) -> dict[str, str]:
        return {"type": "sql", "uri": f"sqlite:///{self.folder}/catalog.db", "warehouse": f"file://{self.folder}/w"}

    def sink(self, **options: Any) -> IcebergSink:
        return IcebergSink(self.NAME, "test", self.properties, **options)

    def table(self) -> Table:
        return load_catalog("test", **self.properties).load_table(self.NAME)

    def read(self) -> pa.Table:
        return self.table().scan().to_arrow()

    def append(self, rows: pa.Table) -> None:
        catalog = load_catalog("test", **self.properties)
        catalog.create_namespace_if_not_exists("db")
        catalog.create_table_if_not_exists(self.NAME, rows.schema).append(rows)

    def commit_count(self) -> int:
        return len(self.table().snapshots())

    def file_count(self) -> int:
        return len(list(self.table().scan().plan_files()))

    def forget_history(self) -> None:
        table = self.table()
        newest = table.current_snapshot()
        assert newest is not None
        old = [snapshot.snapshot_id for snapshot in table.snapshots() if snapshot.snapshot_id != newest.snapshot_id]
        table.maintenance.expire_snapshots().by_ids(old).commit()


FORMATS: dict[str, Callable[[Path], TableFormat]] = {"delta": Delta, "iceberg": Iceberg}


def staged(
    sink: StagedSink,
    rows: Sequence[Any],
    record_type: TypeInformation,
    at: tuple[int, int] = (1, 1),
    storage: MemoryStorage | None = None,
) -> list[Committable]:
    """What two subtasks pre-commit for these rows, at an attempt and epoch."""
    attempt, epoch = at
    found = []
    for index in range(2):
        who = SinkContext(JOB, attempt, "out", SubtaskId(StageId("s1"), index), record_type, storage)
        writer = sink.open(who)
        writer.begin_epoch()
        writer.write(list(rows[index::2]))
        found += [Committable("out", who.subtask, epoch, name, data) for name, data in writer.pre_commit()]
    return found
