"""The entries of a value state with namespaces as numpy arrays: one `ColumnTable` of keys for each namespace.

For namespaces that many keys share, such as windows of time: all entries of a namespace are read and removed at once.
An address is a pair of key and namespace.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from penstock.codec.columns import decode_column
from penstock.model.type_information import TypeInformation
from penstock.state.format.table_rows import Rows
from penstock.state.heap.change_log import ChangeLog
from penstock.state.heap.column_table import ColumnTable
from penstock.state.heap.heap_tables import Seal


class NamespaceTable:
    """One value of fixed width per key and namespace. Also the `NamespaceValues` of the state."""

    def __init__(self, type_info: TypeInformation) -> None:
        self.type = type_info
        self.changes = ChangeLog()
        self._parts: dict[Any, ColumnTable] = {}
        self._removed: dict[Any, ColumnTable] = {}
        """Namespaces that the epoch has removed, as they were then."""

    # ---- NamespaceValues

    def namespaces(self) -> list[Any]:
        """The namespaces that have values."""
        return [namespace for namespace, part in self._parts.items() if part.entry_count()]

    def get(self, namespace: Any, keys: Sequence[Any]) -> pa.Array:
        """The values of keys in a namespace, null where there is none."""
        part = self._parts.get(namespace)
        return pa.nulls(len(keys), self.type.arrow) if part is None else part.get_many(keys)

    def put(self, namespace: Any, keys: Sequence[Any], values: pa.Array) -> None:
        """Replace the values of keys in a namespace; null removes one."""
        self._part(namespace).put_many(keys, values)

    def entries(self, namespace: Any) -> tuple[Sequence[Any], pa.Array]:
        """The keys that have values in a namespace, and the values."""
        part = self._parts.get(namespace)
        return ([], pa.nulls(0, self.type.arrow)) if part is None else part.entries()

    def remove(self, namespace: Any, keys: Sequence[Any]) -> None:
        """Remove all values of a namespace."""
        part = self._parts.get(namespace)
        if part is None:
            return
        if namespace in self._removed:  # it was removed and made again in this epoch
            part.put_many(keys, pa.nulls(len(keys), self.type.arrow))
        else:
            self._removed[namespace] = part
            del self._parts[namespace]

    def _part(self, namespace: Any) -> ColumnTable:
        part = self._parts.get(namespace)
        if part is None:
            part = self._parts[namespace] = ColumnTable(self.type)
        return part

    # ---- addresses

    def get_many(self, addresses: Sequence[Any]) -> pa.Array:
        """The values at these addresses, null where there is none."""
        return _in_order(addresses, lambda namespace, keys: self.get(namespace, keys), self.type)

    def put_many(self, addresses: Sequence[Any], values: pa.Array) -> None:
        """Replace the values at these addresses, which are all different; null removes one."""
        for namespace, indices in _by_namespace(addresses).items():
            self.put(namespace, [addresses[index][0] for index in indices], values.take(pa.array(indices)))

    def value(self, address: Any) -> Any:
        """The value at an address, or None."""
        part = self._parts.get(address[1])
        return None if part is None else part.value(address[0])

    def put_value(self, address: Any, value: Any) -> None:
        """Replace the value at an address by one in its stored form; None removes it."""
        if value is not None or address[1] in self._parts:
            self._part(address[1]).put_value(address[0], value)

    def keys(self) -> list[Any]:
        """The addresses that have a value."""
        return [(key, namespace) for namespace, part in self._parts.items() for key in part.keys()]

    # ---- epochs

    def begin(self) -> None:
        """Discard what is needed to undo the previous epoch."""
        self._removed.clear()
        for part in self._parts.values():
            part.begin()
        self._drop_empty()

    def changed(self) -> Iterable[Hashable]:
        """Addresses that the epoch changed."""
        for namespace, part in self._parts.items():
            for key in part.changed():
                yield key, namespace
        for namespace, part in self._removed.items():
            for key in part.known_keys():
                yield key, namespace

    def roll_back(self) -> None:
        """Restore the old values."""
        self._parts.update(self._removed)
        self._removed.clear()
        for part in self._parts.values():
            part.roll_back()
        self._drop_empty()

    def _drop_empty(self) -> None:
        self._parts = {namespace: part for namespace, part in self._parts.items() if part.entry_count()}

    def drop(self, kept: Any, *, has_namespaces: bool) -> None:
        """Forget the values of all keys but one; it cannot be undone."""
        for part in self._parts.values():
            part.drop(kept, has_namespaces=False)
        self._removed.clear()
        self._drop_empty()

    # ---- snapshots

    def seal_all(self) -> Seal:
        """All values, copied."""
        parts = [(namespace, *part.entries()) for namespace, part in self._parts.items()]

        def rows() -> Rows:
            addresses = [(key, namespace) for namespace, keys, _ in parts for key in keys]
            values = [values for _, _, values in parts]
            return Rows(addresses, None, _joined(values, self.type), None)

        return rows

    def seal_objects(self) -> Seal:
        """All values, as Python objects."""
        rows = self.seal_all()
        return lambda: rows()._replace(values=decode_column(rows().values, self.type))

    def seal_changes(self, changed: Iterable[Any]) -> Seal:
        """The values at these addresses, copied."""
        addresses = list(changed)
        values = self.get_many(addresses)
        return lambda: Rows(addresses, None, values, values.is_null().to_pylist())

    def apply(self, rows: Rows) -> None:
        """Insert restored values. The last row of an address counts."""
        for namespace, indices in _by_namespace(rows.keys).items():
            keys, values = [rows.keys[index][0] for index in indices], [rows.values[index] for index in indices]
            self._part(namespace).apply(Rows(keys, None, values, None))
        self._drop_empty()

    def entry_count(self) -> int:
        """How many addresses have a value."""
        return sum(part.entry_count() for part in self._parts.values())

    def has_at_most(self, count: int) -> bool:
        """Whether no more than `count` addresses have a value."""
        return self.entry_count() <= count

    # ---- queries, on other threads

    def read(self, addresses: Sequence[Any], *, before: bool) -> list[Any]:
        """The stored values at these addresses now, or `before` the running epoch."""
        found: list[Any] = []
        for key, namespace in addresses:
            part = self._parts.get(namespace)
            if before:
                part = self._removed.get(namespace, part)
            found += [None] if part is None else part.read([key], before=before)
        return found

    def first_keys(self, limit: int, *, before: bool) -> list[Any]:
        """Up to `limit` addresses that have a value now, or had one before the running epoch."""
        parts = {**self._parts, **self._removed} if before else dict(self._parts)
        found = ((key, ns) for ns, part in parts.items() for key in part.first_keys(limit, before=before))
        return [address for address, _ in zip(found, range(limit), strict=False)]


def _by_namespace(addresses: Sequence[Any]) -> dict[Any, list[int]]:
    """Namespace -> the places of its addresses."""
    found: dict[Any, list[int]] = {}
    for index, (_, namespace) in enumerate(addresses):
        found.setdefault(namespace, []).append(index)
    return found


def _in_order(
    addresses: Sequence[Any], get: Callable[[Any, list[Any]], pa.Array], type_info: TypeInformation
) -> pa.Array:
    """What `get` returns for the keys of each namespace, in the order of the addresses."""
    places: list[int] = []
    values = []
    for namespace, indices in _by_namespace(addresses).items():
        values.append(get(namespace, [addresses[index][0] for index in indices]))
        places += indices
    order = sorted(range(len(places)), key=places.__getitem__)
    return _joined(values, type_info).take(pa.array(order, pa.int64()))


def _joined(values: list[pa.Array], type_info: TypeInformation) -> pa.Array:
    return pa.concat_arrays(values) if values else pa.nulls(0, type_info.arrow)
