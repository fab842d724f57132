"""The endpoints of a job's control server. None of them accepts code (security S4)."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from penstock.checkpoint.savepoint_request import SavepointFormat, SavepointRequest
from penstock.control import snapshot_operations
from penstock.control.operations import Failure, Operation
from penstock.control.running_job import ControlledJob
from penstock.control.tokens import Scope
from penstock.errors import RequestRefusedError
from penstock.graph.job_graph import StagePlan
from penstock.model.ids import new_trigger_id
from penstock.rest import checkpoint_views, job_views, metric_views
from penstock.rest.bodies import (
    CheckpointBody,
    DisposalBody,
    LoginCodeBody,
    NoBody,
    RescaleBody,
    SavepointBody,
    StopBody,
)
from penstock.rest.page_sessions import CODE_LIMIT_S, PageSessions

JOB_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
MOST_EXCEPTIONS = 20
MAX_EXCEPTIONS = 1000


@dataclass(frozen=True)
class Call:
    """One authorised request."""

    control: ControlledJob
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Any
    idempotency_key: str | None
    now_ms: int
    sessions: PageSessions


@dataclass(frozen=True)
class Answer:
    """The response: a status and JSON."""

    status: int
    data: Any


@dataclass(frozen=True)
class Endpoint:
    """One method on one path."""

    method: str
    path: str
    handle: Callable[[Call], Answer]
    scope: Scope = "read"
    body: type[msgspec.Struct] = NoBody
    query: tuple[str, ...] = ()


def list_jobs(call: Call) -> Answer:
    return Answer(200, {"jobs": [job_views.job_id_and_status(call.control.job.record())]})


def show_overview(call: Call) -> Answer:
    return Answer(200, {"jobs": [job_views.job_overview(call.control)]})


def show_job(call: Call) -> Answer:
    require_job(call)
    return Answer(200, job_views.job_details(call.control, call.now_ms))


def show_status(call: Call) -> Answer:
    require_job(call)
    return Answer(200, {"status": call.control.job.record().status})


def show_exceptions(call: Call) -> Answer:
    require_job(call)
    most = parse_number("maxExceptions", call.query.get("maxExceptions", str(MOST_EXCEPTIONS)))
    return Answer(200, job_views.exception_history(call.control.job.record(), min(most, MAX_EXCEPTIONS)))


def show_vertex_metrics(call: Call) -> Answer:
    stage = find_vertex(call)
    return Answer(200, metric_views.vertex_metrics(call.control.job.metrics(), stage, call.query))


def show_subtask_metrics(call: Call) -> Answer:
    stage, index = find_vertex(call), parse_number("subtaskindex", call.path["subtaskindex"])
    return Answer(200, metric_views.subtask_metrics(call.control.job.metrics(), stage, call.query, index))


def show_aggregated_metrics(call: Call) -> Answer:
    stage = find_vertex(call)
    return Answer(200, metric_views.aggregated_metrics(call.control.job.metrics(), stage, call.query))


def show_figures(call: Call) -> Answer:
    require_job(call)
    return Answer(200, job_views.job_figures(call.control.job, call.now_ms))


def make_login_code(call: Call) -> Answer:
    body: LoginCodeBody = call.body
    return Answer(201, {"code": call.sessions.new_code(body.scope), "valid-for-s": CODE_LIMIT_S})


def show_guarantees(call: Call) -> Answer:
    require_job(call)
    return Answer(200, call.control.facts.guarantees.to_dict())


def cancel(call: Call) -> Answer:
    require_job(call)
    mode = call.query.get("mode", "cancel")
    if mode == "stop":
        raise RequestRefusedError(
            308, "MOVED", 'The termination mode "stop" has been removed. Use POST /jobs/:jobid/stop instead.'
        )
    if mode != "cancel":
        raise RequestRefusedError(400, "BAD_REQUEST", "parameter 'mode' must be cancel")
    snapshot_operations.cancel_job(call.control)
    return Answer(202, {})


def take_savepoint(call: Call) -> Answer:
    require_job(call)
    body: SavepointBody = call.body
    request = SavepointRequest(
        checked_target(body.target_directory),
        parse_format(body.format_type),
        "cancel" if body.cancel_job else "go_on",
        trigger_id=trigger_id(call, "savepoint"),
    )
    return accepted(snapshot_operations.take_savepoint(call.control, request))


def stop(call: Call) -> Answer:
    require_job(call)
    body: StopBody = call.body
    request = SavepointRequest(
        checked_target(body.target_directory),
        parse_format(body.format_type),
        "stop",
        bool(body.drain),
        trigger_id(call, "stop"),
    )
    return accepted(snapshot_operations.take_savepoint(call.control, request))


def show_savepoint(call: Call) -> Answer:
    require_job(call)
    found = snapshot_operations.find_savepoint(call.control, call.path["triggerid"].lower())
    return progress_of(call, found, "failure-cause", lambda location: {"location": location})


def dispose(call: Call) -> Answer:
    body: DisposalBody = call.body
    operation = snapshot_operations.remove_savepoint(call.control, trigger_id(call, "disposal"), body.savepoint_path)
    return Answer(200, {"request-id": operation.trigger_id})


def show_disposal(call: Call) -> Answer:
    found = call.control.operations.find(snapshot_operations.DISPOSAL, call.path["triggerid"].lower())
    return progress_of(call, found, "failure-cause", lambda path: {})


def take_checkpoint(call: Call) -> Answer:
    require_job(call)
    body: CheckpointBody = call.body
    kind = (body.checkpoint_type or "CONFIGURED").upper()
    if kind == "INCREMENTAL":
        raise RequestRefusedError(
            400,
            "BAD_REQUEST",
            "Flink does not support triggering incremental checkpoint explicitly. See FLINK-33723.",
        )
    if kind not in ("CONFIGURED", "FULL"):
        raise RequestRefusedError(400, "BAD_REQUEST", "$.checkpointType must be CONFIGURED or FULL")
    require_checkpoints(call)
    return accepted(
        snapshot_operations.take_checkpoint(call.control, trigger_id(call, "checkpoint"), full=kind == "FULL")
    )


def show_checkpoint(call: Call) -> Answer:
    require_job(call)
    found = call.control.operations.find(snapshot_operations.CHECKPOINT, call.path["triggerid"].lower())
    return progress_of(call, found, "failureCause", lambda number: {"checkpointId": number})


def rescale(call: Call) -> Answer:
    require_job(call)
    if "parallelism" not in call.query:
        raise RequestRefusedError(400, "BAD_REQUEST", "the query parameter 'parallelism' is missing")
    parallelism = parse_number("parallelism", call.query["parallelism"])
    operation = snapshot_operations.rescale(call.control, trigger_id(call, "rescaling"), parallelism)
    return Answer(200, {"request-id": operation.trigger_id})


def show_rescaling(call: Call) -> Answer:
    require_job(call)
    found = call.control.operations.find(snapshot_operations.RESCALING, call.path["triggerid"].lower())
    return progress_of(call, found, "failure-cause", job_views.rescaled)


def show_checkpoints(call: Call) -> Answer:
    require_job(call)
    require_checkpoints(call)
    job = call.control.job
    return Answer(200, checkpoint_views.checkpoint_statistics(job.checkpoints(), call.control.facts))


def show_checkpoint_config(call: Call) -> Answer:
    require_job(call)
    require_checkpoints(call)
    return Answer(200, checkpoint_views.checkpoint_config(call.control.facts))


def show_checkpoint_details(call: Call) -> Answer:
    require_job(call)
    job = call.control.job
    report = job.checkpoints()
    number = parse_number("checkpointid", call.path["checkpointid"])
    for stats in (*report.history, report.latest_completed, report.latest_failed, *report.savepoints):
        if stats is not None and stats.checkpoint_id == number:
            if "vertexid" not in call.path:
                return Answer(200, checkpoint_views.checkpoint(stats, report, call.control.facts))
            if call.path["vertexid"] in (stage.id for stage in call.control.facts.graph.stages):
                return Answer(
                    200, checkpoint_views.subtask_statistics(stats, call.path["vertexid"], call.control.facts)
                )
            raise not_found(f"There is no vertex {call.path['vertexid']} in checkpoint {number}.")
    raise not_found(f"Could not find checkpointing statistics for checkpoint {number}.")


_JOB = "/jobs/{jobid}"
_VERTEX = _JOB + "/vertices/{vertexid}"
_CHECKPOINTS = _JOB + "/checkpoints"
ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", "/jobs", list_jobs),
    Endpoint("GET", "/jobs/overview", show_overview),
    Endpoint("GET", _JOB, show_job),
    Endpoint("PATCH", _JOB, cancel, "admin", query=("mode",)),
    Endpoint("GET", _JOB + "/status", show_status),
    Endpoint("GET", _JOB + "/exceptions", show_exceptions, query=("maxExceptions",)),
    Endpoint("GET", _JOB + "/guarantees", show_guarantees),
    Endpoint("GET", _JOB + "/figures", show_figures),
    Endpoint("POST", "/login-codes", make_login_code, "admin", LoginCodeBody),
    Endpoint("GET", _VERTEX + "/metrics", show_vertex_metrics, query=("get",)),
    Endpoint("GET", _VERTEX + "/subtasks/metrics", show_aggregated_metrics, query=("get", "agg", "subtasks")),
    Endpoint("GET", _VERTEX + "/subtasks/{subtaskindex}/metrics", show_subtask_metrics, query=("get",)),
    Endpoint("POST", _JOB + "/savepoints", take_savepoint, "admin", SavepointBody),
    Endpoint("GET", _JOB + "/savepoints/{triggerid}", show_savepoint),
    Endpoint("POST", _JOB + "/stop", stop, "admin", StopBody),
    Endpoint("POST", "/savepoint-disposal", dispose, "admin", DisposalBody),
    Endpoint("GET", "/savepoint-disposal/{triggerid}", show_disposal),
    Endpoint("PATCH", _JOB + "/rescaling", rescale, "admin", RescaleBody, query=("parallelism",)),
    Endpoint("GET", _JOB + "/rescaling/{triggerid}", show_rescaling),
    Endpoint("POST", _CHECKPOINTS, take_checkpoint, "admin", CheckpointBody),
    Endpoint("GET", _CHECKPOINTS, show_checkpoints),
    Endpoint("GET", _CHECKPOINTS + "/config", show_checkpoint_config),
    Endpoint("GET", _CHECKPOINTS + "/details/{checkpointid}", show_checkpoint_details),
    Endpoint("GET", _CHECKPOINTS + "/details/{checkpointid}/subtasks/{vertexid}", show_checkpoint_details),
    Endpoint("GET", _CHECKPOINTS + "/{triggerid}", show_checkpoint),
)
"""Tried in this order: fixed names before ids."""


def not_found(message: str) -> RequestRefusedError:
    """The error for status 404."""
    return RequestRefusedError(404, "NOT_FOUND", message)


def require_job(call: Call) -> None:
    """Raise unless the path names the job of this server."""
    job_id = call.path["jobid"]
    if not JOB_ID.fullmatch(job_id):
        raise RequestRefusedError(400, "BAD_REQUEST", "the job id in the path is not valid: ids have 32 hex digits")
    if job_id != call.control.job.record().job_id:
        raise not_found("Job could not be found.")


def find_vertex(call: Call) -> StagePlan:
    """The stage that the path names."""
    require_job(call)
    for stage in call.control.facts.graph.stages:
        if stage.id == call.path["vertexid"]:
            return stage
    raise not_found(f"There is no vertex {call.path['vertexid']}.")


def require_checkpoints(call: Call) -> None:
    """Raise unless the job takes checkpoints."""
    if call.control.facts.checkpoints is None:
        raise not_found("Checkpointing has not been enabled.")


def trigger_id(call: Call, purpose: str) -> str:
    """The operation's id: the client's, or one derived from its Idempotency-Key, or a new one."""
    if call.body.trigger_id is not None:
        return snapshot_operations.checked_trigger_id(call.body.trigger_id)
    if call.idempotency_key is not None:
        return snapshot_operations.trigger_id_of_key(call.idempotency_key, purpose)
    return new_trigger_id()


def accepted(operation: Operation) -> Answer:
    """The answer to a request that started an operation."""
    return Answer(202, {"request-id": operation.trigger_id})


def progress_of(
    call: Call, operation: Operation | None, failure_name: str, result: Callable[[object], dict[str, Any]]
) -> Answer:
    """The progress of an operation, or its result."""
    if operation is None:
        job_id = call.path.get("jobid")
        of_job = f" for job {job_id}" if job_id is not None else ""
        raise not_found(f"There is no savepoint operation with triggerId={call.path['triggerid']}{of_job}.")
    if not operation.is_ended:
        return Answer(200, {"status": {"id": "IN_PROGRESS"}, "progress": operation.percent})
    call.control.operations.mark_seen(operation)
    answer = operation.answer
    if isinstance(answer, Failure):
        # Flink's client shows the stack trace. This one holds the message and no frames.
        outcome: dict[str, Any] = {
            failure_name: {"class": answer.kind, "stack-trace": f"{answer.kind}: {answer.message}"}
        }
    else:
        outcome = result(answer)
    return Answer(200, {"status": {"id": "COMPLETED"}, "operation": outcome})


def checked_target(text: str | None) -> str:
    """The folder for a savepoint; empty for the job's default."""
    return "" if text is None else snapshot_operations.checked_path("target-directory", text)


def parse_format(text: str | None) -> SavepointFormat:
    """The savepoint format with this name in Flink; case is ignored."""
    found: dict[str, SavepointFormat] = {"CANONICAL": "canonical", "NATIVE": "native"}
    if (text or "CANONICAL").upper() not in found:
        raise RequestRefusedError(400, "BAD_REQUEST", "$.formatType must be CANONICAL or NATIVE")
    return found[(text or "CANONICAL").upper()]


def parse_number(name: str, text: str) -> int:
    """A non-negative number of at most 18 digits."""
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise RequestRefusedError(400, "BAD_REQUEST", f"{name} is not a number")
    return int(text)
