"""The positions of the sources: the attempt's offset-log folder, and its copies in checkpoints (PROTOCOL R19)."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from penstock.checkpoint.file_names import source_file_path
from penstock.checkpoint.snapshot.manifest import verify_file
from penstock.connectors.source_connectors import CollectionSource, NumberSequenceSource
from penstock.graph.job_graph import SourcePlan
from penstock.jobmanager.attempt.attempt import Origin
from penstock.model.snapshot import SourcePosition, StateFile
from penstock.runtime.snapshots.snapshot_writer import INLINE_LIMIT_BYTES
from penstock.spark import offset_log
from penstock.storage.memory import MemoryStorage
from penstock.storage.storage import Storage


class SourceTracker:
    """The position after the last committed epoch; `position` puts it into storage for a checkpoint."""

    def __init__(
        self,
        folder: Path,
        storage: Storage | None,
        origin: Origin,
        uids: list[str],
    ) -> None:
        """`storage` is None for a job without checkpoints; `uids` are those of the program's sources, in order."""
        self.folder = folder
        """The offset log that Spark's query of this attempt writes."""
        self._storage = storage
        self._uids = uids
        self._origin = origin
        self._restored = origin.manifest.sources if origin.manifest is not None else None
        self._batch_id = self._restored.batch_id if self._restored is not None else -1
        self._last = self._restored
        self.is_known = False
        """Every source has an offset. A new one may begin somewhere else the next time, until it was read once."""

    def restore(self) -> None:
        """Make the attempt's own folder, so that the query continues after the restored position, source by source."""
        data = None
        if self._restored is not None and self._restored.file is not None:
            saved = self._restored.source_uids
            data = offset_log.arrange(self._read(self._restored.file), saved, self._uids)
            if self._origin.snapshot is not None or saved != self._uids:
                self._last = None
            self.is_known = set(self._uids) <= set(saved)
        if data is None:
            self._batch_id = -1
        offset_log.build(self.folder, data, self._batch_id, new_query_id=self._origin.snapshot is not None)

    def _read(self, file: StateFile) -> bytes:
        return verify_file(self._origin.storage or self._storage or MemoryStorage(), file)

    def advance(self, batch_id: int) -> None:
        """The epoch of this batch is committed."""
        self._batch_id = batch_id
        self.is_known = True

    def have_ended(self, sources: Sequence[SourcePlan]) -> bool:
        """Whether every source has ended by the last committed epoch. Only sources that run functions say so."""
        if not any(source.spec.kind == "function" for source in sources):
            return False
        offsets = offset_log.read_offsets(self.folder, self._batch_id)
        return len(offsets) == len(sources) and all(map(_has_ended, sources, offsets))

    def position(self, checkpoint: int, attempt: int) -> SourcePosition:
        """The position for a checkpoint: after the last committed `run_epoch`, not at the newest file (R15)."""
        if self._last is not None and self._last.batch_id == self._batch_id and self._last.file is not None:
            if self._last.file.inline is not None:
                return self._last
        data = offset_log.capture(self.folder, self._batch_id)
        self._last = SourcePosition(self._batch_id, self._put(data, checkpoint, attempt), self._uids)
        return self._last

    def _put(self, data: bytes, checkpoint: int, attempt: int) -> StateFile:
        digest = hashlib.sha256(data).hexdigest()
        if len(data) <= INLINE_LIMIT_BYTES or self._storage is None:  # without checkpoints, for a savepoint
            return StateFile("", len(data), digest, data)
        path = source_file_path(attempt, checkpoint)
        self._storage.put_new(path, data)
        return StateFile(path, len(data), digest)


def _has_ended(source: SourcePlan, offset: Any) -> bool:
    if not isinstance(offset, dict):
        return False
    given = source.spec.object
    if isinstance(given, CollectionSource):
        return bool(offset["records"] == len(given.records))
    if isinstance(given, NumberSequenceSource):
        return bool(offset["records"] == given.end - given.start + 1)
    return bool(offset.get("ended"))
