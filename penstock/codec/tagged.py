"""The tagged codec: plain Python values without a declared type, as self-describing bytes. Never pickle.

Encodes None, bool, int of any size, float, str, bytes, Decimal, date, time, datetime, timedelta, Instant, tuple, list,
dict and Row, nested up to MAX_DEPTH. `encode` keeps everything that is visible of a value. `encode_key` gives equal
bytes for equal values of equal types: it sorts dictionaries and folds -0.0 into 0.0, equal decimals into one and equal
points in time into UTC; it refuses NaN. Values are: a tag byte, then a fixed number of bytes or a length and bytes.
Changing a byte of this format needs a new tag.
"""

import struct
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias

import numpy as np

from penstock.errors import UnsupportedValueError
from penstock.model.row import Row, make_row
from penstock.model.time import EPOCH, MICROSECOND, NAIVE_EPOCH, Instant

MAX_DEPTH = 64
MAX_NUMBER_BYTES = 65536

_pack_float = struct.Struct(">d").pack
_unpack_float = struct.Struct(">d").unpack_from
_unpack_long = struct.Struct(">q").unpack_from

Encoders: TypeAlias = dict[type, Callable[[Any, int, Any], bytes]]
"""The encoder of each type: one table keeps everything visible, one is canonical."""
Decoder = Callable[[bytes, int, int], tuple[Any, int]]


def encode(value: Any) -> bytes:
    """The bytes of a value; `decode` gives it back with the same types."""
    return _encode(value, 0, _ENCODERS)


def encode_key(value: Any) -> bytes:
    """The canonical bytes of a value: equal for equal values of equal types."""
    return _encode(value, 0, _KEY_ENCODERS)


def decode(data: bytes) -> Any:
    """The value that `encode` or `encode_key` turned into `data`; other bytes are an UnsupportedValueError."""
    try:
        value, end = _DECODERS[data[0]](data, 1, 0)
    except UnsupportedValueError:
        raise
    except (KeyError, IndexError, ValueError, TypeError, OverflowError, struct.error, InvalidOperation) as error:
        raise UnsupportedValueError(f"bytes are not a tagged value: {error!r} in {data[:40]!r}") from error
    if end != len(data):
        raise UnsupportedValueError(f"bytes are not a tagged value: {len(data) - end} bytes after it in {data[:40]!r}")
    return value


def _encode(value: Any, depth: int, table: Encoders) -> bytes:
    encoder = table.get(type(value))
    if encoder is not None:
        return encoder(value, depth, table)
    if isinstance(value, Row):
        return _encode_row(value, depth, table)
    if isinstance(value, (np.number, np.bool_, np.str_)):
        plain = value.item()
        if type(plain) in _ENCODERS:
            return _encode(plain, depth, table)
    kind = type(value)
    name = (
        kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"
    )
    raise UnsupportedValueError(
        f"a value of type {name} has no declared type and is not a plain Python value",
        "convert it to a tuple, list, dict, Row, text, number or date, or declare its type with output_type= (for "
        "records), key_type= or the state descriptor's type",
    )


def _length(count: int) -> bytes:
    """A length as groups of 7 bits, lowest first."""
    if count < 128:
        return _SMALL[count]
    out = bytearray()
    while count > 127:
        out.append(count & 127 | 128)
        count >>= 7
    out.append(count)
    return bytes(out)


_SMALL = [bytes((n,)) for n in range(256)]
_TEXT_HEADS = [b"s" + bytes((n,)) for n in range(128)]
_SMALL_INTS = {n: b"i\x01" + n.to_bytes(1, "big", signed=True) for n in range(-128, 128)}


def _encode_none(value: None, depth: int, table: Encoders) -> bytes:
    return b"N"


def _encode_bool(value: Any, depth: int, table: Encoders) -> bytes:
    return b"T" if value else b"F"


def _encode_int(value: int, depth: int, table: Encoders) -> bytes:
    small = _SMALL_INTS.get(value)
    if small is not None:
        return small
    data = _int_bytes(value)
    return b"i" + _length(len(data)) + data


def _int_bytes(value: int) -> bytes:
    """The shortest two's complement form."""
    size = (value if value >= 0 else ~value).bit_length() // 8 + 1
    if size > MAX_NUMBER_BYTES:
        raise UnsupportedValueError(f"an integer of {size} bytes; at most {MAX_NUMBER_BYTES} are supported")
    return value.to_bytes(size, "big", signed=True)


