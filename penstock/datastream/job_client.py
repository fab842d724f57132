"""`JobClient`: the handle of a running job, for the program that started it."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from typing import Any, Generic, Protocol, TypeVar

from penstock.checkpoint.savepoint_request import SavepointFormat, SavepointRequest, Then
from penstock.control.interrupts import INTERRUPTS
from penstock.errors import UsageError
from penstock.model.execution import JobID, JobStatus

_T = TypeVar("_T")


class JobHandle(Protocol):
    """The JobManager's handle of a job that runs in the background."""

    @property
    def job_id(self) -> str: ...
    def status(self) -> JobStatus: ...
    def cancel(self) -> None: ...
    def checkpoint(self, *, full: bool = False) -> int: ...
    def trigger_savepoint(self, request: SavepointRequest) -> SavepointRequest: ...
    def wait(self, timeout: float | None = None) -> Any: ...
    def collected(self, sink_uid: str) -> Iterator[Any]: ...


class CompletableFuture(Generic[_T]):
    """The result of work that runs in a thread of its own."""

    def __init__(self, work: Callable[[], _T]) -> None:
        self._future: Future[_T] = Future()
        threading.Thread(target=self._run, args=(work,), name="penstock-future", daemon=True).start()

    def _run(self, work: Callable[[], _T]) -> None:
        try:
            self._future.set_result(work())
        except BaseException as error:  # raised by `result`
            self._future.set_exception(error)

    def result(self, timeout: float | None = None) -> _T:
        """Wait for the result. Raises what the work raised, or TimeoutError."""
        if not wait([self._future], timeout).done:
            raise TimeoutError(f"no result within {timeout} s")
        try:
            return self._future.result()
        except (KeyboardInterrupt, SystemExit) as interrupt:
            raise INTERRUPTS.deliver(interrupt) from None

    def exception(self) -> BaseException | None:
        """Wait for the end of the work, and return what it raised, or None."""
        return self._future.exception()

    def done(self) -> bool:
        """Return whether the work has ended."""
        return self._future.done()

    def cancel(self) -> bool:
        """Always False: work that has started is not interrupted."""
        return False

    def cancelled(self) -> bool:
        """Always False."""
        return False


class JobClient:
    """A job: its id, its status, and calls that end it or take savepoints. Its repr shows the status."""

    def __init__(self, handle: JobHandle) -> None:
        self._handle = handle

    def get_job_id(self) -> JobID:
        """The job's id, 32 hex digits."""
        return JobID(self._handle.job_id)

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """The job's current status."""
        return CompletableFuture(self._handle.status)

    def cancel(self) -> CompletableFuture[None]:
        """End the job without a savepoint."""
        return CompletableFuture(self._handle.cancel)

    def trigger_checkpoint(self, full: bool = False) -> CompletableFuture[int]:
        """Take a checkpoint now, regardless of the interval. The future's result is its id.

        A full checkpoint holds all state itself and shares no file with an older checkpoint.
        """
        return CompletableFuture(lambda: self._handle.checkpoint(full=full))

    def get_job_execution_result(self) -> CompletableFuture[Any]:
        """The job's result, once it has ended. The future raises if the job failed."""
        return CompletableFuture(self._handle.wait)

    def stop_with_savepoint(
        self,
        advance_to_end_of_event_time: bool,
        savepoint_directory: str | None = None,
        *,
        format_type: str = "canonical",
    ) -> CompletableFuture[str]:
        """Stop the job with a savepoint. The future's result is the savepoint's path.

        With `advance_to_end_of_event_time` all event-time timers fire before the savepoint, which makes sense only if
        the job will not be continued. Without a folder the savepoint goes to `execution.checkpointing.savepoint-dir`.
        If the savepoint fails, the job continues and the future raises.
        """
        return self._savepoint(savepoint_directory, format_type, "stop", drain=advance_to_end_of_event_time)

    def trigger_savepoint(
        self, savepoint_directory: str | None = None, *, format_type: str = "canonical"
    ) -> CompletableFuture[str]:
        """Take a savepoint while the job continues. The future's result is the savepoint's path.

        `format_type` is `canonical`, which every backend can restore, or `native`, which is faster.
        """
        return self._savepoint(savepoint_directory, format_type, "go_on", drain=False)

    def _savepoint(self, folder: str | None, format_type: str, then: Then, *, drain: bool) -> CompletableFuture[str]:
        formats: dict[str, SavepointFormat] = {"canonical": "canonical", "native": "native"}
        chosen = formats.get(format_type.lower())
        if chosen is None:
            raise UsageError(f"format_type is {format_type!r}; choose 'canonical' or 'native'")
        request = SavepointRequest(folder or "", chosen, then, drain)
        return CompletableFuture(lambda: self._handle.trigger_savepoint(request).future.result())

    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        """Always empty: there are no accumulators."""
        return CompletableFuture(dict[str, Any])

    def __repr__(self) -> str:
        return f"<JobClient {self._handle.job_id} {self._handle.status().name}>"
