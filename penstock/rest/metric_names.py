"""Names of operators in the names of metrics, where a dot separates parts."""

from penstock.graph.job_graph import StagePlan

_REPLACED = str.maketrans(" .:,", "____")


def operator_names(stage: StagePlan) -> dict[str, str]:
    """The name of each operator by its uid."""
    return {plan.uid: plan.name.translate(_REPLACED) for plan in stage.operators}
