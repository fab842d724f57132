"""Names of operators in the names of metrics, where a dot separates parts."""

from collections import Counter

from penstock.graph.job_graph import StagePlan

_REPLACED = str.maketrans(" .:,", "____")


def operator_names(stage: StagePlan) -> dict[str, str]:
    """The name of each operator by its uid, as in the names of metrics."""
    return {uid: name.translate(_REPLACED) for uid, name in operator_labels(stage).items()}


def operator_labels(stage: StagePlan) -> dict[str, str]:
    """The name of each operator by its uid; of several with one name, the others have a number."""
    seen: Counter[str] = Counter()
    found: dict[str, str] = {}
    for plan in stage.operators:
        alike = plan.name.translate(_REPLACED)
        seen[alike] += 1
        found[plan.uid] = f"{plan.name} {seen[alike]}" if seen[alike] > 1 and plan.name else plan.name
    return found
