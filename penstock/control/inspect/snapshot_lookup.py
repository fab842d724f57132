"""Looks keys up in checkpoints and savepoints of a running job, for queries."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from penstock.checkpoint.snapshot.stored_snapshot import KeyedState, StoredSnapshot, open_stored
from penstock.codec.json_text import json_array
from penstock.codec.tagged_json import to_plain
from penstock.control.state_query import (
    MAX_ANSWER_BYTES,
    RETRY_AFTER_S,
    QueryKeys,
    StateAnswer,
    StateQuery,
    check_readable,
    namespace_of,
)
from penstock.errors import RequestRefusedError, UsageError
from penstock.model.snapshot import StateTableInfo
from penstock.state.backend.live_reads import visible
from penstock.state.format.keyed_parquet import rows_of
from penstock.state.format.table_rows import HASH_COLUMN, decode_rows, key_codec_of, namespace_codec_of

HELD_BYTES = 64 << 20
"""Of the state that was read last: so much is kept in memory for the next query."""
TURN_LIMIT_S = 5.0
"""For the queries before."""


@dataclass(frozen=True)
class _Held:
    place: tuple[str, str, str]
    rows: pa.Table


class SnapshotLookup:
    """Reads states of snapshots. What was read last is kept, because queries of it follow one another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opened: StoredSnapshot | None = None
        self._opened_path = ""
        self._held: _Held | None = None

    def read(
        self, path: str, operator: str, name: str, query: StateQuery, expiry: tuple[int, int] = (0, 0)
    ) -> StateAnswer:
        """The answer from the snapshot at a path. `expiry`: the time to live of the state, and the time now."""
        with self._turn():
            snapshot = self._open(path)
            try:
                found = snapshot.state(operator, name, ["keyed"])
            except UsageError:  # the snapshot is older than the state: nothing was stored then
                manifest = snapshot.manifest
                nothing = [msgspec.Raw(b"null")] * len(query.keys)
                return StateAnswer(nothing, manifest.epoch, manifest.checkpoint_id)
            assert isinstance(found, KeyedState)
            check_readable(found.info)
            ttl_ms, now_ms = expiry
            show = visible(found.info, ttl_ms, now_ms) if ttl_ms or not found.info.ttl else visible(found.info, 1, 0)
            entries = _entries(found.info, self._rows(path, snapshot, found, query), query.limit, show)
        manifest = snapshot.manifest
        texts, more = _answer(found.info, entries, query)
        return StateAnswer(texts, manifest.epoch, manifest.checkpoint_id, more)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """One query reads at a time; those that would wait long come again."""
        if not self._lock.acquire(timeout=TURN_LIMIT_S):
            raise RequestRefusedError(503, "BUSY", "another query reads a snapshot", RETRY_AFTER_S)
        try:
            yield
        finally:
            self._lock.release()

    def _open(self, path: str) -> StoredSnapshot:
        if self._opened is None or self._opened_path != path:
            self._opened, self._held = open_stored(path), None
            self._opened_path = path
        return self._opened

    def _rows(self, path: str, snapshot: StoredSnapshot, state: KeyedState, query: StateQuery) -> Iterator[pa.Table]:
        """Rows in the backends' form: those of the keys and some others, or all; a scan stops when it has enough."""
        place = (path, state.uid, state.name)
        if self._held is not None and self._held.place == place:
            parts: Iterator[pa.Table] = iter([self._held.rows])
        else:
            read = (rows_of(table, state.info, state.ttl_ms) for table in state.read(snapshot.storage))
            parts = self._keeping(place, read)
        if query.limit:
            yield from parts
            return
        keys = QueryKeys.of(state.info, query.keys)
        hashes = keys.codec.hash_batch(keys.codec.encode(keys.keys))
        for part in parts:
            near = part.filter(pa.array(np.isin(part[HASH_COLUMN].to_numpy(), hashes)))
            if len(near):
                yield near

    def _keeping(self, place: tuple[str, str, str], parts: Iterator[pa.Table]) -> Iterator[pa.Table]:
        kept: list[pa.Table] = []
        size = 0
        for part in parts:
            size += part.nbytes
            if size <= HELD_BYTES:
                kept.append(part)
            else:
                kept.clear()
            yield part
        if size <= HELD_BYTES and kept:
            self._held = _Held(place, pa.concat_tables(kept))


def _answer(info: StateTableInfo, seen: dict[Any, Any], query: StateQuery) -> tuple[list[msgspec.Raw], bool]:
    """The JSON of the values of the keys, or of the entries; and whether entries were left out."""
    codec, spaces = key_codec_of(info), namespace_codec_of(info)
    texts: list[msgspec.Raw] = []
    size = 0
    if query.limit:
        for address, value in seen.items():
            key, namespace = address if spaces is not None else (address, None)
            entry = [to_plain(codec.to_user_key(key)), to_plain(value)]
            if spaces is not None:
                entry.insert(1, to_plain(spaces.to_user_key(namespace)))
            text = json_array(entry)
            size += len(text)
            if len(texts) == query.limit or size > MAX_ANSWER_BYTES:
                return texts, True
            texts.append(msgspec.Raw(text))
        return texts, False
    keys = QueryKeys.of(info, query.keys)
    wanted = namespace_of(info, query.namespace)
    values: list[Any] = []
    for key in keys.keys:
        if spaces is None or wanted is not None:
            value = seen.get(key if spaces is None else (key, wanted))
            values.append(None if value is None else to_plain(value))
        else:
            own = [
                [to_plain(spaces.to_user_key(address[1])), to_plain(value)]
                for address, value in seen.items()
                if address[0] == key
            ]
            values.append(own or None)
    text = json_array(values)
    if len(text) > MAX_ANSWER_BYTES:
        raise RequestRefusedError(413, "ANSWER_TOO_LARGE", "the answer is too large; ask for fewer keys")
    return msgspec.json.decode(text, type=list[msgspec.Raw]), False


def _entries(
    info: StateTableInfo, parts: Iterable[pa.Table], limit: int, show: Callable[[Any], Any] | None
) -> dict[Any, Any]:
    """Address -> what is seen there. With a limit little more than so many, and not all of the state is read."""
    stored: dict[Any, Any] = {}
    seen: dict[Any, Any] = {}
    is_map = info.map_key_type is not None
    for part in parts:
        found = _stored_entries(info, part)
        if limit and len(seen) > limit:  # a file may end in the middle of a map, and the next one have more of it
            found = {address: value for address, value in found.items() if address in seen}
            if not found:
                break
        for address, value in found.items():
            if is_map:
                value = stored[address] = {**stored.get(address, {}), **value}
            value = value if show is None else show(value)
            if value is not None:
                seen[address] = value
        if limit and len(seen) > limit and not is_map:
            break
    return seen


def _stored_entries(info: StateTableInfo, part: pa.Table) -> dict[Any, Any]:
    """Address -> stored value."""
    rows = decode_rows(part, info)
    if rows.map_keys is None:
        return dict(zip(rows.keys, rows.values, strict=True))
    found: dict[Any, Any] = {}
    for key, map_key, value in zip(rows.keys, rows.map_keys, rows.values, strict=True):
        found.setdefault(key, {})[map_key] = value
    return found
