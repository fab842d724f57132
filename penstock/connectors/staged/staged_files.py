"""Staged rows: Arrow streams in the job's checkpoint folder, or inside the committable when they are few.

A staged file is `taskowned/<sink>/<attempt>-<subtask>-<sequence>-<nonce>.arrow`, where <sink> is a hash of the sink's
uid and <sequence> counts the files of one writer. No name is used twice, and a committable names its file with size and
hash, so the file of a dropped run can never be published.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

import pyarrow as pa

from penstock.connectors.file.part_names import escape, sink_hash
from penstock.errors import CheckpointCorruptError, FileMissingError, SinkTransactionLostError, UsageError
from penstock.model.ids import new_nonce
from penstock.model.options.execution_options import EPOCH_MAX_ROWS
from penstock.model.sink import SinkContext
from penstock.model.snapshot import TOGETHER, Committable
from penstock.storage.paths import TEMPORARY_MARK
from penstock.storage.storage import Storage, open_storage

FOLDER = "taskowned"
INLINE_BYTES = 16 * 1024
"""Rows of up to this size are part of the committable, and so of the manifest."""
MAX_INLINE_BYTES = 64 * 1024 * 1024
"""The limit where there is no checkpoint folder."""
_NAME = re.compile(
    rf"{FOLDER}/(?P<sink>[0-9a-f]{{12}})/(?P<attempt>\d+)-(?P<subtask>\d+)-(?P<sequence>\d+)-[0-9a-f]+\.arrow"
)

Description = dict[str, str | int]


def stage(batches: Sequence[pa.RecordBatch], context: SinkContext, sequence: int) -> tuple[str, Description]:
    """Make rows durable. Returns the name of their transaction, and its description for the committable."""
    data = _to_stream(batches)
    nonce = new_nonce()
    index = context.subtask.index
    who = f"{context.attempt}-{index}-{sequence}-{nonce}"
    description: Description = {
        TOGETHER: 1,
        "job": context.job_id,
        "sink": context.sink_uid,
        "attempt": context.attempt,
        "rows": sum(batch.num_rows for batch in batches),
        "size": len(data),
        "sha256": sha256(data).hexdigest(),
    }
    if context.staging is None or len(data) <= INLINE_BYTES:
        _require_inline(len(data), context)
        description["inline"] = base64.b64encode(data).decode()
    else:
        path = f"{FOLDER}/{sink_hash(context.sink_uid)}/{who}.arrow"
        context.staging.put_new(path, data)
        description |= {"folder": context.staging.uri, "file": path}
    return f"{escape(context.job_id)}-{sink_hash(context.sink_uid)}-{who}", description


@dataclass(frozen=True)
class StagedRows:
    """The rows of one committable."""

    committable: Committable

    @property
    def row_count(self) -> int:
        """How many rows there are."""
        return int(self.committable.data["rows"])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, read and verified now."""
        data = self._read()
        if len(data) != self.committable.data["size"] or sha256(data).hexdigest() != self.committable.data["sha256"]:
            raise CheckpointCorruptError(self._place(), str(self.committable.data["sha256"]), sha256(data).hexdigest())
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            yield from reader

    def delete(self) -> None:
        """Delete the file, if there is one."""
        if "file" in self.committable.data:
            open_storage(str(self.committable.data["folder"])).delete(self._path())

    def _read(self) -> bytes:
        if "inline" in self.committable.data:
            try:
                return base64.b64decode(str(self.committable.data["inline"]), validate=True)
            except binascii.Error as error:
                raise CheckpointCorruptError(self._place(), "base64", str(error)) from error
        try:
            return open_storage(str(self.committable.data["folder"])).read(self._path())
        except FileMissingError as error:
            raise SinkTransactionLostError(
                f"sink {self.committable.sink_uid!r} has lost {self.row_count} rows of subtask "
                f"{self.committable.subtask} (epoch {self.committable.epoch}): {self._place()} is gone; put the file "
                f"back and resume the job, or restore an older checkpoint"
            ) from error

    def _path(self) -> str:
        path = str(self.committable.data["file"])
        if _NAME.fullmatch(path) is None:
            raise CheckpointCorruptError(
                f"committable {self.committable.transaction}", "the name of staged rows", repr(path)
            )
        return path

    def _place(self) -> str:
        data = self.committable.data
        return f"{data['folder']}/{data['file']}" if "file" in data else f"committable {self.committable.transaction}"


def sweep_staged(storage: Storage, sink_uids: Iterable[str], keep: Sequence[Committable], attempt: int) -> None:
    """Delete staged files of these sinks that no checkpoint needs.

    These are the files of older attempts that are not in `keep`, and those of this attempt that their writer made
    before one in `keep`: they are committed, or belong to a dropped run. A writer that died while it wrote left a
    temporary file, which goes with the others.
    """
    sinks = {sink_hash(uid) for uid in sink_uids}
    kept = {str(committable.data.get("file")) for committable in keep}
    newest: dict[tuple[str, int, int], int] = {}
    for match in filter(None, map(_NAME.fullmatch, kept)):
        writer = (match["sink"], int(match["attempt"]), int(match["subtask"]))
        newest[writer] = max(newest.get(writer, 0), int(match["sequence"]))
    for path in storage.list(f"{FOLDER}/"):
        name = _NAME.fullmatch(path.partition(TEMPORARY_MARK)[0])
        if name is None or name["sink"] not in sinks or path in kept:
            continue
        of_attempt, subtask = int(name["attempt"]), int(name["subtask"])
        is_behind = int(name["sequence"]) < newest.get((name["sink"], of_attempt, subtask), 0)
        if of_attempt < attempt or (of_attempt == attempt and is_behind):
            storage.delete(path)


def _to_stream(batches: Sequence[pa.RecordBatch]) -> bytes:
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(stream.getvalue())


def _require_inline(size: int, context: SinkContext) -> None:
    if size > MAX_INLINE_BYTES:
        raise UsageError(
            f"sink {context.sink_uid!r} has {size:,} bytes to commit at once and no checkpoint folder to keep them in "
            f"(limit {MAX_INLINE_BYTES:,}); call env.enable_checkpointing(...) with a checkpoint folder, or make "
            f"epochs shorter with {EPOCH_MAX_ROWS.key}"
        )
