"""One attempt of a job on Spark: TaskManagers, the query, epochs with and without data, completion of checkpoints.

Threads: the caller's runs `run` and empty epochs; Spark's callback thread runs epochs with data; one thread completes
checkpoints (PROTOCOL R21); the RPC endpoint's threads bring reports and acks. One epoch at a time, under a lock (R15).
"""

import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock import failpoint
from penstock.checkpoint.coordinator import CheckpointCoordinator
from penstock.checkpoint.failures import FailureReason
from penstock.checkpoint.no_checkpoints import NoCheckpoints, NoJobLog
from penstock.checkpoint.savepoints import Savepoints
from penstock.clock import Clock
from penstock.errors import JobFailedError, PenstockError, StorageError
from penstock.graph.execution_graph import ExecutionGraph, assign_subtasks
from penstock.graph.job_graph import StageOutput
from penstock.jobmanager.attempt.attempt_plan import AttemptPlan, Ended
from penstock.jobmanager.attempt.deployed_plan import pickled_plan
from penstock.jobmanager.attempt.epoch_book import AttemptState, EpochBook, EpochSummary
from penstock.jobmanager.attempt.epoch_log import EpochLog
from penstock.jobmanager.attempt.recovery import deploy_orders
from penstock.jobmanager.attempt.sink_committer import GraphCommitter
from penstock.jobmanager.attempt.source_tracker import SourceTracker
from penstock.jobmanager.attempt.taskmanagers import AttemptEvents, TaskManagers
from penstock.jobmanager.settings.checkpointing import local_backup
from penstock.model.ids import SubtaskId
from penstock.model.snapshot import SavepointEvent, SourcePosition
from penstock.runtime.process.messages import CheckpointsEnded, EpochHeader, Hello, Register
from penstock.runtime.process.watchdog import identity
from penstock.spark.deployment import TaskManagerTemplate, slot_count, start_taskmanagers
from penstock.spark.epoch_planner import EpochPlanner, EpochRequest
from penstock.spark.epoch_query import EpochQuery, QuerySettings
from penstock.spark.pipe import OwnerAddress
from penstock.spark.session import is_alive, query_settings
from penstock.spark.source_files import require_files
from penstock.spark.source_frames import EpochLimits, open_sources

POLL_S = 0.1
COMPLETE_POLL_S = 0.25
IDLE_S = 0.3
"""Where rows keep coming, timers fire and checkpoints begin with them: an empty epoch waits this long for rows."""
FAILURE_GRACE_S = 3.0
FINAL_CHECKPOINT_TRIES = 5
COMPLETION_END_S = 60.0


