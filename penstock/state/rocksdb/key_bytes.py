"""Keys as RocksDB's bytes: key group · key · namespace · what follows; each key group is one range."""

import struct
from collections.abc import Sequence
from typing import Any, TypeAlias

from penstock.codec.keys import KeyCodec
from penstock.model.key_groups import key_group_of
from penstock.model.snapshot import StateTableInfo
from penstock.state.format.entry_bytes import key_bytes, pack_long, unpack_long
from penstock.state.format.table_rows import namespace_codec_of

_length = struct.Struct(">I")
LONG_BYTES = 8


class KeyBytes:
    """Row keys of one operator. A key has a single row (`row`), or several with a common prefix (`scope`)."""

    def __init__(self, key_codec: KeyCodec, max_parallelism: int) -> None:
        self._codec = key_codec
        self._max_parallelism = max_parallelism
        self.group_size = 1 if max_parallelism <= 128 else 2
        form = key_bytes(key_codec)
        self._to_bytes, self._from_bytes = form.encode, form.decode
        self._groups: dict[Any, bytes] = {}
        """Key groups of keys that are used soon. Hashing keys one by one costs more than reading a row."""

    def expect(self, keys: Sequence[Any]) -> None:
        """Compute the key groups of these state keys in one batch, because they are used next."""
        missing = list({key for key in keys if key not in self._groups})
        if missing:
            hashes = self._codec.hash_batch(self._codec.encode(missing)).tolist()
            self._groups.update(
                (key, self.group(key_group_of(key_hash, self._max_parallelism)))
                for key, key_hash in zip(missing, hashes, strict=True)
            )

    def forget(self) -> None:
        """Drop the cached key groups."""
        self._groups.clear()

    def __len__(self) -> int:
        """The number of cached key groups."""
        return len(self._groups)

    def group(self, key_group: int) -> bytes:
        """The prefix of every row of a key group."""
        return key_group.to_bytes(self.group_size, "big")

    def group_of(self, key: Any) -> bytes:
        """The prefix of the rows of a state key: its key group."""
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = self.group(key_group_of(self._codec.hash(key), self._max_parallelism))
        return group

    def row(self, key: Any) -> bytes:
        """The only row of a key."""
        return self.group_of(key) + self._to_bytes(key)

    def scope(self, key: Any) -> bytes:
        """The prefix of all rows of a key, and of no other row."""
        data = self._to_bytes(key)
        return self.group_of(key) + _length.pack(len(data)) + data

    def timer(self, timestamp: int, key: Any) -> bytes:
        """The row of a timer. Within a key group, timers are sorted by time."""
        return self.group_of(key) + pack_long(timestamp) + self._to_bytes(key)

    def key_of_row(self, data: bytes) -> Any:
        """The state key of a `row`."""
        return self._from_bytes(data[self.group_size :])

    def split_scope(self, data: bytes) -> tuple[Any, bytes]:
        """The state key of a row with a `scope` prefix, and the rest of the row."""
        start = self.group_size + _length.size
        end = start + _length.unpack_from(data, self.group_size)[0]
        return self._from_bytes(data[start:end]), data[end:]

    def split_timer(self, data: bytes) -> tuple[int, Any]:
        """Time and state key of a `timer`."""
        start = self.group_size + LONG_BYTES
        return unpack_long(data[self.group_size : start]), self._from_bytes(data[start:])


class NamespacedKeyBytes:
    """Row keys of states with namespaces, where a key is a pair of state key and namespace."""

    def __init__(self, keys: KeyBytes, namespaces: KeyCodec) -> None:
        self.group_size = keys.group_size
        self.group = keys.group
        self._keys = keys
        self._namespace = key_bytes(namespaces)

    def row(self, address: tuple[Any, Any]) -> bytes:
        """The only row of a key in a namespace."""
        return self._keys.scope(address[0]) + self._namespace.encode(address[1])

    def scope(self, address: tuple[Any, Any]) -> bytes:
        """The prefix of all rows of a key in a namespace, and of no other row."""
        data = self._namespace.encode(address[1])
        return self._keys.scope(address[0]) + _length.pack(len(data)) + data

    def every_namespace(self, key: Any) -> bytes:
        """The prefix of all rows of a key in all namespaces."""
        return self._keys.scope(key)

    def timer(self, timestamp: int, address: tuple[Any, Any]) -> bytes:
        """The row of a timer. Within a key group, timers are sorted by time."""
        group, row = self.group_size, self.row(address)
        return row[:group] + pack_long(timestamp) + row[group:]

    def key_of_row(self, data: bytes) -> tuple[Any, Any]:
        """State key and namespace of a `row`."""
        key, rest = self._keys.split_scope(data)
        return key, self._namespace.decode(rest)

    def split_scope(self, data: bytes) -> tuple[tuple[Any, Any], bytes]:
        """State key and namespace of a row with a `scope` prefix, and the rest of the row."""
        key, rest = self._keys.split_scope(data)
        end = _length.size + _length.unpack_from(rest)[0]
        return (key, self._namespace.decode(rest[_length.size : end])), rest[end:]

    def split_timer(self, data: bytes) -> tuple[int, tuple[Any, Any]]:
        """Time, state key and namespace of a `timer`."""
        start = self.group_size + LONG_BYTES
        return unpack_long(data[self.group_size : start]), self.key_of_row(data[: self.group_size] + data[start:])


RowBytes: TypeAlias = KeyBytes | NamespacedKeyBytes


def row_bytes(keys: KeyBytes, info: StateTableInfo) -> RowBytes:
    """The row keys of one state."""
    namespaces = namespace_codec_of(info)
    return keys if namespaces is None else NamespacedKeyBytes(keys, namespaces)


def end_of(prefix: bytes) -> bytes | None:
    """The smallest bytes that sort after everything with this prefix; None if there are none."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None
