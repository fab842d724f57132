"""A job from submission to its end: its attempts, and the restart strategy between them.

What attempts share is in `JobParts`, how the job ends in `JobEnd`, what the registry shows of it in `job_record`.
"""

import random
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from penstock.checkpoint.savepoint_request import SavepointRequest
from penstock.checkpoint.stats.checkpoint_report import CheckpointReport
from penstock.clock import Clock
from penstock.control.registry import JobRecord, Registry, RescaleRecord
from penstock.control.terminal import print_message, print_warning
from penstock.errors import (
    CheckpointCorruptError,
    CheckpointError,
    CheckpointMissingError,
    FencedError,
    JobConflictError,
    PenstockError,
    UsageError,
    UserFunctionError,
)
from penstock.graph.job_graph import JobGraph
from penstock.jobmanager.attempt.attempt import Attempt, Ended
from penstock.jobmanager.attempt.attempt_progress import AttemptObserver
from penstock.jobmanager.attempt.recovery import RecoveryOptions, begin_attempt, note_damage
from penstock.jobmanager.attempt.spark_attempt import SparkAttempt
from penstock.jobmanager.job_end import JobEnd
from penstock.jobmanager.job_history import last_line
from penstock.jobmanager.job_parts import JobParts
from penstock.jobmanager.job_record import job_record
from penstock.jobmanager.job_recorder import JobRecorder
from penstock.jobmanager.job_request import JobRequest
from penstock.jobmanager.live_state import LiveJobState
from penstock.jobmanager.restart_strategy import Restarts, is_final
from penstock.jobmanager.resume_advice import ResumeAdvice
from penstock.model.execution import JobExecutionResult, JobStatus
from penstock.model.ids import SubtaskId
from penstock.model.metric_readings import MetricReading
from penstock.model.recent_epoch import RecentEpoch

SUSPEND_GRACE_S = 5.0
"""How long a job whose last checkpoint was not quick enough may take to end its processes, and its program at least
to take the records that this checkpoint made final."""


