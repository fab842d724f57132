"""A job from submission to its end: attempts, the restart strategy, its status, and its record in the registry."""

import os
import random
import socket
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Literal

from penstock.checkpoint.coordinator import CheckpointCoordinator
from penstock.checkpoint.failures import FailureReason
from penstock.checkpoint.log.entries import Status
from penstock.checkpoint.log.job_log import JobLog
from penstock.checkpoint.no_checkpoints import NoJobLog
from penstock.checkpoint.savepoint_request import SavepointRequest
from penstock.checkpoint.stats.checkpoint_report import CheckpointReport
from penstock.clock import Clock
from penstock.control.registry import FailureRecord, JobRecord, ProcessRecord, Registry
from penstock.errors import (
    CheckpointCorruptError,
    CheckpointError,
    CheckpointFailedError,
    CheckpointMissingError,
    FencedError,
    JobConflictError,
    JobNotFoundError,
    PenstockError,
    SinkTransactionLostError,
    SourceFileLostError,
    StorageError,
    UsageError,
)
from penstock.jobmanager.attempt.attempt_plan import AttemptPlan, Ended
from penstock.jobmanager.attempt.epoch_book import EpochSummary
from penstock.jobmanager.attempt.recovery import (
    Attempt,
    RecoveryOptions,
    begin_attempt,
    note_damage,
    start_unlogged,
)
from penstock.jobmanager.attempt.spark_attempt import SparkAttempt
from penstock.jobmanager.job_history import JobHistory, SlowCheckpoints, last_line
from penstock.jobmanager.job_output import JobOutput, collect_sinks
from penstock.jobmanager.job_request import JobRequest
from penstock.jobmanager.job_savepoints import JobSavepoints
from penstock.jobmanager.restart_strategy import Restarts
from penstock.jobmanager.row_counts import EpochCount, Rate
from penstock.model.execution import JobExecutionResult, JobStatus
from penstock.model.ids import new_token
from penstock.model.snapshot import StateSize
from penstock.storage.storage import Storage

RECORD_INTERVAL_S = 1.0


