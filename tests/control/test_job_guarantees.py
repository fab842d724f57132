"""What the settings of a job mean for its guarantee, and what is printed at the start."""

import pytest

from penstock.control.job_guarantees import fault_tolerance, job_guarantees, start_lines
from penstock.graph.guarantees import FaultTolerance
from penstock.graph.stream_graph import SinkSpec
from penstock.model.configuration import Configuration
from penstock.model.execution import CheckpointingMode
from tests.graph.programs import Program

INTERVAL = {"execution.checkpointing.interval": "5s"}
IN_MEMORY = {**INTERVAL, "execution.checkpointing.storage": "jobmanager"}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, FaultTolerance(None, restarts=False)),
        ({"restart-strategy.type": "fixed-delay"}, FaultTolerance(None, restarts=True)),
        (INTERVAL, FaultTolerance()),
        ({**INTERVAL, "restart-strategy.type": "none"}, FaultTolerance(restarts=False)),
        (
            {**INTERVAL, "execution.checkpointing.mode": "AT_LEAST_ONCE"},
            FaultTolerance(CheckpointingMode.AT_LEAST_ONCE),
        ),
        (IN_MEMORY, FaultTolerance(outlives_driver=False)),
        ({**IN_MEMORY, "execution.checkpointing.dir": "/checkpoints"}, FaultTolerance()),
    ],
)
def test_settings_decide_what_a_failure_does(settings: dict[str, str], expected: FaultTolerance) -> None:
    assert fault_tolerance(Configuration.from_dict(settings)) == expected


def test_a_job_that_only_collects_prints_nothing() -> None:
    program = Program()
    rows = program.map(program.source())
    program.graph.add("sink", "Collect", [rows.id], SinkSpec("collect"), rows.output_type)
    graph = program.build()
    assert start_lines(graph, job_guarantees(graph, Configuration())) == []
    program.print(rows)
    graph = program.build()
    assert start_lines(graph, job_guarantees(graph, Configuration())) == [
        "delivery: at most once; state is at most once",
        "  checkpoints: the job takes none and ends at its first failure: records that are not written yet are lost; "
        "call env.enable_checkpointing(…)",
    ]
