"""Python values to Arrow columns and back, for every declared type.

Timestamps come back as `datetime` in UTC; pyarrow's own conversion of them is forty times slower than the one here.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.codec import tagged
from penstock.codec.declared_values import check_types, misfit
from penstock.codec.pickles import dump_pickle, load_pickle
from penstock.codec.record_rows import make_records, transpose
from penstock.errors import UnsupportedValueError
from penstock.model.time import EPOCH, NAIVE_EPOCH, Instant
from penstock.model.type_information import TypeInformation

_ARROW_ERRORS = (pa.ArrowException, UnicodeError, OverflowError, TypeError, ValueError)


def encode_column(values: Sequence[Any], type_info: TypeInformation) -> pa.Array:
    """The values as one Arrow array of `type_info.arrow`; a value that does not fit is an UnsupportedValueError."""
    special = _ENCODERS.get(type_info.name)
    if special is None:
        check_types(values, type_info)
        special = _encode_plain
    try:
        array = special(values, type_info)
    except UnsupportedValueError:
        raise
    except _ARROW_ERRORS as error:
        raise _misfit(values, type_info, error) from None
    if isinstance(array, pa.ChunkedArray):
        raise UnsupportedValueError(
            f"{len(values)} values of {type_info.text} take more than 2 GiB; use smaller batches"
        )
    return array


def decode_column(array: pa.Array, type_info: TypeInformation) -> list[Any]:
    """The values of an Arrow array, None for null. Large, dictionary and other-zone variants are accepted too."""
    array = cast_column(array, type_info)
    decoder = _DECODERS.get(type_info.name)
    if decoder is not None:
        return decoder(array, type_info)
    values: list[Any] = array.to_pylist()
    return values


def _misfit(values: Sequence[Any], type_info: TypeInformation, error: Exception) -> UnsupportedValueError:
    """The error that names the first value that cannot be encoded alone."""
    special = _ENCODERS.get(type_info.name, _encode_plain)
    for value in values:
        try:
            special([value], type_info)
        except UnsupportedValueError as found:
            return found
        except _ARROW_ERRORS as reason:
            is_overflow = isinstance(reason, OverflowError) or "too large to fit" in str(reason)
            return misfit(value, type_info, "it is too large" if is_overflow else reason)
    return UnsupportedValueError(f"values do not fit the declared type {type_info.text}: {error}")


def cast_column(array: pa.Array, type_info: TypeInformation) -> pa.Array:
    """The values as one array of `type_info.arrow`. A value that does not fit is an UnsupportedValueError."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if array.type == type_info.arrow:
        return array
    try:
        return array.cast(type_info.arrow)
    except (pa.ArrowException, ValueError) as error:
        message = f"a column of {array.type} is not of the declared type {type_info.text}: {error}"
        raise UnsupportedValueError(message) from error


def _encode_plain(values: Sequence[Any], type_info: TypeInformation) -> pa.Array:
    return pa.array(values, type=type_info.arrow)


def _encode_time(values: Sequence[Any], type_info: TypeInformation) -> pa.Array:
    check_types(values, type_info)
    for value in values:
        if value is not None and value.tzinfo is not None:
            raise misfit(value, type_info, "a time with a time zone")
    return pa.array(values, type=pa.time64("us")).view(type_info.arrow)


def _encode_timestamp(values: Sequence[Any], type_info: TypeInformation) -> pa.Array:
    """Spans since 1970 convert faster than points in time, and naive values fail at the subtraction."""
    check_types(values, type_info)
    epoch = EPOCH
    try:
        spans = [value - epoch for value in values]
    except TypeError:
        spans = [None if value is None else _since_epoch(value, type_info) for value in values]
    return pa.array(spans, type=pa.duration("us")).view(type_info.arrow)


def _since_epoch(value: datetime, type_info: TypeInformation) -> timedelta:
    if value.utcoffset() is None:
        if type_info.naive_is_utc:
            return value.replace(tzinfo=None) - NAIVE_EPOCH
        raise misfit(
            value, type_info, "it has no time zone: add tzinfo=timezone.utc, or declare timestamp_ntz for local times"
        )
    return value - EPOCH