def _encode_float(value: float, depth: int, table: Encoders) -> bytes:
    return b"f" + _pack_float(value)


def _encode_key_float(value: float, depth: int, table: Encoders) -> bytes:
    if value != value:
        raise UnsupportedValueError("NaN cannot be part of a key: it equals nothing, not even itself")
    return b"f" + _pack_float(value + 0.0)


def _encode_str(value: str, depth: int, table: Encoders) -> bytes:
    try:
        data = value.encode()
    except UnicodeEncodeError:
        data = value.encode("utf-8", "surrogatepass")
    size = len(data)
    return _TEXT_HEADS[size] + data if size < 128 else b"s" + _length(size) + data


def _encode_bytes(value: bytes, depth: int, table: Encoders) -> bytes:
    return b"b" + _length(len(value)) + value


def _encode_decimal(value: Decimal, depth: int, table: Encoders) -> bytes:
    data = str(value).encode("ascii")
    if len(data) > MAX_NUMBER_BYTES:
        raise UnsupportedValueError(f"a Decimal of {len(data)} digits; at most {MAX_NUMBER_BYTES} are taken")
    return b"D" + _length(len(data)) + data


def _encode_key_decimal(value: Decimal, depth: int, table: Encoders) -> bytes:
    if value.is_nan():
        raise UnsupportedValueError("NaN cannot be part of a key: it equals nothing, not even itself")
    return _encode_decimal(_canonical_decimal(value), depth, table)


