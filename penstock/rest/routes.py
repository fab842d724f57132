"""The endpoints of a job's control server. None of them accepts code (security S4)."""

from collections.abc import Callable
from typing import Any

from penstock.checkpoint.savepoint_request import SavepointFormat, SavepointRequest
from penstock.control import snapshot_operations
from penstock.control.operations import Failure, Operation
from penstock.errors import RequestRefusedError
from penstock.model.ids import new_trigger_id
from penstock.rest import checkpoint_views, job_views, metric_views
from penstock.rest.bodies import (
    CheckpointBody,
    DisposalBody,
    LoginCodeBody,
    RescaleBody,
    SavepointBody,
    StopBody,
)
from penstock.rest.cluster_routes import CLUSTER_ENDPOINTS
from penstock.rest.endpoint import Answer, Call, Endpoint, not_found, parse_number, require_job
from penstock.rest.openapi import openapi_document
from penstock.rest.page_routes import PAGE_ENDPOINTS
from penstock.rest.page_sessions import CODE_LIMIT_S
from penstock.rest.requirement_routes import REQUIREMENT_ENDPOINTS
from penstock.rest.state_routes import STATE_ENDPOINTS
from penstock.rest.vertex_routes import VERTEX_ENDPOINTS

MOST_EXCEPTIONS = 20
MAX_EXCEPTIONS = 1000


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


def show_plan(call: Call) -> Answer:
    require_job(call)
    return Answer(200, {"plan": job_views.job_plan(call.control.job.record(), call.control.facts)})


def show_config(call: Call) -> Answer:
    require_job(call)
    return Answer(200, job_views.job_config(call.control.job.record(), call.control.facts))


def show_execution_result(call: Call) -> Answer:
    require_job(call)
    return Answer(200, job_views.execution_result(call.control.job.record()))


def show_accumulators(call: Call) -> Answer:
    require_job(call)
    names = ("job-accumulators", "user-task-accumulators")
    return Answer(200, {**{name: [] for name in names}, "serialized-user-task-accumulators": {}})


def show_metrics(call: Call) -> Answer:
    require_job(call)
    return Answer(200, metric_views.names_or_values(metric_views.job_metrics(call.control), call.query))


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


def list_rescales(call: Call) -> Answer:
    require_job(call)
    return Answer(200, job_views.rescales(call.control))


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
_CHECKPOINTS = _JOB + "/checkpoints"
JOB_ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", "/jobs", list_jobs, summary="The job's id and status."),
    Endpoint("GET", "/jobs/overview", show_overview, summary="The job with its times, state and numbers of tasks."),
    Endpoint("GET", _JOB, show_job, summary="The job with its vertices and its plan."),
    Endpoint("PATCH", _JOB, cancel, "admin", query=("mode",), status=202, errors=(308, 409), summary="Cancel the job."),
    Endpoint("GET", _JOB + "/status", show_status, summary="The job's status."),
    Endpoint("GET", _JOB + "/plan", show_plan, summary="The job's graph."),
    Endpoint("GET", _JOB + "/config", show_config, summary="The job's parameters and restart strategy."),
    Endpoint("GET", _JOB + "/execution-result", show_execution_result, summary="How the job has ended."),
    Endpoint(
        "GET", _JOB + "/accumulators", show_accumulators, query=("includeSerializedValue",), summary="Always empty."
    ),
    Endpoint("GET", _JOB + "/metrics", show_metrics, query=("get",), summary="Metrics of the job."),
    Endpoint(
        "GET", _JOB + "/exceptions", show_exceptions, query=("maxExceptions",), summary="Why attempts have failed."
    ),
    Endpoint("GET", _JOB + "/guarantees", show_guarantees, summary="What the job promises from end to end."),
    Endpoint(
        "POST", "/login-codes", make_login_code, "admin", LoginCodeBody, status=201, summary="A link to the page."
    ),
)
SNAPSHOT_ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "POST", _JOB + "/savepoints", take_savepoint, "admin", SavepointBody, (), 202, (409,), "Take a savepoint."
    ),
    Endpoint("GET", _JOB + "/savepoints/{triggerid}", show_savepoint, summary="The result of a savepoint or stop."),
    Endpoint("POST", _JOB + "/stop", stop, "admin", StopBody, (), 202, (409,), "Stop the job with a savepoint."),
    Endpoint("POST", "/savepoint-disposal", dispose, "admin", DisposalBody, (), 200, (409,), "Remove a savepoint."),
    Endpoint("GET", "/savepoint-disposal/{triggerid}", show_disposal, summary="The result of a disposal."),
    Endpoint(
        "PATCH",
        _JOB + "/rescaling",
        rescale,
        "admin",
        RescaleBody,
        query=("parallelism",),
        errors=(409,),
        summary="Change the parallelism.",
    ),
    Endpoint("GET", _JOB + "/rescaling", list_rescales, summary="The last changes of the parallelism."),
    Endpoint("GET", _JOB + "/rescaling/{triggerid}", show_rescaling, summary="The result of a rescale."),
    Endpoint("POST", _CHECKPOINTS, take_checkpoint, "admin", CheckpointBody, (), 202, (409,), "Take a checkpoint."),
    Endpoint("GET", _CHECKPOINTS, show_checkpoints, summary="Counts, figures and history of checkpoints."),
    Endpoint("GET", _CHECKPOINTS + "/config", show_checkpoint_config, summary="The checkpoint settings."),
    Endpoint("GET", _CHECKPOINTS + "/details/{checkpointid}", show_checkpoint_details, summary="One checkpoint."),
    Endpoint(
        "GET",
        _CHECKPOINTS + "/details/{checkpointid}/subtasks/{vertexid}",
        show_checkpoint_details,
        summary="One checkpoint of one vertex, with its subtasks.",
    ),
    Endpoint("GET", _CHECKPOINTS + "/{triggerid}", show_checkpoint, summary="The result of a requested checkpoint."),
)
ENDPOINTS: tuple[Endpoint, ...] = (
    *CLUSTER_ENDPOINTS,
    *JOB_ENDPOINTS,
    *VERTEX_ENDPOINTS,
    *SNAPSHOT_ENDPOINTS,
    *REQUIREMENT_ENDPOINTS,
    *PAGE_ENDPOINTS,
    *STATE_ENDPOINTS,
    Endpoint(
        "GET", "/openapi.json", lambda call: Answer(200, openapi_document(ENDPOINTS)), summary="This description."
    ),
)
"""Tried in this order: fixed names before ids."""


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
