"""The sizes of the states of one RocksDB, from RocksDB's own figures: no row is read.

Entries are the rows of its files minus the deleted ones. That is exact if every row was written once since its files
were compacted. A row that was written again counts again until then, and a delete of a missing row subtracts one. A
list has one row for each epoch that added to it. Bytes are those of the files on disk, compressed, including the rows
that compaction has yet to remove; those of the largest keys are not compressed. The figures of a file are spread evenly
over its key groups.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from penstock.codec.keys import KeyCodec
from penstock.model.snapshot import StateSize, StateTableInfo
from penstock.state.backend.table_sizes import LARGEST, Numbers, key_text, spread
from penstock.state.rocksdb.key_bytes import KeyBytes, row_bytes
from penstock.state.rocksdb.store import Family, LiveFile

LISTINGS = 3
"""How often files are listed if a compaction ends between the two listings that are needed."""


class StoreSizes:
    """The sizes of all states of one backend at a seal."""

    def __init__(self, keys: KeyBytes, key_codec: KeyCodec, key_groups: tuple[int, int]) -> None:
        self._keys = keys
        self._codec = key_codec
        self._key_groups = key_groups

    def seal(
        self, live_files: Callable[[], Sequence[LiveFile]], states: Sequence[tuple[StateTableInfo, Family]]
    ) -> Callable[[], list[StateSize]]:
        """A function that computes the sizes in another thread. For use after a checkpoint: all rows are in files."""
        for _ in range(LISTINGS):
            files = {file.number: file for file in live_files()}
            numbers = [family.file_numbers() for _, family in states]
            if all(files.keys() >= found for found in numbers):
                break
        kept = [(info, dict(family.largest.rows)) for info, family in states]
        return lambda: [
            self._size(info, [files[number] for number in found if number in files], rows)
            for (info, rows), found in zip(kept, numbers, strict=True)
        ]

    def _size(self, info: StateTableInfo, files: Sequence[LiveFile], rows: dict[bytes, int]) -> StateSize:
        first, last = self._key_groups
        entries, sizes = (np.zeros(last - first + 1, np.int64) for _ in range(2))
        for file in files:
            covered = self._covered(file)
            entries += spread(file.row_count, covered)
            sizes += spread(file.size, covered)
        return StateSize(
            info.operator_uid,
            info.name,
            max(0, int(entries.sum())),
            int(sizes.sum()),
            entries_exact=False,
            bytes_exact=False,
            first_key_group=first,
            group_entries=np.maximum(entries, 0).tolist(),
            group_bytes=sizes.tolist(),
            largest=self._largest(info, rows),
            on_disk=True,
        )

    def _covered(self, file: LiveFile) -> Numbers:
        """1 for every key group between a file's first row and its last."""
        first, last = self._key_groups
        size = self._keys.group_size
        start, end = int.from_bytes(file.first_row[:size], "big"), int.from_bytes(file.last_row[:size], "big")
        groups = np.arange(first, last + 1)
        return ((groups >= start) & (groups <= end)).astype(np.int64)

    def _largest(self, info: StateTableInfo, rows: dict[bytes, int]) -> list[tuple[str, int]]:
        """The largest keys, by the sum of their rows among the largest rows."""
        sums: dict[Any, int] = {}
        for row, size in rows.items():
            key = self._key_of(info, row)
            sums[key] = sums.get(key, 0) + size
        ordered = sorted(((key_text(self._codec.to_user_key(key)), size) for key, size in sums.items()))
        return sorted(ordered, key=lambda found: -found[1])[:LARGEST]

    def _key_of(self, info: StateTableInfo, row: bytes) -> Any:
        """The state key; its rows in all namespaces count together."""
        rows = row_bytes(self._keys, info)
        if info.kind in ("map", "list"):
            found = rows.split_scope(row)[0]
        else:
            found = rows.split_timer(row)[1] if info.kind == "timer" else rows.key_of_row(row)
        return found if info.namespace is None else found[0]
