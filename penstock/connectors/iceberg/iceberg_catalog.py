"""Reads and writes Iceberg tables with PyIceberg. The only module that imports it; its errors are translated here."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.connectors.staged.staged_sink import StagedOutput
from penstock.connectors.table.published_rows import PublishedRows
from penstock.connectors.table.table_commit import commit_once
from penstock.connectors.table.table_schema import (
    Evolution,
    evolve,
    plain_schema,
    require_columns,
    schema_text,
    with_leaves,
)
from penstock.errors import (
    ConnectorUnavailableError,
    PenstockError,
    TypeMismatchError,
    UsageError,
)
from penstock.storage.address import require_folder

try:
    from pyiceberg.catalog import Catalog, load_catalog
    from pyiceberg.exceptions import CommitFailedException, NoSuchNamespaceError, NoSuchTableError
    from pyiceberg.table import Table
    from pyiceberg.transforms import parse_transform
except ModuleNotFoundError as error:
    raise UsageError("IcebergSink needs PyIceberg: pip install 'penstock[iceberg]'") from error

if TYPE_CHECKING:
    from penstock.connectors.iceberg.iceberg_sink import IcebergSink

MARKER = "penstock.marker."
"""Prefix of the table property that holds an owner's marker; the owner's name follows."""
SUMMARY_OWNER, SUMMARY_MARKER = "penstock.owner", "penstock.marker"
_NO_RETRY = {"commit.retry.num-retries": "0"}
_NEW_TABLE = {
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
}
"""A table that gets a commit per checkpoint would otherwise collect small manifests and old metadata files."""


def check(sink: "IcebergSink", schema: pa.Schema) -> None:
    """Raise unless rows with this schema can be written. Changes nothing."""
    schema = _iceberg_schema(schema)
    with _translated(sink):
        catalog = _catalog(sink)
        table = _load(catalog, sink)
        if table is None:
            require_columns([field.column for field in sink.partition_fields], schema, sink.where)
            _require_local_folder(sink, catalog.properties.get("warehouse", ""))
        else:
            _require_local_folder(sink, table.location())
            _require_partitions(sink, table)
            evolve(_schema(table), schema, sink.where, widens=True)


def publish(sink: "IcebergSink", output: StagedOutput) -> None:
    """Append the rows in one snapshot, unless the table's marker is already as high."""
    with _translated(sink):
        catalog = _catalog(sink)
        commit_once(sink.where, partial(_is_published, catalog, sink, output), partial(_append, catalog, sink, output))


def _is_published(catalog: Catalog, sink: "IcebergSink", output: StagedOutput) -> bool:
    table = _load(catalog, sink)
    return table is not None and output.is_covered_by(_marker(table, output))


def _append(catalog: Catalog, sink: "IcebergSink", output: StagedOutput) -> bool:
    """Append the rows. Returns False if another commit came first: then the marker must be read again."""
    rows = PublishedRows(output)
    schema = _iceberg_schema(rows.schema)
    table = _load(catalog, sink) or _create(catalog, sink, schema)
    if table is None:
        return False
    if output.is_covered_by(_marker(table, output)):  # in the snapshot on which the commit is based
        return True
    _require_partitions(sink, table)
    evolution = evolve(_schema(table), schema, sink.where, widens=True)
    _set_locally(table, _NO_RETRY | _file_size(sink))
    try:
        _commit(table, rows, evolution, output, sink.where)
    except CommitFailedException:
        return False
    except Exception as error:
        if rows.error is not None:
            raise rows.error from error
        raise
    return True


def _commit(table: Table, rows: PublishedRows, evolution: Evolution, output: StagedOutput, where: str) -> None:
    reader = rows.reader(evolution.schema, where)
    with table.transaction() as transaction:
        if evolution.changes:
            with transaction.update_schema() as update:
                update.union_by_name(pa.schema([*evolution.added, *evolution.widened]))
        transaction.set_properties({f"{MARKER}{output.owner}": str(output.marker)})
        transaction.append(
            reader if table.spec().is_unpartitioned() else reader.read_all(),  # PyIceberg partitions only whole tables
            snapshot_properties={SUMMARY_OWNER: output.owner, SUMMARY_MARKER: str(output.marker)},
        )


