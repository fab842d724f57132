"""Answers of the control server as Python values and Arrow tables."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa

from penstock.codec.columns import encode_column
from penstock.codec.readable import has_untyped
from penstock.codec.tagged_arrays import decode_array
from penstock.codec.tagged_json import to_json
from penstock.errors import NotReachableError
from penstock.model.type_information import TypeInformation, map_of, parse_type


class QueryResponse(msgspec.Struct):
    """The response to a query."""

    consistency: str
    epoch: int
    kind: str
    key_type: str = msgspec.field(name="key-type")
    namespace_type: str | None = msgspec.field(name="namespace-type")
    map_key_type: str | None = msgspec.field(name="map-key-type")
    value_type: str = msgspec.field(name="value-type")
    checkpoint: int | None = None
    values: list[Any] = []
    entries: list[list[Any]] = []
    more: bool = False


class _StateEntry(msgspec.Struct):
    """A queryable state in the list of states."""

    queryable: str | None
    key_types: list[str] = msgspec.field(name="key-types")
    namespace_type: str | None = msgspec.field(name="namespace-type")


class StateList(msgspec.Struct):
    """The response to a request for the list of states."""

    states: list[_StateEntry]


_decoder = msgspec.json.Decoder(QueryResponse)


def decode_answer(data: bytes) -> QueryResponse:
    """The response."""
    try:
        return _decoder.decode(data)
    except msgspec.MsgspecError:
        raise NotReachableError("the answer is not that of a control server") from None


def values_of(answer: QueryResponse) -> list[Any]:
    """The values of the keys."""
    return decode_array(answer.values)


def table_of_entries(answer: QueryResponse) -> pa.Table:
    """The entries as columns `key`, `namespace` where the state has any, and `value`. Untyped values are JSON text."""
    names = ["key", "value"] if answer.namespace_type is None else ["key", "namespace", "value"]
    value_type = parse_type(answer.value_type)
    if answer.kind == "map" and answer.map_key_type is not None:
        value_type = map_of(parse_type(answer.map_key_type), value_type)
    types = [parse_type(answer.key_type), value_type]
    if answer.namespace_type is not None:
        types.insert(1, parse_type(answer.namespace_type))
    columns = list(zip(*answer.entries, strict=True)) or [()] * len(names)
    arrays = [_column(decode_array(list(column)), t) for column, t in zip(columns, types, strict=True)]
    metadata = {"consistency": answer.consistency, "epoch": str(answer.epoch), "more": str(answer.more).lower()}
    if answer.checkpoint is not None:
        metadata["checkpoint"] = str(answer.checkpoint)
    return pa.Table.from_arrays(arrays, names=names).replace_schema_metadata(metadata)


def _column(values: Sequence[Any], type_info: TypeInformation) -> pa.Array:
    if has_untyped(type_info):
        return pa.array([None if value is None else to_json(value) for value in values], pa.string())
    return encode_column(values, type_info)
