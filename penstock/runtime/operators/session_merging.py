"""Which sessions the rows of a batch belong to."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.codec.columns import decode_column, encode_column
from penstock.model.descriptors import ValueStateDescriptor
from penstock.model.key_slots import KeySlots
from penstock.model.row_groups import Indices, Numbers, RowGroups
from penstock.model.time import MAX_WATERMARK
from penstock.model.type_information import list_of
from penstock.model.windows import TimeWindowSerializer
from penstock.runtime.operators.window_results import window_ends
from penstock.state.backend.keyed_backend import KeyedBackend

SESSIONS = "sessions"
Address = tuple[Any, tuple[int, int]]
"""A state key, and the start and end of a session."""


@dataclass(frozen=True)
class RowSessions:
    """The distinct sessions that some rows are in."""

    groups: RowGroups
    """Of the rows, one for each session."""
    addresses: list[Address]
    keys: Numbers
    """For each session the number of its key."""
    starts: Indices
    ends: Indices
    replaced: dict[int, list[Address]]
    """Number of a session -> those of the state that it replaces, of which it may be one."""


def _addresses(keys: KeySlots, key_numbers: Numbers, starts: Indices, ends: Indices) -> list[Address]:
    state_keys = keys.state_keys
    found = [state_keys[number] for number in key_numbers.tolist()]
    return list(zip(found, zip(starts.tolist(), ends.tolist(), strict=True), strict=True))


@dataclass(eq=False)
class _Session:
    start: int
    end: int
    replaced: list[tuple[int, int]] = field(default_factory=list)
    """Sessions of the state that are in it."""
    parts: list[int] = field(default_factory=list)
    """Numbers of the parts of the batch that are in it."""


class SessionMerging:
    """The sessions of each key, as keyed state: those that are not over yet."""

    def __init__(self, gap: int, backend: KeyedBackend) -> None:
        self._gap = gap
        window = TimeWindowSerializer().namespace_type
        self._sessions = backend.bulk_values(ValueStateDescriptor(SESSIONS, list_of(window)))

    def add(self, keys: KeySlots, rows: Indices, times: Indices) -> RowSessions:
        """The sessions of rows after they were added. `times` are those of these rows."""
        key_numbers = keys.indices[rows].astype(np.int64)
        order = np.lexsort((times, key_numbers))
        ordered, sorted_keys = times[order], key_numbers[order]
        ends = window_ends(ordered, self._gap)
        begins = np.ones(len(rows), np.bool_)
        begins[1:] = (sorted_keys[1:] != sorted_keys[:-1]) | (ordered[1:] > ends[:-1])
        part_of_row = np.empty(len(rows), np.int64)
        part_of_row[order] = np.cumsum(begins) - 1
        firsts = np.flatnonzero(begins)
        lasts = np.append(firsts[1:], len(rows)) - 1
        parts = zip(sorted_keys[firsts].tolist(), ordered[firsts].tolist(), ends[lasts].tolist(), strict=True)
        return self._merge(keys, list(parts), part_of_row)

    def _merge(self, keys: KeySlots, parts: list[tuple[int, int, int]], part_of_row: Indices) -> RowSessions:
        touched = list(dict.fromkeys(number for number, _, _ in parts))
        state_keys = [keys.state_keys[number] for number in touched]
        known = dict(zip(touched, self._load(state_keys), strict=True))
        for number, (key, start, end) in enumerate(parts):
            known[key] = _with_part(known[key], _Session(start, end, [], [number]))
        self._store(state_keys, [[(s.start, s.end) for s in known[key]] for key in touched])
        changed = [(key, session) for key in touched for session in known[key] if session.parts]
        window_of_part = np.empty(len(parts), np.int64)
        for window, (_, session) in enumerate(changed):
            window_of_part[session.parts] = window
        key_numbers = np.array([key for key, _ in changed], np.int64)
        starts = np.array([session.start for _, session in changed], np.int64)
        ends = np.array([session.end for _, session in changed], np.int64)
        replaced = {
            window: [(keys.state_keys[key], bounds) for bounds in session.replaced]
            for window, (key, session) in enumerate(changed)
            if session.replaced
        }
        groups = RowGroups(window_of_part[part_of_row], len(changed))
        return RowSessions(groups, _addresses(keys, key_numbers, starts, ends), key_numbers, starts, ends, replaced)

    def merged_end(self, key: Any, time: int) -> int:
        """The end of the session that a row would be in."""
        part = _Session(time, min(time + self._gap, MAX_WATERMARK), [], [0])
        return next(session.end for session in _with_part(self._load([key])[0], part) if session.parts)

    def remove(self, addresses: Sequence[Address]) -> None:
        """Remove sessions that are over."""
        keys = list(dict.fromkeys(key for key, _ in addresses))
        over = set(addresses)
        left = [
            [(session.start, session.end) for session in sessions if (key, (session.start, session.end)) not in over]
            for key, sessions in zip(keys, self._load(keys), strict=True)
        ]
        self._store(keys, left)

    def _load(self, state_keys: list[Any]) -> list[list[_Session]]:
        stored = decode_column(self._sessions.get(state_keys), self._sessions.type)
        return [[_Session(start, end, [(start, end)]) for start, end in windows or ()] for windows in stored]

    def _store(self, state_keys: list[Any], windows: list[list[tuple[int, int]]]) -> None:
        self._sessions.put(state_keys, encode_column([found or None for found in windows], self._sessions.type))


def _with_part(sessions: list[_Session], part: _Session) -> list[_Session]:
    """The sessions of a key after those that overlap or touch a new part have become one with it."""
    near = [session for session in sessions if session.start <= part.end and session.end >= part.start]
    for session in near:
        part.start, part.end = min(part.start, session.start), max(part.end, session.end)
        part.replaced += session.replaced
        part.parts += session.parts
    return [*(session for session in sessions if session not in near), part]
