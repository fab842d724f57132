"""`InputDependencyConstraint`: when Flink schedules a task. Here it has no effect: Spark schedules tasks."""

from enum import Enum


class InputDependencyConstraint(Enum):
    """Whether a task starts when any of its inputs is ready, or all of them."""

    ANY = 0
    ALL = 1