def _catalog(sink: "IcebergSink") -> Catalog:
    return load_catalog(sink.catalog, **dict(sink.catalog_properties))


def _load(catalog: Catalog, sink: "IcebergSink") -> Table | None:
    try:
        return catalog.load_table(sink.table)
    except (NoSuchTableError, NoSuchNamespaceError):
        return None


def _create(catalog: Catalog, sink: "IcebergSink", schema: pa.Schema) -> Table | None:
    """Create an empty table; None if another writer has created it."""
    fields = sink.partition_fields
    require_columns([field.column for field in fields], schema, sink.where)
    try:
        _create_namespace(catalog, sink)
        transaction = catalog.create_table_transaction(
            sink.table, schema, properties=_NEW_TABLE | _file_size(sink) | dict(sink.table_properties)
        )
        if fields:
            with transaction.update_spec() as update:
                for field in fields:
                    update.add_field(field.column, parse_transform(field.transform), field.name)
        transaction.commit_transaction()
    except Exception:
        if _load(catalog, sink) is None:
            raise
        return None
    return _load(catalog, sink)


def _create_namespace(catalog: Catalog, sink: "IcebergSink") -> None:
    namespace = Catalog.namespace_from(sink.table)
    try:
        if not catalog.namespace_exists(namespace):
            catalog.create_namespace_if_not_exists(namespace)
    except Exception:
        if not catalog.namespace_exists(namespace):  # not even by another writer
            raise


def _marker(table: Table, output: StagedOutput) -> int:
    """The marker in the table's property, or in its snapshots if a tool has removed the property."""
    markers = [int(table.properties.get(f"{MARKER}{output.owner}", -1))]
    for snapshot in table.snapshots():
        summary = snapshot.summary
        if summary is not None and summary.get(SUMMARY_OWNER) == output.owner:
            markers.append(int(summary.get(SUMMARY_MARKER) or -1))
    return max(markers)


def _set_locally(table: Table, properties: Mapping[str, str]) -> None:
    """Override properties of the table in this process; for everyone else the table stays as it is.

    PyIceberg takes the number of its own retries from there: a retry would append the rows of a checkpoint that another
    process has published in between.
    """
    changed = {**table.metadata.properties, **properties}
    table.metadata = table.metadata.model_copy(update={"properties": changed})


def _file_size(sink: "IcebergSink") -> dict[str, str]:
    return {} if sink.target_file_size is None else {"write.target-file-size-bytes": str(sink.target_file_size)}


def _schema(table: Table) -> pa.Schema:
    return plain_schema(table.schema().as_arrow())


def _iceberg_schema(schema: pa.Schema) -> pa.Schema:
    """The schema in Iceberg's types, which have no integers below 32 bits."""
    small = (pa.int8(), pa.int16())
    return pa.schema(
        [
            pa.field(field.name, with_leaves(field.type, lambda kind: pa.int32() if kind in small else kind))
            for field in schema
        ]
    )


def _require_partitions(sink: "IcebergSink", table: Table) -> None:
    found = [(table.schema().find_column_name(field.source_id), str(field.transform)) for field in table.spec().fields]
    asked = [(field.column, field.transform) for field in sink.partition_fields]
    if asked and found != asked:
        raise TypeMismatchError(
            f"{sink.where} is partitioned by {found}, the sink asks for {asked}; leave partition_by out to write it as "
            f"it is, or use another table (its columns: {schema_text(_schema(table))})"
        )


def _require_local_folder(sink: "IcebergSink", location: str) -> None:
    if location.startswith(("/", "file:")):
        require_folder(location, f"folder of {sink.where},")


@contextmanager
def _translated(sink: "IcebergSink") -> Iterator[None]:
    try:
        yield
    except PenstockError:
        raise
    except Exception as error:  # of PyIceberg, the catalog's driver and the file system
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise ConnectorUnavailableError(f"{sink.where} cannot be read or written: {reason}") from error
