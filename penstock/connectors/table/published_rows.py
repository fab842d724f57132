"""Staged rows in the columns of a table."""

from collections.abc import Iterator

import pyarrow as pa

from penstock.connectors.staged.staged_sink import StagedOutput
from penstock.errors import UnsupportedValueError


class PublishedRows:
    """The rows of a checkpoint, read once, with every column of the table.

    A library that reads them may wrap an error, so `error` keeps it.
    """

    def __init__(self, output: StagedOutput) -> None:
        self._batches = output.batches()
        self._first = next(self._batches)
        self.error: Exception | None = None

    @property
    def schema(self) -> pa.Schema:
        """The columns as they were staged."""
        return self._first.schema

    def reader(self, schema: pa.Schema, where: str) -> pa.RecordBatchReader:
        """The rows with these columns; those that were not staged are null."""
        return pa.RecordBatchReader.from_batches(schema, self._read(schema, where))

    def _read(self, schema: pa.Schema, where: str) -> Iterator[pa.RecordBatch]:
        try:
            yield _with_columns(self._first, schema, where)
            for batch in self._batches:
                yield _with_columns(batch, schema, where)
        except Exception as error:
            self.error = error
            raise


def _with_columns(batch: pa.RecordBatch, schema: pa.Schema, where: str) -> pa.RecordBatch:
    columns = []
    for field in schema:
        index = batch.schema.get_field_index(field.name)
        column = batch.column(index) if index >= 0 else pa.nulls(batch.num_rows, field.type)
        if column.null_count and not field.nullable:
            raise UnsupportedValueError(f"column {field.name!r} of {where} takes no null, and a record has one")
        columns.append(column if column.type == field.type else column.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
