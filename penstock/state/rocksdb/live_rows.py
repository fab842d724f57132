"""Rows of RocksDB for queries on other threads.

RocksDB holds what the last finished epoch has written; the changes of a running epoch are elsewhere. So while an epoch
runs, RocksDB is what queries must see. Between the end of an epoch in this subtask and its end in the job they must see
what was there before. For states that are being queried, the old values are kept for that time; others cost nothing.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from penstock.codec.keys import KeyCodec
from penstock.errors import UnsupportedValueError
from penstock.model.snapshot import StateTableInfo
from penstock.state.backend.live_reads import element_count
from penstock.state.rocksdb.key_bytes import KeyBytes, RowBytes, end_of, row_bytes
from penstock.state.rocksdb.rocksdb_rows import open_table
from penstock.state.rocksdb.rocksdb_tables import RocksListTable, RocksMapTable, RocksValueTable
from penstock.state.rocksdb.store import Store

WATCHED_EPOCHS = 4
"""For how many epochs after a query old values of its state are kept."""
MAX_KEPT = 200_000
"""So many elements an epoch keeps of a state; if it has changed more, queries wait until the job has finished it."""
_CACHED_KEYS = 4096

StateRows = RocksValueTable | RocksListTable | RocksMapTable


class LiveRows:
    """Reads the states of one store. Its tables are not those of the epochs' thread, and are never written."""

    def __init__(self, key_codec: KeyCodec, max_parallelism: int) -> None:
        self._keys = KeyBytes(key_codec, max_parallelism)
        self._tables: dict[str, tuple[StateTableInfo, StateRows]] = {}
        self._watched: dict[str, int] = {}
        self._before: dict[str, dict[Any, Any]] = {}
        """State -> address -> what the last epoch has overwritten."""

    def read(
        self, store: Store, info: StateTableInfo, addresses: Sequence[Any], *, before: bool, is_running: bool
    ) -> list[Any] | None:
        """The stored values; None if `before` is asked for and was not kept."""
        self._watched[info.name] = WATCHED_EPOCHS
        old: dict[Any, Any] = {}
        if before and not is_running:
            if info.name not in self._before:
                return None
            old = self._before[info.name]
        table = self._table(store, info)
        self._expect(info, addresses)
        return [old[address] if address in old else table.stored(address) for address in addresses]

    def addresses(
        self, store: Store, info: StateTableInfo, limit: int, *, before: bool, is_running: bool
    ) -> list[Any] | None:
        """Up to `limit` addresses with entries; None as for `read`."""
        self._watched[info.name] = WATCHED_EPOCHS
        old: dict[Any, Any] = {}
        if before and not is_running:
            if info.name not in self._before:
                return None
            old = self._before[info.name]
        table = self._table(store, info)
        found = {address: None for address, value in old.items() if value is not None}
        for address in _each_address(table, row_bytes(self._keys, info)):
            if len(found) >= limit:
                break
            if address not in old:
                found[address] = None
        return [*found][:limit]

    def watched(self) -> list[str]:
        """The states of which an epoch that ends now must keep old values."""
        self._watched = {name: epochs - 1 for name, epochs in self._watched.items() if epochs > 1}
        return [*self._watched]

    def keep(self, store: Store, info: StateTableInfo, addresses: Sequence[Any]) -> None:
        """Keep the old values of what is about to be written, or none of them if they are too many."""
        table = self._table(store, info)
        kept: dict[Any, Any] = {}
        left = MAX_KEPT
        with suppress(UnsupportedValueError):  # a list or map that no query reads
            for start in range(0, len(addresses), _CACHED_KEYS):
                part = addresses[start : start + _CACHED_KEYS]
                self._expect(info, part)
                for address in part:
                    kept[address] = value = table.stored(address)
                    left -= element_count(value)
                    if left < 0:
                        return
            self._before[info.name] = kept
        self._keys.forget()

    def begin(self) -> None:
        """The next epoch begins: RocksDB is what was before it."""
        self._before.clear()

    def _table(self, store: Store, info: StateTableInfo) -> StateRows:
        known = self._tables.get(info.name)
        if known is None or known[0] != info:
            table = open_table(info, store, self._keys, (0, 0))
            assert isinstance(table, StateRows)
            self._tables[info.name] = known = (info, table)
        return known[1]

    def _expect(self, info: StateTableInfo, addresses: Sequence[Any]) -> None:
        if len(self._keys) > _CACHED_KEYS:
            self._keys.forget()
        self._keys.expect(addresses if info.namespace is None else [key for key, _ in addresses])


def _each_address(table: StateRows, keys: RowBytes) -> Iterator[Any]:
    """The addresses with rows. Of a list or map only the first row is read, however many it has."""
    if isinstance(table, RocksValueTable):
        return map(keys.key_of_row, table.family.seek_each(lambda row: row + b"\0"))

    def behind(row: bytes) -> bytes | None:
        return end_of(row[: len(row) - len(keys.split_scope(row)[1])])

    return (keys.split_scope(row)[0] for row in table.family.seek_each(behind))
