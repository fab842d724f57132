"""The savepoints of a job over all its attempts: who requested which, and what became of it (features N2, N10, N11)."""

import threading
from concurrent.futures import Future
from contextlib import suppress

from penstock.checkpoint.log.entries import Resumed, Stopping
from penstock.checkpoint.no_checkpoints import AttemptLog
from penstock.checkpoint.savepoint_request import SavepointRequest
from penstock.checkpoint.savepoints import Savepoints
from penstock.checkpoint.snapshot.manifest import digest
from penstock.checkpoint.snapshot.savepoint_paths import METADATA
from penstock.checkpoint.stats.checkpoint_history import CheckpointStats
from penstock.control.driver_log import DriverLog
from penstock.control.server_contract import NO_LOCATION
from penstock.errors import CheckpointFailedError, ConfigurationError, PenstockError, StorageError, UsageError
from penstock.model.ids import HEX_ID, new_trigger_id
from penstock.storage.address import parse_address
from penstock.storage.storage import open_storage

KEPT = 64
"""Requests that are remembered after they have ended."""


class JobSavepoints:
    """Thread safe. A request goes to the running attempt. A stop that one attempt begins is completed by the next."""

    def __init__(self, default_target: str | None, log: DriverLog | None = None) -> None:
        self._default_target = default_target
        self._driver_log = log
        self._lock = threading.Lock()
        self._requests: dict[str, SavepointRequest] = {}
        self._savepoints: Savepoints | None = None
        """Of the running attempt."""
        self._unfinished_stop: SavepointRequest | None = None
        """Of an attempt that has ended."""

    def trigger(self, request: SavepointRequest) -> SavepointRequest:
        """Take a savepoint at the next barrier, without a target in the job's default folder.

        Returns the request, or an earlier one with the same trigger id. Raises UsageError if there is no folder,
        JobConflictError while another savepoint is being taken, CheckpointFailedError if the job does not run.
        """
        known = self._requests.get(request.trigger_id)
        if known is not None:
            return known
        target = request.target or self._default_target
        if not target:
            raise UsageError(NO_LOCATION)
        if request.drain and request.then != "stop":
            raise UsageError("only a stop can drain: it is the end of event time")
        if not HEX_ID.fullmatch(request.trigger_id):
            raise UsageError(f"{request.trigger_id!r} is not a trigger id; it has 32 hex digits")
        with self._lock:
            if request.trigger_id in self._requests:
                return self._requests[request.trigger_id]
            if self._savepoints is None:
                raise CheckpointFailedError("the job is not running now; try again when it is")
            request.target = str(parse_address(target))
            self._savepoints.request(request)
            self._requests[request.trigger_id] = request
            for old in list(self._requests)[:-KEPT]:
                del self._requests[old]
        self._log_result(request)
        return request

    def _log_result(self, request: SavepointRequest) -> None:
        """Write to the driver's log what is requested, and later what became of it."""
        log = self._driver_log
        if log is None:
            return
        kind = f"savepoint {request.trigger_id[:8]}"
        then = "" if request.then == "go_on" else f", then {request.then}"
        log.write("savepoint", f"{kind} is requested: {request.format}, in {request.target}{then}")

        def ended(future: "Future[str]") -> None:
            if (error := future.exception()) is not None:
                log.write("savepoint", f"{kind}: {error}", level="WARN")
            else:
                log.write("savepoint", f"{kind} completed{figures_text(request)}: {future.result()}")

        request.future.add_done_callback(ended)

    def find(self, trigger_id: str) -> SavepointRequest | None:
        """The request with this trigger id."""
        return self._requests.get(trigger_id)

    def stats(self) -> list[CheckpointStats]:
        """The figures of savepoints that have ended, oldest first."""
        with self._lock:
            requests = list(self._requests.values())
        return [request.stats for request in requests if request.stats is not None]

    # ---- attempts

    def attach(self, savepoints: Savepoints, log: AttemptLog) -> None:
        """Pass requests to this attempt. It also completes a stop that it finds in the log (PROTOCOL R30).

        Raises CheckpointError if the stop cannot be completed and the job cannot go on because it was drained.
        """
        stopping = log.view().stopping
        request, self._unfinished_stop = self._unfinished_stop, None
        if stopping is not None:
            request = request or stop_request(stopping)
            self._requests[request.trigger_id] = request
            try:
                savepoints.request(request)
            except (StorageError, ConfigurationError) as error:
                log.append(Resumed(str(error)))
                request.fail(str(error))
                if stopping.drain:
                    savepoints.require_time(f"the savepoint that was to drain the job failed: {error}")
        elif request is not None:
            request.fail("the attempt of the job has ended")
        with self._lock:
            self._savepoints = savepoints

    def detach(self) -> None:
        """The attempt is over."""
        with self._lock:
            savepoints, self._savepoints = self._savepoints, None
        if savepoints is not None:
            self._unfinished_stop = savepoints.close() or self._unfinished_stop

    def find_stop(self, log: AttemptLog) -> Stopping | None:
        """The stop whose savepoint an older attempt has published; who waits for that savepoint gets its path."""
        stop = published_stop(log)
        if stop is None:
            return None
        request, self._unfinished_stop = self._unfinished_stop, None
        if request is not None:
            request.complete(stop[1])
        return stop[0]

    def end(self, reason: str) -> None:
        """The job is over: a request that is still open fails."""
        self.detach()
        if self._unfinished_stop is not None:
            self._unfinished_stop.fail(reason)


def figures_text(request: SavepointRequest) -> str:
    """How long a savepoint took and how large it is, if that is known."""
    stats = request.stats
    return "" if stats is None else f" in {stats.duration_ms} ms, {stats.full_bytes} bytes"


def stop_request(stopping: Stopping) -> SavepointRequest:
    """The request of a stop that the log knows of."""
    trigger_id = stopping.trigger_id or new_trigger_id()
    return SavepointRequest(stopping.target, stopping.format, stopping.then, stopping.drain, trigger_id)


def published_stop(log: AttemptLog) -> tuple[Stopping, str] | None:
    """The stop in the log and the path of its savepoint, if that is published; then only the job's status is left."""
    view = log.view()
    stopping, savepoint = view.stopping, view.savepoint
    if stopping is None or savepoint is None or savepoint.checkpoint != stopping.checkpoint:
        return None
    with suppress(PenstockError):  # C28: the entry exists and `_metadata` does not; the savepoint is taken again
        if digest(open_storage(savepoint.path).read(METADATA)) == savepoint.sha256:
            return stopping, savepoint.path
    return None
