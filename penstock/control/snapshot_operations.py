"""Savepoints as use cases: take one, stop or cancel with one, take a checkpoint, remove one."""

import hashlib
import re
import threading
from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import unquote

from penstock.checkpoint.savepoint_request import SavepointRequest
from penstock.control.disposal import dispose_savepoint
from penstock.control.operations import Operation, Work
from penstock.control.running_job import ControlledJob
from penstock.errors import ConfigurationError, JobConflictError, RequestRefusedError
from penstock.model.execution import JobStatus
from penstock.model.ids import HEX_ID
from penstock.model.options import checkpointing_options
from penstock.storage.address import parse_address

SAVEPOINT = "savepoint"
CHECKPOINT = "checkpoint"
DISPOSAL = "disposal"
RESCALING = "rescaling"
MAX_PATH_CHARS = 4096
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:/", re.IGNORECASE)


def take_savepoint(control: ControlledJob, request: SavepointRequest) -> Operation:
    """Start a savepoint, by default in the job's savepoint folder. The same id is the same operation.

    Raises RequestRefusedError if there is no folder, JobConflictError while another savepoint is being taken or if the
    job does not run.
    """
    if not (request.target or control.facts.savepoint_dir):
        raise RequestRefusedError(
            400,
            "NO_SAVEPOINT_DIRECTORY",
            f"Config key [{checkpointing_options.SAVEPOINT_DIRECTORY.key}] is not set. "
            "Property [target-directory] must be provided.",
        )

    def begin() -> Work:
        return wait_for(control.job.trigger_savepoint(request))

    return control.operations.start(SAVEPOINT, request.trigger_id, begin, OutcomeAudit(control, SAVEPOINT))


def find_savepoint(control: ControlledJob, trigger_id: str) -> Operation | None:
    """The operation of a savepoint, also of one that the program or an earlier driver has requested."""
    found = control.operations.find(SAVEPOINT, trigger_id)
    request = control.job.savepoint_request(trigger_id) if found is None else None
    if request is None or request.future.done():  # an operation that has ended is kept for a while, and no longer
        return found
    return control.operations.start(SAVEPOINT, trigger_id, lambda: wait_for(request), OutcomeAudit(control, SAVEPOINT))


def wait_for(request: SavepointRequest) -> Work:
    """The work of waiting for a savepoint."""
    return Work(request.future.result, lambda: request.progress)


def take_checkpoint(control: ControlledJob, trigger_id: str, *, full: bool) -> Operation:
    """Start a checkpoint now."""
    return control.operations.start(
        CHECKPOINT,
        trigger_id,
        lambda: Work(lambda: control.job.checkpoint(full=full)),
        OutcomeAudit(control, CHECKPOINT),
    )


def rescale(control: ControlledJob, trigger_id: str, parallelism: int) -> Operation:
    """Start to bring the job to another parallelism.

    Raises UsageError if it cannot be done, JobConflictError during another rescale or if the job does not run.
    """
    return control.operations.start(
        RESCALING,
        trigger_id,
        lambda: Work(control.job.request_rescale(parallelism)),
        OutcomeAudit(control, RESCALING),
    )


def remove_savepoint(control: ControlledJob, trigger_id: str, path: str) -> Operation:
    """Start to remove a savepoint of any job."""
    place = checked_path("savepoint-path", path)
    return control.operations.start(
        DISPOSAL, trigger_id, lambda: Work(lambda: dispose_savepoint(place)), OutcomeAudit(control, DISPOSAL)
    )


def cancel_job(control: ControlledJob) -> None:
    """Cancel the job without waiting for its end; JobConflictError if it has ended in another way."""
    record = control.job.record()
    if record.ended:
        raise JobConflictError(
            f"Job cancellation failed because the job has already reached another terminal state ({record.status})."
        )
    if record.status != JobStatus.CANCELLING.name:
        threading.Thread(target=control.job.cancel, name="rest-cancel", daemon=True).start()


def checked_trigger_id(text: str) -> str:
    """The id of an operation: 32 hex digits."""
    if not HEX_ID.fullmatch(text.lower()):
        raise RequestRefusedError(400, "BAD_REQUEST", "$.triggerId is not valid: ids have 32 hex digits")
    return text.lower()


def trigger_id_of_key(key: str, purpose: str) -> str:
    """The id of an operation from the client's idempotency key: the same key is the same operation."""
    return hashlib.sha256(f"{purpose}\0{key}".encode()).hexdigest()[:32]


def checked_path(field: str, text: str) -> str:
    """A full path: an absolute path or an address, without `..`."""
    is_clean = text.isprintable() and 0 < len(text) <= MAX_PATH_CHARS
    if not is_clean or ".." in PurePosixPath(unquote(text)).parts or "\\" in text:
        raise RequestRefusedError(400, "BAD_REQUEST", f"$.{field} is not the path of a folder")
    if not text.startswith("/") and not _SCHEME.match(text):
        raise RequestRefusedError(
            400, "BAD_REQUEST", f"$.{field} is not absolute: give an absolute path, or an address such as s3://…"
        )
    try:
        parse_address(text)
    except ConfigurationError as error:
        raise RequestRefusedError(400, "BAD_REQUEST", f"$.{field}: {error}") from None
    return text


@dataclass(frozen=True)
class OutcomeAudit:
    """Writes the outcome of an operation into the audit log."""

    control: ControlledJob
    kind: str

    def __call__(self, operation: Operation) -> None:
        job_id = self.control.job.job_id
        self.control.log.audit(f"{self.kind} ended", job=job_id, trigger=operation.trigger_id, result=operation.answer)
