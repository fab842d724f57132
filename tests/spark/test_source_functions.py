"""A SourceFunction with a position on real Spark: exact after the death of a TaskManager, and the job ends with it."""

import threading
from pathlib import Path

from penstock.common import Types
from penstock.datastream import SourceFunction
from penstock.datastream.connectors import FileSink
from tests.connectors.test_function_source import Counter
from tests.spark.jobs import Jobs, read_json
from tests.spark.recoveries import RESTARTS, await_attempt, await_checkpoints, kill_taskmanager
from tests.waiting import LIMIT_S

HALF, COUNT = 100, 200


class InTwoParts(Counter):
    """Half of the numbers; the others when a file is there."""

    def __init__(self, signal: Path) -> None:
        super().__init__(HALF)
        self.signal = signal

    def run(self, ctx: SourceFunction.SourceContext) -> None:
        super().run(ctx)
        while self.is_running and not self.signal.exists():
            threading.Event().wait(0.02)
        self.count = COUNT
        super().run(ctx)


def test_a_source_with_a_position_is_exact_after_a_kill(jobs: Jobs) -> None:
    signal, output = jobs.folder / "signal", jobs.folder / "output"
    env = jobs.environment(2, RESTARTS)
    numbers = env.add_source(InTwoParts(signal), "numbers", Types.LONG()).uid("numbers")
    rows = numbers.key_by(lambda number: number % 5).map(lambda number: (number,), "number bigint").uid("rows")
    rows.sink_to(FileSink.for_row_format(str(output), "json").build()).uid("output")
    job = env.execute_async("source function")
    await_checkpoints(jobs, 1)
    kill_taskmanager(jobs)
    await_attempt(jobs, 2)
    signal.touch()
    job.get_job_execution_result().result(LIMIT_S)
    assert sorted(row["number"] for row in read_json(output)) == list(range(COUNT))
