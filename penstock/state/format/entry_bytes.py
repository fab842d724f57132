"""The parts of an entry as bytes, for backends that store bytes: state key, map key and value.

Keys and map keys have canonical bytes: equal keys have equal bytes. A value is encoded with MessagePack and decoded by
type; an untyped value has tagged bytes. Values are decoded to exactly the classes that they were stored with.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, Optional

import msgspec

from penstock.codec import tagged
from penstock.codec.keys import KeyCodec
from penstock.codec.pickles import dump_pickle, load_pickle
from penstock.model.row import row_class
from penstock.model.snapshot import StateTableInfo
from penstock.model.time import Instant
from penstock.model.type_information import TypeInformation
from penstock.state.backend.map_keys import map_keys_of
from penstock.state.format.table_rows import key_codec_of, namespace_codec_of

Convert = Callable[[Any], Any]

_long = struct.Struct(">Q")
_length = struct.Struct(">I")
_SIGN = 1 << 63
_PLAIN: dict[str, Any] = {
    "BOOLEAN": bool,
    **dict.fromkeys(("BYTE", "SHORT", "INT", "LONG"), int),
    "FLOAT": float,
    "DOUBLE": float,
    "STRING": str,
    "BINARY": bytes,
    "DATE": date,
    "TIME": time,
    "TIMESTAMP": datetime,
    "TIMESTAMP_NTZ": datetime,
    "DURATION": timedelta,
    "DECIMAL": Decimal,
    "BIG_DEC": Decimal,
}
"""Types whose values MessagePack encodes and decodes unchanged."""
_CONVERTED: dict[str, tuple[Any, Convert, Convert]] = {
    "BIG_INT": (str, lambda value: format(value, "x"), lambda text: int(text, 16)),
    "INSTANT": (int, lambda value: value.to_epoch_micro(), Instant.of_epoch_micro),
    "TAGGED": (bytes, tagged.encode, tagged.decode),
    "PICKLE": (bytes, dump_pickle, load_pickle),
}


@dataclass(frozen=True)
class BytesForm:
    """How keys or values of one type are encoded and decoded."""

    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


def key_bytes(codec: KeyCodec) -> BytesForm:
    """The bytes of state keys. Those of a single integer sort like the integer."""
    if len(codec.types) == 1:
        only = codec.types[0]
        if only.kind == "tagged":
            return BytesForm(bytes, bytes)
        if only.name == "STRING":
            return BytesForm(str.encode, bytes.decode)
        if only.name in ("BYTE", "SHORT", "INT", "LONG"):
            return BytesForm(pack_long, unpack_long)
    if any(map(_has_decimal, codec.types)):  # canonical bytes drop trailing zeros, and so the scale
        return BytesForm(tagged.encode_key, lambda data: codec.decode(codec.encode([tagged.decode(data)]))[0])
    return BytesForm(tagged.encode_key, tagged.decode)


def address_bytes(info: StateTableInfo) -> BytesForm:
    """The bytes of `current.key` of a handle: of a state key, or of a pair of key and namespace."""
    key = key_bytes(key_codec_of(info))
    namespaces = namespace_codec_of(info)
    if namespaces is None:
        return key
    namespace = key_bytes(namespaces)

    def encode(address: tuple[Any, Any]) -> bytes:
        data = key.encode(address[0])
        return _length.pack(len(data)) + data + namespace.encode(address[1])

    def decode(data: bytes) -> tuple[Any, Any]:
        end = _length.size + _length.unpack_from(data)[0]
        return key.decode(data[_length.size : end]), namespace.decode(data[end:])

    return BytesForm(encode, decode)


def address_order(info: StateTableInfo) -> Callable[[Any], Any]:
    """A sort key for `current.key` that is the same in every process: by key, then by namespace."""
    if namespace_codec_of(info) is None:
        return key_codec_of(info).order
    return _same  # `KeyCodec.order` leaves keys as they are, and so pairs of them sort by key and then by namespace


def map_key_bytes(type_info: TypeInformation) -> BytesForm:
    """The bytes of map keys in their stored form."""
    if type_info.kind == "tagged":
        return BytesForm(lambda kept: kept if type(kept) is bytes else tagged.encode_key(kept), _kept_untyped)
    to_kept = map_keys_of(type_info).to_kept
    return BytesForm(tagged.encode_key, lambda data: to_kept(tagged.decode(data)))


def _kept_untyped(data: bytes) -> Any:
    """An untyped map key that is neither str nor int is kept as bytes."""
    key = tagged.decode(data)
    return key if type(key) is str or type(key) is int else data


def pack_long(number: int) -> bytes:
    """8 bytes that sort like the number."""
    return _long.pack(number + _SIGN)


def unpack_long(data: bytes) -> int:
    """The number of 8 bytes."""
    number: int = _long.unpack(data)[0]
    return number - _SIGN


def _has_decimal(type_info: TypeInformation) -> bool:
    return type_info.name == "DECIMAL" or any(map(_has_decimal, type_info.children))


@dataclass(frozen=True)
class _Form:
    """How a type is represented for MessagePack."""

    annotation: Any
    write: Convert | None = None
    """None if values are written unchanged."""
    read: Convert | None = None


@lru_cache(maxsize=1024)
def value_bytes(type_info: TypeInformation) -> BytesForm:
    """The bytes of values of this type; None is a value too."""
    if type_info.kind == "tagged":
        return BytesForm(tagged.encode, tagged.decode)
    form = _optional(_form(type_info))
    pack, unpack = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(form.annotation).decode
    write, read = form.write, form.read
    return BytesForm(
        pack if write is None else lambda value: pack(write(value)),
        unpack if read is None else lambda data: read(unpack(data)),
    )


def _form(type_info: TypeInformation) -> _Form:
    name = type_info.name
    if name in _PLAIN:
        return _Form(_PLAIN[name])
    if name in _CONVERTED:
        return _Form(*_CONVERTED[name])
    children = [_optional(_form(child)) for child in type_info.children]
    if name == "LIST":
        return _list_form(children[0])
    return _map_form(_form(type_info.children[0]), children[1]) if name == "MAP" else _struct_form(type_info, children)


def _optional(form: _Form) -> _Form:
    def guard(convert: Convert | None) -> Convert | None:
        return None if convert is None else lambda value: None if value is None else convert(value)

    return _Form(Optional[form.annotation], guard(form.write), guard(form.read))  # noqa: UP045 - made at run time


def _list_form(child: _Form) -> _Form:
    def each(convert: Convert | None) -> Convert | None:
        return None if convert is None else lambda values: [convert(value) for value in values]

    return _Form(list[child.annotation], each(child.write), each(child.read))  # type: ignore[name-defined]


def _map_form(key: _Form, value: _Form) -> _Form:
    def each(on_key: Convert | None, on_value: Convert | None) -> Convert | None:
        if on_key is None and on_value is None:
            return None
        to_key, to_value = on_key or _same, on_value or _same
        return lambda entries: {to_key(k): to_value(v) for k, v in entries.items()}

    annotation = dict[key.annotation, value.annotation]  # type: ignore[name-defined]
    return _Form(annotation, each(key.write, value.write), each(key.read, value.read))


def _struct_form(type_info: TypeInformation, children: list[_Form]) -> _Form:
    annotation = tuple[tuple(child.annotation for child in children)]  # type: ignore[misc, valid-type]
    make: Convert = tuple if type_info.names is None else row_class(type_info.names).make

    def each(converts: list[Convert | None], finish: Convert) -> Convert:
        steps = [convert or _same for convert in converts]
        return lambda values: finish([step(value) for step, value in zip(steps, values, strict=True)])

    writes = [child.write for child in children]
    reads = [child.read for child in children]
    write = None if not any(writes) else each(writes, tuple)
    if any(reads):
        return _Form(annotation, write, each(reads, make))
    return _Form(annotation, write, None if type_info.names is None else make)


def _same(value: Any) -> Any:
    return value
