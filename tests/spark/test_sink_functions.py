"""SinkFunctions on real Spark: every record, `finish` at the end of the input, and a buffer that survives a kill."""

import json
from pathlib import Path
from typing import Any

from penstock.common import Types
from penstock.datastream import CheckpointedFunction, RuntimeContext, SinkFunction
from penstock.datastream.state import ListStateDescriptor
from tests.spark.jobs import Jobs
from tests.spark.recoveries import RESTARTS, await_attempt, kill_taskmanager
from tests.spark.test_source_functions import COUNT, HALF, InTwoParts
from tests.waiting import LIMIT_S, wait_until


class Lines(SinkFunction):
    """One file per subtask, written at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, runtime_context: RuntimeContext) -> None:
        self.index = runtime_context.get_index_of_this_subtask()
        self.records: list[Any] = []

    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        self.records.append(value.number)

    def finish(self) -> None:
        (self.folder / f"{self.index}.json").write_text(json.dumps(self.records), encoding="utf-8")


def test_a_sink_function_gets_every_record_and_the_end(jobs: Jobs) -> None:
    folder = jobs.folder / "lines"
    folder.mkdir()
    env = jobs.environment(2)
    numbers = env.from_collection([(number,) for number in range(40)], "number bigint")
    numbers.key_by("number").add_sink(Lines(folder)).name("lines").uid("lines")
    env.execute("lines")
    found = [json.loads((folder / f"{index}.json").read_text(encoding="utf-8")) for index in range(2)]
    assert sorted(number for part in found for number in part) == list(range(40))


class BufferingSink(SinkFunction, CheckpointedFunction):
    """Keeps every record until the end. Each snapshot leaves a file that says how many of them it holds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.buffered: list[int] = []

    def open(self, runtime_context: RuntimeContext) -> None:
        self.index = runtime_context.get_index_of_this_subtask()

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.checkpointed = store.get_list_state(ListStateDescriptor("buffered-elements", Types.LONG()))
        if context.is_restored():
            self.buffered.extend(self.checkpointed.get())

    def snapshot_state(self, context: Any) -> None:
        self.checkpointed.update(self.buffered)
        name = f"snapshot-{context.get_checkpoint_id()}-{self.index}"
        (self.folder / name).write_text(str(len(self.buffered)), encoding="utf-8")

    def invoke(self, value: int, context: SinkFunction.Context) -> None:
        self.buffered.append(value)

    def finish(self) -> None:
        (self.folder / f"{self.index}.json").write_text(json.dumps(self.buffered), encoding="utf-8")


def test_records_in_the_buffer_of_a_sink_survive_a_kill(jobs: Jobs) -> None:
    folder, signal = jobs.folder / "written", jobs.folder / "signal"
    folder.mkdir()
    env = jobs.environment(2, RESTARTS)
    numbers = env.add_source(InTwoParts(signal), "numbers", Types.LONG()).uid("numbers")
    numbers.key_by(lambda number: number, Types.LONG()).add_sink(BufferingSink(folder)).name("sink").uid("sink")
    job = env.execute_async("buffer")

    def buffered() -> int:
        """How many records the newest checkpoint has in the buffers."""
        files = folder.glob(f"snapshot-{jobs.record().last_checkpoint or 0}-*")
        return sum(int(file.read_text(encoding="utf-8") or 0) for file in files)

    wait_until(lambda: buffered() == HALF)
    kill_taskmanager(jobs)
    await_attempt(jobs, 2)
    signal.touch()
    job.get_job_execution_result().result(LIMIT_S)
    found = [json.loads((folder / f"{index}.json").read_text(encoding="utf-8")) for index in range(2)]
    assert all(found) and sorted(number for part in found for number in part) == list(range(COUNT))
