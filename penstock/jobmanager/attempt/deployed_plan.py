"""The part of a job that its TaskManagers need."""

from dataclasses import replace

from penstock.checkpoint.checkpoint_settings import CheckpointSettings
from penstock.graph.job_graph import SPARK_SINK, JobGraph, StagePlan
from penstock.graph.pickling import dumps
from penstock.jobmanager.settings.job_settings import JobSettings
from penstock.runtime.process.taskmanager_config import DeployedPlan
from penstock.state.backend.backend_registry import registered_backends


def pickled_plan(graph: JobGraph, settings: JobSettings) -> bytes:
    """The plan as TaskManagers load it; a backend that the program defines travels by value, as functions do."""
    return dumps(deployed_plan(graph, settings), "plan")


def deployed_plan(graph: JobGraph, settings: JobSettings) -> DeployedPlan:
    """The part of the graph that TaskManagers need; sources and sinks as live objects stay here."""
    stages = {stage.id: _emptied(stage) if settings.passthrough else stage for stage in graph.stages}
    edges = [edge for stage in graph.stages for edge in stage.outputs]
    targets = {edge.id: stages[edge.target].parallelism for edge in edges if edge.target != SPARK_SINK}
    checkpoints = settings.checkpoints or CheckpointSettings(None)
    return DeployedPlan(
        stages,
        graph.channel_counts,
        targets,
        drop_untimed=settings.null_event_time == "drop",
        backend=settings.backend,
        backends=registered_backends(),
        max_spool_bytes=checkpoints.max_spool_bytes,
        job_parameters=settings.job_parameters,
    )


def _emptied(stage: StagePlan) -> StagePlan:
    """The stage without its operators: what is left is the data path, the most that any function could reach."""
    return replace(stage, operators=())
