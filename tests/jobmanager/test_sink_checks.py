"""A sink that cannot work is found before its job starts."""

import pytest

from penstock.connectors.discard import DiscardingSink
from penstock.errors import PenstockError, RpcError, UsageError
from penstock.graph.job_graph import JobGraph, SinkPlan
from penstock.graph.stream_graph import SinkSpec
from penstock.jobmanager.attempt.sink_committer import check_sinks
from penstock.model.sink import Sink
from penstock.model.types import TypeInformation, Types


def graph_of(*specs: SinkSpec) -> JobGraph:
    plans = tuple(SinkPlan(f"out-{i}", "out", spec, "s1", Types.STRING()) for i, spec in enumerate(specs))
    return JobGraph((), (), plans, (), 128)


def broken(error: PenstockError) -> Sink:
    class Broken(DiscardingSink):
        def check(self, record_type: TypeInformation) -> None:
            assert record_type == Types.STRING()
            raise error

    return Broken()


def test_a_wrong_sink_stops_a_start_and_a_resume() -> None:
    graph = graph_of(SinkSpec("print"), SinkSpec("sink", DiscardingSink()), SinkSpec("sink", broken(UsageError("no"))))
    for resumed in (False, True):
        with pytest.raises(UsageError, match="no"):
            check_sinks(graph, resumed=resumed)


def test_a_system_that_does_not_answer_stops_a_start_but_no_resume() -> None:
    graph = graph_of(SinkSpec("sink", broken(RpcError("away"))))
    with pytest.raises(RpcError, match="away"):
        check_sinks(graph, resumed=False)
    check_sinks(graph, resumed=True)
