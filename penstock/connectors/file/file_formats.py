"""The formats of part files: text lines, JSON lines, CSV and Parquet.

A part grows by batches of rows and may be truncated after any of them, so its bytes must allow that. Parquet does not:
its rows are spooled as Arrow batches, and converted when the part is complete.

CSV follows RFC 4180 with a header row. Text is always quoted, and an empty field without quotes is null. Times are
ISO 8601, bytes are base64, and lists, maps and nested rows are JSON text.
"""

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from penstock import compat
from penstock.codec.columns import decode_column
from penstock.codec.row_codec import RowCodec
from penstock.connectors.file.json_lines import JsonLines
from penstock.connectors.record_columns import columns_of
from penstock.errors import UnsupportedValueError
from penstock.model.flink_text import flink_text
from penstock.model.type_information import TypeInformation, tuple_of

ROW_GROUP_ROWS = 128 * 1024


@dataclass(frozen=True)
class RecordEncoder:
    """Turns records of one type into the bytes of a part file."""

    encode: Callable[[Sequence[Any]], bytes]
    header: bytes = b""
    """The first bytes of every part."""
    convert: Callable[[BinaryIO, BinaryIO], None] | None = None
    """Converts the bytes into the finished file; None if they are the finished file."""


@dataclass(frozen=True)
class FileFormat:
    """A format by name. Plain data: the encoder is created in the subtask."""

    name: str
    extension: str
    charset: str = "utf-8"

    def encoder(self, record_type: TypeInformation) -> RecordEncoder:
        """An encoder for records of that type; UsageError if the format needs a declared type and has none."""
        if self.name == "text":
            return _text_encoder(self.charset, flink_text(record_type) if compat.is_installed() else str)
        if self.name == "json":
            return RecordEncoder(JsonLines(record_type).encode)
        columns = columns_of(record_type, f"a {self.name} file")
        return _csv_encoder(columns) if self.name == "csv" else _parquet_encoder(columns)


JSON = FileFormat("json", ".json")
CSV = FileFormat("csv", ".csv")
PARQUET = FileFormat("parquet", ".parquet")


def text(charset: str) -> FileFormat:
    """Lines of `str(record)`."""
    return FileFormat("text", ".txt", charset)


def _text_encoder(charset: str, text_of: Callable[[Any], str]) -> RecordEncoder:
    def encode(records: Sequence[Any]) -> bytes:
        try:
            return "".join([f"{text_of(record)}\n" for record in records]).encode(charset)
        except UnicodeEncodeError as error:
            raise UnsupportedValueError(f"a record cannot be encoded in {charset}: {error}; use UTF-8") from error

    return RecordEncoder(encode)


def _parquet_encoder(columns: TypeInformation) -> RecordEncoder:
    codec = RowCodec(columns)
    schema = pa.schema(codec.fields)

    def encode(records: Sequence[Any]) -> bytes:
        batch = pa.RecordBatch.from_arrays(codec.encode(records), schema=schema)
        return bytes(batch.serialize().to_pybytes())

    return RecordEncoder(encode, schema.serialize().to_pybytes(), _spool_to_parquet)


def _spool_to_parquet(source: BinaryIO, target: BinaryIO) -> None:
    with pa.ipc.open_stream(source) as spool, pq.ParquetWriter(target, spool.schema) as writer:
        waiting: list[pa.RecordBatch] = []
        for batch in spool:
            waiting.append(batch)
            if sum(map(len, waiting)) >= ROW_GROUP_ROWS:
                writer.write_table(pa.Table.from_batches(waiting), ROW_GROUP_ROWS)
                waiting = []
        if waiting:
            writer.write_table(pa.Table.from_batches(waiting), ROW_GROUP_ROWS)


def _csv_encoder(columns: TypeInformation) -> RecordEncoder:
    codec = RowCodec(columns)
    names = [name for name, _ in codec.fields]
    writers = [_csv_column(kind) for kind in (columns.children if columns.names is not None else (columns,))]
    options = pa_csv.WriteOptions(include_header=False)

    def encode(records: Sequence[Any]) -> bytes:
        arrays = [write(array) for write, array in zip(writers, codec.encode(records), strict=True)]
        if len(arrays) == 1 and arrays[0].null_count:
            arrays = [arrays[0].cast(pa.string()).fill_null("")]  # an empty line would not count as a row
        sink = pa.BufferOutputStream()
        pa_csv.write_csv(pa.RecordBatch.from_arrays(arrays, names), sink, options)
        return bytes(sink.getvalue().to_pybytes())

    header = io.StringIO()
    csv.writer(header, lineterminator="\n").writerow(names)
    return RecordEncoder(encode, header.getvalue().encode())


def _csv_column(kind: TypeInformation) -> Callable[[pa.Array], pa.Array]:
    """Converts a column of that type to numbers or text, for CSV."""
    if pa.types.is_timestamp(kind.arrow):
        return _iso_8601
    if pa.types.is_nested(kind.arrow) or pa.types.is_binary(kind.arrow) or pa.types.is_duration(kind.arrow):
        lines = JsonLines(tuple_of([kind]))
        return lambda array: _json_texts([(value,) for value in decode_column(array, kind)], lines)
    return lambda array: array


def _iso_8601(array: pa.Array) -> pa.Array:
    local = pc.replace_substring(array.view(pa.timestamp("us")).cast(pa.string()), " ", "T")
    return local if array.type.tz is None else pc.binary_join_element_wise(local, "Z", "")


def _json_texts(singles: list[tuple[Any]], lines: JsonLines) -> pa.Array:
    """The only value of each tuple as JSON; a JSON string, such as base64, is without its quotes."""
    values = [line[1:-1] for line in lines.encode(singles).split(b"\n")[:-1]]
    texts = [
        None if value == b"null" else json.loads(value) if value[:1] == b'"' else value.decode() for value in values
    ]
    return pa.array(texts, pa.string())
