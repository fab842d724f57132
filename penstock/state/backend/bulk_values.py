"""The values of one value state for many keys at once, as Arrow arrays."""

from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa

from penstock.codec.columns import encode_column
from penstock.model.type_information import TypeInformation
from penstock.state.backend.current_key import CurrentKey


class BulkValues(Protocol):
    """The values of a state. Addresses are state keys, or pairs of key and namespace; no two are equal."""

    name: str
    type: TypeInformation

    def get(self, addresses: Sequence[Any]) -> pa.Array:
        """The values, null where there is none."""

    def put(self, addresses: Sequence[Any], values: pa.Array) -> None:
        """Replace the values; null removes one."""

    def clear(self, addresses: Sequence[Any]) -> None:
        """Remove the values."""


class ManyValues(Protocol):
    """What holds stored values: a KeyedBackend."""

    def get_many(self, name: str, addresses: Sequence[Any]) -> pa.Array: ...
    def put_many(self, name: str, addresses: Sequence[Any], values: pa.Array) -> None: ...


class StoredBulkValues:
    """The values as the backend stores them."""

    def __init__(self, backend: ManyValues, name: str, type_info: TypeInformation) -> None:
        self._backend = backend
        self.name = name
        self.type = type_info

    def get(self, addresses: Sequence[Any]) -> pa.Array:
        return self._backend.get_many(self.name, addresses)

    def put(self, addresses: Sequence[Any], values: pa.Array) -> None:
        if len(addresses):
            self._backend.put_many(self.name, addresses, values)

    def clear(self, addresses: Sequence[Any]) -> None:
        self.put(addresses, pa.nulls(len(addresses), self.type.arrow))


def load_each(handle: Any, current: CurrentKey, addresses: Sequence[Any], type_info: TypeInformation) -> pa.Array:
    """The values that the handle of a value state returns at each address."""
    before, values = current.key, []
    try:
        for current.key in addresses:
            values.append(handle.value())
    finally:
        current.key = before
    return encode_column(values, type_info)


def store_each(handle: Any, current: CurrentKey, addresses: Sequence[Any], values: Sequence[Any]) -> None:
    """Put a value at each address with the handle of a value state; None removes one."""
    before = current.key
    try:
        for current.key, value in zip(addresses, values, strict=True):
            if value is None:
                handle.clear()
            else:
                handle.update(value)
    finally:
        current.key = before
