"""A SourceFunction is read from a position, and the position moves together with the records."""

import threading
from typing import Any

import pytest

from penstock.common import Types
from penstock.connectors.function_source import CAPACITY, START, FunctionSource, SourceRun
from penstock.datastream import CheckpointedFunction, SourceFunction, StreamExecutionEnvironment
from penstock.datastream.state import ListStateDescriptor
from penstock.errors import ArgumentError, UsageError
from penstock.graph.stages import GraphSettings, build_job_graph
from penstock.runtime.operators.sink_operators import decode_records
from penstock.spark.function_streams import FunctionReader, RecordsPartition

WAIT_S = 10.0


class Numbers(SourceFunction):
    """0 … count - 1, without a position."""

    def __init__(self, count: int) -> None:
        self.count, self.next, self.is_running = count, 0, True

    def run(self, ctx: SourceFunction.SourceContext) -> None:
        while self.is_running and self.next < self.count:
            with ctx.get_checkpoint_lock():
                ctx.collect(self.next)
                self.next += 1

    def cancel(self) -> None:
        self.is_running = False


class Counter(Numbers, CheckpointedFunction):
    """The StatefulSource of Flink's documentation."""

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.position = store.get_list_state(ListStateDescriptor("next", Types.LONG()))
        self.next = max([0, *self.position.get()])

    def snapshot_state(self, context: Any) -> None:
        self.position.update([self.next])


class Fails(SourceFunction):
    def run(self, ctx: SourceFunction.SourceContext) -> None:
        ctx.collect("first")
        raise ValueError("no more")


def source(function: SourceFunction) -> FunctionSource:
    return FunctionSource.of(function, Types.LONG())


def rest(run: SourceRun) -> list[Any]:
    records: list[Any] = []
    while not run.position["ended"]:
        records += run.take(WAIT_S)
    return records


def test_every_position_continues_with_the_next_record() -> None:
    counter = source(Counter(300))
    run = SourceRun(counter.function, START)
    seen: list[int] = []
    while not run.position["ended"]:
        seen += run.take(WAIT_S, 70)
    assert seen == list(range(300))
    first = SourceRun(counter.function, START)
    head = first.take(WAIT_S)
    first.close()
    assert head == list(range(len(head))) and first.position["records"] == len(head)
    assert head + rest(SourceRun(counter.function, first.position)) == list(range(300))


def test_a_source_waits_while_enough_records_are_unread_and_sees_its_end() -> None:
    run = SourceRun(source(Counter(10 * CAPACITY)).function, START)
    assert 0 < len(run.take(WAIT_S)) <= CAPACITY
    run.close()
    reader = threading.Thread(target=rest, args=[run])
    reader.start()
    reader.join(WAIT_S)
    assert run.position["ended"]


def test_records_come_before_the_error_of_a_source() -> None:
    run = SourceRun(source(Fails()).function, START)
    assert run.take(WAIT_S) == ["first"]
    with pytest.raises(ValueError, match="no more"):
        run.take(WAIT_S)


def test_a_batch_is_produced_again_by_a_new_reader() -> None:
    counter = source(Counter(50))
    reader = FunctionReader(counter)
    start = reader.initialOffset()
    end = reader.latestOffset(start)
    while not end["records"]:
        end = reader.latestOffset(end)
    planned = read(reader.partitions(start, end))
    again = FunctionReader(counter)  # of a new process, which finds the batch in Spark's log
    assert read(again.partitions(start, end)) == planned == list(range(end["records"]))
    while not end["ended"]:
        before, end = end, again.latestOffset(end)
        planned += read(again.partitions(before, end))
    assert planned == list(range(50))
    assert again.latestOffset(end) == end


def test_without_a_position_a_planned_batch_is_lost_and_that_is_said() -> None:
    numbers = source(Numbers(50))
    assert numbers.delivery.may_lose and "has no position" in numbers.delivery.reason
    assert numbers.delivery.may_repeat, "its function begins with 0 again"
    assert source(Counter(1)).delivery.is_exact
    reader = FunctionReader(numbers)
    assert read(reader.partitions(START, {**START, "records": 20})) == []


def test_a_replay_that_gives_fewer_records_is_an_error() -> None:
    with pytest.raises(UsageError, match="yielded 5 records, but 9 the first time"):
        SourceRun(source(Counter(5)).function, START).replay(9, WAIT_S)


def test_add_source_makes_a_stream_of_the_declared_type() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.add_source(Counter(3), "Counter", Types.LONG())
    assert stream.get_type() == Types.LONG() and stream.get_name() == "Counter"
    stream.print()
    graph = build_job_graph(env._graph, GraphSettings(1))
    assert not graph.bounded and graph.sources[0].spec.delivery.is_exact


@pytest.mark.parametrize("given", [Counter, lambda ctx: ctx.collect(1)])
def test_what_is_no_source_function_is_refused(given: Any) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    with pytest.raises(
        ArgumentError, match=r"^not a source: an object of type .*add_source\(\), an instance of a Source"
    ):
        env.add_source(given)


def read(partitions: Any) -> list[Any]:
    found: list[Any] = []
    for partition in partitions:
        assert isinstance(partition, RecordsPartition)
        found += decode_records(partition.data, Types.LONG())
    return found
