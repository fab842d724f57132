"""The savepoints of a job over all its attempts: who asked for which, and what became of it (features N2, N10, N11)."""

import threading
from contextlib import suppress
from dataclasses import replace

from penstock.checkpoint.log.entries import Resumed, Stopping
from penstock.checkpoint.log.job_log import JobLog
from penstock.checkpoint.savepoint_request import SavepointRequest, SavepointWish
from penstock.checkpoint.savepoints import Savepoints
from penstock.checkpoint.snapshot.manifest import digest
from penstock.checkpoint.snapshot.savepoint_paths import METADATA
from penstock.checkpoint.stats.checkpoint_history import CheckpointStats
from penstock.control.remote_job import NO_LOCATION
from penstock.errors import CheckpointFailedError, ConfigurationError, PenstockError, StorageError, UsageError
from penstock.model.ids import HEX_ID, new_trigger_id
from penstock.storage.address import parse_address
from penstock.storage.storage import open_storage

KEPT = 64
"""Requests that are remembered after they have ended."""


class JobSavepoints:
    """Thread safe. A wish goes to the attempt that runs; a stop that an attempt has begun goes on with the next."""

    def __init__(self, default_target: str | None) -> None:
        self._default = default_target
        self._lock = threading.Lock()
        self._requests: dict[str, SavepointRequest] = {}
        self._savepoints: Savepoints | None = None
        self._carried: SavepointRequest | None = None

    def trigger(self, target: str | None, wish: SavepointWish) -> SavepointRequest:
        """Ask for a savepoint below `target`, or in the job's own place; the wish's target does not count.

        The same trigger id is the same savepoint. Raises UsageError without a place, JobConflictError while another
        savepoint is being taken, CheckpointFailedError if the job does not run.
        """
        known = self._requests.get(wish.trigger_id)
        if known is not None:
            return known
        place = target or self._default
        if not place:
            raise UsageError(NO_LOCATION)
        if wish.drain and wish.then != "stop":
            raise UsageError("only a stop can drain: it is the end of event time")
        trigger_id = wish.trigger_id or new_trigger_id()
        if not HEX_ID.fullmatch(trigger_id):
            raise UsageError(f"{trigger_id!r} is not a trigger id; it has 32 hex digits")
        with self._lock:
            if trigger_id in self._requests:
                return self._requests[trigger_id]
            if self._savepoints is None:
                raise CheckpointFailedError("the job is not running now; try again when it is")
            request = SavepointRequest(replace(wish, trigger_id=trigger_id, target=str(parse_address(place))))
            self._savepoints.request(request)
            self._requests[trigger_id] = request
            for old in list(self._requests)[:-KEPT]:
                del self._requests[old]
            return request

    def find(self, trigger_id: str) -> SavepointRequest | None:
        """The request with this trigger id."""
        return self._requests.get(trigger_id)

    def stats(self) -> list[CheckpointStats]:
        """The figures of savepoints that have ended, oldest first."""
        with self._lock:
            requests = list(self._requests.values())
        return [request.stats for request in requests if request.stats is not None]

    # ---- attempts

    def attach(self, savepoints: Savepoints, log: JobLog | None) -> None:
        """Wishes go to this attempt. A stop that the log tells of is completed by it (PROTOCOL R30).

        Raises CheckpointError if that cannot be, and the job cannot go on either: it has been drained.
        """
        stopping = log.view().stopping if log is not None else None
        request, self._carried = self._carried, None
        if stopping is not None and log is not None:
            request = request or SavepointRequest(wish_of(stopping))
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
            self._carried = savepoints.close() or self._carried

    def find_stop(self, log: JobLog) -> Stopping | None:
        """The stop that an older attempt has all but ended; who asked for it hears that its savepoint is there."""
        stop = published_stop(log)
        if stop is None:
            return None
        request, self._carried = self._carried, None
        if request is not None:
            request.complete(stop[1])
        return stop[0]

    def end(self, reason: str) -> None:
        """The job is over: nobody waits in vain."""
        self.detach()
        if self._carried is not None:
            self._carried.fail(reason)


def wish_of(stopping: Stopping) -> SavepointWish:
    """What a stop in the log was asked for with."""
    trigger_id = stopping.trigger_id or new_trigger_id()
    return SavepointWish(trigger_id, stopping.target, stopping.format, stopping.then, stopping.drain)


def published_stop(log: JobLog) -> tuple[Stopping, str] | None:
    """The stop that the log tells of, and its savepoint, if that is there: only the job's status is missing."""
    view = log.view()
    stopping, savepoint = view.stopping, view.savepoint
    if stopping is None or savepoint is None or savepoint.checkpoint != stopping.checkpoint:
        return None
    with suppress(PenstockError):  # C28: the entry is there and `_metadata` is not; it is taken again
        if digest(open_storage(savepoint.path).read(METADATA)) == savepoint.sha256:
            return stopping, savepoint.path
    return None
