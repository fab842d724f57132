"""One attempt of a job on Spark, from its start to its end.

Threads: the caller's runs `run` and epochs without rows; Spark's callback thread runs epochs with rows (`EpochLoop`);
one thread completes checkpoints (`CompletionThread`); the RPC endpoint's threads bring reports and acks
(`TaskManagers`).
"""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from penstock.checkpoint.savepoints import SavepointPlace, Savepoints
from penstock.checkpoint.sink_commits import SinkCommitter
from penstock.clock import Clock
from penstock.connectors.read_path import reading_lines
from penstock.control.registry import PhaseRecord
from penstock.errors import JobFailedError, PenstockError
from penstock.jobmanager.attempt.attempt import Attempt, Ended
from penstock.jobmanager.attempt.attempt_progress import AttemptObserver, StartPhases
from penstock.jobmanager.attempt.attempt_reads import AttemptReads
from penstock.jobmanager.attempt.batch_epoch import BatchEpoch, PersistentCommitter, announce
from penstock.jobmanager.attempt.completion_thread import CompletionThread
from penstock.jobmanager.attempt.epoch_loop import POLL_S, AttemptEnd, EpochLoop, EpochParts
from penstock.jobmanager.attempt.epoch_tracker import AttemptState, EpochSummary, EpochTracker
from penstock.jobmanager.attempt.read_limit import ReadLimit, effective_target_s
from penstock.jobmanager.attempt.recovery import start_attempt
from penstock.jobmanager.attempt.sink_committer import GraphCommitter
from penstock.jobmanager.attempt.source_groups import SourceGroups
from penstock.jobmanager.attempt.source_tracker import SourceTracker
from penstock.jobmanager.attempt.subtask_deployment import SubtaskDeployment, deploy_subtasks
from penstock.jobmanager.attempt.taskmanagers import AttemptEvents, TaskManagers
from penstock.jobmanager.settings.job_settings import JobSettings
from penstock.runtime.process.messages import CheckpointsEnded, Hello, Register
from penstock.runtime.process.process_folder import make_folder, remove_folder
from penstock.spark.batch_input import BatchInput
from penstock.spark.epoch_query import EpochQuery, QuerySettings
from penstock.spark.epoch_runner import EpochRunner
from penstock.spark.read_limits import FILES, free_sources, limit_files
from penstock.spark.session import is_alive, query_settings
from penstock.spark.source_frames import EpochLimits, open_sources
from penstock.spark.warm_up import start_warm_up

FIRST_EPOCH = "first epoch"
QUERY_STARTS = 3
"""How often Spark may try to read the sources before anything was read."""
BATCH = "batch"


