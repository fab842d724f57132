"""Reads and writes Delta tables with delta-rs. The only module that imports it; its errors are translated here."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.connectors.staged.staged_sink import StagedOutput
from penstock.connectors.table.published_rows import PublishedRows
from penstock.connectors.table.table_commit import commit_once
from penstock.connectors.table.table_schema import evolve, plain_schema, require_columns, schema_text
from penstock.errors import (
    ConnectorUnavailableError,
    PenstockError,
    TypeMismatchError,
    UsageError,
)
from penstock.storage.address import require_folder

try:
    from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
    from deltalake.exceptions import CommitFailedError, TableNotFoundError
except ModuleNotFoundError as error:
    raise UsageError("DeltaSink needs delta-rs: pip install 'penstock[delta]'") from error

if TYPE_CHECKING:
    from penstock.connectors.delta.delta_sink import DeltaSink

PORTION_BYTES = 32 * 1024 * 1024
"""Small batches are joined up to this size: delta-rs distributes batches over threads, and so changes their order."""


def check(sink: "DeltaSink", schema: pa.Schema) -> None:
    """Raise unless rows with this schema can be written. Changes nothing."""
    require_folder(str(sink.path), f"folder of {sink.where},")
    with _translated(sink):
        table = _open(sink)
        if table is None:
            require_columns(sink.partition_by, schema, sink.where)
        else:
            _require_partitions(sink, table)
            evolve(_schema(table), schema, sink.where, widens=False)


def publish(sink: "DeltaSink", output: StagedOutput) -> None:
    """Append the rows in one commit, unless the table's marker is already as high."""
    with _translated(sink):
        commit_once(sink.where, partial(_is_published, sink, output), partial(_append, sink, output))


def _is_published(sink: "DeltaSink", output: StagedOutput) -> bool:
    table = _open(sink)
    return table is not None and output.is_covered_by(_marker(table, output))


def _append(sink: "DeltaSink", output: StagedOutput) -> bool:
    """Append the rows. Returns False if another commit came first: then the marker must be read again."""
    rows = PublishedRows(output)
    table = _open(sink) or _create(sink, rows.schema)
    if table is None:
        return False
    if output.is_covered_by(_marker(table, output)):  # in the version on which the commit is based
        return True
    _require_partitions(sink, table)
    evolution = evolve(_schema(table), rows.schema, sink.where, widens=False)
    try:
        write_deltalake(
            table,
            rows.reader(evolution.schema, sink.where, PORTION_BYTES),
            mode="append",
            schema_mode="merge" if evolution.changes else None,
            target_file_size=sink.target_file_size,
            commit_properties=CommitProperties(app_transactions=[Transaction(output.owner, output.marker)]),
        )
    except CommitFailedError:
        return False
    except Exception as error:
        if rows.error is not None:
            raise rows.error from error
        raise
    return True


def _open(sink: "DeltaSink") -> DeltaTable | None:
    try:
        return DeltaTable(str(sink.path), storage_options=dict(sink.storage_options))
    except TableNotFoundError:
        return None


def _create(sink: "DeltaSink", schema: pa.Schema) -> DeltaTable | None:
    """Create an empty table; None if another writer has created it."""
    require_columns(sink.partition_by, schema, sink.where)
    try:
        return DeltaTable.create(
            str(sink.path),
            schema,
            partition_by=list(sink.partition_by),
            configuration=dict(sink.table_properties),
            storage_options=dict(sink.storage_options),
        )
    except Exception:
        if _open(sink) is not None:
            return None
        raise


def _marker(table: DeltaTable, output: StagedOutput) -> int:
    found = table.transaction_version(output.owner)
    return -1 if found is None else found


def _schema(table: DeltaTable) -> pa.Schema:
    return plain_schema(pa.schema(table.schema().to_arrow()))


def _require_partitions(sink: "DeltaSink", table: DeltaTable) -> None:
    found = tuple(table.metadata().partition_columns)
    if sink.partition_by and found != sink.partition_by:
        raise TypeMismatchError(
            f"{sink.where} is partitioned by {list(found)}, the sink asks for {list(sink.partition_by)}; a table keeps "
            f"its partitions: write partition_by={list(found)} or use another table "
            f"(its columns: {schema_text(_schema(table))})"
        )


@contextmanager
def _translated(sink: "DeltaSink") -> Iterator[None]:
    try:
        yield
    except PenstockError:
        raise
    except Exception as error:  # delta-rs raises DeltaError, OSError and Exception itself
        reason = str(error).strip().partition("\n")[0]
        raise ConnectorUnavailableError(f"{sink.where} cannot be read or written: {reason}") from error
