"""Looks keys up in checkpoints and savepoints of a running job, for queries."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.checkpoint.snapshot.stored_snapshot import KeyedState, StoredSnapshot, open_stored
from penstock.codec.json_text import json_array
from penstock.codec.tagged_json import to_plain
from penstock.control.state_query import (
    MAX_ANSWER_BYTES,
    RETRY_AFTER_S,
    QueryAdmission,
    QueryKeys,
    StateAnswer,
    StateQuery,
    check_readable,
    namespace_of,
    split_array,
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


_Place: TypeAlias = tuple[str, str, str]
"""The path of a snapshot, an operator, and the name of a state."""


@dataclass(frozen=True)
class _Held:
    place: _Place
    rows: pa.Table


class SnapshotLookup:
    """Reads states of snapshots. What was read last is kept, because queries of it follow one another."""

    def __init__(self) -> None:
        self._admission = QueryAdmission()
        self._lock = threading.Lock()
        self._opened: StoredSnapshot | None = None
        self._opened_path = ""
        self._held: _Held | None = None
        self._large: set[_Place] = set()
        """States of the opened snapshot that are too large to be held."""

    def read(
        self, path: str, operator: str, name: str, query: StateQuery, expiry: tuple[int, int] = (0, 0)
    ) -> StateAnswer:
        """The answer from the snapshot at a path. `expiry`: the time to live of the state, and the time now."""
        ttl_ms, now_ms = expiry
        with self._admission.admitted(), self._turn():
            snapshot = self._open(path)
            try:
                found = snapshot.state(operator, name, ["keyed"])
            except UsageError:  # the snapshot is older than the state: nothing was stored then
                manifest = snapshot.manifest
                nothing = [msgspec.Raw(b"null")] * len(query.keys)
                return StateAnswer(nothing, manifest.epoch, manifest.checkpoint_id)
            assert isinstance(found, KeyedState)
            check_readable(found.info)
            show = visible(found.info, ttl_ms, now_ms) if ttl_ms or not found.info.ttl else visible(found.info, 1, 0)
            rows = self._rows(path, snapshot, found, query)
            if query.limit:
                texts, more = scan(found.info, rows, query.limit, show)
            else:
                texts, more = _look_up(found.info, rows, query, show), False
            return StateAnswer(texts, snapshot.manifest.epoch, snapshot.manifest.checkpoint_id, more)

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
            self._large.clear()
        return self._opened

    def _rows(self, path: str, snapshot: StoredSnapshot, state: KeyedState, query: StateQuery) -> Iterator[pa.Table]:
        """Rows in the backends' form: those of the keys and some others, or all of them for a scan."""
        place = (path, state.uid, state.name)
        if query.limit:
            held = self._held_rows(place)
            yield from self._keeping(place, _all_rows(snapshot, state)) if held is None else [held]
            return
        keys = QueryKeys.of(state.info, query.keys)
        hashes = keys.codec.hash_batch(keys.codec.encode(keys.keys))
        for part in self._parts(place, snapshot, state, hashes):
            near = part.filter(pa.array(np.isin(part[HASH_COLUMN].to_numpy(), hashes)))
            if len(near):
                yield near

    def _parts(
        self, place: _Place, snapshot: StoredSnapshot, state: KeyedState, hashes: npt.NDArray[np.int32]
    ) -> Iterator[pa.Table]:
        """The whole state, if it can be kept for the next query; else what the key groups of these hashes take."""
        is_large = place in self._large or state.table_bytes > HELD_BYTES
        if self._held_rows(place) is None and not is_large:
            for _ in self._keeping(place, _all_rows(snapshot, state)):
                if place in self._large:
                    break
        held = self._held_rows(place)
        if held is not None:
            yield held
            return
        groups = {int(group) for group in np.mod(hashes, np.int32(snapshot.manifest.max_parallelism))}
        for table in state.read_groups(snapshot.storage, groups):
            yield rows_of(table, state.info, state.ttl_ms)

    def _held_rows(self, place: _Place) -> pa.Table | None:
        return self._held.rows if self._held is not None and self._held.place == place else None

    def _keeping(self, place: _Place, parts: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """The parts. They are held once all have been read, unless they are too large together."""
        kept: list[pa.Table] = []
        size = 0
        for part in parts:
            size += part.nbytes
            if size <= HELD_BYTES:
                kept.append(part)
            else:
                kept.clear()
                self._large.add(place)
            yield part
        if size <= HELD_BYTES and kept:
            self._held = _Held(place, pa.concat_tables(kept))


def _all_rows(snapshot: StoredSnapshot, state: KeyedState) -> Iterator[pa.Table]:
    return (rows_of(table, state.info, state.ttl_ms) for table in state.read(snapshot.storage))


def scan(
    info: StateTableInfo, parts: Iterable[pa.Table], limit: int, show: Callable[[Any], Any] | None
) -> tuple[list[msgspec.Raw], bool]:
    """The JSON of the first entries, and whether there are others. No more parts are read than that takes."""
    codec, spaces = key_codec_of(info), namespace_codec_of(info)
    texts: list[msgspec.Raw] = []
    size = 0
    for address, stored in _whole_entries(info, parts):
        value = stored if show is None else show(stored)
        if value is None:
            continue
        key, namespace = address if spaces is not None else (address, None)
        entry = [to_plain(codec.to_user_key(key)), to_plain(value)]
        if spaces is not None:
            entry.insert(1, to_plain(spaces.to_user_key(namespace)))
        text = json_array(entry)
        size += len(text)
        if len(texts) == limit or size > MAX_ANSWER_BYTES:
            return texts, True
        texts.append(msgspec.Raw(text))
    return texts, False


def _whole_entries(info: StateTableInfo, parts: Iterable[pa.Table]) -> Iterator[tuple[Any, Any]]:
    """Address and stored value of each entry. A map is held back until a part has nothing of it."""
    held: dict[Any, Any] = {}
    for part in parts:
        found = _entries(info, [part])
        if info.map_key_type is None:
            yield from found.items()
            continue
        for address in [address for address in held if address not in found]:
            yield address, held.pop(address)
        for address, entries in found.items():
            held.setdefault(address, {}).update(entries)
    yield from held.items()


def _look_up(
    info: StateTableInfo, parts: Iterable[pa.Table], query: StateQuery, show: Callable[[Any], Any] | None
) -> list[msgspec.Raw]:
    """The JSON of the values of the keys."""
    entries = _entries(info, parts)
    seen = {address: value if show is None else show(value) for address, value in entries.items()}
    spaces = namespace_codec_of(info)
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
                if address[0] == key and value is not None
            ]
            values.append(own or None)
    text = json_array(values)
    if len(text) > MAX_ANSWER_BYTES:
        raise RequestRefusedError(413, "ANSWER_TOO_LARGE", "the answer is too large; ask for fewer keys")
    return split_array(text)


def _entries(info: StateTableInfo, parts: Iterable[pa.Table]) -> dict[Any, Any]:
    """Address -> stored value."""
    found: dict[Any, Any] = {}
    for part in parts:
        rows = decode_rows(part, info)
        if rows.map_keys is None:
            found.update(zip(rows.keys, rows.values, strict=True))
        else:
            for key, map_key, value in zip(rows.keys, rows.map_keys, rows.values, strict=True):
                found.setdefault(key, {})[map_key] = value
    return found
