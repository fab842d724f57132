"""The sizes of keyed states, measured on the rows that checkpoints write anyway.

Bytes are those of keys, map keys and values as Arrow columns hold them: the width of a number, the length of a text,
without offsets, null maps and compression. What is exact:

- After a full table: entries, bytes, key groups and the largest keys.
- After a delta: the number of entries, except of a map with many keys. Bytes and key groups are those of the last full
  table, adjusted for the entries that were added or removed, which are assumed to be like the rows of the delta. Of the
  largest keys, those in the delta have their new size; a key that moved up because another shrank is missing. A delta
  of a map, or of a state with namespaces, has only some entries of a key: its size is the largest that was seen.

For a state that no function has declared since the restore, rows are counted: an entry of several deltas counts again.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.codec import arrow_functions as pc
from penstock.codec.keys import KeyCodec
from penstock.model.snapshot import StateSize, StateTableInfo
from penstock.state.backend.sealed_state import SealedTable, SealedTables
from penstock.state.format.table_rows import (
    DELETED_COLUMN,
    HASH_COLUMN,
    Rows,
    encode_rows,
    key_codec_of,
    key_groups_of,
)

LARGEST = 10
KEY_TEXT_LENGTH = 80

Numbers = npt.NDArray[np.int64]
Key = tuple[int, str]
"""Hash and text of a state key, which identify it among the largest keys."""


class TableSizes:
    """The sizes of one subtask's tables. Used by the thread that writes its snapshots, and before it by the restore."""

    def __init__(self, key_groups: tuple[int, int], max_parallelism: int) -> None:
        self._key_groups = key_groups
        self._max_parallelism = max_parallelism
        self._figures: dict[tuple[str, str], Figures] = {}

    def measured(self, operator: SealedTables) -> SealedTables:
        """The same sealed tables, whose rows are measured as they are written."""
        codec = operator.key_codec
        tables = [replace(table, rows=partial(self._watch, table, codec)) for table in operator.tables]
        return replace(operator, tables=tuple(tables))

    def _watch(self, table: SealedTable, key_codec: KeyCodec) -> Iterator[pa.RecordBatch]:
        rows = table.rows()
        is_exact = not isinstance(rows, pa.Table)
        if isinstance(rows, pa.Table):
            rows = iter(rows.to_batches())
        elif isinstance(rows, Rows):
            rows = encode_rows(rows, table.info, key_codec)
        seen = self._start(table.info, is_delta=not table.full)
        for batch in rows:
            seen.add(batch)
            yield batch
        state = (table.info.operator_uid, table.info.name)
        if table.full:
            self._figures[state] = seen.figures(is_exact=is_exact)
        else:
            self._figures[state] = seen.on_top_of(self._figure(table.info), table.entries)

    def restored(self, info: StateTableInfo, rows: pa.Table) -> None:
        """Measure rows of a snapshot. The first rows of a table are taken for the whole table."""
        state = (info.operator_uid, info.name)
        seen = self._start(info, is_delta=state in self._figures)
        for batch in rows.to_batches():
            seen.add(batch)
        is_first = state not in self._figures
        self._figures[state] = seen.figures(is_exact=False) if is_first else seen.on_top_of(self._figures[state], None)

    def sizes(self, sealed: Iterable[SealedTables]) -> list[StateSize]:
        """The sizes of these tables."""
        infos = [table.info for operator in sealed for table in operator.tables]
        return [self._figure(info).size(info, self._key_groups) for info in infos]

    def _figure(self, info: StateTableInfo) -> "Figures":
        known = self._figures.get((info.operator_uid, info.name))
        empty = np.zeros(self._max_parallelism, np.int64)
        return known or Figures(empty, empty)

    def _start(self, info: StateTableInfo, *, is_delta: bool) -> "Measurement":
        known = self._figure(info).largest if is_delta and not _has_several_rows(info) else {}
        return Measurement(info, self._max_parallelism, frozenset(key_hash for key_hash, _ in known))


