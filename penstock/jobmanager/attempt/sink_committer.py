"""Commits the transactions of a job's sinks, from the JobManager."""

from collections.abc import Mapping, Sequence

from penstock.errors import UsageError
from penstock.graph.job_graph import JobGraph
from penstock.model.sink import Sink
from penstock.model.snapshot import Committable


class GraphCommitter:
    """The sinks of a job, by uid."""

    def __init__(self, job_id: str, sinks: Mapping[str, Sink]) -> None:
        self._job_id = job_id
        self._sinks = sinks

    @staticmethod
    def of(job_id: str, graph: JobGraph) -> "GraphCommitter":
        """The committer of a graph's transactional sinks."""
        return GraphCommitter(job_id, {sink.uid: sink.spec.config for sink in graph.sinks if sink.spec.kind == "sink"})

    def commit(self, committables: Sequence[Committable]) -> None:
        """Make the transactions visible; repeating it changes nothing."""
        for committable in committables:
            self._sink(committable).commit(committable)

    def sweep(self, keep: Sequence[Committable], attempt: int) -> None:
        """Abort the transactions of attempts before `attempt`, except those in `keep`."""
        for uid, sink in self._sinks.items():
            sink.sweep(self._job_id, uid, [c for c in keep if c.sink_uid == uid], attempt)

    def _sink(self, committable: Committable) -> Sink:
        if committable.sink_uid not in self._sinks:  # PROTOCOL R26
            raise UsageError(
                f"the checkpoint holds output of sink {committable.sink_uid!r} that is not committed yet, and the "
                f"program has no such sink; start the program once with it, then remove it"
            )
        return self._sinks[committable.sink_uid]