class Job:
    """One job in this process. It runs in a thread of its own; `wait` and `cancel` from any other."""

    def __init__(self, request: JobRequest, spark: Any, clock: Clock) -> None:
        self._request = request
        self._spark = spark
        self._clock = clock
        self._registry = Registry(request.settings.registry_dir)
        self._storage: Storage | None = None
        if request.settings.checkpoints is not None:
            self._storage = request.settings.storage.open(self.job_id, resumed=request.resumed)
        settings = request.settings.checkpoints
        is_held = settings is not None and settings.exactly_once
        self._output = JobOutput(collect_sinks(request.graph), checkpointing=is_held)
        self._history = JobHistory(clock, self._known_failures(), self._registry.read_checkpoints(self.job_id))
        self._slow = SlowCheckpoints(settings)
        self._started_ms = clock.now_ms()
        self._ended_ms: int | None = None
        self._attempt: SparkAttempt | None = None
        self._coordinator: CheckpointCoordinator | None = None
        self._log: JobLog | None = None
        self._attempt_number = 0
        self._savepoints = JobSavepoints(request.settings.savepoint_dir)
        self._damaged: dict[int, CheckpointError] = {}
        self._claims: set[str] = set()
        self._first_checkpoint = 0
        self._restarts = Restarts(request.settings.restart, clock, lambda: random.uniform(-1, 1))
        self._attempts = 0
        self._rows = EpochCount()
        self._untimed = EpochCount()
        self._last_checkpoint: int | None = None
        self._written_sizes: list[StateSize] | None = None
        self._rate = Rate(clock)
        self._failure: BaseException | None = None
        self._disowned = False
        self._cancelled = threading.Event()
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._write_record()
        threading.Thread(target=self._run, name=f"job-{self.job_id[:8]}", daemon=True).start()
        threading.Thread(target=self._keep_record, name="job-record", daemon=True).start()

    @property
    def job_id(self) -> str:
        return self._request.identity.job_id

    def status(self) -> JobStatus:
        """Where the job stands."""
        return self._history.status

    def checkpoints(self) -> CheckpointReport:
        """What is known of the job's checkpoints now."""
        coordinator, log = self._coordinator, self._log
        retained = None if log is None else frozenset(complete.checkpoint for complete in log.view().retained)
        of_attempt = coordinator.history() if coordinator is not None else ()
        return self._history.report(of_attempt, self._savepoints.stats(), retained)

    def cancel(self) -> None:
        """End the job and wait until it has ended; one that has ended stays as it is."""
        self._cancelled.set()
        self._set_status(JobStatus.CANCELLING)
        attempt = self._attempt
        if attempt is not None:
            attempt.cancel()
        self._ended.wait()

    def checkpoint(self, *, full: bool = False) -> int:
        """Take a checkpoint now; its number, once it is complete. `full`: it inherits nothing."""
        coordinator = self._coordinator
        if self._request.settings.checkpoints is None:
            raise UsageError("the job takes no checkpoints; call env.enable_checkpointing(…) in the program")
        if coordinator is None or self.status() is not JobStatus.RUNNING:
            raise CheckpointFailedError(FailureReason.NOT_RUNNING.text(f"the job is {self.status().name}"))
        return coordinator.request(full=full).result()

    def trigger_savepoint(self, request: SavepointRequest) -> SavepointRequest:
        """Take a savepoint at the next barrier. Returns the request, or an earlier one with the same trigger id."""
        if self._history.status.is_terminal_state():
            raise JobConflictError(f"job {self.job_id} is {self.status().name}: there is nothing left to save")
        return self._savepoints.trigger(request)

    def savepoint_request(self, trigger_id: str) -> SavepointRequest | None:
        """What became of a savepoint; None if nobody asked for it."""
        return self._savepoints.find(trigger_id)

    def wait(self, timeout: float | None = None) -> JobExecutionResult:
        """The result, once the job has ended; raises what made it fail."""
        if not self._ended.wait(timeout):
            raise TimeoutError(f"job {self.job_id} has not ended within {timeout} s")
        if isinstance(self._failure, PenstockError):
            raise self._failure.with_traceback(None) from None  # how we came to hear of it is in driver.log
        if self._failure is not None:
            raise self._failure
        duration = (self._ended_ms or self._clock.now_ms()) - self._started_ms
        return JobExecutionResult(self.job_id, self._request.identity.name, self._rows.total, self._attempts, duration)

    def wait_for_end(self) -> None:
        """Return once the job has ended, however it has."""
        self._ended.wait()

    def collected(self, sink_uid: str) -> Iterator[Any]:
        """The records of a collect sink, as they become certain."""
        return iter(self._output.collected[sink_uid])

    # ---- the job's own thread

    def _run(self) -> None:
        try:
            self._run_attempts()
        except BaseException as error:  # kept for whoever waits
            if self._failure is None:
                self._history.failed(error, self._attempt_number)
            self._failure = error
            self._disowned = isinstance(error, (FencedError, JobConflictError))
            self._log_failure("the job has failed", error)
            self._end(JobStatus.FAILED)
        self._output.end(self._failure)

    def _run_attempts(self) -> None:
        while True:
            try:
                self._run_attempt()
                return
            except (FencedError, JobConflictError, UsageError):
                raise  # the job is another's, or will never run: no new attempt
            except PenstockError as error:
                delay_s = self._delay_after(error)
                if delay_s is None:
                    self._failure = error
                    with suppress(StorageError):  # what made the job fail is what its author must see
                        self._end_log(Status("failed", last_line(error)))
                    raise
            finally:
                self._close_attempt()
            if self._cancelled.wait(delay_s):
                self._finish("cancelled", JobStatus.CANCELED)
                return

    def _delay_after(self, error: PenstockError) -> float | None:
        """How many seconds to wait before the next attempt; None if there is none. 0 for a job that was cancelled."""
        if self._cancelled.is_set():
            return 0.0
        self._history.failed(error, self._attempt_number)
        self._set_status(JobStatus.FAILING)
        self._require_own()
        delay_s = None if _is_final(error) else self._restarts.after_failure()
        if delay_s is not None:
            self._say_restart(error, delay_s)
            self._set_status(JobStatus.RESTARTING)
        return delay_s

    def _close_attempt(self) -> None:
        """Whatever the attempt had pending never completes; its figures stay."""
        self._savepoints.detach()
        coordinator = self._coordinator
        if coordinator is not None:
            coordinator.close(FailureReason.SUSPENDING)
            self._first_checkpoint = coordinator.next_id
            self._write_checkpoints(coordinator)

    def _require_own(self) -> None:
        """PROTOCOL R4: an attempt that another driver has fenced does not claim again, whatever ended it first."""
        if self._log is not None:
            with suppress(StorageError):  # a storage that does not answer says nothing about owners
                self._log.check_fenced()

    def _run_attempt(self) -> None:
        self._attempts += 1
        claimed = self._begin()
        if claimed is not None:
            manifest, origin = claimed.manifest, claimed.origin
        else:
            manifest, origin = start_unlogged(self.job_id, self._request.graph, self._request.start)
        self._output.roll_back(manifest.epoch if manifest is not None else 0)
        for count in (self._rows, self._untimed):
            count.roll_back(manifest.epoch if manifest is not None else 0)
        if manifest is not None and claimed is not None:
            self._history.restored(manifest, claimed.log)
        if manifest is not None and manifest.final:
            self._finish("finished", JobStatus.FINISHED)  # PROTOCOL R31: it had ended, only the word was missing
            return
        stop = self._savepoints.find_stop(claimed.log) if claimed is not None else None
        if stop is not None:
            self._finish_stop(stop.then)  # PROTOCOL R30: the same
            return
        plan = AttemptPlan(
            job_id=self.job_id,
            number=self._attempt_number,
            token=claimed.token if claimed is not None else new_token(),
            graph=self._request.graph,
            settings=self._request.settings,
            storage=self._storage,
            manifest=manifest,
            coordinator=claimed.coordinator if claimed is not None else None,
            log=claimed.log if claimed is not None else None,
            log_dir=self._registry.log_dir(self.job_id),
            origin=origin,
        )
        attempt = SparkAttempt(plan, self._spark, self._clock, self._committed)
        self._attempt = attempt
        self._savepoints.attach(attempt.savepoints, plan.log or NoJobLog())
        if self._cancelled.is_set():
            attempt.cancel()
        self._set_status(JobStatus.RUNNING)
        try:
            ended = attempt.run()
        except (CheckpointCorruptError, CheckpointMissingError) as error:
            if claimed is None or manifest is None:
                raise
            damage = error
        else:
            self._finish_attempt(ended, attempt.savepoints.stopped)
            return
        note_damage(claimed, damage, self._damaged)
        self._log_failure(f"checkpoint {manifest.checkpoint_id} is damaged", damage)
        self._run_attempt()  # PROTOCOL R24: from an older checkpoint, or refused

    def _finish_attempt(self, ended: Ended, stop: SavepointRequest | None) -> None:
        if ended is not Ended.CANCELLED:
            self._release_completed()  # the thread that completed the last checkpoint may not have said so yet
        if ended is Ended.STOPPED and stop is not None:
            self._finish_stop(stop.then)
        elif ended is Ended.INPUT:
            self._finish("finished", JobStatus.FINISHED)
        else:
            self._finish("cancelled", JobStatus.CANCELED)

    def _finish_stop(self, then: str) -> None:
        """The savepoint is there: a job that is stopped has finished, or it was to be cancelled."""
        if then == "cancel":
            self._finish("cancelled", JobStatus.CANCELED)
        else:
            self._finish("finished", JobStatus.FINISHED)

    def _begin(self) -> Attempt | None:
        """Claim the job in its log; without checkpoints there is no log and nothing to recover."""
        request = self._request
        if self._storage is None or request.settings.checkpoints is None:
            self._attempt_number += 1
            return None
        self._close_attempt()
        self._log, self._coordinator = None, None  # the older attempt's: the claim fences it
        options = RecoveryOptions(
            request.settings.checkpoints,
            request.allow_fallback,
            request.resumed,
            warn=self._say_warning,
            damaged=self._damaged,
            first_checkpoint=self._first_checkpoint,
            own_claims=self._claims,
            start=request.start,
        )
        claimed = begin_attempt(request.identity, request.graph, self._storage, options, self, self._clock)
        self._attempt_number = claimed.number
        self._coordinator = claimed.coordinator
        self._log = claimed.log
        return claimed

    def completed(self, checkpoint: int) -> None:
        """A checkpoint is complete: what it covers is certain."""
        self._release_completed()

    def _release_completed(self) -> None:
        coordinator = self._coordinator
        newest = coordinator.newest_completed if coordinator is not None else None
        if newest is not None:
            self._output.release(newest.epoch)
            self._rows.release(newest.epoch)
            self._untimed.release(newest.epoch)
        if coordinator is not None:
            self._write_sizes(coordinator.state_sizes)
            self._write_checkpoints(coordinator)
            slow = self._slow.warning(coordinator.history())
            if slow is not None:
                self._say_warning(slow)

    def aborted(self, checkpoint: int, reason: str) -> None:
        """A checkpoint was given up; the next one covers its epochs too."""
        self._write_log(f"checkpoint {checkpoint} was aborted: {reason}")
        if self._coordinator is not None:
            self._write_checkpoints(self._coordinator)

    def _committed(self, summary: EpochSummary) -> None:
        self._rows.add(summary.epoch, summary.rows_in)
        self._untimed.add(summary.epoch, summary.untimed)
        if self._storage is None:
            self._rows.release(summary.epoch)
            self._untimed.release(summary.epoch)
        self._rate.add(summary.rows_in)
        self._output.committed(summary)

    def _finish(self, word: Literal["finished", "cancelled"], status: JobStatus) -> None:
        """The job has ended in order."""
        self._end_log(Status(word))
        self._end(status)

    def _end_log(self, status: Status) -> None:
        """Commits have ended; then the status, and then what is not kept goes (PROTOCOL R31, features K8)."""
        settings, coordinator = self._request.settings.checkpoints, self._coordinator
        if self._log is None or coordinator is None or settings is None:
            return
        coordinator.close(FailureReason.SHUTDOWN)
        if status.status == "finished" or coordinator.is_settled:
            coordinator.finish(status, keep_checkpoints=settings.keeps(status.status))
        else:
            self._log.append(status)  # whoever goes on needs what is not committed yet

    def _end(self, status: JobStatus) -> None:
        self._ended_ms = self._clock.now_ms()
        self._savepoints.end(f"the job is {status.name}")
        self._set_status(status)
        self._ended.set()

    def _say_restart(self, error: PenstockError, delay_s: float) -> None:
        print(
            f"attempt {self._attempt_number} has failed, the job restarts in {delay_s:.3g} s: {last_line(error)}",
            file=sys.stderr,
            flush=True,
        )
        self._log_failure("the job restarts", error)

    def _say_warning(self, text: str) -> None:
        print(f"warning: {text}", file=sys.stderr, flush=True)

    def _log_failure(self, consequence: str, error: BaseException) -> None:
        """Everything about the end of an attempt, for those who look for the cause."""
        text = f"attempt {self._attempt_number} has failed, {consequence}\n" + "".join(
            traceback.format_exception(error)
        )
        self._write_log(text)

    def _write_log(self, text: str) -> None:
        with suppress(OSError):  # the job's end does not depend on its log
            folder = self._registry.log_dir(self.job_id)
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with open(folder / "driver.log", "a", encoding="utf-8") as file:
                file.write(text + "\n")

    # ---- the record

    def _write_sizes(self, sizes: list[StateSize] | None) -> None:
        """Once per checkpoint: with many key groups this is much more than the record."""
        if sizes is not None and sizes is not self._written_sizes:
            self._written_sizes = sizes
            with suppress(StorageError):
                self._registry.write_sizes(self.job_id, sizes)

    def _write_checkpoints(self, coordinator: CheckpointCoordinator) -> None:
        with suppress(StorageError):
            self._registry.write_checkpoints(self.job_id, self._history.add_checkpoints(coordinator.history()))

    def _known_failures(self) -> list[FailureRecord]:
        """Of a job that is taken up again: what its older drivers wrote down."""
        try:
            return self._registry.read(self.job_id).failures
        except (JobNotFoundError, StorageError):
            return []

    def _set_status(self, status: JobStatus) -> None:
        self._history.enter(status)
        with suppress(StorageError):  # a registry that cannot be written must not keep a job from ending
            self._write_record()

    def _keep_record(self) -> None:
        while not self._ended.wait(RECORD_INTERVAL_S):
            with suppress(StorageError):
                self._write_record()

    def _write_record(self) -> None:
        with self._lock:
            record = self.record()
            if self._owns_record():
                self._registry.write(record)
            if self._request.report is not None:
                self._request.report(record)

    def _owns_record(self) -> bool:
        """False once another driver has taken the job: the record is about that one now."""
        if self._disowned or self._attempt_number == 0:
            return not self._disowned
        try:
            found = self._registry.read(self.job_id)
        except (JobNotFoundError, StorageError):
            return True
        return found.pid == os.getpid() or found.attempt <= self._attempt_number

    def record(self) -> JobRecord:
        """What the registry says of the job, as it is now. It waits for nobody."""
        attempt, host = self._attempt, socket.gethostname()
        processes = [ProcessRecord(os.getpid(), host, "driver")]
        if attempt is not None:
            processes += [ProcessRecord(r.pid, r.host, "taskmanager", subtasks) for r, subtasks in attempt.processes()]
        book = attempt.book if attempt is not None else None
        newest = self._coordinator.newest_completed if self._coordinator is not None else None
        if newest is not None:  # None again once the job has ended
            self._last_checkpoint = newest.checkpoint_id
        return JobRecord(
            job_id=self.job_id,
            name=self._request.identity.name,
            status=self._history.status.name,
            pid=os.getpid(),
            host=host,
            started_ms=self._started_ms,
            updated_ms=self._clock.now_ms(),
            log_dir=str(self._registry.log_dir(self.job_id)),
            rest=self._request.rest if self._ended_ms is None else None,
            ended_ms=self._ended_ms,
            attempt=self._attempt_number,
            epoch=book.epoch if book is not None else 0,
            parallelism=self._request.graph.parallelism,
            checkpoint_dir=self._request.settings.storage.address if self._storage is not None else None,
            last_checkpoint=self._last_checkpoint,
            watermark=book.watermark if book is not None else None,
            rows=self._rows.total,
            rows_dropped=self._untimed.total,
            rows_per_s=self._rate.per_second(),
            processes=processes,
            failure=str(self._failure) if self._failure is not None else None,
            transitions=self._history.transitions(),
            failures=self._history.failures(),
        )


def _is_final(error: PenstockError) -> bool:
    """Trying again cannot help: output or input is lost (PROTOCOL R21), or a checkpoint cannot be restored (R24)."""
    is_refusal = isinstance(error, CheckpointError) and not error.retryable
    return isinstance(error, SinkTransactionLostError | SourceFileLostError) or is_refusal