@dataclass(frozen=True)
class Figures:
    """The size of one table."""

    group_entries: Numbers
    group_bytes: Numbers
    largest: dict[Key, int] = field(default_factory=dict)
    entries: int = 0
    entries_exact: bool = False
    bytes_exact: bool = False

    def size(self, info: StateTableInfo, key_groups: tuple[int, int]) -> StateSize:
        """The same for an ack."""
        first, last = key_groups
        return StateSize(
            info.operator_uid,
            info.name,
            self.entries,
            int(self.group_bytes.sum()),
            self.entries_exact,
            self.bytes_exact,
            first,
            self.group_entries[first : last + 1].tolist(),
            self.group_bytes[first : last + 1].tolist(),
            [(text, size) for (_, text), size in self.largest.items()],
        )


class Measurement:
    """Adds up the rows of one table, batch by batch."""

    def __init__(self, info: StateTableInfo, max_parallelism: int, watched_hashes: frozenset[int]) -> None:
        self._sums_rows = _has_several_rows(info)
        self._codec = key_codec_of(info)
        self._max_parallelism = max_parallelism
        self._watched = np.array(sorted(watched_hashes), np.int32)
        self._entries, self._bytes, self._deletes = (np.zeros(max_parallelism, np.int64) for _ in range(3))
        self._row_count = 0
        self._largest: dict[Key, int] = {}
        self._touched: dict[Key, int] = {}
        """New sizes of watched keys; 0 where the entry was deleted."""

    def add(self, batch: pa.RecordBatch) -> None:
        """Measure the rows of a batch."""
        if not len(batch):
            return
        self._row_count += len(batch)
        groups = key_groups_of(batch, self._max_parallelism)
        sizes = batch_bytes(batch)
        if batch[DELETED_COLUMN].true_count:
            deleted = batch[DELETED_COLUMN].to_numpy(zero_copy_only=False)
            self._deletes += np.bincount(groups[deleted], minlength=self._max_parallelism)
            sizes[deleted] = 0
            self._add_groups(groups[~deleted], sizes[~deleted])
        else:
            self._add_groups(groups, sizes)
        self._add_largest(batch, sizes)

    def _add_groups(self, groups: npt.NDArray[np.int32], sizes: Numbers) -> None:
        count = self._max_parallelism
        self._entries += np.bincount(groups, minlength=count)
        # Sums of doubles are exact up to 2^53 bytes.
        self._bytes += np.bincount(groups, sizes, minlength=count).astype(np.int64)

    def _add_largest(self, batch: pa.RecordBatch, sizes: Numbers) -> None:
        hashes, rows = batch[HASH_COLUMN].to_numpy(), None
        if len(self._watched):
            touched = np.flatnonzero(np.isin(hashes, self._watched))
            self._touched.update(zip(self._keys(batch, touched), sizes[touched].tolist(), strict=True))
        if self._sums_rows:  # rows of one key are mostly adjacent
            rows = np.concatenate([[0], np.flatnonzero(np.diff(hashes)) + 1])
            sizes = np.add.reduceat(sizes, rows)
        floor = min(self._largest.values()) if len(self._largest) == LARGEST else 0
        top = np.flatnonzero(sizes > floor)  # few, after the first batch
        if len(top) > LARGEST:
            top = top[np.argpartition(sizes[top], -LARGEST)[-LARGEST:]]
        places = top if rows is None else rows[top]
        for key, size in zip(self._keys(batch, places), sizes[top].tolist(), strict=True):
            known = self._largest.get(key, 0)
            self._largest[key] = known + size if self._sums_rows else max(known, size)
        self._largest = _top(self._largest)

    def _keys(self, batch: pa.RecordBatch, rows: npt.NDArray[np.intp]) -> list[Key]:
        if not len(rows):
            return []
        taken = batch.take(pa.array(rows))
        keys = self._codec.decode([taken[name] for name, _ in self._codec.fields])
        texts = [key_text(self._codec.to_user_key(key)) for key in keys]
        return list(zip(taken[HASH_COLUMN].to_pylist(), texts, strict=True))

    def figures(self, *, is_exact: bool) -> Figures:
        """The size of a table that consists of these rows."""
        count = int(self._entries.sum())
        return Figures(self._entries, self._bytes, self._largest, count, is_exact, is_exact)

    def on_top_of(self, old: Figures, entries: int | None) -> Figures:
        """The size of a table that had the size `old` before these rows changed, and now has so many entries."""
        if not self._row_count and entries in (None, old.entries):
            return replace(old, entries_exact=old.entries_exact or entries is not None)
        growth = 0 if entries is None else entries - old.entries
        came, went = int(self._entries.sum()), max(1, int(old.group_entries.sum()))
        share = self._entries if growth > 0 else self._deletes
        mean = self._bytes.sum() / came if growth > 0 and came else old.group_bytes.sum() / went
        change = spread(growth, share if share.any() else old.group_entries)
        return Figures(
            np.maximum(old.group_entries + change, 0),
            np.maximum(old.group_bytes + np.rint(change * mean).astype(np.int64), 0),
            self._largest_on_top_of(old.largest),
            old.entries + growth,
            entries is not None,
        )

    def _largest_on_top_of(self, old: dict[Key, int]) -> dict[Key, int]:
        if self._sums_rows:
            return _top({key: max(old.get(key, 0), self._largest.get(key, 0)) for key in {**old, **self._largest}})
        return _top({**old, **self._touched, **self._largest})


