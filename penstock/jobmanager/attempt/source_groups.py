"""Consumer groups of Kafka sources: after each completed checkpoint they get its offsets, so that lag can be watched.

A thread of its own does it: a broker that does not answer must not delay checkpoints. Only the newest checkpoint
counts, and a failed commit is reported and left to the next one.
"""

import threading
from collections.abc import Callable

from penstock.checkpoint.snapshot.manifest import verify_file
from penstock.connectors.kafka.group_offsets import GroupOffsets
from penstock.connectors.kafka.kafka_source import KafkaSource
from penstock.connectors.kafka.partition_offsets import from_json_form
from penstock.errors import ConnectorError
from penstock.graph.job_graph import JobGraph
from penstock.model.snapshot import Manifest
from penstock.spark.offset_log import last_offsets
from penstock.spark.source_frames import first_streams
from penstock.storage.storage import Storage

CLOSE_TIMEOUT_S = 5.0


class SourceGroups:
    """The groups of a job's sources, from the first completed checkpoint to `close`."""

    def __init__(self, graph: JobGraph, storage: Storage | None, log: Callable[[str], None]) -> None:
        objects = [source.spec.object for source in graph.sources]
        telling = {i: o for i, o in enumerate(objects) if isinstance(o, KafkaSource) and o.commits_offsets}
        streams = first_streams(graph.sources) if telling else []
        self._groups = {streams[index]: GroupOffsets(source) for index, source in telling.items()}
        """By the number of the stream."""
        self._storage = storage
        self._log = log
        self._newest: Manifest | None = None
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def follow(self, newest: Manifest | None) -> None:
        """`newest` is the newest completed checkpoint. Returns at once."""
        if not self._groups or newest is None:
            return
        with self._changed:
            if self._newest is not None and self._newest.checkpoint_id == newest.checkpoint_id:
                return
            self._newest = newest
            self._changed.notify()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="source groups", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Commit the newest checkpoint, if the broker answers soon, and end."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        done: Manifest | None = None
        while True:
            with self._changed:
                while self._newest is done and not self._is_closed:
                    self._changed.wait()
                if self._newest is done:
                    break
                done = self._newest
            assert done is not None
            self._commit(done)
        for group in self._groups.values():
            group.close()

    def _commit(self, manifest: Manifest) -> None:
        file = manifest.sources.file
        if file is None:
            return
        data = file.inline
        if data is None:
            assert self._storage is not None, "without checkpoints nothing is committed"
            data = verify_file(self._storage, file)
        offsets = last_offsets(data)
        for stream, group in self._groups.items():
            if stream < len(offsets) and offsets[stream] is not None:
                try:
                    group.commit(from_json_form(offsets[stream]))
                except ConnectorError as error:
                    self._log(f"the consumer group was not told of checkpoint {manifest.checkpoint_id}: {error}")