class Job:
    """One job in this process. It runs in a thread of its own; `wait` and `cancel` from any other."""

    def __init__(self, request: JobRequest, spark: Any, clock: Clock) -> None:
        registry = Registry(request.settings.registry_dir)
        self._request = request
        self._advice = ResumeAdvice(request.identity.name, request.settings)
        self._spark = spark
        self._clock = clock
        self._parts = JobParts(request, registry, clock)
        self.log = self._parts.log
        self._recorder = JobRecorder(registry, self.record, request.report)
        self._end = JobEnd(self._parts, self._recorder, clock, is_resumable=request.settings.is_resumable)
        self.queries = LiveJobState(lambda: self._attempt, self.status, lambda: registry.read_sizes(self.job_id))
        self._restarts = Restarts(request.settings.restart, clock, lambda: random.uniform(-1, 1))
        self._attempt: SparkAttempt | None = None
        self._damaged: dict[int, CheckpointError] = {}
        self._claims: set[str] = set()
        self._recorder.write()
        threading.Thread(target=self._run, name=f"job-{self.job_id[:8]}", daemon=True).start()
        self._recorder.start(self._end.reached)

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
        return self._parts.scaling.graph

    def status(self) -> JobStatus:
        """The job's current status."""
        return self._parts.history.status

    def checkpoints(self) -> CheckpointReport:
        """What is known of the job's checkpoints now."""
        return self._parts.checkpoints.report(self._parts.savepoints)

    def metrics(self) -> list[tuple[SubtaskId, MetricReading]]:
        """The metrics of functions, by subtask."""
        return self._parts.metrics.readings()

    def epochs(self) -> list[RecentEpoch]:
        """The last committed epochs, oldest first."""
        return self._parts.rows.recent()

    def rates(self) -> list[tuple[int, float]]:
        """Rows per second over the last ten minutes."""
        return self._parts.rows.rates()

    def cancel(self) -> None:
        """End the job and wait until it has ended; one that has ended stays as it is."""
        self._end.cancel()
        if self._attempt is not None:
            self._attempt.cancel()
        self._end.reached.wait()

    def suspend(self, interrupt: BaseException) -> None:
        """End the job so that it can be resumed: to its log this is a driver that dies after its last checkpoint.

        The job takes a last checkpoint if that is complete within `penstock.suspend.timeout`. `wait` then raises
        `interrupt`. A job without checkpoints that outlive this process has nothing to resume, and is cancelled. One
        that is being cancelled, or ends at the same time, ends as it would have.
        """
        deadline_s = self._clock.monotonic_s() + self._request.settings.suspend_timeout_ms / 1000
        self._end.suspend(interrupt)
        if (attempt := self._attempt) is not None and attempt.suspend():
            left_s = max(0.0, deadline_s - self._clock.monotonic_s())
            if self._end.cancelled.is_set() or not self._end.reached.wait(left_s):
                # In a thread: Spark may be stuck.
                threading.Thread(target=self._cancel_attempt, args=(attempt,), daemon=True).start()
            self._end.reached.wait(SUSPEND_GRACE_S)
        self.abandon()
        self._parts.output.wait_until_taken(max(SUSPEND_GRACE_S, deadline_s - self._clock.monotonic_s()))

    def _cancel_attempt(self, attempt: SparkAttempt) -> None:
        try:
            attempt.cancel()
        except Exception as error:  # Spark is gone: then its job has ended too
            self._parts.log_failure("its Spark job could not be cancelled", error, level="WARN")

    def abandon(self) -> None:
        """The process is about to end: whatever still runs, the job counts as suspended from now on."""
        self._end.abandon(SUSPEND_GRACE_S)

    def describe_end(self) -> str:
        """What an interrupted program says about the job last: how it has ended, and how to resume it."""
        is_rescaled = self._parts.scaling.rescaled is not None
        return self._advice.text(self.status(), self._parts.checkpoints.last_completed, is_rescaled=is_rescaled)

    def checkpoint(self, *, full: bool = False) -> int:
        """Take a checkpoint now; its number, once it is complete. `full`: it inherits nothing."""
        return self._parts.checkpoints.take(full=full)

    def request_rescale(self, parallelism: int, why: str = "requested") -> Callable[[], RescaleRecord]:
        """Check a rescale; what is returned does it, and returns once the job reads rows at that parallelism."""
        rescale = self._parts.scaling.begin(parallelism, self.status(), why)
        return partial(self._parts.scaling.run, rescale, self._parts.checkpoints.take, lambda: self._attempt)

    def trigger_savepoint(self, request: SavepointRequest) -> SavepointRequest:
        """Take a savepoint at the next barrier. Returns the request, or an earlier one with the same trigger id."""
        if self._parts.history.status.is_terminal_state():
            raise JobConflictError(f"job {self.job_id} is {self.status().name}: there is nothing left to save")
        if self._request.graph.batch:
            raise UsageError("a batch job has no savepoints: it keeps the state of one key at a time")
        return self._parts.savepoints.trigger(request)

    def savepoint_request(self, trigger_id: str) -> SavepointRequest | None:
        """The request with this trigger id; None if there was none."""
        return self._parts.savepoints.find(trigger_id)

    def wait(self, timeout: float | None = None) -> JobExecutionResult:
        """The result, once the job has ended; raises what made it fail."""
        if not self._end.reached.wait(timeout):
            raise TimeoutError(f"job {self.job_id} has not ended within {timeout} s")
        reason = self._end.reason()
        if isinstance(reason, PenstockError):
            raise reason from None
        if reason is not None:
            raise reason
        rows, attempts = self._parts.rows.rows, self._parts.attempts
        return JobExecutionResult(self.job_id, self.name, rows, attempts, self._end.duration_ms)

    def wait_for_end(self) -> None:
        """Return once the job has ended, in whatever way."""
        self._end.reached.wait()

    def collected(self, sink_uid: str) -> Iterator[Any]:
        """The records of a collect sink, as they become final."""
        return iter(self._parts.output.collected[sink_uid])

    def record(self) -> JobRecord:
        """The job as it is now. Never waits."""
        return job_record(self._request, self._parts, self._end, self._attempt, self._clock.now_ms())

    # ---- the job's own thread

    def _run(self) -> None:
        """Run the job to its end. Whatever fails on the way, even recording the failure, `wait` and `cancel` return."""
        try:
            self._run_or_fail()
        finally:
            self._end.reached.set()

    def _run_or_fail(self) -> None:
        try:
            self._run_attempts()
        except BaseException as error:
            self._end.fail(error)
        else:
            self._end.end_output()

    def _run_attempts(self) -> None:
        while True:
            try:
                self._run_attempt()
                if self._parts.history.status.is_terminal_state():
                    return
                self._set_status(JobStatus.RESTARTING)  # at another parallelism
                delay_s: float | None = 0.0
            except (FencedError, JobConflictError):
                raise  # the job belongs to another driver: no new attempt
            except PenstockError as error:
                if isinstance(error, UsageError) and not self._parts.scaling.is_untried:
                    raise  # the job will never run: no new attempt
                delay_s = self._delay_after(error)
                if delay_s is None:
                    self._end.give_up(error)
                    raise
            finally:
                self._parts.detach()
            if self._end.requested.wait(delay_s):
                self._end.finish_requested()
                return

    def _delay_after(self, error: PenstockError) -> float | None:
        """Seconds to wait before the next attempt; None if there is none. 0 for a job that is being ended."""
        parts = self._parts
        if self._end.requested.is_set():
            parts.log_failure("the job is ending", error, level="WARN")
            return 0.0
        is_new = parts.history.failed(error, parts.attempt_number)
        self._set_status(JobStatus.FAILING)
        parts.checkpoints.check_fenced()  # PROTOCOL R4: a fenced driver does not claim again, whatever failed first
        delay_s: float | None = 0.0
        if parts.scaling.go_back(error):  # part of the rescale: no restart of the restart strategy
            then = f"the job goes back to parallelism {self.graph.default_parallelism}"
        else:
            delay_s = None if is_final(error) else self._restarts.after_failure()
            then = f"the job restarts in {delay_s or 0:.3g} s"
        if delay_s is not None:
            text = f"attempt {parts.attempt_number} has failed, {then}: {last_line(error)}"
            print_message(f"{text}\n{error}" if is_new and isinstance(error, UserFunctionError) else text)
            parts.log_failure(then, error, level="WARN")
            self._set_status(JobStatus.RESTARTING)
        return delay_s

    def _run_attempt(self) -> None:
        self._parts.attempts += 1
        attempt = self._begin_attempt()
        self.log.write("attempt", f"attempt {attempt.number} starts from {attempt.starts_from}", attempt=attempt.number)
        self._parts.begin_attempt(attempt.origin.epoch)
        if attempt.manifest is not None:
            self._parts.history.restored(attempt)
            if attempt.manifest.final:
                self._end.finish("finished", JobStatus.FINISHED)  # PROTOCOL R31: only the status was missing
                return
        stop = self._parts.savepoints.find_stop(attempt.log)
        if stop is not None:
            self._end.finish_stop(stop.then)  # PROTOCOL R30: the same
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
        self._parts.log_failure(f"checkpoint {attempt.manifest.checkpoint_id} is damaged", damage)
        self._run_attempt()  # PROTOCOL R24: from an older checkpoint, or refused

    def _begin_attempt(self) -> Attempt:
        """Own the job in a new attempt, and know what it starts from."""
        request, parts = self._request, self._parts
        graph = parts.scaling.switch()
        parts.savepoints.detach()
        parts.checkpoints.forget()  # those of the older attempt, which the claim fences
        options = RecoveryOptions(
            request.settings.attempt_settings,
            request.allow_fallback,
            request.resumed and request.reopens,
            warn=print_warning,
            rescaled=parts.scaling.rescaled,
            damaged=self._damaged,
            first_checkpoint=parts.checkpoints.first_free,
            own_claims=self._claims,
            start=request.start,
            last_attempt=parts.attempt_number,
        )
        attempt = begin_attempt(request.identity, graph, parts.storage, options, parts.checkpoints, self._clock)
        parts.attempt_number = attempt.number
        request.claimed()
        parts.checkpoints.attach(attempt)
        parts.scaling.restored(attempt)
        return attempt

    def _run_on_spark(self, attempt: Attempt) -> tuple[Ended, SavepointRequest | None]:
        """How the attempt ended, and the savepoint that stopped it, if one did."""
        observer = AttemptObserver(
            self._parts.committed,
            self._recorder.write_if_possible,
            lambda text: self.log.write("attempt", text, attempt=attempt.number),
        )
        running = SparkAttempt(attempt, self._request.settings, self.log.folder, self._spark, self._clock, observer)
        self._attempt = running
        self._parts.savepoints.attach(running.savepoints, attempt.log)
        if self._end.cancelled.is_set():
            running.cancel()
        elif self._end.requested.is_set():
            running.suspend()
        self._set_status(JobStatus.RUNNING)
        return running.run(), running.savepoints.stopped

    def _finish_attempt(self, ended: Ended, stop: SavepointRequest | None) -> None:
        if ended is not Ended.CANCELLED:
            self._parts.checkpoints.release_completed()  # the completing thread may not have come to it
        if ended in (Ended.SUSPENDED, Ended.CANCELLED) and not self._end.requested.is_set():
            return  # only the attempt has ended: the next one has another parallelism
        if ended is Ended.STOPPED and stop is not None:
            self._end.finish_stop(stop.then)
        elif ended is Ended.INPUT:
            self._end.finish("finished", JobStatus.FINISHED)
        else:
            self._end.finish_requested()

    def _set_status(self, status: JobStatus) -> None:
        self._parts.history.enter(status)
        self._recorder.write_if_possible()
