"""The sink of Apache Iceberg tables: one snapshot of the table per checkpoint (features Q5, Q8; PROTOCOL R21, R28).

The marker of a checkpoint is a property of the table, set in the commit that appends the rows: it outlives snapshots of
other writers and the expiry of snapshots. The snapshot's summary has it too.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.connectors.record_columns import columns_of
from penstock.connectors.staged.staged_sink import StagedOutput, StagedSink
from penstock.connectors.staged.staged_writer import ColumnEncoder
from penstock.connectors.table.table_options import Options, public_options
from penstock.connectors.table.table_schema import record_schema
from penstock.errors import ArgumentValueError
from penstock.model.sink import SinkContext
from penstock.model.type_information import TypeInformation

_TIME_UNITS = ("year", "month", "day", "hour")
_SIZED = ("bucket", "truncate")
_CALL = re.compile(r"(?P<name>\w+)\(\s*(?:(?P<size>\d+)\s*,\s*)?(?P<column>[^(),]+?)\s*\)")


@dataclass(frozen=True)
class PartitionField:
    """One field of a partition: a column and the transform of its values."""

    column: str
    transform: str
    """As Iceberg writes it: identity, day, bucket[16], …"""

    @property
    def name(self) -> str:
        """The name of the field in the table's partition specification."""
        return self.column if self.transform == "identity" else f"{self.column}_{self.transform.partition('[')[0]}"

    @staticmethod
    def parse(text: str) -> "PartitionField":
        """Parse a column name, or a call with one.

        >>> PartitionField.parse("country"), PartitionField.parse("bucket(16, id)")
        (PartitionField(column='country', transform='identity'), PartitionField(column='id', transform='bucket[16]'))
        """
        if "(" not in text:
            return PartitionField(text.strip(), "identity")
        call = _CALL.fullmatch(text.strip())
        if call is not None and call["name"] in _TIME_UNITS and call["size"] is None:
            return PartitionField(call["column"], call["name"])
        if call is not None and call["name"] in _SIZED and call["size"] is not None:
            return PartitionField(call["column"], f"{call['name']}[{int(call['size'])}]")
        raise ArgumentValueError(
            f"partition_by has no {text!r}; write a column, year(column), month(column), day(column), hour(column), "
            f"bucket(16, column) or truncate(10, column)"
        )


@dataclass(frozen=True)
class IcebergSink(StagedSink):
    """Rows as an Iceberg table, each once. A reader of the table sees a whole checkpoint or nothing of it.

    A missing table is created with the first rows. Columns that are new in the record type are added to it, and
    numbers are widened.

    >>> IcebergSink("sales.orders", catalog="prod", partition_by=["day(created)"]).where
    "the Iceberg table 'sales.orders' of catalog 'prod'"
    """

    table: str
    """`namespace.table`."""
    catalog: str = "default"
    """The name of a catalog. Its settings may be in `.pyiceberg.yaml` or in variables `PYICEBERG_CATALOG__<NAME>__…`"""
    catalog_properties: Mapping[str, str] | Options = field(default_factory=dict)
    """Settings of the catalog that are not secret: `{"type": "rest", "uri": "https://…"}`."""
    partition_by: Sequence[str] = ()
    """Columns or `day(column)`, `bucket(16, column)`, …; a table that exists must be partitioned like this, or as it
    is if this is empty."""
    target_file_size: int | None = None
    """Bytes of rows in memory, before they are compressed, at which a file ends; None: as the table says, or 512 MB."""
    table_properties: Mapping[str, str] | Options = field(default_factory=dict)
    """Properties of the table if the sink creates it."""

    def __post_init__(self) -> None:
        if "." not in self.table.strip("."):
            raise ArgumentValueError(f"the table of IcebergSink is 'namespace.table', not {self.table!r}")
        if isinstance(self.partition_by, str) or not all(isinstance(text, str) for text in self.partition_by):
            raise ArgumentValueError(f"partition_by is a list of columns, not {self.partition_by!r}")
        if self.target_file_size is not None and self.target_file_size <= 0:
            raise ArgumentValueError(f"target_file_size is a number of bytes above 0, not {self.target_file_size!r}")
        for text in self.partition_by:
            PartitionField.parse(text)
        environment = f"set PYICEBERG_CATALOG__{self.catalog.upper()}__<NAME> in the environment of the driver instead"
        for name, value in {
            "partition_by": tuple(self.partition_by),
            "catalog_properties": public_options(self.catalog_properties, "catalog_properties", environment),
            "table_properties": public_options(self.table_properties, "table_properties", "a table has none"),
        }.items():
            object.__setattr__(self, name, value)

    @property
    def where(self) -> str:
        """The table, for messages."""
        return f"the Iceberg table {self.table!r} of catalog {self.catalog!r}"

    @property
    def partition_fields(self) -> list[PartitionField]:
        """`partition_by`, parsed."""
        return [PartitionField.parse(text) for text in self.partition_by]

    def check(self, record_type: TypeInformation) -> None:
        """Raise unless the table takes these records, or can be made for them. Changes nothing."""
        schema = record_schema(record_type, "an Iceberg table")
        from penstock.connectors.iceberg.iceberg_catalog import check

        check(self, schema)

    def encoder(self, context: SinkContext) -> ColumnEncoder:
        return ColumnEncoder(columns_of(context.record_type, "an Iceberg table"))

    def publish(self, output: StagedOutput) -> None:
        from penstock.connectors.iceberg.iceberg_catalog import publish

        publish(self, output)