def _top(sizes: dict[Key, int]) -> dict[Key, int]:
    """The largest, largest first; none of size 0."""
    found = [key for key, size in sizes.items() if size > 0]
    return {key: sizes[key] for key in sorted(found, key=lambda key: (-sizes[key], key[1]))[:LARGEST]}


def spread(total: int, weights: Numbers) -> Numbers:
    """`total` split into integers in proportion to weights; all of it to the first one if all weights are 0."""
    whole = int(weights.sum())
    parts = np.rint(weights * (total / whole)).astype(np.int64) if whole else np.zeros(len(weights), np.int64)
    parts[int(np.argmax(weights))] += total - int(parts.sum())
    return parts


def _has_several_rows(info: StateTableInfo) -> bool:
    """A key may have several rows, of which a delta holds only some."""
    return info.kind == "map" or info.namespace is not None


def batch_bytes(batch: pa.RecordBatch) -> Numbers:
    """The bytes of each row: of its key, map key and value."""
    total: Numbers = np.zeros(len(batch), np.int64)
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name not in (HASH_COLUMN, DELETED_COLUMN):
            total += column_bytes(column)
    return total


def column_bytes(column: pa.Array) -> Numbers | int:
    """The bytes of each value; a single number if all are equal."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _lengths(column)
    if pa.types.is_struct(kind):
        return sum((column_bytes(child) for child in column.flatten()), start=0)
    if pa.types.is_map(kind):
        return _element_bytes(column, [column.keys, column.items])
    if pa.types.is_list(kind):
        return _element_bytes(column, [column.values])
    return max(1, int(kind.bit_width) // 8)


def _lengths(column: pa.Array) -> Numbers:
    lengths = pc.binary_length(column)
    if lengths.null_count:
        lengths = lengths.fill_null(0)
    found: Numbers = lengths.to_numpy().astype(np.int64)
    return found


def _element_bytes(column: pa.Array, elements: Sequence[pa.Array]) -> Numbers:
    offsets = column.offsets.to_numpy()
    total = np.zeros(len(column), np.int64)
    for child in elements:
        sizes = column_bytes(child)
        if isinstance(sizes, int):
            total += np.diff(offsets) * sizes
        else:
            total += np.diff(np.concatenate([[0], np.cumsum(sizes)])[offsets])
    return total


def key_text(key: Any) -> str:
    """A user's key as text for display, on one line and of limited length."""
    try:
        text = key if isinstance(key, str) and key.isprintable() else repr(key)
    except ValueError:  # Python does not print a number of thousands of digits
        text = f"<{type(key).__name__}>"
    return text if len(text) <= KEY_TEXT_LENGTH else text[: KEY_TEXT_LENGTH - 1] + "…"
