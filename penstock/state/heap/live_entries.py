"""Reads entries of a table while an epoch changes them on another thread.

An epoch saves the old value of an entry in `undo` before it changes the entry. So a reader looks into `live` first and
into `undo` second: if `undo` has nothing, the entry was unchanged when it was read. Each look is one operation on a
dictionary, and no lock is needed; between the looks the epoch may go on.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Any

from penstock.state.backend.live_reads import require_readable
from penstock.state.backend.map_iteration import ABSENT
from penstock.state.heap.column_table import ColumnTable
from penstock.state.heap.heap_tables import ListTable, MapTable, ValueTable
from penstock.state.heap.namespace_table import NamespaceTable

StateEntries = ValueTable | ListTable | MapTable | ColumnTable | NamespaceTable


def read_entries(table: StateEntries, addresses: Sequence[Any], *, before: bool) -> list[Any]:
    """The stored values at these addresses now, or `before` the epoch whose changes `undo` holds."""
    if isinstance(table, ColumnTable | NamespaceTable):
        return table.read(addresses, before=before)
    if isinstance(table, ValueTable):
        return _values(table, addresses, before=before)
    if isinstance(table, ListTable):
        return [_list(table, address, before=before) for address in addresses]
    return [_map(table, address, before=before) for address in addresses]


def list_entries(table: StateEntries, limit: int, *, before: bool) -> list[Any]:
    """Up to `limit` addresses that have entries now, or had some before the epoch."""
    if isinstance(table, ColumnTable | NamespaceTable):
        return table.first_keys(limit, before=before)
    if not before:
        return _first(table.live, limit)
    wanted = limit
    while True:
        present = _first(table.live, wanted)
        changed = _first(table.undo, wanted)
        found = _had_entries(table, list(dict.fromkeys([*present, *changed])))
        if len(found) >= limit or (len(present) < wanted and len(changed) < wanted):
            return found[:limit]
        wanted *= 4


def _first(entries: dict[Any, Any], count: int) -> list[Any]:
    """The first keys of a dictionary. If the epoch changes it between the two calls, the slice is taken again."""
    while True:
        try:
            return list(islice(entries, count))
        except RuntimeError:
            continue


def _had_entries(table: ValueTable | ListTable | MapTable, addresses: Sequence[Any]) -> list[Any]:
    """The addresses that had entries before the epoch. Looks at no more elements than the epoch has changed."""
    if isinstance(table, MapTable):
        return [address for address in addresses if _had_map(table, address)]
    if isinstance(table, ListTable):
        return [address for address in addresses if _had_list(table, address)]
    values = _values(table, addresses, before=True)
    return [address for address, value in zip(addresses, values, strict=True) if value is not None]


def _values(table: ValueTable, addresses: Sequence[Any], *, before: bool) -> list[Any]:
    found = list(map(table.live.get, addresses))
    if before and table.undo:
        undo = table.undo
        found = [undo.get(address, value) for address, value in zip(addresses, found, strict=True)]
    return found


def _list(table: ListTable, address: Any, *, before: bool) -> list[Any] | None:
    elements = table.live.get(address)
    length = 0 if elements is None else len(elements)  # before the look into `undo`: a list may grow
    old = table.undo.get(address, ABSENT) if before else ABSENT
    if isinstance(old, list):
        require_readable(len(old))
        return old.copy()  # a roll-back makes it live again, and then it may grow
    if elements is None or old is None:
        return None
    length = old if isinstance(old, int) else length
    require_readable(length)
    return elements[:length]


def _had_list(table: ListTable, address: Any) -> bool:
    is_there = address in table.live
    old = table.undo.get(address, ABSENT)
    return is_there if old is ABSENT else old is not None


def _map(table: MapTable, address: Any, *, before: bool) -> dict[Any, Any] | None:
    entries = table.live.get(address)
    require_readable(0 if entries is None else len(entries))
    found = {} if entries is None else entries.copy()
    old = table.undo.get(address) if before else None
    if old is not None:
        require_readable(len(old))
        found.update(old.copy())
    return {key: value for key, value in found.items() if value is not ABSENT} or None


def _had_map(table: MapTable, address: Any) -> bool:
    entries = table.live.get(address)
    size = 0 if entries is None else len(entries)  # before the look into `undo`: a map may change
    old = table.undo.get(address)
    if old is None:
        return size > 0
    changed = old.copy()
    if size > len(changed) or any(value is not ABSENT for value in changed.values()):
        return True
    return _map(table, address, before=True) is not None
