"""`to_spark(write, exactly_once=True)` as part of a program."""

import pickle
import threading
from typing import Any

from penstock.common import Types
from penstock.connectors.staged.spark_writer import SparkWriterSink
from penstock.connectors.staged.staged_sink import StagedOutput
from penstock.datastream import StreamExecutionEnvironment
from penstock.graph.guarantees import FaultTolerance, report_guarantees


def test_the_token_makes_the_report_exact() -> None:
    found = {}
    for exactly_once in (False, True):
        env = StreamExecutionEnvironment.get_execution_environment()
        stream = env.from_collection([1, 2], Types.LONG()).map(str, Types.STRING())
        stream.to_spark(lambda df, epoch: None, exactly_once=exactly_once)
        graph = env._build(env._configuration)
        found[exactly_once] = report_guarantees(graph, FaultTolerance()).guarantee.value
    assert found == {False: "at least once", True: "exactly once"}


def test_taskmanagers_get_the_sink_without_its_writer() -> None:
    written: list[StagedOutput] = []
    lock = threading.Lock()  # as a Spark session, it cannot be pickled

    def write(output: Any) -> None:
        with lock:
            written.append(output)

    sink = SparkWriterSink(write)
    assert isinstance(pickle.loads(pickle.dumps(sink)), SparkWriterSink)
    assert not sink.keeps_marker  # its rows stay until the next checkpoint: the writer may ask for them again
    output = StagedOutput("job", "sink", 1, 2, ())
    sink.publish(output)
    assert written == [output]
