"""The guarantee report of a job with the settings that it starts with."""

from penstock.control.submission import current_submission
from penstock.errors import GuaranteeRefusedError
from penstock.graph.guarantees import FaultTolerance, GuaranteeReport, report_guarantees
from penstock.graph.job_graph import JobGraph
from penstock.model.configuration import Configuration
from penstock.model.options import checkpointing_options, restart_options

NO_RESTART = "none"


def job_guarantees(graph: JobGraph, configuration: Configuration) -> GuaranteeReport:
    """What the job promises from end to end."""
    return report_guarantees(graph, fault_tolerance(configuration))


def fault_tolerance(configuration: Configuration) -> FaultTolerance:
    """What the settings say about failures."""
    takes_checkpoints = configuration.get(checkpointing_options.INTERVAL) is not None
    in_memory = configuration.get(checkpointing_options.STORAGE) == "jobmanager"
    strategy = configuration.get(restart_options.STRATEGY)
    return FaultTolerance(
        mode=configuration.get(checkpointing_options.MODE) if takes_checkpoints else None,
        outlives_driver=not in_memory or configuration.get(checkpointing_options.DIRECTORY) is not None,
        restarts=strategy != NO_RESTART if strategy else takes_checkpoints,
    )


def require_guarantee(graph: JobGraph, configuration: Configuration) -> None:
    """Raise GuaranteeRefusedError if `penstock run --require-exactly-once` runs a job that promises less."""
    submission = current_submission()
    if submission is None or not submission.require_exactly_once:
        return
    report = job_guarantees(graph, configuration)
    if not (report.guarantee.is_exact and report.state.is_exact):
        raise GuaranteeRefusedError(report.guarantee.value, "\n".join(report.lines[1:]))


def start_lines(graph: JobGraph, report: GuaranteeReport) -> list[str]:
    """What is printed when the job starts; nothing for a job whose records only go back to the program."""
    collected = {sink.uid for sink in graph.sinks if sink.spec.kind == "collect"}
    return report.short_lines if any(output.sink.uid not in collected for output in report.outputs) else []
