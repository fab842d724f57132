"""Records of a stream as Arrow columns: a row type is one column per field, any other type one column `value`."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock.codec.columns import decode_column, encode_column
from penstock.codec.record_rows import make_records, transpose
from penstock.errors import UnsupportedValueError
from penstock.model.ddl import arrow_to_ddl, quote_name
from penstock.model.type_information import TypeInformation

VALUE_COLUMN = "value"


class RowCodec:
    """Turns batches of records of one type into Arrow columns and back."""

    def __init__(self, type_info: TypeInformation) -> None:
        self.type_info = type_info
        self.is_row = type_info.names is not None
        self.types = type_info.children if self.is_row else (type_info,)
        names = type_info.names if type_info.names is not None else (VALUE_COLUMN,)
        self.fields: list[tuple[str, pa.DataType]] = [
            (name, field.arrow) for name, field in zip(names, self.types, strict=True)
        ]

    @property
    def ddl(self) -> str:
        """The columns as Spark DDL."""
        return fields_ddl(self.fields)

    def decode_batch(self, columns: Sequence[pa.Array]) -> list[Any]:
        """The records of one batch, in order; `columns` are those of `fields`."""
        return self.make_records(self.decode_columns(columns))

    def decode_columns(self, columns: Sequence[pa.Array]) -> list[list[Any]]:
        """The values of one batch, field by field."""
        if len(columns) != len(self.types):
            expected = len(self.types)
            raise UnsupportedValueError(
                f"{len(columns)} columns for records of {self.type_info.text}; expected {expected}"
            )
        return [decode_column(column, field) for column, field in zip(columns, self.types, strict=True)]

    def make_records(self, fields: list[list[Any]]) -> list[Any]:
        """Records of the values of their fields."""
        return make_records(fields, self.type_info, 0) if self.is_row else fields[0]

    def encode(self, records: Sequence[Any]) -> list[pa.Array]:
        """The columns of a batch of records; a record that does not fit is an UnsupportedValueError."""
        columns = transpose(records, self.type_info) if self.is_row else [records]
        return [encode_column(column, field) for column, field in zip(columns, self.types, strict=True)]


def fields_ddl(fields: Sequence[tuple[str, pa.DataType]]) -> str:
    """Named Arrow types as a Spark DDL field list."""
    return ", ".join(f"{quote_name(name)} {arrow_to_ddl(arrow)}" for name, arrow in fields)
