"""The rows of a subtask in the order of batch mode: broadcast rows first, then the rows of one key after the other.

Rows of a key are in the order of their event time, whichever input they come from; those without one are last, and
those of the same time stay in the order of arrival. What does not fit into memory is sorted in runs, which are
written to disk and merged block by block.
"""

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.codec.keys import KeyCodec
from penstock.graph.job_graph import EdgePlan, StagePlan
from penstock.model.ids import new_nonce
from penstock.model.units import MIB
from penstock.runtime.exchange_rows import EDGE, TIMESTAMP, key_columns_of

RUN_BYTES = 64 * MIB
"""Rows of this size are sorted at once, which needs about three times as much memory."""
BLOCK_ROWS = 10_000
BROADCAST, REGULAR, KEYED = range(3)
"""The order of inputs."""


def input_rank(edge: EdgePlan) -> int:
    """Broadcast records come first, then those of inputs without a key, then those of inputs with one."""
    return {"broadcast": BROADCAST, "key": KEYED}.get(edge.partitioning, REGULAR)


class RowOrder:
    """What the rows of a stage are sorted by."""

    def __init__(self, stage: StagePlan) -> None:
        ranks = [input_rank(edge) for edge in stage.inputs]
        self.is_needed = stage.batch and (stage.keyed or len(set(ranks)) > 1)
        """Otherwise the order of arrival is as good as any."""
        self._ranks = np.array([*ranks, 0], np.int8)
        """By edge; barriers, whose edge is -1, come first."""
        self._has_broadcast = BROADCAST in ranks
        keyed = [n for n, edge in enumerate(stage.inputs) if stage.keyed and edge.partitioning == "key"]
        self._keys = [(index, _key_names(index, stage.inputs[index])) for index in keyed]

    def columns(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """The columns to sort by: the rank of the input, the parts of the key, the event time."""
        edges = rows.column(EDGE).to_numpy(zero_copy_only=False)
        found = [pa.array(self._ranks[edges])]
        if self._keys:
            found += self._key_columns(rows, edges)
            if TIMESTAMP in rows.schema.names:
                time = rows.column(TIMESTAMP)
                found.append(pc.if_else(found[0].cast(pa.bool_()), time, None) if self._has_broadcast else time)
        return found

    def _key_columns(self, rows: pa.RecordBatch, edges: Any) -> list[pa.Array]:
        """The parts of the key, each from the columns of the row's own input."""
        _, names = self._keys[0]
        found = [part for name in names for part in _flat(rows.column(name))]
        for index, names in self._keys[1:]:
            own = pa.array(edges == index)
            parts = [part for name in names for part in _flat(rows.column(name))]
            found = [pc.if_else(own, part.cast(key.type), key) for key, part in zip(found, parts, strict=True)]
        return found


class SortedRows:
    """Sorts the rows of one stage. Its runs are files of a folder of their own, which is deleted at the end."""

    def __init__(self, order: RowOrder, folder: Path, run_bytes: int = RUN_BYTES) -> None:
        self._order = order
        self._folder = folder
        self._run_bytes = run_bytes

    def sort(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the batches in order."""
        if not self._order.is_needed:
            yield from batches
            return
        folder = self._folder / f"sorted-{new_nonce()}"
        try:
            runs = self._runs(batches, folder)
            yield from runs[0] if len(runs) == 1 else self._merge(runs)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _runs(self, batches: Iterable[pa.RecordBatch], folder: Path) -> list[Iterator[pa.RecordBatch]]:
        """Sorted runs, in the order of arrival. All but the last are files."""
        runs: list[Iterator[pa.RecordBatch]] = []
        held: list[pa.RecordBatch] = []
        held_bytes = 0
        for batch in batches:
            if held_bytes > self._run_bytes:
                folder.mkdir(parents=True, exist_ok=True)
                runs.append(_stored(self._sorted(held), folder / f"{len(runs)}.arrow"))
                held, held_bytes = [], 0
            held.append(batch)
            held_bytes += batch.nbytes
        return [*runs, _blocks(self._sorted(held))]

    def _sorted(self, batches: list[pa.RecordBatch]) -> pa.RecordBatch | None:
        """All rows of the batches in one; None without any."""
        if not batches:
            return None
        rows = pa.Table.from_batches(batches).combine_chunks().to_batches()
        if not rows:
            return None
        columns = self._order.columns(rows[0])
        names = [str(number) for number in range(len(columns))]
        keys = pa.RecordBatch.from_arrays(columns, names)
        order = pc.sort_indices(keys, [(name, "ascending") for name in names])  # stable, null at the end
        return rows[0].take(order)

    def _merge(self, runs: list[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        """Merge sorted runs. Of equal rows those of an earlier run come first."""
        heads = [head for run in runs if (head := _Head.of(self._order, run)) is not None]
        while heads:
            # Up to the end of the block that ends first, all rows are known.
            first = min(range(len(heads)), key=lambda number: (heads[number].last, number))
            last = heads[first].last
            parts = [head.take(last, inclusive=number <= first) for number, head in enumerate(heads)]
            rows = self._sorted([part for part in parts if part.num_rows])
            if rows is not None:
                yield from _blocks(rows)
            heads = [head for head in heads if head.load()]


class _Head:
    """The rows at the front of a run: of one block of it."""

    def __init__(self, order: RowOrder, run: Iterator[pa.RecordBatch], rows: pa.RecordBatch) -> None:
        self._order = order
        self._run = run
        self._set(rows)

    @staticmethod
    def of(order: RowOrder, run: Iterator[pa.RecordBatch]) -> "_Head | None":
        """The first block of a run; None if it has no rows."""
        rows = next(run, None)
        return None if rows is None else _Head(order, run, rows)

    def _set(self, rows: pa.RecordBatch) -> None:
        self._rows = rows
        self._columns = self._order.columns(rows)
        self._start = 0
        self.last = self._at(rows.num_rows - 1)
        """What the block's last row is sorted by."""

    def _at(self, index: int) -> tuple[Any, ...]:
        """What a row is sorted by, in a form that Python compares: as in Arrow, NaN after every number, None last."""
        values = [column[index].as_py() for column in self._columns]
        return tuple((1, value is None) if value is None or value != value else (0, value) for value in values)

    def take(self, last: tuple[Any, ...], *, inclusive: bool) -> pa.RecordBatch:
        """Remove the rows up to `last`."""
        low, high = self._start, self._rows.num_rows
        while low < high:
            middle = (low + high) // 2
            value = self._at(middle)
            if value < last or (inclusive and value == last):
                low = middle + 1
            else:
                high = middle
        taken = self._rows.slice(self._start, low - self._start)
        self._start = low
        return taken

    def load(self) -> bool:
        """Load the next block if all rows were taken; false at the end of the run."""
        if self._start == self._rows.num_rows:
            rows = next(self._run, None)
            if rows is None:
                return False
            self._set(rows)
        return True


def _blocks(rows: pa.RecordBatch | None) -> Iterator[pa.RecordBatch]:
    if rows is not None:
        for start in range(0, rows.num_rows, BLOCK_ROWS):
            yield rows.slice(start, BLOCK_ROWS)


def _stored(rows: pa.RecordBatch | None, path: Path) -> Iterator[pa.RecordBatch]:
    """Write a run, and return its blocks."""
    assert rows is not None, "a run that is stored has rows"
    with pa.ipc.new_file(str(path), rows.schema) as writer:
        for block in _blocks(rows):
            writer.write_batch(block)
    return _read(path)


def _read(path: Path) -> Iterator[pa.RecordBatch]:
    """The blocks of a run. They are read, not mapped: mapped pages would count as memory of the process."""
    with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)


def _key_names(index: int, edge: EdgePlan) -> list[str]:
    """The columns of an input's key in the stage's input."""
    if edge.key_selector is not None:
        return [f"k{index}_{n}" for n in range(len(KeyCodec(edge.key_types).fields))]
    return [f"i{index}_{n}" for n in key_columns_of(edge)]


def _flat(column: pa.Array) -> list[pa.Array]:
    """The fields of a struct, which Arrow does not sort by itself."""
    if not pa.types.is_struct(column.type):
        return [column]
    return [part for field in column.flatten() for part in _flat(field)]
