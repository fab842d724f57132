"""What each TaskManager is deployed with: the plan, its subtasks, and what each subtask restores."""

from dataclasses import replace

from penstock.checkpoint.restore.redistribution import redistribute, snapshots_to_load
from penstock.graph.execution_graph import ExecutionGraph
from penstock.graph.job_graph import JobGraph, StagePlan
from penstock.graph.pickling import dumps
from penstock.jobmanager.attempt.attempt import Origin
from penstock.jobmanager.settings.job_settings import JobSettings
from penstock.model.ids import StageId, SubtaskId
from penstock.model.snapshot import Manifest, OperatorStateShare
from penstock.runtime.process.messages import Deploy
from penstock.runtime.process.taskmanager_config import DeployedPlan
from penstock.state.backend.backend_registry import registered_backends


def deploy_orders(execution: ExecutionGraph, origin: Origin, plan: bytes) -> dict[str, Deploy]:
    """For each TaskManager its subtasks, and for each subtask what it restores (PROTOCOL section 5)."""
    manifest = origin.manifest
    orders = {}
    shares = _operator_shares(execution.job, manifest)
    for name in sorted(set(execution.owners.values())):
        subtasks = execution.of_task_manager(name)
        stages = [execution.job.stage(subtask.id.stage) for subtask in subtasks]
        orders[name] = Deploy(
            plan=plan,
            subtasks=[subtask.id for subtask in subtasks],
            restore=[
                snapshots_to_load(manifest, stage.uids, subtask.key_groups, stage.max_parallelism)
                if manifest is not None
                else []
                for subtask, stage in zip(subtasks, stages, strict=True)
            ],
            checkpoint=manifest.checkpoint_id if manifest is not None else None,
            restored_epoch=origin.epoch,
            max_parallelism_restored=manifest.max_parallelism if manifest is not None else 0,
            operator_state=[shares[subtask.id] for subtask in subtasks],
            origin=origin.storage.uri if origin.storage is not None else "",
            renamed=dict(origin.renamed),
        )
    return orders


def _operator_shares(job: JobGraph, manifest: Manifest | None) -> dict[SubtaskId, list[OperatorStateShare]]:
    """What each new subtask gets of the operator state in a manifest."""
    shares: dict[SubtaskId, list[OperatorStateShare]] = {}
    for stage in job.stages:
        ids = [SubtaskId(StageId(stage.id), index) for index in range(stage.parallelism)]
        shares.update({subtask_id: [] for subtask_id in ids})
        for uid in stage.uids if manifest is not None else ():
            assert manifest is not None
            found = redistribute(manifest, uid, stage.parallelism, stage.max_parallelism)
            for subtask_id, more in zip(ids, found, strict=True):
                shares[subtask_id].extend(more)
    return shares


def pickled_plan(graph: JobGraph, settings: JobSettings) -> bytes:
    """The plan as TaskManagers load it; a backend that the program defines is pickled by value, as functions are."""
    return dumps(deployed_plan(graph, settings), "plan")


def deployed_plan(graph: JobGraph, settings: JobSettings) -> DeployedPlan:
    """The part of the graph that TaskManagers need; sources and sinks stay in the JobManager as live objects."""
    stages = {stage.id: _without_operators(stage) if settings.passthrough else stage for stage in graph.stages}
    return DeployedPlan(
        stages,
        graph.channel_counts,
        settings.batch_rows,
        drop_untimed=settings.null_event_time == "drop",
        backend=settings.backend,
        backends=registered_backends(),
        max_spool_bytes=settings.attempt_settings.max_spool_bytes,
        job_parameters=settings.job_parameters,
    )


def _without_operators(stage: StagePlan) -> StagePlan:
    """The stage reduced to its data path, which is as fast as any function could be: for benchmarks."""
    return replace(stage, operators=())
