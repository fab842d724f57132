"""The sink of Delta Lake tables: one commit of the table per checkpoint (features Q5, Q8; PROTOCOL R21, R28).

The marker of a checkpoint is an application transaction of the Delta log: its id is the output's owner, its version
the output's marker. Delta refuses the second of two commits with one id on one version of the table.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from penstock.connectors.record_columns import columns_of
from penstock.connectors.staged.staged_sink import StagedOutput, StagedSink
from penstock.connectors.staged.staged_writer import ColumnEncoder
from penstock.connectors.table.table_options import Options, public_options
from penstock.connectors.table.table_schema import record_schema
from penstock.errors import ArgumentValueError, UsageError
from penstock.model.sink import SinkContext
from penstock.model.type_information import TypeInformation
from penstock.storage.address import HDFS, parse_address

_FROM_ENVIRONMENT = "set it in the environment of the driver, as AWS_SECRET_ACCESS_KEY or AZURE_STORAGE_ACCOUNT_KEY"


@dataclass(frozen=True)
class DeltaSink(StagedSink):
    """Rows as a Delta Lake table, each once. A reader of the table sees a whole checkpoint or nothing of it.

    A missing table is created with the first rows. Columns that are new in the record type are added to it.

    >>> DeltaSink("/data/orders", partition_by=["country"]).where
    "the Delta table '/data/orders'"
    """

    path: str | os.PathLike[str]
    """A folder, or an address such as `s3://bucket/orders`."""
    partition_by: Sequence[str] = ()
    """Columns. An existing table must be partitioned by them; if empty, it may have any partitions."""
    target_file_size: int | None = None
    """Bytes at which a file ends within a checkpoint; None: the table's setting, or 100 MB."""
    storage_options: Mapping[str, str] | Options = field(default_factory=dict)
    """Options of the object store such as `aws_region`. Secrets are taken from the environment."""
    table_properties: Mapping[str, str] | Options = field(default_factory=dict)
    """Properties of the table if the sink creates it; for example `{"delta.appendOnly": "true"}`."""

    def __post_init__(self) -> None:
        place = parse_address(os.fspath(self.path))
        if not isinstance(place, Path) and place.kind == HDFS:
            raise UsageError(f"DeltaSink cannot write to {place}: use a mounted folder or an object store")
        if isinstance(self.partition_by, str) or not all(isinstance(name, str) for name in self.partition_by):
            raise ArgumentValueError(f"partition_by is a list of column names, not {self.partition_by!r}")
        if self.target_file_size is not None and self.target_file_size <= 0:
            raise ArgumentValueError(f"target_file_size is a number of bytes above 0, not {self.target_file_size!r}")
        options = public_options(self.storage_options, "storage_options", _FROM_ENVIRONMENT)
        properties = public_options(self.table_properties, "table_properties", "it is stored with the table too")
        for name, value in {
            "path": os.path.abspath(place) if isinstance(place, Path) else str(place),
            "partition_by": tuple(self.partition_by),
            "storage_options": options,
            "table_properties": properties,
        }.items():
            object.__setattr__(self, name, value)

    @property
    def where(self) -> str:
        """The table, for messages."""
        return f"the Delta table {self.path!r}"

    def check(self, record_type: TypeInformation) -> None:
        """Raise unless the table takes these records, or can be made for them. Changes nothing."""
        schema = record_schema(record_type, "a Delta table")
        from penstock.connectors.delta.delta_log import check

        check(self, schema)

    def encoder(self, context: SinkContext) -> ColumnEncoder:
        return ColumnEncoder(columns_of(context.record_type, "a Delta table"))

    def publish(self, output: StagedOutput) -> None:
        from penstock.connectors.delta.delta_log import publish

        publish(self, output)