def _encode_local_timestamp(values: Sequence[Any], type_info: TypeInformation) -> pa.Array:
    check_types(values, type_info)
    for value in values:
        if value is not None and value.tzinfo is not None:
            raise misfit(value, type_info, "it has a time zone: declare timestamp, or drop the zone")
    return pa.array(values, type=type_info.arrow)


def _encode_instant(values: Sequence[Any], type_info: TypeInformation) -> pa.Array:
    check_types(values, type_info)
    for value in values:
        if value is not None and value.nanos % 1000:
            raise misfit(value, type_info, "only whole microseconds are stored")
    micros = [None if value is None else value.to_epoch_micro() for value in values]
    return pa.array(micros, type=pa.int64()).view(type_info.arrow)


def _encode_big_decimal(values: Sequence[Any], type_info: TypeInformation) -> pa.Array:
    check_types(values, type_info)
    for value in values:
        if type(value) is Decimal and not value.is_finite():
            raise misfit(value, type_info, "it is not a number")
    return pa.array([None if value is None else str(value) for value in values], type=type_info.arrow)


def _encode_tagged(values: Sequence[Any], type_info: TypeInformation) -> pa.Array:
    encode = tagged.encode
    return pa.array([None if value is None else encode(value) for value in values], type=pa.binary())


def _encode_pickle(values: Sequence[Any], type_info: TypeInformation) -> pa.Array:
    return pa.array([None if value is None else dump_pickle(value) for value in values], type=pa.binary())


def _encode_list(values: Sequence[Any], type_info: TypeInformation) -> pa.Array:
    check_types(values, type_info)
    child = encode_column(list(chain.from_iterable(value or () for value in values)), type_info.children[0])
    return pa.ListArray.from_arrays(_offsets(values), child, type=type_info.arrow, mask=_null_mask(values))


def _encode_map(values: Sequence[Any], type_info: TypeInformation) -> pa.Array:
    check_types(values, type_info)
    keys = list(chain.from_iterable(value or () for value in values))
    if None in keys:
        raise misfit(next(value for value in values if value and None in value), type_info, "a map key is None")
    items = list(chain.from_iterable(value.values() for value in values if value))
    key_array, item_array = (encode_column(v, t) for v, t in zip((keys, items), type_info.children, strict=True))
    offsets, mask = pa.array(_offsets(values)), _null_mask(values)
    return pa.MapArray.from_arrays(offsets, key_array, item_array, type=type_info.arrow, mask=mask)


