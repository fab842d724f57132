"""Which stages of a job a rescale changes."""

from penstock.errors import UsageError
from penstock.graph.job_graph import JobGraph


def scaled_stages(graph: JobGraph) -> frozenset[str]:
    """The ids of the stages that a rescale changes: not those whose operators all set a parallelism of their own."""
    default = graph.default_parallelism
    another = default + 1 if default < graph.max_parallelism else default - 1
    found = {stage.id for stage in graph.stages if stage.parallelism == default}
    if graph.at_parallelism is None or another < 1:
        return frozenset(found)
    try:
        changed = graph.at_parallelism(another)
    except UsageError:  # it would not fit the program, which the rescale says then
        return frozenset(found)
    fixed = {uid for stage in changed.stages if stage.parallelism == default for uid in stage.uids}
    kept = {stage.id for stage in graph.stages if stage.uids and fixed.issuperset(stage.uids)}
    return frozenset(found - kept)