def _canonical_decimal(value: Decimal) -> Decimal:
    """The one of all equal decimals without trailing zeros, whatever the context's precision."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return value  # infinite
    kept = len(digits)
    while kept > 1 and digits[kept - 1] == 0:
        kept -= 1
    if digits[:kept] == (0,):
        return Decimal(0)
    return Decimal((sign, digits[:kept], exponent + len(digits) - kept))


def _encode_date(value: date, depth: int, table: Encoders) -> bytes:
    return b"d" + value.toordinal().to_bytes(4, "big")


def _encode_time(value: time, depth: int, table: Encoders) -> bytes:
    offset = value.utcoffset()
    if offset is None and value.tzinfo is not None:
        raise UnsupportedValueError("a time whose time zone needs a date; use a datetime, or a time without zone")
    micros = ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    if offset is None:
        return b"t" + micros.to_bytes(8, "big")
    return b"z" + micros.to_bytes(8, "big") + (offset // MICROSECOND).to_bytes(8, "big", signed=True)


def _encode_key_time(value: time, depth: int, table: Encoders) -> bytes:
    if value.tzinfo is not None:
        raise UnsupportedValueError("a time with a time zone cannot be part of a key; use one without zone")
    return _encode_time(value, depth, table)


def _encode_datetime(value: datetime, depth: int, table: Encoders) -> bytes:
    offset = value.utcoffset()
    if offset is None:
        return b"m" + ((value.replace(tzinfo=None) - NAIVE_EPOCH) // MICROSECOND).to_bytes(8, "big", signed=True)
    micros = ((value - EPOCH) // MICROSECOND).to_bytes(8, "big", signed=True)
    if not offset:
        return b"u" + micros
    return b"M" + micros + (offset // MICROSECOND).to_bytes(8, "big", signed=True)


def _encode_key_datetime(value: datetime, depth: int, table: Encoders) -> bytes:
    data = _encode_datetime(value, depth, table)
    if data[:1] != b"M":
        return data
    try:
        value.astimezone(timezone.utc)
    except OverflowError as error:
        raise UnsupportedValueError(f"{value!r} cannot be part of a key: in UTC its year is not 1 to 9999") from error
    return b"u" + data[1:9]


def _encode_timedelta(value: timedelta, depth: int, table: Encoders) -> bytes:
    return b"p" + (value // MICROSECOND).to_bytes(9, "big", signed=True)


def _encode_instant(value: Instant, depth: int, table: Encoders) -> bytes:
    seconds = _int_bytes(value.seconds)
    return b"I" + value.nanos.to_bytes(4, "big") + _length(len(seconds)) + seconds


def _encode_tuple(value: tuple[Any, ...], depth: int, table: Encoders) -> bytes:
    return b"(" + _items(value, depth, table)


def _encode_list(value: list[Any], depth: int, table: Encoders) -> bytes:
    return b"[" + _items(value, depth, table)


def _encode_dict(value: dict[Any, Any], depth: int, table: Encoders) -> bytes:
    return b"{" + _length(len(value)) + b"".join(_entries(value, depth, table))


def _encode_key_dict(value: dict[Any, Any], depth: int, table: Encoders) -> bytes:
    return b"{" + _length(len(value)) + b"".join(sorted(_entries(value, depth, table)))


def _entries(value: dict[Any, Any], depth: int, table: Encoders) -> list[bytes]:
    below = _deeper(depth)
    return [_encode(k, below, table) + _encode(v, below, table) for k, v in value.items()]


def _encode_row(value: Row, depth: int, table: Encoders) -> bytes:
    names = type(value)._fields
    if names is None:
        return b"r" + _items(value, depth, table)
    return b"R" + _items(names, depth, table) + _items(value, depth, table)


def _items(values: tuple[Any, ...] | list[Any], depth: int, table: Encoders) -> bytes:
    below = _deeper(depth)
    get = table.get
    return _length(len(values)) + b"".join([(get(type(v)) or _encode)(v, below, table) for v in values])


def _deeper(depth: int) -> int:
    if depth >= MAX_DEPTH:
        raise UnsupportedValueError(f"a value is nested more than {MAX_DEPTH} deep, or contains itself")
    return depth + 1


_ENCODERS: Encoders = {
    type(None): _encode_none,
    bool: _encode_bool,
    int: _encode_int,
    float: _encode_float,
    str: _encode_str,
    bytes: _encode_bytes,
    Decimal: _encode_decimal,
    date: _encode_date,
    time: _encode_time,
    datetime: _encode_datetime,
    timedelta: _encode_timedelta,
    Instant: _encode_instant,
    tuple: _encode_tuple,
    list: _encode_list,
    dict: _encode_dict,
    Row: _encode_row,
}
_KEY_ENCODERS: Encoders = {
    **_ENCODERS,
    float: _encode_key_float,
    Decimal: _encode_key_decimal,
    time: _encode_key_time,
    datetime: _encode_key_datetime,
    dict: _encode_key_dict,
}


def _read(data: bytes, position: int, size: int) -> tuple[bytes, int]:
    end = position + size
    if end > len(data):
        raise UnsupportedValueError(f"bytes are not a tagged value: cut off at byte {len(data)}")
    return data[position:end], end


def _read_length(data: bytes, position: int) -> tuple[int, int]:
    byte = data[position]
    if byte < 128:
        return byte, position + 1
    result = shift = 0
    while True:
        byte = data[position]
        position += 1
        result |= (byte & 127) << shift
        if byte < 128:
            return result, position
        shift += 7
        if shift > 42:
            raise UnsupportedValueError("bytes are not a tagged value: a length is too large")


def _decode_int(data: bytes, position: int, depth: int) -> tuple[int, int]:
    size, position = _read_length(data, position)
    if size > MAX_NUMBER_BYTES:
        raise UnsupportedValueError(f"bytes are not a tagged value: an integer of {size} bytes")
    part, position = _read(data, position, size)
    return int.from_bytes(part, "big", signed=True), position


def _decode_float(data: bytes, position: int, depth: int) -> tuple[float, int]:
    return _unpack_float(data, position)[0], position + 8


def _decode_str(data: bytes, position: int, depth: int) -> tuple[str, int]:
    size, position = _read_length(data, position)
    part, position = _read(data, position, size)
    try:
        return part.decode(), position
    except UnicodeDecodeError:
        return part.decode("utf-8", "surrogatepass"), position


def _decode_bytes(data: bytes, position: int, depth: int) -> tuple[bytes, int]:
    size, position = _read_length(data, position)
    return _read(data, position, size)


def _decode_decimal(data: bytes, position: int, depth: int) -> tuple[Decimal, int]:
    size, position = _read_length(data, position)
    if size > MAX_NUMBER_BYTES:
        raise UnsupportedValueError(f"bytes are not a tagged value: a Decimal of {size} digits")
    part, position = _read(data, position, size)
    return Decimal(part.decode("ascii")), position


def _decode_date(data: bytes, position: int, depth: int) -> tuple[date, int]:
    part, position = _read(data, position, 4)
    return date.fromordinal(int.from_bytes(part, "big")), position


def _decode_time(data: bytes, position: int, depth: int) -> tuple[time, int]:
    seconds, micros = divmod(_unpack_long(data, position)[0], 1_000_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return time(hour, minute, second, micros), position + 8


def _decode_zoned_time(data: bytes, position: int, depth: int) -> tuple[time, int]:
    value, position = _decode_time(data, position, depth)
    return value.replace(tzinfo=_zone(_unpack_long(data, position)[0])), position + 8


def _zone(offset_us: int) -> timezone:
    return timezone(timedelta(microseconds=offset_us)) if offset_us else timezone.utc


def _decode_naive(data: bytes, position: int, depth: int) -> tuple[datetime, int]:
    return NAIVE_EPOCH + timedelta(microseconds=_unpack_long(data, position)[0]), position + 8


def _decode_utc(data: bytes, position: int, depth: int) -> tuple[datetime, int]:
    return EPOCH + timedelta(microseconds=_unpack_long(data, position)[0]), position + 8


def _decode_zoned(data: bytes, position: int, depth: int) -> tuple[datetime, int]:
    offset_us = _unpack_long(data, position + 8)[0]
    # Local time first: the point itself may lie outside the years that UTC can show.
    local = NAIVE_EPOCH + timedelta(microseconds=_unpack_long(data, position)[0] + offset_us)
    return local.replace(tzinfo=_zone(offset_us)), position + 16


def _decode_timedelta(data: bytes, position: int, depth: int) -> tuple[timedelta, int]:
    part, position = _read(data, position, 9)
    return timedelta(microseconds=int.from_bytes(part, "big", signed=True)), position


def _decode_instant(data: bytes, position: int, depth: int) -> tuple[Instant, int]:
    nanos, position = _read(data, position, 4)
    seconds, position = _decode_int(data, position, depth)
    return Instant(seconds, int.from_bytes(nanos, "big")), position


def _decode_list(data: bytes, position: int, depth: int) -> tuple[list[Any], int]:
    below = _deeper(depth)
    count, position = _read_length(data, position)
    if count > len(data) - position:
        raise UnsupportedValueError(f"bytes are not a tagged value: {count} items in {len(data) - position} bytes")
    values = []
    for _ in range(count):
        value, position = _DECODERS[data[position]](data, position + 1, below)
        values.append(value)
    return values, position


def _decode_tuple(data: bytes, position: int, depth: int) -> tuple[tuple[Any, ...], int]:
    values, position = _decode_list(data, position, depth)
    return tuple(values), position


def _decode_dict(data: bytes, position: int, depth: int) -> tuple[dict[Any, Any], int]:
    below = _deeper(depth)
    count, position = _read_length(data, position)
    if 2 * count > len(data) - position:
        raise UnsupportedValueError(f"bytes are not a tagged value: {count} entries in {len(data) - position} bytes")
    values = {}
    for _ in range(count):
        key, position = _DECODERS[data[position]](data, position + 1, below)
        values[key], position = _DECODERS[data[position]](data, position + 1, below)
    return values, position


def _decode_row(data: bytes, position: int, depth: int) -> tuple[Row, int]:
    names, position = _decode_list(data, position, depth)
    values, position = _decode_list(data, position, depth)
    if len(names) != len(values) or not all(type(name) is str for name in names):
        raise UnsupportedValueError("bytes are not a tagged value: a row whose names and values do not match")
    return make_row(tuple(names), values), position


def _decode_plain_row(data: bytes, position: int, depth: int) -> tuple[Row, int]:
    values, position = _decode_list(data, position, depth)
    return make_row(None, values), position


_DECODERS: dict[int, Decoder] = {
    ord("N"): lambda data, position, depth: (None, position),
    ord("T"): lambda data, position, depth: (True, position),
    ord("F"): lambda data, position, depth: (False, position),
    ord("i"): _decode_int,
    ord("f"): _decode_float,
    ord("s"): _decode_str,
    ord("b"): _decode_bytes,
    ord("D"): _decode_decimal,
    ord("d"): _decode_date,
    ord("t"): _decode_time,
    ord("z"): _decode_zoned_time,
    ord("m"): _decode_naive,
    ord("u"): _decode_utc,
    ord("M"): _decode_zoned,
    ord("p"): _decode_timedelta,
    ord("I"): _decode_instant,
    ord("("): _decode_tuple,
    ord("["): _decode_list,
    ord("{"): _decode_dict,
    ord("R"): _decode_row,
    ord("r"): _decode_plain_row,
}
