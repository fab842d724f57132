"""The sizes of a job's states: the sum over its subtasks, limited so that it can be sent and stored."""

from collections.abc import Iterable, Sequence
from itertools import groupby

import msgspec

from penstock.model.snapshot import StateSize
from penstock.state.backend.table_sizes import LARGEST

MAX_STATES = 256
MAX_KEY_GROUPS = 65536
"""How many key groups, of all states together, have figures of their own."""


def add_up(sizes: Iterable[StateSize]) -> list[StateSize]:
    """One size per operator and state, in the order of their names: the sum over the subtasks."""
    ordered = sorted(sizes, key=_state)
    return bounded([_sum(list(parts)) for _, parts in groupby(ordered, key=_state)])


def bounded(sizes: Sequence[StateSize]) -> list[StateSize]:
    """The largest states, in their order, with figures of key groups for as many of them as the limit allows."""
    kept = sorted(range(len(sizes)), key=lambda index: -sizes[index].size_bytes)[:MAX_STATES]
    room, found = MAX_KEY_GROUPS, {}
    for index in kept:
        size = sizes[index]
        room -= len(size.group_bytes)
        found[index] = size if room >= 0 else msgspec.structs.replace(size, group_entries=[], group_bytes=[])
    return [found[index] for index in sorted(found)]


def _state(size: StateSize) -> tuple[str, str]:
    return size.operator_uid, size.name


def _sum(parts: list[StateSize]) -> StateSize:
    first = min(part.first_key_group for part in parts)
    end = max(part.first_key_group + len(part.group_bytes) for part in parts)
    entries, sizes = [0] * (end - first), [0] * (end - first)
    for part in parts:
        for group, (count, size_bytes) in enumerate(
            zip(part.group_entries, part.group_bytes, strict=True), part.first_key_group - first
        ):
            entries[group] += count
            sizes[group] += size_bytes
    # Figures of some key groups would look like figures of all of them.
    is_whole = all(part.group_bytes for part in parts)
    return StateSize(
        parts[0].operator_uid,
        parts[0].name,
        sum(part.entries for part in parts),
        sum(part.size_bytes for part in parts),
        all(part.entries_exact for part in parts),
        all(part.bytes_exact for part in parts),
        first,
        entries if is_whole else [],
        sizes if is_whole else [],
        sorted((key for part in parts for key in part.largest), key=lambda key: -key[1])[:LARGEST],
        any(part.on_disk for part in parts),
    )
