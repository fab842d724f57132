"""`CachedDataStream`: a stream whose records are kept when a job has computed them, for later jobs of the same program.

The records stay with Spark's executors, on their disks if they do not fit into memory, until `invalidate` or the end
of the program. A job that needs a cache which is filled reads it as a source; one that needs an empty cache fills it.
"""

from typing import Any, NoReturn

from penstock.datastream.data_stream import DataStream
from penstock.errors import UsageError
from penstock.graph.runtime_mode import choose_batch
from penstock.graph.stream_graph import Node, SinkSpec, SourceSpec, StreamGraph
from penstock.model.execution import RuntimeExecutionMode


class StreamCache:
    """The records of one stream, once a job has computed them. It is the writer of a `to_spark` sink."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._inputs = node.inputs
        self._frame: Any = None

    def __call__(self, frame: Any, epoch: Any) -> None:
        """Keep the rows of a batch job, which has one epoch."""
        self._frame = frame.localCheckpoint(eager=True)

    @property
    def is_filled(self) -> bool:
        """Whether a job has computed the records."""
        return self._frame is not None

    def clear(self) -> None:
        """Drop the records."""
        self._frame = None

    def connect(self) -> None:
        """Make the node a source of the records if they are there, and otherwise a part of the program again."""
        node = self._node
        if self.is_filled:
            node.kind, node.inputs = "source", ()
            node.payload = SourceSpec("static", self._frame, node.output_type, bounded=True)
        else:
            node.kind, node.inputs, node.payload = "union", self._inputs, None

    def fill_in(self, graph: StreamGraph) -> None:
        """Let the next job fill the cache."""
        sink = graph.add("sink", "Cache", [self._node.id], SinkSpec("spark", self), self._node.output_type)
        sink.uid = f"cache-{self._node.id}"


class CachedDataStream(DataStream):
    """A stream that is computed once and read by several jobs, in batch mode."""

    def __init__(self, stream: DataStream) -> None:
        graph = stream._environment._graph
        node = graph.add("union", "Cache", [stream._node.id], None, stream.get_type())
        super().__init__(stream._environment, node)
        self._cache = StreamCache(node)
        stream._environment._caches.append(self._cache)

    def invalidate(self) -> None:
        """Drop the records. The next job that uses the stream computes and keeps them again."""
        self._cache.clear()

    def cache(self) -> "CachedDataStream":
        """The stream itself: it is cached already."""
        return self

    def name(self, name: str) -> NoReturn:
        """Not supported: call it before cache()."""
        _no_operator("Set name")

    def get_name(self) -> NoReturn:
        """Not supported: call it before cache()."""
        _no_operator("Get name")

    def uid(self, uid: str) -> NoReturn:
        """Not supported: call it before cache()."""
        _no_operator("Set uid")

    def set_uid_hash(self, uid_hash: str) -> NoReturn:
        """Not supported: call it before cache()."""
        _no_operator("Set uid hash")

    def set_parallelism(self, parallelism: int) -> NoReturn:
        """Not supported: call it before cache()."""
        _no_operator("Set parallelism")

    def set_max_parallelism(self, max_parallelism: int) -> NoReturn:
        """Not supported: call it before cache()."""
        _no_operator("Set max parallelism")

    def force_non_parallel(self) -> NoReturn:
        """Not supported: call it before cache()."""
        _no_operator("Set force non-parallel")

    def set_buffer_timeout(self, timeout_millis: int) -> NoReturn:
        """Not supported: call it before cache()."""
        _no_operator("Set buffer timeout")

    def start_new_chain(self) -> NoReturn:
        """Not supported: call it before cache()."""
        _no_operator("Start new chain")

    def disable_chaining(self) -> NoReturn:
        """Not supported: call it before cache()."""
        _no_operator("Disable chaining")

    def slot_sharing_group(self, slot_sharing_group: Any) -> NoReturn:
        """Not supported: call it before cache()."""
        _no_operator("Setting slot sharing group")


def use_caches(graph: StreamGraph, caches: list[StreamCache], mode: RuntimeExecutionMode) -> None:
    """Read what is cached, and keep what is computed for the first time. Called before each job."""
    for cache in caches:
        cache.connect()
    needed = graph.to_execute()
    empty = [cache for cache in caches if cache._node in needed and not cache.is_filled]
    if any(cache._node in needed for cache in caches) and not choose_batch(needed, mode):
        raise UsageError(
            "cache() keeps the records of bounded input, in batch mode only; call "
            "env.set_runtime_mode(RuntimeExecutionMode.BATCH), or leave cache() out"
        )
    for cache in empty:
        cache.fill_in(graph)


def _no_operator(action: str) -> NoReturn:
    raise UsageError(
        f"{action} for CachedDataStream is not supported. Call it on the stream before cache(), or on the one that the "
        f"next operator returns"
    )
