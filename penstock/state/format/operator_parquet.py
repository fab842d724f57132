"""Operator state as Parquet: the tables of a canonical savepoint, one file for each state and subtask.

Columns: `position`, the place in the subtask's list; `map_key` of broadcast state or `key_group` of raw state by key
group; `value`.
"""

import numpy as np
import pyarrow as pa

from penstock.errors import CheckpointCorruptError
from penstock.model.snapshot import OperatorStateInfo, TableFile
from penstock.state.format.keyed_parquet import damage, open_parquet, require_columns
from penstock.state.operator.operator_file import SealedOperatorState, schema_of, state_table

POSITION_COLUMN = "position"


def operator_parquet_schema(info: OperatorStateInfo) -> pa.Schema:
    """The columns of a table in the file."""
    return pa.schema([pa.field(POSITION_COLUMN, pa.int64(), nullable=False), *schema_of(info)])


def encode_operator_table(state: SealedOperatorState) -> bytes:
    """A Parquet file of one state."""
    from pyarrow.parquet import write_table

    rows = state_table(state)
    positions = pa.array(np.arange(len(rows), dtype=np.int64))
    table = pa.Table.from_arrays([positions, *rows.columns], schema=operator_parquet_schema(state.info))
    sink = pa.BufferOutputStream()
    write_table(table, sink, compression="zstd")
    data: bytes = sink.getvalue().to_pybytes()
    return data


def decode_operator_table(data: bytes, file: TableFile, info: OperatorStateInfo) -> pa.Table:
    """The rows of a file in the form of `operator_file`, in order. Raises CheckpointCorruptError if it is damaged."""
    where = f"Parquet file of {info.mode} state {info.name!r} of operator {info.operator_uid!r}"
    with damage(where):
        reader = open_parquet(data)
        rows = reader.metadata.num_rows
        if rows != file.rows or rows != info.count:  # before any is decoded
            raise CheckpointCorruptError(where, f"{info.count} rows", f"{rows} rows")
        table = require_columns(reader.read(use_threads=False), operator_parquet_schema(info), where)
        table = table.sort_by(POSITION_COLUMN).drop_columns([POSITION_COLUMN])
        table.validate(full=True)
    return table