def _encode_struct(values: Sequence[Any], type_info: TypeInformation) -> pa.Array:
    if not type_info.children:
        return pa.array([None if value is None else {} for value in values], type=type_info.arrow)
    columns = transpose(values, type_info, nullable=True)
    arrays = [encode_column(column, child) for column, child in zip(columns, type_info.children, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=list(type_info.arrow), mask=_null_mask(values))


def _offsets(values: Sequence[Any]) -> Any:
    offsets = np.zeros(len(values) + 1, dtype=np.int32)
    np.cumsum([0 if value is None else len(value) for value in values], out=offsets[1:])
    return offsets


def _null_mask(values: Sequence[Any]) -> pa.Array | None:
    """A mask of the None values, or None if there are none."""
    if type(None) not in set(map(type, values)):
        return None
    return pa.array([value is None for value in values], type=pa.bool_())


def _decode_number(array: pa.Array, type_info: TypeInformation) -> list[Any]:
    values: list[Any] = (array if array.null_count else array.to_numpy(zero_copy_only=False)).tolist()
    return values


def _decode_text(array: pa.Array, type_info: TypeInformation) -> list[Any]:
    values: list[Any] = array.to_numpy(zero_copy_only=False).tolist()
    return values


def _decode_time(array: pa.Array, type_info: TypeInformation) -> list[Any]:
    return _decode_text(array.view(pa.time64("us")), type_info)


def _decode_date(array: pa.Array, type_info: TypeInformation) -> list[Any]:
    """numpy makes dates thirty times faster than `to_pylist`; outside their range it gives numbers."""
    values: list[Any] = array.to_numpy(zero_copy_only=False).tolist()
    if int in set(map(type, values)):
        raise UnsupportedValueError(f"a {type_info.text} column holds a year outside 1 to 9999")
    return values


def _decode_timestamp(array: pa.Array, type_info: TypeInformation) -> list[Any]:
    spans = array.view(pa.duration("us")).to_numpy(zero_copy_only=False).tolist()
    epoch = EPOCH
    try:
        if array.null_count:
            return [None if span is None else epoch + span for span in spans]
        return [epoch + span for span in spans]
    except (OverflowError, TypeError) as error:
        raise UnsupportedValueError(f"a {type_info.text} column holds a year outside 1 to 9999") from error


def _decode_instant(array: pa.Array, type_info: TypeInformation) -> list[Any]:
    make = Instant.of_epoch_micro
    return [None if micros is None else make(micros) for micros in array.view(pa.int64()).to_pylist()]


def _decode_big_int(array: pa.Array, type_info: TypeInformation) -> list[Any]:
    return [None if value is None else int(value) for value in array.to_pylist()]


def _decode_big_decimal(array: pa.Array, type_info: TypeInformation) -> list[Any]:
    try:
        return [None if text is None else Decimal(text) for text in array.to_pylist()]
    except InvalidOperation as error:
        raise UnsupportedValueError(f"a column of {type_info.text} holds a text that is not a number") from error


def _decode_tagged(array: pa.Array, type_info: TypeInformation) -> list[Any]:
    decode = tagged.decode
    return [None if data is None else decode(data) for data in array.to_pylist()]


def _decode_pickle(array: pa.Array, type_info: TypeInformation) -> list[Any]:
    return [None if data is None else load_pickle(data) for data in array.to_pylist()]


def _decode_list(array: pa.Array, type_info: TypeInformation) -> list[Any]:
    bounds = array.offsets.to_pylist()
    first = bounds[0] if bounds else 0
    flat = decode_column(array.values[first : bounds[-1] if bounds else 0], type_info.children[0])
    lists: list[Any] = [flat[start - first : end - first] for start, end in zip(bounds, bounds[1:], strict=False)]
    return _with_nulls(lists, array)


def _decode_map(array: pa.Array, type_info: TypeInformation) -> list[Any]:
    bounds = array.offsets.to_pylist()
    first, last = (bounds[0], bounds[-1]) if bounds else (0, 0)
    keys = decode_column(array.keys[first:last], type_info.children[0])
    items = decode_column(array.items[first:last], type_info.children[1])
    maps: list[Any] = [
        dict(zip(keys[start - first : end - first], items[start - first : end - first], strict=True))
        for start, end in zip(bounds, bounds[1:], strict=False)
    ]
    return _with_nulls(maps, array)


def _decode_struct(array: pa.Array, type_info: TypeInformation) -> list[Any]:
    columns = [decode_column(array.field(i), child) for i, child in enumerate(type_info.children)]
    return _with_nulls(make_records(columns, type_info, len(array)), array)


def _with_nulls(values: list[Any], array: pa.Array) -> list[Any]:
    if array.null_count:
        for index in np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)).tolist():
            values[index] = None
    return values


_ENCODERS: dict[str, Callable[[Sequence[Any], TypeInformation], pa.Array]] = {
    "TIME": _encode_time,
    "TIMESTAMP": _encode_timestamp,
    "TIMESTAMP_NTZ": _encode_local_timestamp,
    "INSTANT": _encode_instant,
    "BIG_DEC": _encode_big_decimal,
    "TAGGED": _encode_tagged,
    "PICKLE": _encode_pickle,
    "LIST": _encode_list,
    "MAP": _encode_map,
    "ROW": _encode_struct,
    "TUPLE": _encode_struct,
}
_DECODERS: dict[str, Callable[[pa.Array, TypeInformation], list[Any]]] = {
    **dict.fromkeys(("BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE"), _decode_number),
    **dict.fromkeys(("STRING", "BINARY"), _decode_text),
    **dict.fromkeys(("DATE", "DURATION", "TIMESTAMP_NTZ"), _decode_date),
    "TIME": _decode_time,
    "TIMESTAMP": _decode_timestamp,
    "INSTANT": _decode_instant,
    "BIG_INT": _decode_big_int,
    "BIG_DEC": _decode_big_decimal,
    "TAGGED": _decode_tagged,
    "PICKLE": _decode_pickle,
    "LIST": _decode_list,
    "MAP": _decode_map,
    "ROW": _decode_struct,
    "TUPLE": _decode_struct,
}
