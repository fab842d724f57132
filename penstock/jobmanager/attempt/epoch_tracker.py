"""The epochs of one attempt, as the JobManager sees them: one at a time, from header to commit (PROTOCOL section 3).

Knows nothing of Spark or sockets: an engine gets a header, runs the stages, and commits once every subtask has
reported. Reports and failures come from other threads.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from penstock import failpoint
from penstock.checkpoint.no_checkpoints import Coordinator
from penstock.checkpoint.pending_checkpoint import EpochRecord
from penstock.checkpoint.savepoints import Savepoints
from penstock.checkpoint.sink_commits import SinkCommitter
from penstock.clock import Clock
from penstock.errors import PenstockError, RpcError
from penstock.graph.job_graph import JobGraph, SourceRef
from penstock.jobmanager.attempt.partition_progress import PartitionProgress
from penstock.model.ids import SubtaskId, Version
from penstock.model.snapshot import Committable, Manifest, SourcePosition, commit_groups
from penstock.model.time import MAX_WATERMARK, MIN_WATERMARK
from penstock.runtime.alignment import source_key
from penstock.runtime.process.messages import Deployed, EpochHeader, SubtaskReport, SubtaskRows

REPORT_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class EpochSummary:
    """A committed epoch, for progress and for sinks that live in the JobManager."""

    epoch: int
    rows_in: int
    """Read from the sources; what a stage gets from another stage is not counted again."""
    rows_out: int
    now_ms: int
    printed: list[str]
    collected: list[tuple[str, bytes]]
    committables: list[Committable]
    checkpoint: int | None
    untimed: int = 0
    """Rows that were dropped because they had no event time."""
    late: int = 0
    """Records that windows have dropped because they came too late."""
    reports: Sequence[SubtaskReport] = ()
    """Of all subtasks."""
    reported_ms: int = 0
    """When the last of them arrived."""
    first_task_ms: int | None = None
    """When the first task of its Spark job began, if that is known."""


@dataclass
class AttemptState:
    """What an attempt starts from: a restored manifest, or nothing."""

    job_id: str
    attempt: int
    versions: dict[SubtaskId, Version]
    epoch: int = 0
    now_ms: int = 0
    watermarks: dict[str, int] = field(default_factory=dict)
    max_timestamps: dict[str, int] = field(default_factory=dict)

    @staticmethod
    def of(job_id: str, attempt: int, versions: dict[SubtaskId, Version], manifest: Manifest | None) -> "AttemptState":
        """The state after restoring the manifest."""
        if manifest is None:
            return AttemptState(job_id, attempt, versions)
        return AttemptState(
            job_id,
            attempt,
            versions,
            manifest.epoch,
            manifest.now_ms,
            dict(manifest.watermarks),
            dict(manifest.max_timestamps),
        )


@dataclass(frozen=True)
class FinishedEpoch:
    """What queries of live state see: the last epoch that every subtask has finished (PROTOCOL R14)."""

    epoch: int
    now_ms: int


class EpochTracker:
    """Begins and commits the epochs of one attempt. `begin` and `commit` by one thread at a time, `report` by any."""

    def __init__(
        self,
        graph: JobGraph,
        state: AttemptState,
        coordinator: Coordinator,
        savepoints: Savepoints,
        clock: Clock,
        committer: SinkCommitter | None = None,
    ) -> None:
        """`committer`: commits each epoch as a transaction of its own; None: output waits for checkpoints."""
        self._committer = committer
        self._graph = graph
        self._state = state
        self._coordinator = coordinator
        self._savepoints = savepoints
        self._clock = clock
        self._generators = {g.uid: g for stage in graph.stages for g in stage.watermark_generators}
        self._progress = PartitionProgress(clock.now_ms())
        self._idle_before: list[str] = []
        """In the last epoch."""
        self._readers = _reading_stages(graph)
        self._reports: dict[SubtaskId, SubtaskReport] = {}
        self._reported_ms = 0
        self._changed = threading.Condition()
        self._failure: PenstockError | None = None
        self._running: EpochHeader | None = None
        self._next_timers: dict[SubtaskId, tuple[int | None, int | None]] = {}
        self._waiting: dict[SubtaskId, int] = {}
        self._notified_epoch = state.epoch
        """Of the newest completed checkpoint that functions have been notified of."""
        self._notified_aborted: set[int] = set()
        self._sent: tuple[int, list[int]] = (state.epoch, [])
        """What `_notified_epoch` and `_notified_aborted` become when the running epoch commits."""
        self._finished = FinishedEpoch(state.epoch, state.now_ms)
        self.on_failure: Callable[[], None] = lambda: None

    # ---- other threads

    def report(self, report: SubtaskReport) -> None:
        """A subtask has finished the running epoch (PROTOCOL R10)."""
        with self._changed:
            if self._running is None or report.epoch != self._running.epoch:
                raise RpcError(f"a report of epoch {report.epoch}, but {self._running} is running")
            self._reports[report.subtask] = report
            self._reported_ms = self._clock.now_ms()
            self._changed.notify_all()

    def fail(self, error: PenstockError) -> None:
        """The attempt is over; the first error counts."""
        with self._changed:
            if self._failure is None:
                self._failure = error
            self._changed.notify_all()
        self.on_failure()

    @property
    def failure(self) -> PenstockError | None:
        """What ended the attempt."""
        return self._failure

    # ---- one epoch

    def begin(self, *, final: bool = False, forced: bool = False, savepoint: bool = False) -> EpochHeader:
        """The header of the next epoch, with a checkpoint if one may start now.

        `savepoint`: its barrier carries the requested savepoint, if there is one. It is taken at a checkpoint (R29).
        """
        if self._failure is not None:
            raise self._failure
        state = self._state
        epoch, subtasks = state.epoch + 1, list(state.versions)
        reached_ms = self._reached_ms
        # The end of the input follows its last rows at once: how long Spark takes to notice it is no matter of theirs.
        now_ms = reached_ms if final and reached_ms else max(self._clock.now_ms(), reached_ms)
        request = self._savepoints.due() if savepoint else None
        self._coordinator.check_fenced()
        checkpoint = self._coordinator.start(epoch, subtasks, forced=final or forced or request is not None)
        base = self._coordinator.base_of(checkpoint) if checkpoint is not None else None
        order = self._savepoints.begin(epoch, subtasks, checkpoint) if request is not None else None
        drain = request is not None and request.drain
        completed, aborted = self.unannounced_checkpoints()
        header = EpochHeader(
            state.job_id,
            state.attempt,
            epoch,
            now_ms,
            checkpoint,
            base.checkpoint_id if base is not None else None,
            self._watermarks(final=final or drain),
            self._idle(),
            commit_epoch=self._committer is not None,
            final=final,
            completed=completed.checkpoint_id if completed is not None else None,
            aborted=aborted,
            spool_after_ms=self._spool_after_ms(checkpoint, aligned=final or order is not None),
            drain=drain,
            savepoint=order,
        )
        self._sent = (completed.epoch if completed is not None else self._notified_epoch, aborted)
        with self._changed:
            self._reports.clear()
            self._running = header
        return header

    @property
    def _reached_ms(self) -> int:
        """Time never goes back, not even behind the checkpoint before the first epoch (PROTOCOL I-6)."""
        newest = self._coordinator.newest_completed
        return max(self._state.now_ms, newest.now_ms if newest is not None else 0)

    def unannounced_checkpoints(self) -> tuple[Manifest | None, list[int]]:
        """The newest completed checkpoint, and the aborted ones, that functions have not been notified of."""
        newest = self._coordinator.newest_completed
        failed = [stats.checkpoint_id for stats in self._coordinator.history() if stats.status == "failed"]
        is_new = newest is not None and newest.epoch > self._notified_epoch
        return newest if is_new else None, [number for number in failed if number not in self._notified_aborted]

    def _spool_after_ms(self, checkpoint: int | None, *, aligned: bool) -> int | None:
        if aligned:  # PROTOCOL R13, R31: savepoints and the last epoch are aligned
            return None
        return self._coordinator.spool_after_ms(checkpoint, waiting=self.waiting > 0)

    def _watermarks(self, *, final: bool) -> dict[str, int]:
        """Of every generator: its greatest timestamp less its delay, never less than before (PROTOCOL R9)."""
        watermarks = dict(self._state.watermarks)
        now_ms = max(self._clock.now_ms(), self._reached_ms)
        for uid, generator in self._generators.items():
            if final:
                watermarks[uid] = MAX_WATERMARK
                continue
            timestamp = self._progress.timestamp(generator, self._state.max_timestamps, now_ms)
            if timestamp is not None:
                watermark = timestamp - generator.out_of_orderness_ms - 1
                watermarks[uid] = max(watermarks.get(uid, MIN_WATERMARK), watermark)
        return watermarks

    def _idle(self) -> list[str]:
        """The generators whose input has been idle for so long that it holds back nobody (PROTOCOL R9)."""
        now_ms, newest = max(self._clock.now_ms(), self._reached_ms), self._state.max_timestamps
        return [uid for uid, generator in self._generators.items() if self._progress.is_idle(generator, newest, now_ms)]

    def set_source_watermark(self, source_id: int, watermark: int) -> None:
        """From the next epoch on, for a source without event time of its own, or one that has ended (MAX)."""
        name = source_key(source_id)
        self._state.watermarks[name] = max(watermark, self._state.watermarks.get(name, MIN_WATERMARK))

    @property
    def parents(self) -> Mapping[SubtaskId, Version]:
        """The current version of each subtask."""
        return self._state.versions

    def commit(self, header: EpochHeader, position: SourcePosition | None) -> EpochSummary:
        """PROTOCOL R14: every subtask has reported, so the epoch has happened."""
        reports = self._await_reports(header)
        state = self._state
        versions = {report.subtask: report.version for report in reports}
        committables = [c for report in reports for c in report.committables]
        for report in reports:
            for uid, timestamp in report.max_timestamps.items():
                if timestamp > state.max_timestamps.get(uid, MIN_WATERMARK):
                    state.max_timestamps[uid] = timestamp
                    self._progress.advanced(uid, header.now_ms)
            self._next_timers[report.subtask] = (report.next_event_timer, report.next_processing_timer)
            self._waiting[report.subtask] = report.waiting
        state.epoch, state.now_ms = header.epoch, header.now_ms
        state.versions = versions
        self._notified_epoch = self._sent[0]
        self._notified_aborted.update(self._sent[1])
        state.watermarks, self._idle_before = dict(header.watermarks), header.idle
        # Before a checkpoint can cover the epoch: what it covers does not come again (PROTOCOL R28).
        waiting = committables if self._committer is None else self._release(committables, self._committer)
        failpoint.before("C12")
        record = EpochRecord(
            header.epoch,
            header.now_ms,
            versions,
            waiting,
            position,
            dict(state.watermarks),  # a checkpoint may complete after later epochs have changed them
            dict(state.max_timestamps),
            self._graph.max_parallelism,
            header.final,
        )
        if header.savepoint is not None:
            self._savepoints.epoch_committed(record)  # first: the checkpoint's files may go once it is known
        self._coordinator.epoch_committed(record)
        failpoint.after("C12")
        with self._changed:
            self._running = None
            self._finished = FinishedEpoch(header.epoch, header.now_ms)
            self._changed.notify_all()
        return EpochSummary(
            header.epoch,
            sum(r.rows_in for r in reports if r.subtask.stage in self._readers),
            sum(r.rows_out for r in reports),
            header.now_ms,
            [line for r in reports for line in r.printed],
            [item for r in reports for item in r.collected],
            committables,
            header.checkpoint,
            sum(r.untimed for r in reports),
            sum(r.late for r in reports),
            reports,
            self._reported_ms,
        )

    def _release(self, committables: Sequence[Committable], committer: SinkCommitter) -> list[Committable]:
        """Commit the epoch's transactions; nothing is left for a checkpoint to commit."""
        if committables:
            self._coordinator.check_fenced()  # PROTOCOL R4: before commits
        for group in commit_groups(committables):
            failpoint.before("C20")
            committer.commit(group)
            failpoint.after("C20")
        return []

    def _await_reports(self, header: EpochHeader) -> list[SubtaskReport]:
        expected = set(self._state.versions)
        with self._changed:
            self._changed.wait_for(lambda: self._failure or expected <= set(self._reports), REPORT_TIMEOUT_S)
            if self._failure is not None:
                raise self._failure
            missing = expected - set(self._reports)
            if missing:
                names = ", ".join(map(str, sorted(missing, key=str)))
                raise RpcError(f"epoch {header.epoch}: no report from {names}")
            return [self._reports[subtask] for subtask in sorted(expected, key=str)]

    # ---- queries

    @property
    def finished(self) -> FinishedEpoch:
        """The last committed epoch, with everything that belongs to its commit done."""
        return self._finished

    def wait_for_epoch_after(self, epoch: int, timeout_s: float) -> bool:
        """Whether a later epoch is committed, waiting for it so long; False at once if the attempt is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._failure or self._finished.epoch > epoch, timeout_s)
            return self._failure is None and self._finished.epoch > epoch

    # ---- when to run an epoch without new data

    @property
    def epoch(self) -> int:
        """The last committed epoch."""
        return self._state.epoch

    def rows_so_far(self, subtasks: Iterable[SubtaskRows]) -> tuple[int, int] | None:
        """The epoch that runs now and the rows that it has read from the sources; None between epochs."""
        running = self._running
        if running is None or self._failure is not None:
            return None
        of_epoch = (s.rows for s in subtasks if s.epoch == running.epoch and s.subtask.stage in self._readers)
        return running.epoch, sum(of_epoch)

    @property
    def watermark(self) -> int | None:
        """The lowest of the generators' watermarks; idle ones count only if all are. None if there is no generator."""
        watermarks, idle = self._watermarks(final=False), set(self._idle())
        counted = [uid for uid in self._generators if uid not in idle] or self._generators
        return min((watermarks.get(uid, MIN_WATERMARK) for uid in counted), default=None)

    @property
    def waiting(self) -> int:
        """Rows that subtasks have received and not processed; until there are none, no new ones are read (R13)."""
        return sum(self._waiting.values())

    def restored(self, deployed: Deployed) -> None:
        """Take the next timers of freshly restored subtasks, and the number of rows in flight that they hold."""
        subtasks = [subtask for subtask, _ in deployed.versions]
        self._next_timers.update(zip(subtasks, deployed.next_timers, strict=True))
        self._waiting.update(zip(subtasks, deployed.waiting, strict=True))

    def timers_due(self) -> bool:
        """Whether an empty epoch would fire a timer now."""
        now_ms = max(self._clock.now_ms(), self._reached_ms)
        watermarks = self._watermarks(final=False)
        newest = max((watermarks.get(uid, MIN_WATERMARK) for uid in self._generators), default=MIN_WATERMARK)
        advanced = watermarks != self._state.watermarks or self._idle() != self._idle_before
        return any(
            (processing is not None and processing <= now_ms) or (advanced and event is not None and event <= newest)
            for event, processing in self._next_timers.values()
        )


def _reading_stages(graph: JobGraph) -> set[str]:
    """For every source one stage that reads it."""
    readers: set[str] = set()
    covered: set[int] = set()
    for stage in graph.stages:
        sources = {edge.source.source_id for edge in stage.inputs if isinstance(edge.source, SourceRef)}
        if sources - covered:
            covered |= sources
            readers.add(stage.id)
    return readers
