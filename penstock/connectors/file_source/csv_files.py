"""CSV files as Arrow columns, with the results of Spark's reader in its mode FAILFAST.

pyarrow divides a block of lines without quotes into fields; lines with quotes are divided one by one. A field without
text is null. Numbers are converted with Spark's rules; a text that these do not cover is an error, never another value.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from penstock.connectors.file_source.file_parts import FilePart
from penstock.connectors.file_source.text_blocks import read_blocks
from penstock.errors import UnsupportedValueError
from penstock.model.options.execution_options import SOURCE_PACKED
from penstock.model.readable_values import shortened

BLANK = bytes(range(0x21))
"""Bytes that make no text: a line of nothing else is passed over."""
INTEGER = r"^[+-]?[0-9]+$"
DECIMAL = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_FIELD = re.compile(r'(?:"((?:[^"]|"")*)"|([^",][^,]*|))(,|$)')
_SPECIAL = {
    "NaN": float("nan"),
    "Inf": float("inf"),
    "-Inf": float("-inf"),
    "Infinity": float("inf"),
    "+Infinity": float("inf"),
    "-Infinity": float("-inf"),
}
_BITS = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}


@dataclass(frozen=True)
class CsvColumns:
    """What a file has in each line."""

    columns: pa.Schema
    header: bool
    """Whether its first line has the names of the columns, which do not count."""


def read_csv(part: FilePart, wanted: CsvColumns) -> Iterator[pa.RecordBatch]:
    """The rows of a CSV file, or of a range of its bytes."""
    skips_line = wanted.header and not part.start
    for block in read_blocks(part):
        lines = _without_blank_lines(block)
        if skips_line and lines:
            lines, skips_line = lines[lines.index(b"\n") + 1 :], False
        if lines:
            yield _Block(part.path, wanted.columns).read(lines)


def _without_blank_lines(block: bytes) -> bytes:
    data = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(data == ord("\n"))
    begins = np.concatenate(([0], ends[:-1] + 1))
    if np.all(data[begins] > 0x20):
        return block
    return b"".join(line + b"\n" for line in block.split(b"\n") if line.strip(BLANK))


class _Block:
    """Reads lines of one file."""

    def __init__(self, path: str, columns: pa.Schema) -> None:
        self._path = path
        self._columns = columns

    def read(self, lines: bytes) -> pa.RecordBatch:
        texts = self._divided_one_by_one(lines) if b'"' in lines else self._divided(lines)
        arrays = [self._converted(field, text) for field, text in zip(self._columns, texts, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self._columns)

    def _divided(self, lines: bytes) -> list[pa.Array]:
        names = [str(index) for index in range(len(self._columns))]
        try:
            table = pa_csv.read_csv(
                pa.BufferReader(lines),
                pa_csv.ReadOptions(use_threads=False, column_names=names, block_size=len(lines) + 1),
                pa_csv.ParseOptions(quote_char=False, double_quote=False, ignore_empty_lines=False),
                pa_csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()), null_values=[""], strings_can_be_null=True
                ),
            )
        except pa.ArrowInvalid as error:
            raise self._error(str(error)) from None
        return [column.combine_chunks() for column in table.columns]

    def _divided_one_by_one(self, lines: bytes) -> list[pa.Array]:
        try:
            rows = [self._fields(line) for line in lines.decode("utf-8").split("\n")[:-1]]
        except UnicodeDecodeError as error:
            raise self._error(str(error)) from None
        return [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]

    def _fields(self, line: str) -> list[str | None]:
        fields: list[str | None] = []
        at = 0
        while True:
            found = _FIELD.match(line, at)
            if found is None:
                raise self._error(f"a quote is not at the edge of its field: {shortened(line, 200)}")
            quoted, plain, comma = found.groups()
            text = plain if quoted is None else quoted.replace('""', '"')
            fields.append(text or None)
            at = found.end()
            if not comma:
                break
        if len(fields) != len(self._columns):
            raise self._error(f"{len(fields)} fields instead of {len(self._columns)}: {shortened(line, 200)}")
        return fields

    def _converted(self, field: pa.Field, texts: pa.Array) -> pa.Array:
        if field.type == pa.string():
            return texts
        pattern = DECIMAL if field.type == pa.float64() else INTEGER
        if field.type != pa.bool_() and pc.all(pc.match_substring_regex(texts, pattern)).as_py() is not False:
            try:
                return texts.cast(field.type)
            except pa.ArrowInvalid:
                pass  # a plus sign, or a number that is too large: one by one
        convert = _reader(field.type)
        try:
            return pa.array([None if text is None else convert(text) for text in texts.to_pylist()], field.type)
        except (ValueError, OverflowError) as error:
            raise self._error(f"column {field.name!r}: {error}") from None

    def _error(self, problem: str) -> UnsupportedValueError:
        return UnsupportedValueError(
            f"a line of the file {self._path!r} does not have the declared columns: {problem}; correct the file or the "
            f"schema. If Spark can read it, set {SOURCE_PACKED.key}: never"
        )


def _reader(kind: pa.DataType) -> Callable[[str], Any]:
    """A function from a text to the value of a column."""
    if kind == pa.float64():
        return _as_double
    if kind == pa.bool_():
        return _as_boolean
    limit = 1 << (_BITS[kind] - 1)

    def as_integer(text: str) -> int:
        if re.match(INTEGER, text) is None or not -limit <= int(text) < limit:
            raise ValueError(f"{shortened(text, 40)} is not an integer of {_BITS[kind]} bits")
        return int(text)

    return as_integer


def _as_double(text: str) -> float:
    if text in _SPECIAL:
        return _SPECIAL[text]
    if re.match(DECIMAL, text) is None:
        raise ValueError(f"{shortened(text, 40)} is not a number")
    return float(text)


def _as_boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{shortened(text, 40)} is not true or false")
    return text.lower() == "true"
