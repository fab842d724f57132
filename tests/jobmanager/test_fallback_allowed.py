"""Which jobs fall back behind a damaged checkpoint by themselves (PROTOCOL R24)."""

import pytest

from penstock.checkpoint.checkpoint_settings import CheckpointSettings
from penstock.connectors.discard import DiscardingSink
from penstock.connectors.file.file_sink import FileSink
from penstock.graph.job_graph import JobGraph, SinkPlan
from penstock.graph.stream_graph import SinkSpec
from penstock.jobmanager.attempt.recovery import allows_fallback
from penstock.model.execution import CheckpointingMode
from penstock.model.types import TAGGED

FILES = FileSink.for_row_format("/out", "json").build()
PRINT, COLLECT, NOTHING = SinkSpec("print"), SinkSpec("collect"), SinkSpec("sink", DiscardingSink())


@pytest.mark.parametrize(
    ("sinks", "allowed"),
    [
        ([], True),
        ([PRINT], True),
        ([NOTHING, PRINT], True),
        ([COLLECT], False),
        ([PRINT, SinkSpec("sink", FILES)], False),
    ],
)
def test_r24_every_sink_must_take_rows_again(sinks: list[SinkSpec], allowed: object) -> None:
    plans = tuple(SinkPlan(str(number), "sink", spec, "s0", TAGGED) for number, spec in enumerate(sinks))
    graph = JobGraph((), (), plans, (), 8)
    assert allows_fallback(graph, CheckpointSettings(interval_ms=None)) is allowed
    assert allows_fallback(graph, CheckpointSettings(interval_ms=None, mode=CheckpointingMode.AT_LEAST_ONCE))
