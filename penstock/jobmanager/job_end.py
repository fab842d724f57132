"""The end of a job: asked for by a user or a signal, or reached by the job's own thread."""

import threading
from contextlib import suppress
from typing import Literal

from penstock.checkpoint.log.entries import Status
from penstock.clock import Clock
from penstock.control.interrupts import INTERRUPTS
from penstock.errors import FencedError, JobConflictError, PenstockError, StorageError, UsageError
from penstock.jobmanager.job_history import last_line
from penstock.jobmanager.job_parts import JobParts
from penstock.jobmanager.job_recorder import JobRecorder
from penstock.model.execution import JobStatus

STOP_GOES_ON = "; if its log has a stop with a savepoint, the job completes that when it is resumed"


class JobEnd:
    """Whether a job is to end, and how it has ended. Of two ends at the same time the first counts. Thread safe."""

    def __init__(self, parts: JobParts, recorder: JobRecorder, clock: Clock, *, is_resumable: bool) -> None:
        self._parts = parts
        self._recorder = recorder
        self._clock = clock
        self._is_resumable = is_resumable
        self.started_ms = clock.now_ms()
        self.ended_ms: int | None = None
        self.failure: BaseException | None = None
        self.cancelled = threading.Event()
        self._suspended = threading.Event()
        self._interrupt: BaseException | None = None
        """The `reason` of a job that was suspended."""
        self.requested = threading.Event()
        """The job is cancelled or suspended: no restart waits any longer."""
        self.reached = threading.Event()
        self._writing = threading.Lock()
        """Held while the job's end is written to its log."""

    @property
    def duration_ms(self) -> int:
        """How long the job ran in this driver, or has run so far."""
        return (self.ended_ms or self._clock.now_ms()) - self.started_ms

    def reason(self) -> BaseException | None:
        """What made the job fail, or the signal that suspended it. None for a job that ended cleanly."""
        if isinstance(self.failure, PenstockError):
            return self.failure.with_traceback(None)  # the whole traceback is in driver.log
        if self.failure is None and (interrupt := self._delivered_interrupt()) is not None:
            return INTERRUPTS.deliver(interrupt)
        return self.failure

    # ---- requested, from any thread

    def cancel(self) -> None:
        """The job is to end, and cannot be resumed."""
        self.cancelled.set()
        self.requested.set()
        self._parts.history.enter(JobStatus.CANCELLING)
        self._recorder.write_if_possible()

    def suspend(self, interrupt: BaseException) -> None:
        """The job is to end so that it can be resumed; one that cannot be resumed is cancelled."""
        self._interrupt = interrupt
        if not self._is_resumable:
            self.cancelled.set()
        self._suspended.set()
        self.requested.set()

    def abandon(self, wait_s: float) -> None:
        """The process is about to end: whatever still runs, the job counts as suspended from now on."""
        if self._writing.acquire(timeout=wait_s):  # an end that is being written to the log counts
            try:
                self._end_suspended()
            finally:
                self._writing.release()

    # ---- reached, in the job's own thread

    def finish(self, word: Literal["finished", "cancelled"], status: JobStatus) -> None:
        """The job has ended cleanly. For one that was suspended first, its log does not say so."""
        with self._writing:
            if not self._parts.history.status.is_terminal_state():
                self._parts.checkpoints.end_job(Status(word))
                self._end(status)

    def finish_stop(self, then: str) -> None:
        """The savepoint exists: a job that is stopped has finished, unless it was to be cancelled."""
        if then == "cancel":
            self.finish("cancelled", JobStatus.CANCELED)
        else:
            self.finish("finished", JobStatus.FINISHED)

    def finish_requested(self) -> None:
        """The job was cancelled or suspended; if both, cancelled."""
        if self.cancelled.is_set():
            self.finish("cancelled", JobStatus.CANCELED)
        else:
            self._end_suspended()

    def give_up(self, error: PenstockError) -> None:
        """The job has failed for good. For one that was suspended first, its log does not say so."""
        with self._writing:
            if not self._parts.history.status.is_terminal_state():
                self.failure = error
                with suppress(StorageError):  # what made the job fail is what its author must see
                    self._parts.checkpoints.end_job(Status("failed", last_line(error)))

    def fail(self, error: BaseException) -> None:
        """The job's thread ends with this error, the `reason` unless the job is being suspended."""
        is_refused = isinstance(error, (FencedError, JobConflictError, UsageError))
        if self._suspended.is_set() and self.failure is None and not is_refused:
            self._parts.log_failure("the job is being suspended", error, level="WARN")
            self._end_suspended()
            return
        if self.failure is None:
            self._parts.history.failed(error, self._parts.attempt_number)
        self.failure = error
        if isinstance(error, (FencedError, JobConflictError)):
            self._recorder.disown()
        self._parts.log_failure("the job has failed", error)
        self._end(JobStatus.FAILED)
        self.end_output()

    def end_output(self) -> None:
        """Nothing follows: who reads the output gets its end, or what ended the job."""
        self._parts.output.end(self.failure or self._delivered_interrupt())

    def _end_suspended(self) -> None:
        """PROTOCOL R32: nothing is written to the log and nothing is deleted. A job that has failed stays failed."""
        if not self.reached.is_set() and self.failure is None:
            self._end(JobStatus.SUSPENDED if self._is_resumable else JobStatus.CANCELED)
            self._parts.output.end(self._interrupt)

    def _delivered_interrupt(self) -> BaseException | None:
        """What ended the job, if a signal did."""
        is_over = self._parts.history.status in (JobStatus.SUSPENDED, JobStatus.CANCELED)
        return self._interrupt if is_over else None

    def _end(self, status: JobStatus) -> None:
        self.ended_ms = self._clock.now_ms()
        parts = self._parts
        parts.scaling.end(f"it is {status.name}")
        parts.savepoints.end(f"the job is {status.name}{STOP_GOES_ON if status is JobStatus.SUSPENDED else ''}")
        parts.history.enter(status)
        self._recorder.write_if_possible()
        seconds = self.duration_ms / 1000
        text = f"the job is {status.name} after {seconds:.1f} s; rows: {parts.rows.rows}, attempts: {parts.attempts}"
        parts.log.write("job", text, level="ERROR" if status is JobStatus.FAILED else "INFO")
        self.reached.set()