class SparkAttempt:
    """Runs one attempt. `run` returns when the attempt has ended cleanly, and raises otherwise."""

    def __init__(
        self,
        attempt: Attempt,
        settings: JobSettings,
        log_dir: Path,
        spark: Any,
        clock: Clock,
        observer: AttemptObserver,
    ) -> None:
        self._attempt = attempt
        self._graph = attempt.graph
        self._settings = settings
        self._log_dir = log_dir
        self._spark = spark
        self._clock = clock
        self._observer = observer
        self._phases = StartPhases(observer)
        self._started_s = clock.monotonic_s()
        self._end = AttemptEnd()
        self._folder = make_folder("driver", Path(tempfile.gettempdir()))
        self._deployment: SubtaskDeployment | None = None
        self._query: EpochQuery | None = None
        self._query_starts = 0
        self._read_sources: Callable[[], EpochQuery]
        self._batch: BatchEpoch | None = None
        self._batch_input: BatchInput | None = None
        """In batch mode, instead of a query."""
        self.tracker: EpochTracker | None = None
        """None until the state is loaded."""
        self._reads: AttemptReads | None = None
        self.savepoints = Savepoints(_savepoint_place(attempt, settings), clock, attempt.log, attempt.coordinator)
        self._groups = SourceGroups(attempt.graph, attempt.storage, observer.log)
        self._completion = CompletionThread(attempt.coordinator, self.savepoints, self._fail, self._groups.follow)

    # ---- the whole attempt

    def run(self) -> Ended:
        """Run until the input ends, a savepoint stops the job, `suspend` or `cancel`."""
        try:
            return self._run()
        except PenstockError:
            if self.savepoints.stopped is None:
                raise
            return Ended.STOPPED  # the failure came after the savepoint, which has everything

    def _run(self) -> Ended:
        host = str(self._spark.sparkContext.getConf().get("spark.driver.host", "127.0.0.1"))
        hello = Hello(self._attempt.token, self._attempt.number, "jobmanager")
        self._taskmanagers = TaskManagers(host, hello, self._clock, self._settings.taskmanager_timeout_ms / 1000)
        job_ended = False
        start_warm_up(self._spark)
        try:
            start_attempt(
                rewind_sources=self._rewind_sources, load_state=self._load_state, start_query=self._start_query
            )
            ended = self._wait_for_end() if self._batch is None else self._run_batch(self._batch)
            if ended is Ended.INPUT and self._batch is None:
                self._loop.run_final_epoch()  # always: no checkpoint has the rows since the last one
            if ended is not Ended.CANCELLED:
                self._notify_functions()
            job_ended = ended in (Ended.INPUT, Ended.STOPPED) or not self._end.suspending.is_set()
            return ended
        except PenstockError:
            raise
        except Exception as error:
            if not is_alive(self._spark):
                raise  # no other attempt on it can succeed
            text = str(error).strip().splitlines() or [""]
            raise JobFailedError(f"the attempt failed in Spark: {type(error).__name__}: {text[0]}") from error
        finally:
            self._end.over.set()
            self._completion.stop()
            self._stop_query()
            if self._reads is not None:
                self._reads.close()
            self._taskmanagers.close("the attempt is over", job_ended=job_ended)
            self._completion.join()
            self._groups.close()
            remove_folder(self._folder)

    def cancel(self) -> None:
        """End the attempt soon; from any thread."""
        self._end.cancelled.set()
        self._interrupt()

    def suspend(self) -> bool:
        """End the attempt once a checkpoint covers all that it has processed; from any thread.

        False if no epoch can run yet: the attempt has processed nothing, and ends like one that is cancelled.
        """
        self._end.suspending.set()
        if self._query is not None:
            return True
        self.cancel()
        return False

    def processes(self) -> list[tuple[Register, list[str]]]:
        """The TaskManagers and the subtasks each owns."""
        return self._deployment.processes() if self._deployment is not None else []

    @property
    def phase(self) -> PhaseRecord | None:
        """What the start of the attempt does now; None once its first epoch is committed."""
        phase = self._phases.record()
        is_over = self._end.over.is_set() or (self.tracker is not None and self.tracker.failure is not None)
        is_waiting = phase is not None and phase.name == FIRST_EPOCH and self.rows_so_far() is None and not is_over
        return PhaseRecord("waiting for the first rows") if is_waiting else phase

    @property
    def reads(self) -> AttemptReads | None:
        """Answers queries; None before the state is loaded, and once the attempt is over."""
        return None if self._end.over.is_set() else self._reads

    @property
    def has_backlog(self) -> bool:
        """More input waits than an epoch may read."""
        return self._query is not None and not self._end.over.is_set() and self._loop.has_backlog

    @property
    def waits_for_rows(self) -> bool:
        """Its query has read the sources and found nothing new."""
        return self._query is not None and not self._end.over.is_set() and self._query.has_polled

    def rows_so_far(self) -> tuple[int, int] | None:
        """The epoch that runs and its rows, as of the last heartbeats; None between epochs."""
        if self.tracker is None or self._end.over.is_set():
            return None
        return self.tracker.rows_so_far(self._taskmanagers.rows_so_far())

    # ---- the start, in the order of `recovery.start_attempt`

    def _rewind_sources(self) -> None:
        """A new offset log, from which the query continues after the restored position."""
        attempt, uids = self._attempt, [source.uid for source in self._graph.sources]
        self._sources = SourceTracker(self._folder / "offsets", attempt.storage, attempt.origin, uids)
        self._sources.restore()

    def _load_state(self) -> None:
        """TaskManagers that own the restored subtasks."""
        attempt, started_s = self._attempt, self._clock.monotonic_s()
        deployment = deploy_subtasks(
            attempt, self._settings, self._log_dir, self._spark, self._taskmanagers, self._phases
        )
        self._deployment = deployment
        restored = f"; {attempt.starts_from} is restored: {deployment.restored.restored}" if attempt.manifest else ""
        seconds = self._clock.monotonic_s() - started_s
        self._observer.log(f"{len(deployment.registered)} TaskManagers have started in {seconds:.1f} s{restored}")
        versions = dict(deployment.restored.versions)
        state = AttemptState.of(attempt.job.job_id, attempt.number, versions, attempt.manifest)
        self.tracker = tracker = EpochTracker(
            self._graph, state, attempt.coordinator, self.savepoints, self._clock, self._epoch_committer()
        )
        tracker.restored(deployment.restored)
        tracker.on_failure = self._interrupt
        completion = self._completion
        hello = Hello(attempt.token, attempt.number, "jobmanager")
        self._reads = AttemptReads(tracker, deployment.execution, deployment.registered, hello, self._clock)
        self._taskmanagers.listen(
            AttemptEvents(tracker.report, completion.ack, completion.decline, tracker.fail, completion.savepoint_event)
        )

    def _start_query(self) -> None:
        """Spark reads the sources; from here on epochs run and checkpoints complete."""
        assert self.tracker is not None and self._deployment is not None, "the state is loaded"
        settings = self._settings
        of_query = query_settings(settings.batch_rows)
        runner = EpochRunner(self._graph, self._attempt.token, self._deployment.owners())
        if self._graph.batch:
            self._phases.enter(BATCH)
            self._batch_input = BatchInput(self._spark, self._graph, of_query)
            self._batch = BatchEpoch(self.tracker, runner, self._batch_input, self._end)
            return
        target_s = effective_target_s(settings.epoch_target_ms, settings.attempt_settings.interval_ms)
        file_limit, row_limit = ReadLimit.of_files(target_s), ReadLimit.of_rows(target_s)
        first_rows = row_limit.count if row_limit.is_on else None
        first_files = file_limit.count if file_limit.is_on else None
        limits = EpochLimits(settings.max_rows, first_rows, settings.max_files, first_files, self._sources.folder)
        frame = open_sources(self._spark, self._graph, limits)
        for line in reading_lines(self._graph):
            self._observer.log(line)
        limited = free_sources(frame) if file_limit.is_on else ()
        if FILES in limited:
            frame = limit_files(frame, file_limit.count)
        session = self._spark.newSession()
        for key, value in of_query.items():
            session.conf.set(key, value)
        parts = EpochParts(self.tracker, self._sources, self.savepoints, runner, self._end, file_limit, row_limit)
        self._loop = EpochLoop(self._attempt, parts, session, self._clock, self._epoch_committed)
        self._phases.enter(FIRST_EPOCH)
        folder, bounded = self._sources.folder, self._graph.bounded
        query = QuerySettings(folder, bounded, settings.epoch_interval_ms, of_query, limited)
        self._read_sources = partial(self._loop.start_query, frame, query)
        self._query = self._read_sources()
        self._completion.start()

    def _epoch_committed(self, summary: EpochSummary) -> None:
        self._observer.committed(summary)
        if self.phase is not None:
            seconds = self._clock.monotonic_s() - self._started_s
            self._observer.log(f"the first epoch is committed after {seconds:.1f} s: {summary.rows_in} rows")
            self._phases.end()

    def _epoch_committer(self) -> SinkCommitter | None:
        """Commits the sinks at the end of each epoch; None if checkpoints do it (PROTOCOL R28)."""
        if self._settings.commits_with_checkpoints:
            return None
        committer = GraphCommitter.of(  # only commits
            self._attempt.job.job_id, self._graph, None, own_from=self._attempt.number
        )
        if not self._graph.batch:
            return committer
        return PersistentCommitter(committer, self._clock, self._settings.commit_timeout_ms / 1000, self._end.over.wait)

    # ---- the end

    def _run_batch(self, batch: BatchEpoch) -> Ended:
        summary = batch.run()
        if summary is None:
            return Ended.CANCELLED
        announce(summary, self._epoch_committed)
        return Ended.INPUT

    def _wait_for_end(self) -> Ended:
        """Wait for the end of the query, and run epochs without rows meanwhile."""
        assert self._query is not None and self.tracker is not None
        while not self._has_query_ended():
            if self._end.cancelled.is_set():
                return Ended.CANCELLED
            if self.savepoints.stopped is not None:
                return Ended.STOPPED
            if self.tracker.failure is not None:
                raise self.tracker.failure
            if not self._end.suspending.is_set() or self.savepoints.is_requested:
                self._loop.run_empty_epoch_if_due()
                if self._sources.have_ended(self._graph.sources) and not self.savepoints.is_requested:
                    self._query.stop()
                    return Ended.INPUT
            elif self._loop.take_last_checkpoint():
                return Ended.SUSPENDED
        if self._end.cancelled.is_set():
            return Ended.CANCELLED
        if self.savepoints.stopped is not None:
            return Ended.STOPPED
        if self._query.failure is not None:
            if not self._may_read_again():
                raise self._loop.cause_of(self._query.failure)
            self._query = self._read_sources()
            return self._wait_for_end()
        if not self._graph.bounded:
            raise JobFailedError("the Spark query was stopped from outside; its input has not ended")
        return Ended.INPUT

    def _may_read_again(self) -> bool:
        """Spark gave up waiting for a source's Python process, as on a busy machine, before the first epoch began.

        Then no row was handed out, and a second query on the same offset log reads what the first one would have read.
        """
        assert self._query is not None and self.tracker is not None
        self._query_starts += 1
        is_unused = self.tracker.failure is None and self._loop.epochs_begun == 0
        return self._query.lost_a_worker and is_unused and self._query_starts < QUERY_STARTS

    def _has_query_ended(self) -> bool:
        """The query has ended. If it ended cleanly, a requested stop is completed before that counts."""
        assert self._query is not None
        if not self._query.wait(POLL_S):
            return False
        is_clean = self._graph.bounded and self._query.failure is None
        return not (is_clean and self._loop.is_stop_due) and self.savepoints.wait_for_permission(POLL_S)

    def _notify_functions(self) -> None:
        """Notify functions of the last checkpoint: no epoch follows whose header would name it."""
        assert self.tracker is not None
        completed, aborted = self.tracker.unannounced_checkpoints()
        if completed is not None:
            self._taskmanagers.notify(CheckpointsEnded(completed.checkpoint_id, aborted))

    def _fail(self, error: PenstockError) -> None:
        assert self.tracker is not None, "completion starts after the state is loaded"
        self.tracker.fail(error)

    def _interrupt(self) -> None:
        """Cancel the Spark job that is running, if any."""
        self._end.interrupted.set()
        if self._query is not None:
            self._query.cancel_jobs()
        if self._batch_input is not None:
            self._batch_input.cancel_jobs()

    def _stop_query(self) -> None:
        self._interrupt()
        if self._query is not None:
            self._query.stop()


def _savepoint_place(attempt: Attempt, settings: JobSettings) -> SavepointPlace:
    """How the attempt's savepoints are written."""
    inline = settings.storage.limits.max_state_bytes is not None and attempt.storage is not None
    return SavepointPlace(attempt.writer, inline, settings.attempt_settings.timeout_ms)
