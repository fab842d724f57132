"""The job as subtasks: which key groups each one owns, and which TaskManager owns the subtask."""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.errors import UsageError
from penstock.graph.job_graph import JobGraph
from penstock.model.ids import StageId, SubtaskId
from penstock.model.key_groups import key_group_range


@dataclass(frozen=True)
class SubtaskAssignment:
    """One of the parallel instances of a stage."""

    id: SubtaskId
    key_groups: tuple[int, int]
    """First and last key group, both included."""
    task_manager: str


@dataclass(frozen=True)
class ExecutionGraph:
    """All subtasks, by stage and index."""

    job: JobGraph
    subtasks: tuple[SubtaskAssignment, ...]

    def of_task_manager(self, task_manager: str) -> tuple[SubtaskAssignment, ...]:
        """The subtasks that a TaskManager owns."""
        return tuple(subtask for subtask in self.subtasks if subtask.task_manager == task_manager)

    @property
    def owners(self) -> dict[SubtaskId, str]:
        """Which TaskManager owns which subtask."""
        return {subtask.id: subtask.task_manager for subtask in self.subtasks}


def assign_subtasks(job: JobGraph, task_managers: Sequence[str]) -> ExecutionGraph:
    """Assign subtask i of every stage to TaskManager i modulo their number.

    So subtasks of two stages with the same index are in one process, and a forward edge stays there.
    """
    if not task_managers:
        raise UsageError("no TaskManager to assign subtasks to; start at least one")
    subtasks = [
        SubtaskAssignment(
            SubtaskId(StageId(stage.id), index),
            key_group_range(stage.max_parallelism, stage.parallelism, index),
            task_managers[index % len(task_managers)],
        )
        for stage in job.stages
        for index in range(stage.parallelism)
    ]
    return ExecutionGraph(job, tuple(subtasks))
