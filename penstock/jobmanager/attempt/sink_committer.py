"""Commits the transactions of a job's sinks, from the JobManager."""

from collections.abc import Callable, Mapping, Sequence

from penstock.connectors.staged.staged_files import StagedRows, sweep_staged
from penstock.connectors.staged.staged_sink import StagedSink, staged_outputs
from penstock.errors import FencedError, PenstockError, SinkTransactionLostError, UsageError
from penstock.graph.job_graph import JobGraph
from penstock.model.sink import Sink
from penstock.model.snapshot import Committable, commit_groups
from penstock.storage.storage import Storage


class GraphCommitter:
    """The sinks of a job, by uid."""

    def __init__(
        self,
        job_id: str,
        sinks: Mapping[str, Sink],
        storage: Storage | None = None,
        report: Callable[[str], None] = lambda text: None,
        own_from: int | None = None,
    ) -> None:
        """As `of`, with the sinks themselves."""
        self._job_id = job_id
        self._sinks = sinks
        self._storage = storage
        self._report = report
        self._own = None if own_from is None else (job_id, own_from)
        self._waiting: dict[str, str] = {}
        """Sinks that do not commit now, and why."""
        self._staged = [uid for uid, sink in sinks.items() if isinstance(sink, StagedSink)]

    @staticmethod
    def of(
        job_id: str,
        graph: JobGraph,
        storage: Storage | None,
        report: Callable[[str], None] = lambda text: None,
        own_from: int | None = None,
    ) -> "GraphCommitter":
        """The committer of a graph's transactional sinks.

        `storage` is the job's checkpoint folder, where `sweep` deletes staged rows. None: a commit that has succeeded
        is never repeated, so its staged rows are deleted at once.

        `report` is called when a commit begins to wait, when the reason changes, and when it went through. What
        attempts from `own_from` on have written must be the newest output there is.
        """
        sinks = {sink.uid: sink.spec.config for sink in graph.sinks if sink.spec.kind == "sink"}
        return GraphCommitter(job_id, sinks, storage, report, own_from)

    def commit(self, committables: Sequence[Committable]) -> None:
        """Make the transactions visible; repeating it changes nothing."""
        for group in commit_groups(committables):
            sink = self._sink(group[0])
            self._commit(sink, group)
            if isinstance(sink, StagedSink) and (sink.keeps_marker or self._storage is None):
                self._delete_staged(group)

    def sweep(self, keep: Sequence[Committable], attempt: int) -> None:
        """Abort the transactions of attempts before `attempt`, except those in `keep`."""
        for uid, sink in self._sinks.items():
            sink.sweep(self._job_id, uid, [c for c in keep if c.sink_uid == uid], attempt)
        if self._storage is not None and self._staged:
            sweep_staged(self._storage, self._staged, keep, attempt)

    def _commit(self, sink: Sink, group: Sequence[Committable]) -> None:
        """Commit, and say what a commit that fails waits for: it is tried again (PROTOCOL R21)."""
        uid = group[0].sink_uid
        try:
            if isinstance(sink, StagedSink):
                for output in staged_outputs(group, self._own):
                    sink.publish(output)
            else:
                sink.commit_all(group)
        except (FencedError, SinkTransactionLostError):
            raise
        except Exception as error:
            reason = str(error) or type(error).__name__
            if self._waiting.get(uid) != reason:
                self._waiting[uid] = reason
                self._report(f"output of sink {uid!r} waits, because its commit failed and is tried again: {reason}")
            raise
        if self._waiting.pop(uid, None) is not None:
            self._report(f"output of sink {uid!r} is committed, after it had to wait")

    def _delete_staged(self, committables: Sequence[Committable]) -> None:
        """Delete rows that are published; those of another job's checkpoint stay where they are (PROTOCOL R25)."""
        for committable in committables:
            if committable.data.get("job") == self._job_id:
                StagedRows(committable).delete()

    def _sink(self, committable: Committable) -> Sink:
        if committable.sink_uid not in self._sinks:  # PROTOCOL R26
            raise UsageError(
                f"the checkpoint holds output of sink {committable.sink_uid!r} that is not committed yet, and the "
                f"program has no such sink; start the program once with it, then remove it"
            )
        return self._sinks[committable.sink_uid]


def check_sinks(graph: JobGraph, *, resumed: bool) -> None:
    """Raise if a sink of the job cannot work. One that does not answer now is no reason to refuse a resumed job."""
    for sink in graph.sinks:
        if sink.spec.kind != "sink":
            continue
        try:
            sink.spec.config.check(sink.record_type)
        except PenstockError as error:
            if not (resumed and error.retryable):
                raise
