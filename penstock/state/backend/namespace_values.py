"""The values of one state by namespace: those of many keys in one namespace at once, such as a window."""

from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa

from penstock.model.type_information import TypeInformation
from penstock.state.backend.bulk_values import ManyValues


class NamespaceValues(Protocol):
    """The values of a state with namespaces. The keys that are given are all different."""

    type: TypeInformation

    def namespaces(self) -> list[Any]:
        """The namespaces that have values. A backend on disk reads all keys."""

    def get(self, namespace: Any, keys: Sequence[Any]) -> pa.Array:
        """The values of keys in a namespace, null where there is none."""

    def put(self, namespace: Any, keys: Sequence[Any], values: pa.Array) -> None:
        """Replace the values of keys in a namespace; null removes one."""

    def entries(self, namespace: Any) -> tuple[Sequence[Any], pa.Array]:
        """The keys that have values in a namespace, and the values. A backend on disk reads all keys."""

    def remove(self, namespace: Any, keys: Sequence[Any]) -> None:
        """Remove all values of a namespace; `keys` are those that `entries` returned."""


class KeysOfNamespaces(ManyValues, Protocol):
    """What holds the values: a KeyedBackend."""

    def keys_with(self, name: str) -> list[Any]: ...


class StoredNamespaceValues:
    """The values by their addresses, pairs of key and namespace."""

    def __init__(self, backend: KeysOfNamespaces, name: str, type_info: TypeInformation) -> None:
        self._backend = backend
        self._name = name
        self.type = type_info

    def namespaces(self) -> list[Any]:
        return list(dict.fromkeys(namespace for _, namespace in self._backend.keys_with(self._name)))

    def get(self, namespace: Any, keys: Sequence[Any]) -> pa.Array:
        return self._backend.get_many(self._name, [(key, namespace) for key in keys])

    def put(self, namespace: Any, keys: Sequence[Any], values: pa.Array) -> None:
        self._backend.put_many(self._name, [(key, namespace) for key in keys], values)

    def entries(self, namespace: Any) -> tuple[Sequence[Any], pa.Array]:
        keys = [key for key, own in self._backend.keys_with(self._name) if own == namespace]
        return keys, self.get(namespace, keys)

    def remove(self, namespace: Any, keys: Sequence[Any]) -> None:
        self.put(namespace, keys, pa.nulls(len(keys), self.type.arrow))
