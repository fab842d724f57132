"""The endpoints of vertices and their subtasks."""

from penstock.model.subtask_work import SubtaskFigures
from penstock.rest import metric_views, vertex_views
from penstock.rest.endpoint import Answer, Call, Endpoint, find_vertex, not_found, parse_number


def show_vertex(call: Call) -> Answer:
    return Answer(200, vertex_views.vertex_details(call.control.job.record(), find_vertex(call), call.now_ms))


def show_accumulators(call: Call) -> Answer:
    return Answer(200, vertex_views.vertex_accumulators(find_vertex(call)))


def show_back_pressure(call: Call) -> Answer:
    return Answer(200, vertex_views.back_pressure(call.control.job.record(), find_vertex(call), call.now_ms))


def show_subtask_times(call: Call) -> Answer:
    return Answer(200, vertex_views.subtask_times(call.control.job.record(), find_vertex(call), call.now_ms))


def show_taskmanagers(call: Call) -> Answer:
    return Answer(200, vertex_views.vertex_taskmanagers(call.control.job.record(), find_vertex(call), call.now_ms))


def show_watermarks(call: Call) -> Answer:
    return Answer(200, vertex_views.watermarks(call.control.job.record(), find_vertex(call)))


def show_metrics(call: Call) -> Answer:
    figures = metric_views.placed_figures(call.control, find_vertex(call))
    return Answer(200, metric_views.vertex_metrics(figures, call.query))


def show_aggregated_metrics(call: Call) -> Answer:
    placed = metric_views.placed_figures(call.control, find_vertex(call))
    chosen = [
        (name, value) for index, name, value in placed if metric_views.is_chosen(call.query, "subtasks", str(index))
    ]
    return Answer(200, metric_views.aggregated_metrics(chosen, call.query))


def show_subtask_accumulators(call: Call) -> Answer:
    return Answer(200, vertex_views.subtask_accumulators(call.control.job.record(), find_vertex(call)))


def show_subtask(call: Call) -> Answer:
    figures = find_subtask(call)
    return Answer(200, vertex_views.subtask_details(call.control.job.record(), figures))


def show_subtask_metrics(call: Call) -> Answer:
    index = find_subtask(call).subtask
    figures = metric_views.placed_figures(call.control, find_vertex(call))
    return Answer(200, metric_views.subtask_metrics(figures, call.query, index))


def show_attempt(call: Call) -> Answer:
    """Only the current attempt is known."""
    figures, record = find_subtask(call), call.control.job.record()
    found = vertex_views.subtask_details(record, figures)
    if parse_number("attempt", call.path["attempt"]) != found["attempt"]:
        raise not_found(f"Attempt {call.path['attempt']} of subtask {figures.subtask} is not known any more.")
    return Answer(200, found)


def show_attempt_accumulators(call: Call) -> Answer:
    found = show_attempt(call).data
    return Answer(200, {"subtask": found["subtask"], "attempt": found["attempt"], "id": "", "user-accumulators": []})


def find_subtask(call: Call) -> SubtaskFigures:
    """The figures of the subtask that the path names."""
    stage, index = find_vertex(call), parse_number("subtaskindex", call.path["subtaskindex"])
    if index >= stage.parallelism:
        raise not_found(f"There is no subtask {index} of vertex {stage.id}.")
    return vertex_views.figures_of_stage(call.control.job.record(), stage)[index]


_VERTEX = "/jobs/{jobid}/vertices/{vertexid}"
_SUBTASK = _VERTEX + "/subtasks/{subtaskindex}"
_GET = ("get",)
VERTEX_ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", _VERTEX, show_vertex, summary="A vertex with its subtasks."),
    Endpoint("GET", _VERTEX + "/accumulators", show_accumulators, summary="Always empty."),
    Endpoint("GET", _VERTEX + "/backpressure", show_back_pressure, summary="How back-pressured each subtask is."),
    Endpoint("GET", _VERTEX + "/subtasktimes", show_subtask_times, summary="Times of the subtasks."),
    Endpoint("GET", _VERTEX + "/taskmanagers", show_taskmanagers, summary="The subtasks by TaskManager."),
    Endpoint("GET", _VERTEX + "/watermarks", show_watermarks, summary="The watermark of each subtask."),
    Endpoint("GET", _VERTEX + "/metrics", show_metrics, query=_GET, summary="Metrics of all subtasks."),
    Endpoint(
        "GET",
        _VERTEX + "/subtasks/metrics",
        show_aggregated_metrics,
        query=("get", "agg", "subtasks"),
        summary="Metrics merged over subtasks.",
    ),
    Endpoint("GET", _VERTEX + "/subtasks/accumulators", show_subtask_accumulators, summary="The subtasks; no values."),
    Endpoint("GET", _SUBTASK, show_subtask, summary="A subtask."),
    Endpoint("GET", _SUBTASK + "/metrics", show_subtask_metrics, query=_GET, summary="Metrics of a subtask."),
    Endpoint("GET", _SUBTASK + "/attempts/{attempt}", show_attempt, summary="The current attempt of a subtask."),
    Endpoint("GET", _SUBTASK + "/attempts/{attempt}/accumulators", show_attempt_accumulators, summary="Always empty."),
)
