"""Staged rows in the columns of a table."""

import itertools
from collections.abc import Iterable, Iterator

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

    def reader(self, schema: pa.Schema, where: str, portion_bytes: int = 0) -> pa.RecordBatchReader:
        """The rows with these columns; those that were not staged are null.

        Batches are joined until they have `portion_bytes`.
        """
        return pa.RecordBatchReader.from_batches(schema, self._read(schema, where, portion_bytes))

    def _read(self, schema: pa.Schema, where: str, portion_bytes: int) -> Iterator[pa.RecordBatch]:
        try:
            for batches in _portions(itertools.chain([self._first], self._batches), portion_bytes):
                yield pa.concat_batches([_with_columns(batch, schema, where) for batch in batches])
        except Exception as error:
            self.error = error
            raise


def _portions(batches: Iterable[pa.RecordBatch], portion_bytes: int) -> Iterator[list[pa.RecordBatch]]:
    portion: list[pa.RecordBatch] = []
    for batch in batches:
        portion.append(batch)
        if sum(each.nbytes for each in portion) >= portion_bytes:
            yield portion
            portion = []
    if portion:
        yield portion


def _with_columns(batch: pa.RecordBatch, schema: pa.Schema, where: str) -> pa.RecordBatch:
    columns = []
    for field in schema:
        index = batch.schema.get_field_index(field.name)
        column = batch.column(index) if index >= 0 else pa.nulls(batch.num_rows, field.type)
        if column.null_count and not field.nullable:
            raise UnsupportedValueError(f"column {field.name!r} of {where} takes no null, and a record has one")
        columns.append(column if column.type == field.type else column.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
