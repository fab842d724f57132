"""JSON lines as Arrow columns, with the results of Spark's reader in its mode FAILFAST.

pyarrow reads a block of lines at once. Where it refuses a block, or where its result might differ from Spark's, the
lines are read one by one, with Spark's rules. What even these do not cover is an error, never another value.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json as pa_json

from penstock.connectors.file_source.file_parts import FilePart
from penstock.connectors.file_source.text_blocks import read_blocks
from penstock.errors import UnsupportedValueError
from penstock.model.options.execution_options import SOURCE_PACKED
from penstock.model.readable_values import shortened

SPACE = " \t\r\n"
_SPECIAL_NUMBERS = (b"NaN", b"Inf", b"INF")
_NUMBER_TEXTS = {
    "NaN": float("nan"),
    "+INF": float("inf"),
    "INF": float("inf"),
    "Infinity": float("inf"),
    "+Infinity": float("inf"),
    "-INF": float("-inf"),
    "-Infinity": float("-inf"),
}
"""Texts that Spark takes for a double."""
_BITS = {pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}


def read_json(part: FilePart, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a file of JSON lines, or of a range of its bytes, in the columns that are wanted."""
    for block in read_blocks(part):
        rows = read_block(block, wanted)
        yield rows if rows is not None else _SlowReader(part.path, wanted).read(block)


def read_block(block: bytes, wanted: pa.Schema) -> pa.RecordBatch | None:
    """The rows of a block of lines; None if they may not be what Spark would read."""
    if not _is_object_per_line(block):
        block = _stripped(block)
        if not block:
            return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in wanted], schema=wanted)
        if not _is_object_per_line(block):
            return None
    if any(text in block for text in _SPECIAL_NUMBERS) or not _is_text(block):
        return None
    try:
        table = pa_json.read_json(
            pa.BufferReader(block),
            pa_json.ReadOptions(use_threads=False, block_size=len(block) + 1),
            pa_json.ParseOptions(explicit_schema=wanted, unexpected_field_behavior="ignore"),
        )
    except pa.ArrowInvalid:
        return None  # it is read line by line
    if table.num_rows != block.count(b"\n"):
        return None
    rows = table.select(wanted.names).combine_chunks().to_batches()[0]
    return None if any(_has_negative_zero(column) for column in rows.columns) else rows


def _is_object_per_line(block: bytes) -> bool:
    """Whether each line begins and ends as an object does. With one row for each line, each is one object."""
    data = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(data == ord("\n"))
    begins = np.concatenate(([0], ends[:-1] + 1))
    return bool(np.all(data[ends - 1] == ord("}")) and np.all(data[begins] == ord("{")))


def _stripped(block: bytes) -> bytes:
    """The block without blank lines, and without spaces around the others."""
    lines = filter(None, (line.strip(SPACE.encode()) for line in block.split(b"\n")))
    return b"".join(line + b"\n" for line in lines)


def _is_text(block: bytes) -> bool:
    if block.isascii():
        return True
    try:
        block.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _has_negative_zero(column: pa.Array) -> bool:
    """In JSON `-0` is the number 0 to Spark, and `-0.0` is not."""
    if column.type != pa.float64():
        return False
    values = column.fill_null(1.0).to_numpy()
    return bool(np.any((values == 0) & np.signbit(values)))


class _SlowReader:
    """Reads lines one by one. Of a name that occurs twice in an object the last value counts."""

    def __init__(self, path: str, wanted: pa.Schema) -> None:
        self._path = path
        self._wanted = wanted
        self._readers: dict[str, Callable[[str, Any], Any]] = {field.name: _reader(field.type) for field in wanted}
        self._decoder = json.JSONDecoder(parse_constant=_no_constant)

    def read(self, block: bytes) -> pa.RecordBatch:
        rows = [self._row(line) for line in block.split(b"\n") if line.strip(SPACE.encode())]
        arrays = [pa.array([row.get(field.name) for row in rows], field.type) for field in self._wanted]
        return pa.RecordBatch.from_arrays(arrays, schema=self._wanted)

    def _row(self, line: bytes) -> dict[str, Any]:
        try:
            return dict(self._fields(line.decode("utf-8")))
        except (ValueError, IndexError, RecursionError) as error:
            raise UnsupportedValueError(
                f"a line of the file {self._path!r} is not an object of the declared columns: {error}: "
                f"{shortened(line.decode('utf-8', 'replace'), 200)}; correct the file or the schema. If Spark can read "
                f"it, set {SOURCE_PACKED.key}: never"
            ) from None

    def _fields(self, text: str) -> Iterator[tuple[str, Any]]:
        """The fields that are wanted. What follows the object is passed over, as Spark does."""
        at = _expect(text, 0, "{")
        if text[_skip(text, at)] == "}":
            return
        while True:
            at = _expect(text, at, '"')
            name, at = json.decoder.scanstring(text, at)  # type: ignore[attr-defined]
            begin = _skip(text, _expect(text, at, ":"))
            value, at = self._decoder.raw_decode(text, begin)
            if name in self._readers:
                yield name, None if value is None else self._converted(name, text[begin:at], value)
            at = _skip(text, at)
            if text[at] == "}":
                return
            at = _expect(text, at, ",")

    def _converted(self, name: str, raw: str, value: Any) -> Any:
        try:
            return self._readers[name](raw, value)
        except (ValueError, OverflowError) as error:
            raise ValueError(f"column {name!r}: {error}") from None


def _skip(text: str, at: int) -> int:
    while text[at] in SPACE:
        at += 1
    return at


def _expect(text: str, at: int, sign: str) -> int:
    at = _skip(text, at)
    if text[at] != sign:
        raise ValueError(f"found {text[at]!r} where {sign!r} was expected")
    return at + 1


def _no_constant(name: str) -> float:
    raise ValueError(f"the number {name} is written without quotes")


def _reader(kind: pa.DataType) -> Callable[[str, Any], Any]:
    """A function from the text of a value, and the value as Python reads it, to the value of a column."""
    if kind == pa.string():
        return _as_string
    if kind == pa.float64():
        return _as_double
    if kind == pa.bool_():
        return _as_boolean
    limit = 1 << (_BITS[kind] - 1)

    def as_integer(raw: str, value: Any) -> int:
        if type(value) is not int or not -limit <= value < limit:
            raise ValueError(f"{shortened(raw, 40)} is not an integer of {_BITS[kind]} bits")
        return value

    return as_integer


def _as_string(raw: str, value: Any) -> str:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")  # half a character becomes a question mark
    if isinstance(value, bool | int | float):
        return raw
    raise ValueError("an object or array where a text was expected")


def _as_double(raw: str, value: Any) -> float:
    if type(value) is int:
        return float(value) if abs(value) < 1 << 1023 else float(raw)
    if type(value) is float:
        return value
    if isinstance(value, str) and value in _NUMBER_TEXTS:
        return _NUMBER_TEXTS[value]
    raise ValueError(f"{shortened(raw, 40)} is not a number")


def _as_boolean(raw: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError(f"{shortened(raw, 40)} is not true or false")