class SparkAttempt:
    """Runs one attempt. `run` returns when the attempt has ended in order, and raises otherwise."""

    def __init__(self, plan: AttemptPlan, spark: Any, clock: Clock, committed: Callable[[EpochSummary], None]) -> None:
        self._plan = plan
        self._graph = plan.graph
        self._spark = spark
        self._clock = clock
        self._committed = committed
        self._planner = EpochPlanner(plan.graph)
        self._lock = threading.RLock()
        self._cancelled = threading.Event()
        self._over = threading.Event()
        self._acked = threading.Event()
        self._ending = threading.Event()
        self._paced_at_s: float | None = None
        self._rows_at_s = clock.monotonic_s()
        self._folder = Path(tempfile.mkdtemp(prefix="penstock-"))
        self._query: EpochQuery | None = None
        self._completer: threading.Thread | None = None
        self._session: Any = None
        self._execution: ExecutionGraph | None = None
        self._registered: list[Register] = []
        self._epoch_log = EpochLog()
        self.book: EpochBook | None = None
        log, coordinator = plan.log or NoJobLog(), plan.coordinator or NoCheckpoints()
        self.savepoints = Savepoints(plan.savepoint_place(), clock, log, coordinator)

    # ---- the whole attempt

    def run(self) -> Ended:
        """Work until the input ends, a savepoint stops the job, or `cancel`."""
        try:
            return self._run()
        except PenstockError:
            if self.savepoints.stopped is None:
                raise
            return Ended.STOPPED  # what failed came behind the savepoint, which has everything

    def _run(self) -> Ended:
        host = str(self._spark.sparkContext.getConf().get("spark.driver.host", "127.0.0.1"))
        hello = Hello(self._plan.token, self._plan.number, "jobmanager")
        taskmanagers = TaskManagers(host, hello, self._clock, self._plan.settings.taskmanager_timeout_ms / 1000)
        job_ended = False
        try:
            self._deploy(taskmanagers)
            self._start_query()
            ended = self._drive()
            if ended is Ended.INPUT:  # never without the final epoch: rows since the last checkpoint are in none
                self._final_epoch()
            if ended is not Ended.CANCELLED:
                self._tell_functions(taskmanagers)
            job_ended = True
            return ended
        except PenstockError:
            raise
        except Exception as error:
            if not is_alive(self._spark):
                raise  # no other attempt on it can succeed
            text = str(error).strip().splitlines() or [""]
            raise JobFailedError(f"the attempt failed in Spark: {type(error).__name__}: {text[0]}") from error
        finally:
            self._over.set()
            self._stop_query()
            taskmanagers.close("the attempt is over", job_ended=job_ended)
            self._end_completion()
            shutil.rmtree(self._folder, ignore_errors=True)

    def cancel(self) -> None:
        """End the attempt soon; from any thread."""
        self._cancelled.set()
        self._interrupt()

    def processes(self) -> list[tuple[Register, list[str]]]:
        """The TaskManagers and the subtasks each owns."""
        if self._execution is None:
            return []
        graph = self._execution
        return [(r, [str(s.id) for s in graph.of_task_manager(r.taskmanager)]) for r in self._registered]

    # ---- deployment

    def _deploy(self, taskmanagers: TaskManagers) -> None:
        count = max(1, min(slot_count(self._spark), self._graph.parallelism))
        local = self._spark.sparkContext.master.startswith("local")
        template = TaskManagerTemplate(
            job_id=self._plan.job_id,
            attempt=self._plan.number,
            token=self._plan.token,
            jobmanager=taskmanagers.address,
            storage=self._plan.storage.uri if self._plan.storage is not None else None,
            log_dir=str(self._plan.log_dir),
            sys_path=tuple(sys.path),
            driver=identity(os.getpid()) if local else None,
            limits=self._plan.settings.storage.limits,
            local=local_backup(self._plan.settings.checkpoints),
        )
        start_taskmanagers(self._spark, template, count)
        self._registered = taskmanagers.await_registered(count)
        if self._plan.log is not None:
            self._plan.log.check_fenced()  # a newer attempt may delete what is restored now
        self._execution = assign_subtasks(self._graph, [r.taskmanager for r in self._registered])
        deployed = pickled_plan(self._graph, self._plan.settings)
        restored = taskmanagers.deploy(deploy_orders(self._execution, self._plan.manifest, deployed, self._plan.origin))
        state = AttemptState.of(self._plan.job_id, self._plan.number, dict(restored.versions), self._plan.manifest)
        self.book = EpochBook(self._graph, state, self._plan.coordinator, self._clock, self._epoch_committer())
        self.book.restored(restored)
        self.book.on_failure = self._interrupt
        self.book.savepoints = self.savepoints
        events = AttemptEvents(self.book.report, self._ack, self._decline, self.book.fail, self._savepoint_event)
        taskmanagers.listen(events)

    def _epoch_committer(self) -> GraphCommitter | None:
        """Who commits the sinks at the end of each epoch; None where checkpoints do it (PROTOCOL R28)."""
        settings = self._plan.settings.checkpoints
        if settings is not None and settings.exactly_once:
            return None
        return GraphCommitter.of(self._plan.job_id, self._graph)

    def _ack(self, ack: Any) -> None:
        if self._plan.coordinator is not None:
            self._plan.coordinator.ack(ack)
            self._acked.set()

    def _decline(self, decline: Any) -> None:
        if self._plan.coordinator is not None:
            self._plan.coordinator.decline(decline)
            self._acked.set()

    def _savepoint_event(self, news: SavepointEvent) -> None:
        self.savepoints.receive(news)
        self._acked.set()

    # ---- the query

    def _start_query(self) -> None:
        plan = self._plan
        folder = self._folder / "offsets"
        uids = [source.uid for source in self._graph.sources]
        self._sources = SourceTracker(folder, plan.storage, plan.manifest, uids, plan.origin.storage)
        self._sources.restore()
        frame = open_sources(self._spark, self._graph, EpochLimits(plan.settings.max_rows, plan.settings.max_files))
        self._session = self._spark.newSession()
        for_session = query_settings(plan.settings.batch_rows)
        for key, value in for_session.items():
            self._session.conf.set(key, value)
        failpoint.before("C26")
        settings = QuerySettings(folder, self._graph.bounded, plan.settings.epoch_interval_ms, for_session)
        with self._lock:  # Spark may call back at once, and an epoch needs to know its query
            self._query = EpochQuery(frame, settings, self._run_epoch)
        failpoint.after("C26")
        self._completer = threading.Thread(target=self._complete, name="checkpoints", daemon=True)
        self._completer.start()

    def _drive(self) -> Ended:
        """Wait for the end of the query, running empty epochs meanwhile."""
        assert self._query is not None and self.book is not None
        while not self._has_ended():
            if self._cancelled.is_set():
                return Ended.CANCELLED
            if self.savepoints.stopped is not None:
                return Ended.STOPPED
            if self.book.failure is not None:
                raise self.book.failure
            if self._knows_sources and self._lock.acquire(blocking=False):
                try:
                    self._run_empty_epoch_if_due()
                finally:
                    self._lock.release()
        if self._cancelled.is_set() or self.savepoints.stopped is not None:
            return Ended.CANCELLED if self._cancelled.is_set() else Ended.STOPPED
        if self._query.failure is not None:
            raise self._cause(self._query.failure)
        if not self._graph.bounded:
            raise JobFailedError("the Spark query was stopped from outside; its input has not ended")
        return Ended.INPUT

    def _has_ended(self) -> bool:
        """The query has ended, and no stop comes before the end of the job. One that has ended in order is stopped."""
        assert self._query is not None
        if not self._query.wait(POLL_S):
            return False
        is_in_order = self._graph.bounded and self._query.failure is None
        return not (is_in_order and self._is_stop_due) and self.savepoints.wait_for_permission(POLL_S)

    def _cause(self, text: str) -> PenstockError:
        """What really happened: Spark only knows that its task failed."""
        assert self.book is not None
        self._over.wait(0 if self.book.failure is not None else FAILURE_GRACE_S)
        return self.book.failure or JobFailedError(f"the Spark query failed: {text.strip().splitlines()[0]}")

    def _interrupt(self) -> None:
        """End the Spark job that is running, if any."""
        self._ending.set()
        if self._query is not None:
            self._query.cancel_jobs()

    def _stop_query(self) -> None:
        self._interrupt()
        if self._query is not None:
            self._query.stop()

    # ---- epochs

    def _run_epoch(self, rows: Any, batch_id: int) -> None:
        """Called by Spark for every micro-batch. Whatever goes wrong is raised: Spark must not commit the batch."""
        assert self.book is not None
        self._pace()
        with self._leave_to_start():
            try:
                self._first_checkpoint()
                require_files(self._spark, self._folder / "offsets", batch_id)
                rows.sparkSession.conf.set("spark.sql.adaptive.enabled", "false")
                self._work_off_spools()
                self._epoch(rows, rows.sparkSession, batch_id)
                self._rows_at_s = self._clock.monotonic_s()
                self._work_off_spools()
            except PenstockError as error:
                self.book.fail(error)
                raise
            except Exception as error:
                self.book.fail(self._cause(str(error)))
                raise

    @contextmanager
    def _leave_to_start(self) -> Iterator[None]:
        """The lock of epochs. PROTOCOL R30: an epoch with rows waits while a stop is wanted or under way."""
        while True:
            with self._lock:
                if self._over.is_set() or self._cancelled.is_set() or self.savepoints.stopped is not None:
                    raise JobFailedError("the attempt is over")
                if not self._stop_first():
                    yield
                    return
            self.savepoints.wait_for_permission(POLL_S)

    def _stop_first(self) -> bool:
        """Whether a stop comes before the next rows; its barrier is sent if it has not been."""
        if self._is_stop_due:
            self._work_off_spools()
            self._empty_epoch()
        return self.savepoints.is_stopping

    def _pace(self) -> None:
        """`penstock.epoch.interval` holds for bounded input too, for which Spark knows no interval."""
        interval_s = self._plan.settings.epoch_interval_ms / 1000
        if self._graph.bounded and self._paced_at_s is not None:
            self._ending.wait(max(0.0, self._paced_at_s + interval_s - self._clock.monotonic_s()))
        self._paced_at_s = self._clock.monotonic_s()

    def _first_checkpoint(self) -> None:
        """PROTOCOL R23: before the first epoch there is something to go back to."""
        coordinator = self._plan.coordinator
        if coordinator is not None and not self._has_position:
            coordinator.first_checkpoint(self._sources.position(coordinator.next_id, self._plan.number))

    @property
    def _has_position(self) -> bool:
        """There is something to go back to: the first checkpoint, or what was restored."""
        coordinator = self._plan.coordinator
        return self._plan.manifest is not None or (coordinator is not None and coordinator.newest_completed is not None)

    @property
    def _is_stop_due(self) -> bool:
        request = self.savepoints.due()
        return request is not None and request.is_stop and self._is_savepoint_due

    @property
    def _is_savepoint_due(self) -> bool:
        """A savepoint is wanted, and it is known where the sources stand."""
        return self.savepoints.due() is not None and self._knows_sources

    @property
    def _knows_sources(self) -> bool:
        """Every source has an offset, or has been asked for rows and has written down where it begins (R23)."""
        self._sources.is_known = self._sources.is_known or (self._query is not None and self._query.has_looked)
        return self._sources.is_known

    def _work_off_spools(self) -> None:
        """PROTOCOL R13: while rows wait in the subtasks, epochs go on without new ones."""
        assert self.book is not None
        while self.book.waiting:
            if self._over.is_set() or self._cancelled.is_set():
                raise JobFailedError("the attempt is over")
            self._empty_epoch()

    def _run_empty_epoch_if_due(self) -> None:
        assert self.book is not None
        if self.book.waiting:
            self._empty_epoch()
            return
        if self._stop_first():
            return
        if self._clock.monotonic_s() - self._rows_at_s < IDLE_S:
            return
        coordinator = self._plan.coordinator
        due = coordinator is not None and coordinator.is_due
        if due or self._is_savepoint_due or self.book.timers_due():
            self._empty_epoch()

    def _empty_epoch(self, *, final: bool = False) -> EpochHeader:
        """An epoch without rows, in the query's job group (PROTOCOL R15). What goes wrong is an error of ours."""
        assert self.book is not None and self._query is not None
        try:
            self._first_checkpoint()
            self._session.sparkContext.setJobGroup(self._query.job_group, "empty epoch")
            return self._epoch(None, self._session, None, final=final)
        except PenstockError as error:
            self.book.fail(error)
            raise
        except Exception as error:
            cause = self._cause(str(error))
            self.book.fail(cause)  # before the lock is free: a waiting `_run_epoch` must not begin this epoch again
            raise cause from error

    def _epoch(self, rows: Any, session: Any, batch_id: int | None, *, final: bool = False) -> EpochHeader:
        """One epoch from header to commit (PROTOCOL section 3)."""
        assert self.book is not None
        started_ms = self._clock.now_ms()
        if self._plan.log is not None:
            self._plan.log.check_fenced()  # PROTOCOL R4: at the start of each epoch
        wanted = not final and not self.book.waiting  # PROTOCOL R13: a savepoint holds no rows in flight
        header = self.book.begin(final=final, savepoint=wanted)
        request = self._request(header)
        if self._graph.stages:
            self._planner.plan(session, rows, request).collect()
        self._spark_sinks(rows, session, request)
        if batch_id is not None:
            self._sources.advance(batch_id)
        summary = self.book.commit(header, self._position(header))
        self._committed(summary)  # at once: the checkpoint may be complete already
        self._epoch_log.write(summary, started_ms, self._clock.now_ms())
        return header

    def _position(self, header: EpochHeader) -> SourcePosition | None:
        """Where the sources stand, for a checkpoint. If it cannot be written, only the checkpoint fails."""
        coordinator = self._plan.coordinator
        if header.checkpoint is None and header.savepoint is None:
            return None
        try:
            return self._sources.position(header.checkpoint or 0, self._plan.number)
        except StorageError as error:
            if coordinator is not None and header.checkpoint is not None:
                coordinator.abort(header.checkpoint, FailureReason.IO, str(error))
            return None

    def _request(self, header: EpochHeader) -> EpochRequest:
        assert self.book is not None and self._execution is not None
        addresses = {r.taskmanager: OwnerAddress(r.host, r.unix_path, r.tcp_port) for r in self._registered}
        owners: dict[SubtaskId, OwnerAddress] = {s: addresses[tm] for s, tm in self._execution.owners.items()}
        return EpochRequest(header, self._plan.token, self.book.parents, owners)

    def _spark_sinks(self, rows: Any, session: Any, request: EpochRequest) -> None:
        """`to_spark`: the user's writer gets the epoch's rows, at least once."""
        header = request.header
        for sink in self._graph.spark_sinks:
            frames = [
                self._planner.replay(session, request, edge)
                if isinstance(edge.source, StageOutput)
                else self._planner.source_rows(rows, edge)
                for edge in sink.edges
                if isinstance(edge.source, StageOutput) or rows is not None
            ]
            if frames:
                frame = frames[0]
                for other in frames[1:]:
                    frame = frame.union(other)
                sink.function(frame, SparkEpoch(header.job_id, header.epoch, header.checkpoint))

    def _final_epoch(self) -> None:
        """PROTOCOL R31: empty, aligned, with the MAX watermark; repeated until its checkpoint is complete."""
        coordinator = self._plan.coordinator
        assert self.book is not None
        for _ in range(FINAL_CHECKPOINT_TRIES):
            with self._lock:
                self._work_off_spools()
                failpoint.before("C29")
                header = self._empty_epoch(final=True)
                failpoint.after("C29")
            if coordinator is None:
                return
            if header.checkpoint is not None and self._await_checkpoint(coordinator, header.checkpoint):
                return
        raise JobFailedError(f"the final checkpoint failed {FINAL_CHECKPOINT_TRIES} times")

    def _tell_functions(self, taskmanagers: TaskManagers) -> None:
        """No epoch follows whose header would say that the last checkpoint is complete."""
        assert self.book is not None
        completed, aborted = self.book.checkpoint_news()
        if completed is not None:
            taskmanagers.tell(CheckpointsEnded(completed.checkpoint_id, aborted))

    def _await_checkpoint(self, coordinator: CheckpointCoordinator, checkpoint: int) -> bool:
        """Whether the checkpoint was completed; False once it was aborted."""
        assert self.book is not None
        while not coordinator.is_settled:
            if self.book.failure is not None:
                raise self.book.failure
            self._over.wait(POLL_S / 2)
        if self.book.failure is not None:
            raise self.book.failure
        newest = coordinator.newest_completed
        return newest is not None and newest.checkpoint_id >= checkpoint

    # ---- completion

    def _complete(self) -> None:
        """The one thread of PROTOCOL R21."""
        coordinator = self._plan.coordinator
        assert self.book is not None
        while not self._over.is_set():
            self._acked.wait(COMPLETE_POLL_S)
            self._acked.clear()
            try:
                if coordinator is not None:
                    coordinator.complete_ready()
                self.savepoints.advance()
            except PenstockError as error:
                self.book.fail(error)
                return
            except Exception as error:  # a bug of ours must end the attempt, not only this thread
                self.book.fail(JobFailedError(f"completing a checkpoint failed: {type(error).__name__}: {error}"))
                return

    def _end_completion(self) -> None:
        """Let the commits of the last completed checkpoint end, before anybody says that the job has ended."""
        if self._completer is not None:
            self._completer.join(COMPLETION_END_S)


@dataclass(frozen=True)
class SparkEpoch:
    """What a `to_spark` writer is told about the epoch, for idempotent writes."""

    job_id: str
    id: int
    checkpoint: int | None
