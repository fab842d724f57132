"""A job from submission to its end: attempts, the restart strategy, and its status.

What attempts have in common is kept by others: `JobCheckpoints`, `JobSavepoints`, `JobOutput`, `RowCounts`,
`JobHistory`. What the registry knows of the job is written by `JobRecorder`.
"""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Literal

from penstock.checkpoint.log.entries import Status
from penstock.checkpoint.savepoint_request import SavepointRequest
from penstock.checkpoint.stats.checkpoint_report import CheckpointReport
from penstock.clock import Clock
from penstock.control.driver_log import DriverLog, Level
from penstock.control.interrupts import INTERRUPTS
from penstock.control.registry import JobRecord, Registry, RescaleRecord
from penstock.control.terminal import print_message, print_warning
from penstock.errors import (
    CheckpointCorruptError,
    CheckpointError,
    CheckpointMissingError,
    FencedError,
    JobConflictError,
    PenstockError,
    StorageError,
    UsageError,
    UserFunctionError,
)
from penstock.graph.job_graph import JobGraph
from penstock.jobmanager.attempt.attempt import Attempt, Ended
from penstock.jobmanager.attempt.attempt_progress import AttemptObserver
from penstock.jobmanager.attempt.epoch_tracker import EpochSummary
from penstock.jobmanager.attempt.recovery import RecoveryOptions, begin_attempt, note_damage
from penstock.jobmanager.attempt.spark_attempt import SparkAttempt
from penstock.jobmanager.job_checkpoints import JobCheckpoints
from penstock.jobmanager.job_history import JobHistory, known_failures, last_line
from penstock.jobmanager.job_metrics import JobMetrics
from penstock.jobmanager.job_output import JobOutput, collect_sinks
from penstock.jobmanager.job_recorder import JobRecorder, process_records
from penstock.jobmanager.job_request import JobRequest
from penstock.jobmanager.job_savepoints import JobSavepoints
from penstock.jobmanager.job_scaling import JobScaling
from penstock.jobmanager.live_state import LiveJobState
from penstock.jobmanager.restart_strategy import Restarts, is_final
from penstock.jobmanager.resume_advice import ResumeAdvice
from penstock.jobmanager.row_counts import RowCounts
from penstock.model.execution import JobExecutionResult, JobStatus
from penstock.model.ids import SubtaskId
from penstock.model.metric_readings import MetricReading
from penstock.model.recent_epoch import RecentEpoch
from penstock.storage.storage import Storage

SUSPEND_GRACE_S = 5.0
"""How long a job whose last checkpoint was not quick enough may take to end its processes, and its program at least
to take the records that this checkpoint made final."""
STOP_GOES_ON = "; if its log has a stop with a savepoint, the job completes that when it is resumed"


