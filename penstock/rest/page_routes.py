"""The endpoints that only the page needs: the graph with its stages, logs, and what can be done with a snapshot."""

from typing import Any

from penstock.checkpoint.snapshot.snapshot_location import locate
from penstock.checkpoint.stats.checkpoint_history import CheckpointStats
from penstock.control.job_queries import LogSelection, recent_lines
from penstock.errors import CheckpointError, RequestRefusedError, SnapshotNotFoundError, StorageError
from penstock.graph.job_graph import EdgePlan, JobGraph, SourceRef
from penstock.rest import checkpoint_views, job_views
from penstock.rest.endpoint import Answer, Call, Endpoint, not_found, parse_number, require_job
from penstock.runtime.process.log_lines import LEVELS

MOST_LINES = 300
MAX_LINES = 2000


def show_figures(call: Call) -> Answer:
    """How the job is doing, and how it was doing before somebody looked."""
    require_job(call)
    figures = job_views.job_figures(call.control, call.now_ms)
    return Answer(200, {**figures, "rates": call.control.job.rates()})


def follow(call: Call) -> Answer:
    require_job(call)
    return Answer(200, None)


def show_graph(call: Call) -> Answer:
    require_job(call)
    return Answer(200, graph_of(call.control.facts.graph))


def show_logs(call: Call) -> Answer:
    """The last lines of the driver and its TaskManagers, by time."""
    require_job(call)
    level = call.query.get("level", LEVELS[0])
    if level not in LEVELS:
        raise RequestRefusedError(400, "BAD_REQUEST", f"level is not one of {', '.join(LEVELS)}")
    last = min(parse_number("last", call.query.get("last", str(MOST_LINES))), MAX_LINES)
    lines = recent_lines(call.control.log.folder, LogSelection(level, last))
    return Answer(200, {"lines": lines})


def show_manifest(call: Call) -> Answer:
    """`_metadata` of a completed checkpoint or savepoint."""
    path = snapshot_path(call)
    try:
        return Answer(200, locate(path).manifest)
    except (SnapshotNotFoundError, CheckpointError, StorageError) as error:
        raise not_found(f"the snapshot cannot be read: {error}") from error


def check_restore(call: Call) -> Answer:
    """What a start of this program from a snapshot would do, operator by operator. It opens the user's functions."""
    facts, path = call.control.facts, snapshot_path(call)
    try:
        return Answer(200, facts.check_restore(facts.graph, path))
    except (SnapshotNotFoundError, CheckpointError, StorageError) as error:
        raise not_found(f"the snapshot cannot be read: {error}") from error


def snapshot_path(call: Call) -> str:
    """Where the checkpoint or savepoint is that the path names."""
    require_job(call)
    report = call.control.job.checkpoints()
    number = parse_number("checkpointid", call.path["checkpointid"])
    for stats in checkpoint_views.newest_first(report):
        if stats.checkpoint_id == number:
            return path_of(stats, call)
    raise not_found(f"Could not find checkpointing statistics for checkpoint {number}.")


def path_of(stats: CheckpointStats, call: Call) -> str:
    path = checkpoint_views.external_path(stats, call.control.facts)
    if stats.status != "completed" or path == checkpoint_views.NOT_ADDRESSABLE:
        raise not_found(f"Checkpoint {stats.checkpoint_id} has no files.")
    return path


def graph_of(graph: JobGraph) -> dict[str, Any]:
    """Sources, stages and Spark sinks as boxes, and the edges between them."""
    sources = [_box(f"source-{source.id}", "source", source.name, [source.uid]) for source in graph.sources]
    stages = [
        {
            **_box(stage.id, "stage", stage.name, list(stage.uids)),
            "parallelism": stage.parallelism,
            "keyed": stage.keyed,
            "operators": [
                {"uid": plan.uid, "name": plan.name, "kind": plan.kind} for plan in stage.operators if plan.name
            ],
        }
        for stage in graph.stages
    ]
    sinks = [_box(f"sink-{sink.uid}", "sink", sink.name, [sink.uid]) for sink in graph.spark_sinks]
    edges = [_edge(edge, stage.id) for stage in graph.stages for edge in stage.inputs]
    edges += [_edge(edge, f"sink-{sink.uid}") for sink in graph.spark_sinks for edge in sink.edges]
    return {"boxes": [*sources, *stages, *sinks], "edges": edges, "max-parallelism": graph.max_parallelism}


def _box(box_id: str, kind: str, name: str, uids: list[str]) -> dict[str, Any]:
    return {"id": box_id, "kind": kind, "name": name, "uids": uids}


def _edge(edge: EdgePlan, target: str) -> dict[str, Any]:
    origin = f"source-{edge.source.source_id}" if isinstance(edge.source, SourceRef) else edge.source.stage_id
    key = ", ".join(edge.key_columns) if edge.key_columns is not None else None
    return {"from": origin, "to": target, "partitioning": edge.partitioning, "key": key}


_JOB = "/jobs/{jobid}"
_CHECKPOINT = _JOB + "/checkpoints/details/{checkpointid}"
EVENTS = Endpoint(
    "GET",
    _JOB + "/events",
    follow,
    errors=(429,),
    summary="The figures as they change, until the job ends.",
    media_type="text/event-stream",
)
"""The one endpoint whose answer goes on. Its handler only checks the request."""
PAGE_ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", _JOB + "/figures", show_figures, summary="Rows, rates, and where the time goes."),
    EVENTS,
    Endpoint("GET", _JOB + "/graph", show_graph, summary="Sources, stages, sinks and the exchanges between them."),
    Endpoint("GET", _JOB + "/logs", show_logs, query=("level", "last"), summary="The last lines of all logs."),
    Endpoint("GET", _CHECKPOINT + "/manifest", show_manifest, summary="`_metadata` of a checkpoint or savepoint."),
    Endpoint(
        "POST",
        _CHECKPOINT + "/restore-check",
        check_restore,
        "admin",
        summary="What a start of this program from a checkpoint or savepoint would do.",
    ),
)
