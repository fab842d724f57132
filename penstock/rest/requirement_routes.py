"""The endpoints with bounds of each vertex's parallelism, by which clients of Flink's adaptive scheduler rescale a job.

A job here runs at one parallelism: the greatest within all bounds. Vertices whose operators set a parallelism of their
own keep it.
"""

from collections.abc import Mapping
from typing import Any

from penstock.control import snapshot_operations
from penstock.errors import RequestRefusedError
from penstock.graph.job_graph import JobGraph, StagePlan
from penstock.graph.scaled_stages import scaled_stages
from penstock.model.ids import new_trigger_id
from penstock.rest.bodies import VertexRequirements
from penstock.rest.endpoint import Answer, Call, Endpoint, require_job

Requirements = dict[str, VertexRequirements]
"""By the id of the vertex."""


def show_requirements(call: Call) -> Answer:
    """The parallelism that each vertex has, as both bounds."""
    require_job(call)
    return Answer(200, {stage.id: _exactly(stage.parallelism) for stage in call.control.facts.graph.stages})


def set_requirements(call: Call) -> Answer:
    """Start a rescale, unless the job has the parallelism already. As in Flink, the answer does not wait for it."""
    require_job(call)
    graph = call.control.facts.graph
    parallelism = parallelism_within(graph, call.body)
    if parallelism != graph.default_parallelism:
        key = call.idempotency_key
        trigger = new_trigger_id() if key is None else snapshot_operations.trigger_id_of_key(key, "requirements")
        snapshot_operations.rescale(call.control, trigger, parallelism)
    return Answer(200, {})


def parallelism_within(graph: JobGraph, requirements: Mapping[str, VertexRequirements]) -> int:
    """The greatest parallelism of the job within the bounds of all vertices; RequestRefusedError if there is none."""
    vertices = {stage.id for stage in graph.stages}
    if missing := vertices - requirements.keys():
        raise _refused(f"the request has no bounds for vertex {min(missing)!r}")
    if unknown := requirements.keys() - vertices:
        raise _refused(f"there is no vertex {min(unknown)!r}")
    for stage in graph.stages:
        _check_bounds(stage, requirements[stage.id])
    scaled = scaled_stages(graph)
    for stage in graph.stages:
        bounds = requirements[stage.id].parallelism
        if stage.id not in scaled and not bounds.lower_bound <= stage.parallelism <= bounds.upper_bound:
            raise _refused(f"vertex {stage.id!r} sets a parallelism of its own: {stage.parallelism}")
    if not scaled:
        return graph.default_parallelism
    least = max(requirements[vertex].parallelism.lower_bound for vertex in scaled)
    most = min(requirements[vertex].parallelism.upper_bound for vertex in scaled)
    if least > most:
        raise _refused(f"a job runs at one parallelism, and none is both at least {least} and at most {most}")
    return most


def _check_bounds(stage: StagePlan, requirements: VertexRequirements) -> None:
    bounds = requirements.parallelism
    if not 1 <= bounds.lower_bound <= bounds.upper_bound <= stage.max_parallelism:
        raise _refused(
            f"vertex {stage.id!r}: lowerBound {bounds.lower_bound} and upperBound {bounds.upper_bound} are not numbers "
            f"from 1 to {stage.max_parallelism}, the smaller one first"
        )


def _exactly(parallelism: int) -> dict[str, Any]:
    return {"parallelism": {"lowerBound": parallelism, "upperBound": parallelism}}


def _refused(message: str) -> RequestRefusedError:
    return RequestRefusedError(400, "BAD_REQUEST", message)


_PATH = "/jobs/{jobid}/resource-requirements"
REQUIREMENT_ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", _PATH, show_requirements, summary="The parallelism of each vertex."),
    Endpoint(
        "PUT",
        _PATH,
        set_requirements,
        "admin",
        Requirements,
        errors=(409,),
        summary="Change the parallelism, within bounds for each vertex.",
    ),
)
