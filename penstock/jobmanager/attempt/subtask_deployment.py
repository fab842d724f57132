"""Starts the TaskManagers of an attempt on Spark and gives each its subtasks, which load their state."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock import compat
from penstock.graph.execution_graph import ExecutionGraph, assign_subtasks
from penstock.jobmanager.attempt.attempt import Attempt
from penstock.jobmanager.attempt.attempt_progress import STARTING, StartPhases
from penstock.jobmanager.attempt.deploy_orders import deploy_orders, pickled_plan
from penstock.jobmanager.attempt.taskmanagers import TaskManagers
from penstock.jobmanager.settings.checkpointing import local_backup
from penstock.jobmanager.settings.job_settings import JobSettings
from penstock.model.ids import SubtaskId
from penstock.runtime.process.messages import Deployed, Register
from penstock.runtime.process.watchdog import identity
from penstock.spark.deployment import TaskManagerTemplate, slot_count, start_taskmanagers
from penstock.spark.pipe import OwnerAddress


@dataclass(frozen=True)
class SubtaskDeployment:
    """Which TaskManager owns which subtask, and what the subtasks have restored."""

    execution: ExecutionGraph
    registered: list[Register]
    restored: Deployed

    def owners(self) -> dict[SubtaskId, OwnerAddress]:
        """Where the owner of each subtask listens."""
        addresses = {r.taskmanager: OwnerAddress(r.host, r.unix_path, r.tcp_port) for r in self.registered}
        return {subtask: addresses[name] for subtask, name in self.execution.owners.items()}

    def processes(self) -> list[tuple[Register, list[str]]]:
        """The TaskManagers and the subtasks each owns."""
        return [(r, [str(s.id) for s in self.execution.of_task_manager(r.taskmanager)]) for r in self.registered]


def deploy_subtasks(
    attempt: Attempt,
    settings: JobSettings,
    log_dir: Path,
    spark: Any,
    taskmanagers: TaskManagers,
    phases: StartPhases,
) -> SubtaskDeployment:
    """Start one TaskManager per executor core, at most as many as the job has subtasks, and deploy the job to them."""
    count = max(1, min(slot_count(spark), attempt.graph.parallelism))
    is_local = spark.sparkContext.master.startswith("local")
    plan = pickled_plan(attempt.graph, settings)
    template = TaskManagerTemplate(
        job_id=attempt.job.job_id,
        attempt=attempt.number,
        token=attempt.token,
        jobmanager=taskmanagers.address,
        storage=attempt.storage.uri if attempt.storage is not None else None,
        log_dir=str(log_dir),
        sys_path=tuple(sys.path),
        driver=identity(os.getpid()) if is_local else None,
        limits=settings.storage.limits,
        local=local_backup(settings.checkpoints),
        log_limits=settings.log_limits,
        pyflink=compat.is_installed(),
        environment=settings.secrets_for(plan, attempt.origin.path) if is_local else {},
    )
    phases.enter(STARTING, lambda: taskmanagers.registered_count, count)
    start_taskmanagers(spark, template, count)
    registered = taskmanagers.wait_for_registration(count)
    attempt.log.check_fenced()  # a newer attempt may delete what is restored now
    execution = assign_subtasks(attempt.graph, [register.taskmanager for register in registered])
    name = "starting subtasks" if attempt.manifest is None else f"restoring {attempt.starts_from}"
    phases.enter(name, lambda: taskmanagers.restored_count, len(execution.owners))
    return SubtaskDeployment(execution, registered, taskmanagers.deploy(deploy_orders(execution, attempt.origin, plan)))