class Job:
    """One job in this process. It runs in a thread of its own; `wait` and `cancel` from any other."""

    def __init__(self, request: JobRequest, spark: Any, clock: Clock) -> None:
        settings = request.settings
        self._request = request
        self._advice = ResumeAdvice(request.identity.name, settings)
        self._spark = spark
        self._clock = clock
        self._registry = registry = Registry(settings.registry_dir)
        self._storage: Storage | None = None
        if settings.takes_checkpoints:
            self._storage = settings.storage.open(self.job_id, resumed=request.resumed)
        self.log = DriverLog(registry.log_dir(self.job_id), self.job_id, clock, settings.log_limits)
        self._output = JobOutput(collect_sinks(request.graph), checkpointing=settings.commits_with_checkpoints)
        self._rows = RowCounts(clock, checkpointing=settings.takes_checkpoints)
        self._metrics = JobMetrics(clock)
        self._history = JobHistory(clock, known_failures(registry, self.job_id), registry.read_checkpoints(self.job_id))
        self._checkpoints = JobCheckpoints(self.job_id, settings, registry, self.log, self._history, self._release)
        self._savepoints = JobSavepoints(settings.savepoint_dir, self.log)
        self._scaling = JobScaling(request, clock, self.log, self._storage)
        self.queries = LiveJobState(lambda: self._attempt, self.status, lambda: registry.read_sizes(self.job_id))
        self._restarts = Restarts(settings.restart, clock, lambda: random.uniform(-1, 1))
        self._recorder = JobRecorder(self._registry, self.record, request.report)
        self._started_ms = clock.now_ms()
        self._ended_ms: int | None = None
        self._attempt: SparkAttempt | None = None
        self._attempt_number = 0
        self._attempts = 0
        self._damaged: dict[int, CheckpointError] = {}
        self._claims: set[str] = set()
        self._failure: BaseException | None = None
        self._cancelled = threading.Event()
        self._suspending = threading.Event()
        self._interrupt: BaseException | None = None
        """What `wait` raises for a job that was suspended."""
        self._is_ending = threading.Event()
        """The job is cancelled or suspended: no restart waits any longer."""
        self._ended = threading.Event()
        self._finishing = threading.Lock()
        """Held while the job's end is written to its log."""
        self._recorder.write()
        threading.Thread(target=self._run, name=f"job-{self.job_id[:8]}", daemon=True).start()
        self._recorder.start(self._ended)

    @property
    def job_id(self) -> str:
        return self._request.identity.job_id

    @property
    def name(self) -> str:
        """The job's name."""
        return self._request.identity.name

    @property
    def graph(self) -> JobGraph:
        """At the parallelism of the attempt that runs or begins."""
        return self._scaling.graph

    def status(self) -> JobStatus:
        """The job's current status."""
        return self._history.status

    def checkpoints(self) -> CheckpointReport:
        """What is known of the job's checkpoints now."""
        return self._checkpoints.report(self._savepoints)

    def metrics(self) -> list[tuple[SubtaskId, MetricReading]]:
        """The metrics of functions, by subtask."""
        return self._metrics.readings()

    def epochs(self) -> list[RecentEpoch]:
        """The last committed epochs, oldest first."""
        return self._rows.recent()

    def rates(self) -> list[tuple[int, float]]:
        """Rows per second over the last ten minutes."""
        return self._rows.rates()

    def cancel(self) -> None:
        """End the job and wait until it has ended; one that has ended stays as it is."""
        self._cancelled.set()
        self._is_ending.set()
        self._set_status(JobStatus.CANCELLING)
        if self._attempt is not None:
            self._attempt.cancel()
        self._ended.wait()

    def suspend(self, interrupt: BaseException) -> None:
        """End the job so that it can be resumed: to its log this is a driver that dies after its last checkpoint.

        The job takes a last checkpoint if that is complete within `penstock.suspend.timeout`. `wait` then raises
        `interrupt`. A job without checkpoints that outlive this process has nothing to resume, and is cancelled. One
        that is being cancelled, or ends at the same time, ends as it would have.
        """
        deadline_s = self._clock.monotonic_s() + self._request.settings.suspend_timeout_ms / 1000
        self._interrupt = interrupt
        if not self._request.settings.is_resumable:
            self._cancelled.set()
        self._suspending.set()
        self._is_ending.set()
        if (attempt := self._attempt) is not None and attempt.suspend():
            if self._cancelled.is_set() or not self._ended.wait(max(0.0, deadline_s - self._clock.monotonic_s())):
                # In a thread: Spark may be stuck.
                threading.Thread(target=self._cancel_attempt, args=(attempt,), daemon=True).start()
            self._ended.wait(SUSPEND_GRACE_S)
        self.abandon()
        self._output.wait_until_taken(max(SUSPEND_GRACE_S, deadline_s - self._clock.monotonic_s()))

    def _cancel_attempt(self, attempt: SparkAttempt) -> None:
        try:
            attempt.cancel()
        except Exception as error:  # Spark is gone: then its job has ended too
            self._log_failure("its Spark job could not be cancelled", error, level="WARN")

    def abandon(self) -> None:
        """The process is about to end: whatever still runs, the job counts as suspended from now on."""
        if self._finishing.acquire(timeout=SUSPEND_GRACE_S):  # an end that is being written to the log counts
            try:
                self._end_suspended()
            finally:
                self._finishing.release()

    def describe_end(self) -> str:
        """What an interrupted program says about the job last: how it has ended, and how to resume it."""
        is_rescaled = self._scaling.rescaled is not None
        return self._advice.text(self.status(), self._checkpoints.last_completed, is_rescaled=is_rescaled)

    def checkpoint(self, *, full: bool = False) -> int:
        """Take a checkpoint now; its number, once it is complete. `full`: it inherits nothing."""
        return self._checkpoints.take(full=full)

    def request_rescale(self, parallelism: int, why: str = "requested") -> Callable[[], RescaleRecord]:
        """Check a rescale; what is returned does it, and returns once the job reads rows at that parallelism."""
        rescale = self._scaling.begin(parallelism, self.status(), why)
        return partial(self._scaling.run, rescale, self._checkpoints.take, lambda: self._attempt)

    def trigger_savepoint(self, request: SavepointRequest) -> SavepointRequest:
        """Take a savepoint at the next barrier. Returns the request, or an earlier one with the same trigger id."""
        if self._history.status.is_terminal_state():
            raise JobConflictError(f"job {self.job_id} is {self.status().name}: there is nothing left to save")
        if self._request.graph.batch:
            raise UsageError("a batch job has no savepoints: it keeps the state of one key at a time")
        return self._savepoints.trigger(request)

    def savepoint_request(self, trigger_id: str) -> SavepointRequest | None:
        """The request with this trigger id; None if there was none."""
        return self._savepoints.find(trigger_id)

    def wait(self, timeout: float | None = None) -> JobExecutionResult:
        """The result, once the job has ended; raises what made it fail."""
        if not self._ended.wait(timeout):
            raise TimeoutError(f"job {self.job_id} has not ended within {timeout} s")
        if isinstance(self._failure, PenstockError):
            raise self._failure.with_traceback(None) from None  # the whole traceback is in driver.log
        if self._failure is not None:
            raise self._failure
        if (interrupt := self._interrupt_of_end()) is not None:
            raise INTERRUPTS.deliver(interrupt)
        duration = (self._ended_ms or self._clock.now_ms()) - self._started_ms
        return JobExecutionResult(self.job_id, self._request.identity.name, self._rows.rows, self._attempts, duration)

    def wait_for_end(self) -> None:
        """Return once the job has ended, in whatever way."""
        self._ended.wait()

    def collected(self, sink_uid: str) -> Iterator[Any]:
        """The records of a collect sink, as they become final."""
        return iter(self._output.collected[sink_uid])

    # ---- the job's own thread

    def _run(self) -> None:
        """Run the job to its end. Whatever fails on the way, even recording the failure, `wait` and `cancel` return."""
        try:
            self._run_or_fail()
        finally:
            self._ended.set()

    def _run_or_fail(self) -> None:
        try:
            self._run_attempts()
        except BaseException as error:  # `wait` raises it
            is_refused = isinstance(error, (FencedError, JobConflictError, UsageError))
            if self._suspending.is_set() and self._failure is None and not is_refused:
                self._log_failure("the job is being suspended", error, level="WARN")
                self._end_suspended()
                return
            if self._failure is None:
                self._history.failed(error, self._attempt_number)
            self._failure = error
            if isinstance(error, (FencedError, JobConflictError)):
                self._recorder.disown()
            self._log_failure("the job has failed", error)
            self._end(JobStatus.FAILED)
        self._output.end(self._failure or self._interrupt_of_end())

    def _run_attempts(self) -> None:
        while True:
            try:
                self._run_attempt()
                if self._history.status.is_terminal_state():
                    return
                self._set_status(JobStatus.RESTARTING)  # at another parallelism
                delay_s: float | None = 0.0
            except (FencedError, JobConflictError):
                raise  # the job belongs to another driver: no new attempt
            except PenstockError as error:
                if isinstance(error, UsageError) and not self._scaling.is_untried:
                    raise  # the job will never run: no new attempt
                delay_s = self._delay_after(error)
                if delay_s is None:
                    self._give_up(error)
                    raise
            finally:
                self._savepoints.detach()
                self._checkpoints.detach()
            if self._is_ending.wait(delay_s):
                self._finish_interrupted()
                return

    def _give_up(self, error: PenstockError) -> None:
        """The job has failed for good. For one that was suspended first, its log does not say so."""
        with self._finishing:
            if not self._history.status.is_terminal_state():
                self._failure = error
                with suppress(StorageError):  # what made the job fail is what its author must see
                    self._checkpoints.end_job(Status("failed", last_line(error)))

    def _delay_after(self, error: PenstockError) -> float | None:
        """Seconds to wait before the next attempt; None if there is none. 0 for a job that is being ended."""
        if self._is_ending.is_set():
            self._log_failure("the job is ending", error, level="WARN")
            return 0.0
        is_new = self._history.failed(error, self._attempt_number)
        self._set_status(JobStatus.FAILING)
        self._checkpoints.check_fenced()  # PROTOCOL R4: a fenced driver does not claim again, whatever failed first
        delay_s: float | None = 0.0
        if self._scaling.go_back(error):  # part of the rescale: no restart of the restart strategy
            then = f"the job goes back to parallelism {self.graph.default_parallelism}"
        else:
            delay_s = None if is_final(error) else self._restarts.after_failure()
            then = f"the job restarts in {delay_s or 0:.3g} s"
        if delay_s is not None:
            text = f"attempt {self._attempt_number} has failed, {then}: {last_line(error)}"
            print_message(f"{text}\n{error}" if is_new and isinstance(error, UserFunctionError) else text)
            self._log_failure(then, error, level="WARN")
            self._set_status(JobStatus.RESTARTING)
        return delay_s

    def _run_attempt(self) -> None:
        self._attempts += 1
        attempt = self._begin_attempt()
        self.log.write("attempt", f"attempt {attempt.number} starts from {attempt.starts_from}", attempt=attempt.number)
        self._output.roll_back(attempt.origin.epoch)
        self._rows.roll_back(attempt.origin.epoch)
        self._metrics.begin_attempt()
        if attempt.manifest is not None:
            self._history.restored(attempt)
            if attempt.manifest.final:
                self._finish("finished", JobStatus.FINISHED)  # PROTOCOL R31: it had ended, only the status was missing
                return
        stop = self._savepoints.find_stop(attempt.log)
        if stop is not None:
            self._finish_stop(stop.then)  # PROTOCOL R30: the same
            return
        try:
            ended, stopped = self._run_on_spark(attempt)
        except (CheckpointCorruptError, CheckpointMissingError) as error:
            if not attempt.coordinator.can_recover or attempt.manifest is None:
                raise
            damage = error
        else:
            self._finish_attempt(ended, stopped)
            return
        note_damage(attempt, damage, self._damaged)
        self._log_failure(f"checkpoint {attempt.manifest.checkpoint_id} is damaged", damage)
        self._run_attempt()  # PROTOCOL R24: from an older checkpoint, or refused

    def _begin_attempt(self) -> Attempt:
        """Own the job in a new attempt, and know what it starts from."""
        request = self._request
        graph = self._scaling.switch()
        self._savepoints.detach()
        self._checkpoints.forget()  # those of the older attempt, which the claim fences
        options = RecoveryOptions(
            request.settings.attempt_settings,
            request.allow_fallback,
            request.resumed and request.reopens,
            warn=print_warning,
            rescaled=self._scaling.rescaled,
            damaged=self._damaged,
            first_checkpoint=self._checkpoints.first_free,
            own_claims=self._claims,
            start=request.start,
            last_attempt=self._attempt_number,
        )
        attempt = begin_attempt(request.identity, graph, self._storage, options, self._checkpoints, self._clock)
        self._attempt_number = attempt.number
        request.claimed()
        self._checkpoints.attach(attempt)
        self._scaling.restored(attempt)
        return attempt

    def _run_on_spark(self, attempt: Attempt) -> tuple[Ended, SavepointRequest | None]:
        """How the attempt ended, and the savepoint that stopped it, if one did."""
        observer = AttemptObserver(
            self._committed,
            self._recorder.write_if_possible,
            lambda text: self.log.write("attempt", text, attempt=attempt.number),
        )
        running = SparkAttempt(attempt, self._request.settings, self.log.folder, self._spark, self._clock, observer)
        self._attempt = running
        self._savepoints.attach(running.savepoints, attempt.log)
        if self._cancelled.is_set():
            running.cancel()
        elif self._is_ending.is_set():
            running.suspend()
        self._set_status(JobStatus.RUNNING)
        return running.run(), running.savepoints.stopped

    def _committed(self, summary: EpochSummary) -> None:
        """An epoch is committed."""
        self._scaling.committed(summary.rows_in)
        self._rows.committed(summary)
        self._metrics.committed(summary.reports)
        self._output.committed(summary)

    def _release(self, epoch: int) -> None:
        """A checkpoint of this epoch is complete: what it covers is final."""
        self._output.release(epoch)
        self._rows.release(epoch)

    # ---- the end

    def _finish_attempt(self, ended: Ended, stop: SavepointRequest | None) -> None:
        if ended is not Ended.CANCELLED:
            self._checkpoints.release_completed()  # the completing thread may not have come to it
        if ended in (Ended.SUSPENDED, Ended.CANCELLED) and not self._is_ending.is_set():
            return  # only the attempt has ended: the next one has another parallelism
        if ended is Ended.STOPPED and stop is not None:
            self._finish_stop(stop.then)
        elif ended is Ended.INPUT:
            self._finish("finished", JobStatus.FINISHED)
        else:
            self._finish_interrupted()

    def _finish_interrupted(self) -> None:
        """The job was cancelled or suspended; if both, cancelled."""
        if self._cancelled.is_set():
            self._finish("cancelled", JobStatus.CANCELED)
        else:
            self._end_suspended()

    def _end_suspended(self) -> None:
        """PROTOCOL R32: nothing is written to the log and nothing is deleted. A job that has failed stays failed."""
        if not self._ended.is_set() and self._failure is None:
            self._end(JobStatus.SUSPENDED if self._request.settings.is_resumable else JobStatus.CANCELED)
            self._output.end(self._interrupt)

    def _interrupt_of_end(self) -> BaseException | None:
        """What ended the job, if a signal did."""
        return self._interrupt if self._history.status in (JobStatus.SUSPENDED, JobStatus.CANCELED) else None

    def _finish_stop(self, then: str) -> None:
        """The savepoint exists: a job that is stopped has finished, unless it was to be cancelled."""
        if then == "cancel":
            self._finish("cancelled", JobStatus.CANCELED)
        else:
            self._finish("finished", JobStatus.FINISHED)

    def _finish(self, word: Literal["finished", "cancelled"], status: JobStatus) -> None:
        """The job has ended cleanly. For one that was suspended first, its log does not say so."""
        with self._finishing:
            if not self._history.status.is_terminal_state():
                self._checkpoints.end_job(Status(word))
                self._end(status)

    def _end(self, status: JobStatus) -> None:
        self._ended_ms = self._clock.now_ms()
        self._scaling.end(f"it is {status.name}")
        self._savepoints.end(f"the job is {status.name}{STOP_GOES_ON if status is JobStatus.SUSPENDED else ''}")
        self._set_status(status)
        seconds = (self._ended_ms - self._started_ms) / 1000
        text = f"the job is {status.name} after {seconds:.1f} s; rows: {self._rows.rows}, attempts: {self._attempts}"
        self.log.write("job", text, level="ERROR" if status is JobStatus.FAILED else "INFO")
        self._ended.set()

    def _log_failure(self, consequence: str, error: BaseException, *, level: Level = "ERROR") -> None:
        text = f"attempt {self._attempt_number} has failed, {consequence}"
        self.log.write_error("attempt", text, error, level=level, attempt=self._attempt_number)

    def _set_status(self, status: JobStatus) -> None:
        self._history.enter(status)
        self._recorder.write_if_possible()

    def record(self) -> JobRecord:
        """The job as it is now. Never waits."""
        attempt = self._attempt
        driver, *taskmanagers = process_records(attempt.processes() if attempt is not None else ())
        tracker = attempt.tracker if attempt is not None else None
        rows, epoch_rows = self._rows.observe(attempt.rows_so_far() if attempt is not None else None)
        return JobRecord(
            job_id=self.job_id,
            name=self._request.identity.name,
            status=self._history.status.name,
            pid=driver.pid,
            host=driver.host,
            started_ms=self._started_ms,
            updated_ms=self._clock.now_ms(),
            log_dir=str(self.log.folder),
            rest=self._request.rest if self._ended_ms is None else None,
            ended_ms=self._ended_ms,
            attempt=self._attempt_number,
            phase=attempt.phase if attempt is not None and self._history.status is JobStatus.RUNNING else None,
            epoch=tracker.epoch if tracker is not None else 0,
            parallelism=self.graph.parallelism,
            **self._scaling.figures(),
            checkpoint_dir=self._request.settings.storage.address if self._storage is not None else None,
            last_checkpoint=self._checkpoints.last_completed,
            state_bytes=self._checkpoints.state_bytes,
            watermark=tracker.watermark if tracker is not None else None,
            rows=rows,
            epoch_rows=epoch_rows,
            has_backlog=attempt is not None and attempt.has_backlog,
            rows_dropped=self._rows.dropped,
            rows_late=self._rows.late,
            rows_per_s=self._rows.per_second,
            processes=[driver, *taskmanagers],
            failure=str(self._failure) if self._failure is not None else None,
            **self._history.figures(),
            metrics=self._metrics.merged(),
            subtasks=self._metrics.work.subtasks(epoch_runs=epoch_rows > 0),
            last_epoch=self._rows.last,
        )
