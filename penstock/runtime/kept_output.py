"""The output of an epoch, kept until the next one begins: a task that is retried reads it again (PROTOCOL R10)."""

import weakref
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from penstock.model.ids import new_nonce
from penstock.model.units import MIB

HELD_BYTES = 64 * MIB
"""Of one edge of one subtask; anything more is written to disk."""


class KeptBatches:
    """Batches in order, in memory up to a limit. They can be read any number of times after `end`."""

    def __init__(self, schema: pa.Schema, folder: Path | None) -> None:
        """Without a folder everything stays in memory."""
        self._schema = schema
        self._folder = folder
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self._path: Path | None = None
        self._writer: pa.RecordBatchStreamWriter | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Append a batch."""
        self._held.append(batch)
        self._held_bytes += batch.nbytes
        if self._folder is not None and self._held_bytes > HELD_BYTES:
            self._spill(self._folder)

    def end(self) -> None:
        """There are no more batches."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        assert self._writer is None, "the output is read before its end"
        if self._path is not None:
            with pa.memory_map(str(self._path)) as file, pa.ipc.open_stream(file) as reader:
                yield from reader
        yield from self._held

    def _spill(self, folder: Path) -> None:
        if self._writer is None:
            folder.mkdir(parents=True, exist_ok=True)
            self._path = folder / f"output-{new_nonce()}"
            weakref.finalize(self, self._path.unlink, missing_ok=True)
            self._writer = pa.ipc.new_stream(str(self._path), self._schema)
        for batch in self._held:
            self._writer.write_batch(batch)
        self._held.clear()
        self._held_bytes = 0
