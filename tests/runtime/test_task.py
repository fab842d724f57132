"""One epoch of one subtask: barriers, watermarks, what a failed epoch leaves behind, and errors of the user's code."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from penstock.common import Types
from penstock.datastream import KeyedProcessFunction
from penstock.errors import RpcError, StateLostError, SupersededTaskError, UserFunctionError
from penstock.graph.job_graph import EdgePlan, OperatorPlan, StageOutput, StagePlan
from penstock.graph.pickling import dumps
from penstock.model.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from penstock.model.functions import FlatMapFunction, MapFunction, RuntimeContext
from penstock.model.ids import StageId, SubtaskId
from penstock.model.sink import Sink, SinkContext, SinkWriter
from penstock.model.time import MAX_WATERMARK, TimeDomain
from penstock.model.types import TAGGED
from penstock.runtime.operators.batch import Batch, EdgeBatch
from penstock.runtime.ownership import Run
from penstock.runtime.process.messages import Barrier, EpochHeader, Heartbeat, SubtaskRows
from penstock.runtime.subtask_place import SubtaskPlace
from penstock.runtime.task import Subtask
from penstock.testing import CHECKPOINT, Harness, MemorySink
from penstock.testing.harness_exchange import ObjectOutput
from penstock.testing.state_reader import read_state
from tests.runtime.subtasks import JOB, SUBTASK, Tasks, driver_barrier, epoch_header, keyed_stage, records_of
from tests.sim.job import Mean


class Remember(KeyedProcessFunction):
    """Every kind of state, timers, and a counter in the function itself. The value "poison" is an error."""

    def __init__(self) -> None:
        self.calls = 0

    def open(self, ctx: RuntimeContext) -> None:
        self.value = ctx.get_state(ValueStateDescriptor("value", Types.LONG()))
        self.list = ctx.get_list_state(ListStateDescriptor("list", Types.LONG()))
        self.map = ctx.get_map_state(MapStateDescriptor("map", Types.LONG(), Types.LONG()))
        self.sum = ctx.get_reducing_state(ReducingStateDescriptor("sum", lambda x, y: x + y, Types.LONG()))
        self.mean = ctx.get_aggregating_state(AggregatingStateDescriptor("mean", Mean()))

    def process_element(self, record: Any, ctx: Any) -> Iterable[Any]:
        key, value = record
        self.calls += 1
        if value == "poison":
            raise ValueError("I do not like it")
        self.value.update(value)
        self.list.add(value)
        self.map.put(value, self.calls)
        self.map.remove(value - 1)
        self.sum.add(value)
        self.mean.add(value)
        ctx.timer_service().register_event_time_timer(value)
        ctx.timer_service().delete_event_time_timer(value - 1)
        yield key, value, self.calls

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        yield "timer", timestamp


NAMES = ("value", "list", "map", "sum", "mean")


def state_of(tasks: Tasks, key: Any = "a") -> dict[str, Any]:
    subtask = tasks.host.subtask(SUBTASK)
    backend = subtask.backends["function"]
    timers = subtask.next_timer(TimeDomain.EVENT_TIME)
    return {**{name: read_state(backend, name, key) for name in NAMES}, "next timer": timers}


# ---- barriers (PROTOCOL R8)


def two_channel_stage() -> StagePlan:
    """A keyed stage that reads two subtasks of stage s5."""
    stage = keyed_stage(Remember())
    (edge,) = stage.inputs
    return replace(stage, inputs=(replace(edge, id=4, source=StageOutput("s5", 0)),))


def two_channels() -> Subtask:
    subtask = Subtask(SubtaskPlace(JOB, 1, two_channel_stage(), 0, {4: 2}), ObjectOutput)
    subtask.open()
    return subtask


def barriers(first: int, second: int, epoch: int = 1, checkpoint: int | None = None) -> list[Barrier]:
    return [Barrier(epoch, checkpoint, f"4:s5/{index}", watermark) for index, watermark in enumerate((first, second))]


def run(subtask: Subtask, items: list[Any], header: EpochHeader | None = None) -> int:
    """Run one epoch to its end; the subtask's watermark then."""
    subtask.run(header or epoch_header(), items, lambda: False)
    subtask.finish_epoch()
    return subtask.watermark


ONE, TWO = barriers(5, 7)
FOREIGN = Barrier(1, None, "4:s5/2", 7)


@pytest.mark.parametrize(
    "received",
    [
        [],
        [ONE],
        [ONE, ONE],
        [ONE, TWO, TWO],
        [ONE, FOREIGN],
        [ONE, TWO, FOREIGN],
        [ONE, Barrier(1, None, "3:s5/1", 7)],
        [ONE, Barrier(1, None, "driver", 7)],
        [ONE, Barrier(2, None, "4:s5/1", 7)],
        [ONE, Barrier(1, 3, "4:s5/1", 7)],
    ],
    ids=["none", "one", "doubled", "one too many", "foreign", "foreign too", "edge", "driver", "epoch", "checkpoint"],
)
def test_a_missing_doubled_or_foreign_barrier_is_an_error(received: list[Barrier]) -> None:
    subtask = two_channels()
    with pytest.raises(RpcError, match="barrier"):
        run(subtask, received)


def test_rows_behind_the_barriers_are_rows_of_the_epoch() -> None:
    subtask = two_channels()
    row = EdgeBatch(0, Batch([("a", 3)], None, [subtask.backends["function"].key_codec.to_state_key("a")]), 1)
    run(subtask, [ONE, row, TWO, row])
    assert read_state(subtask.backends["function"], "sum", "a") == 6


# ---- watermarks (PROTOCOL R9)


def test_the_watermark_is_the_lowest_of_all_channels_and_never_goes_back() -> None:
    subtask = two_channels()
    seen = [run(subtask, barriers(*pair)) for pair in ((5, 7), (9, 7), (3, 20), (20, 30))]
    assert seen == [5, 7, 7, 20]


def test_the_last_epoch_of_a_source_has_the_last_watermark() -> None:
    tasks = Tasks(keyed_stage(Remember()))
    header = epoch_header(final=True)
    tasks.execute(tasks.task(header), [driver_barrier(header)])
    assert tasks.told.reports[0].watermark == MAX_WATERMARK


def test_the_barrier_goes_on_with_the_watermark_of_the_subtask() -> None:
    subtask = two_channels()
    result = subtask.run(epoch_header(), barriers(5, 7), lambda: False)
    ((_, barrier),) = result.outputs.values()
    assert barrier == Barrier(1, None, "1:s0/0", 5)


# ---- what a failed epoch leaves behind (PROTOCOL R10, R11)


def test_after_an_error_state_timers_sinks_and_functions_are_as_before() -> None:
    sink = MemorySink()
    tasks = Tasks(keyed_stage(Remember(), sink=sink))
    first = tasks.run([("a", 1), ("b", 5), ("a", 2)], watermark=0)
    assert first == [("a", 1, 1), ("b", 5, 2), ("a", 2, 3)]
    before, transactions = state_of(tasks), [t.rows for t in sink.store.unsettled]
    version = tasks.versions[SUBTASK]
    header = epoch_header(2, 1)
    bad = tasks.items(header, [("a", 3), ("c", 7), ("a", "poison")], SUBTASK)
    with pytest.raises(UserFunctionError):
        tasks.execute(tasks.task(header, attempt=1), bad)
    assert state_of(tasks) == before
    assert state_of(tasks, "c")["list"] == []
    assert [t.rows for t in sink.store.unsettled] == transactions
    assert len(tasks.told.reports) == 1 and not tasks.told.acks
    good = tasks.items(header, [("a", 3)], SUBTASK)
    kept = tasks.execute(tasks.task(header, attempt=2), good)  # the parent version is held: it may run again
    assert records_of(kept) == [("a", 3, 1)]  # and by a new function object
    assert kept.parent == version and kept.version != version
    assert state_of(tasks)["list"] == [1, 2, 3]


def test_a_run_that_is_cut_off_leaves_nothing() -> None:
    tasks = Tasks(keyed_stage(Remember()))
    tasks.run([("a", 1)])
    before = state_of(tasks)
    header = epoch_header(2)
    rows, _ = tasks.items(header, [("a", 2)], SUBTASK)
    with pytest.raises(RpcError, match="expected barriers"):
        tasks.execute(tasks.task(header, attempt=1), [rows])
    assert state_of(tasks) == before


def test_a_cancelled_run_stops_at_the_next_batch_and_leaves_nothing() -> None:
    tasks = Tasks(keyed_stage(Remember()))
    header = epoch_header()
    task = tasks.task(header)
    admitted = tasks.host.admit(task)
    assert isinstance(admitted, Run)

    def items() -> Iterable[Any]:
        rows, barrier = tasks.items(header, [("a", 1)], SUBTASK)
        yield rows
        admitted.cancelled.set()
        yield rows
        yield barrier

    with pytest.raises(SupersededTaskError, match="was cancelled"):
        tasks.host.execute(task, admitted, items())
    assert state_of(tasks)["sum"] is None
    assert tasks.run([("a", 1)]) == [("a", 1, 1)]


def test_rows_of_a_running_epoch_are_known_batch_by_batch_and_forgotten_when_it_is_undone() -> None:
    tasks = Tasks(keyed_stage(Remember()))
    tasks.run([("a", 1)])
    header, seen = epoch_header(2), list[Heartbeat]()

    def items() -> Iterable[Any]:
        rows, _ = tasks.items(header, [("a", 2), ("b", 3)], SUBTASK)
        for _ in range(2):
            yield rows
            seen.append(tasks.host.heartbeat("tm"))
        raise RpcError("the task is gone")

    with pytest.raises(RpcError):
        tasks.execute(tasks.task(header, attempt=1), items())
    seen.append(tasks.host.heartbeat("tm"))
    assert [heartbeat.rows for heartbeat in seen] == [[SubtaskRows(SUBTASK, 2, rows)] for rows in (2, 4, 0)]
    assert seen[0].restored == 1
    tasks.execute(tasks.task(header, attempt=2), tasks.items(header, [("a", 2)], SUBTASK))
    assert tasks.host.heartbeat("tm").rows == [SubtaskRows(SUBTASK, 2, 1)]


LIFE: list[str] = []


class Life(KeyedProcessFunction):
    def open(self, ctx: RuntimeContext) -> None:
        LIFE.append("open")

    def process_element(self, record: Any, ctx: Any) -> None:
        raise ValueError(record)

    def close(self) -> None:
        LIFE.append("close")
        raise OSError("close fails too")


def test_a_function_that_is_thrown_away_is_closed_first() -> None:
    LIFE.clear()
    tasks = Tasks(keyed_stage(Life()))
    with pytest.raises(UserFunctionError, match="ValueError"):
        tasks.run([("a", 1)])
    assert LIFE == ["open", "close", "open"]


class StuckSink(Sink):
    """A sink whose writer cannot roll back."""

    def open(self, context: SinkContext) -> SinkWriter:
        return StuckWriter()

    def commit(self, committable: Any) -> None: ...

    def sweep(self, job_id: str, sink_uid: str, keep: Any, before_attempt: int) -> None: ...


class StuckWriter(SinkWriter):
    def begin_epoch(self) -> None: ...

    def write(self, records: Any) -> None: ...

    def roll_back(self) -> None:
        raise StateLostError("the disk is gone")

    def pre_commit(self) -> list[tuple[str, dict[str, str | int]]]:
        return []

    def close(self) -> None: ...


def test_a_subtask_that_cannot_go_back_runs_nothing_more() -> None:
    tasks = Tasks(keyed_stage(Remember(), sink=StuckSink()))
    header = epoch_header()
    with pytest.raises(UserFunctionError, match="I do not like it"):
        tasks.execute(tasks.task(header, attempt=1), tasks.items(header, [("a", "poison")], SUBTASK))
    with pytest.raises(StateLostError, match="could not undo an epoch.*the disk is gone"):
        tasks.host.admit(tasks.task(header, attempt=2))


def test_a_finished_epoch_is_not_run_again() -> None:
    tasks = Tasks(keyed_stage(Remember()))
    header = epoch_header()
    kept = tasks.execute(tasks.task(header), tasks.items(header, [("a", 1)], SUBTASK))
    assert tasks.host.admit(tasks.task(header, attempt=1)) is kept
    assert state_of(tasks)["sum"] == 1


def test_a_subtask_of_another_host_is_refused() -> None:
    tasks = Tasks(keyed_stage(Remember()))
    elsewhere = msgspec.structs.replace(tasks.task(epoch_header()), subtask=SubtaskId(StageId("s0"), 5))
    with pytest.raises(StateLostError, match="is not owned"):
        tasks.host.admit(elsewhere)


# ---- errors of the user's code


def failing_line(record: Any) -> Any:
    return record["no such field"]


class Breaks(MapFunction):
    def map(self, value: Any) -> Any:
        return failing_line(value) if value == 12 else value


class Doubles(FlatMapFunction):
    def flat_map(self, value: Any) -> Any:
        return [value, value + 1, value + 2]


def test_an_error_shows_the_users_own_traceback_first_then_operator_and_record() -> None:
    harness = Harness.keyed(Breaks(), key=lambda value: 1)
    harness.feed([1, 2])
    with pytest.raises(UserFunctionError) as caught:
        harness.feed([7, 8, 9, 10, 11, 12, 13])
    lines = str(caught.value).splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert "test_task.py" in lines[1] and "in map" in lines[1]
    assert any("failing_line" in line for line in lines)
    assert not any("penstock/runtime" in line for line in lines)
    assert lines[-6] == "TypeError: 'int' object is not subscriptable"
    assert lines[-4] == "in operator 'function', record 6 of epoch 2 in subtask s0/0"
    assert lines[-3].startswith(f"  created at {__file__}:") and lines[-2:] == ["  key: 1", "  record: 12"]


def test_a_record_is_counted_where_it_fails_not_where_its_origin_came_in() -> None:
    edge = EdgePlan(0, StageOutput("s5", 0), "s0", TAGGED, "forward")
    chain = tuple(
        OperatorPlan(name, name, kind, dumps(function, name), TAGGED, TAGGED, (position,), keyed=False)
        for name, kind, function, position in (("three", "flat_map", Doubles(), -1), ("breaks", "map", Breaks(), 0))
    )
    subtask = Subtask(
        SubtaskPlace(JOB, 1, StagePlan("s0", "s0", 1, 8, None, (edge,), chain, ()), 0, {0: 1}), ObjectOutput
    )
    subtask.open()
    with pytest.raises(UserFunctionError) as caught:
        subtask.run(epoch_header(), [EdgeBatch(0, Batch([1]), 1), EdgeBatch(0, Batch([5, 11]), 2)], lambda: False)
    assert str(caught.value).endswith("in operator 'breaks', record 8 of epoch 1 in subtask s0/0\n  record: 12")


def test_an_error_in_a_timer_and_in_open_says_so() -> None:
    class BadTimer(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> None:
            ctx.timer_service().register_processing_time_timer(0)

        def on_timer(self, timestamp: int, ctx: Any) -> None:
            raise RuntimeError("bad timer")

    class BadOpen(MapFunction):
        def open(self, ctx: RuntimeContext) -> None:
            raise RuntimeError("bad open")

        def map(self, value: Any) -> Any:
            return value

    with pytest.raises(UserFunctionError, match=r"bad timer\n\nin operator 'function', in on_timer\(\) in epoch 1"):
        Harness.keyed(BadTimer(), key=str).feed(["a"])
    with pytest.raises(UserFunctionError, match=r"bad open\n\nin operator 'function', in open\(\)"):
        Harness.keyed(BadOpen(), key=str)


class Quits(MapFunction):
    def map(self, value: Any) -> Any:
        raise SystemExit(f"no more after {value}")


def test_a_function_that_exits_is_an_error_like_any_other() -> None:
    tasks = Tasks(keyed_stage(Quits()))
    with pytest.raises(UserFunctionError, match="SystemExit: no more after"):
        tasks.run([("a", 1)])
    assert isinstance(tasks.host.admit(tasks.task(epoch_header(), attempt=1)), Run)  # the run has been dropped


WEATHER: list[str] = []


class Fragile(MapFunction):
    """Fails while there is weather."""

    def map(self, value: Any) -> Any:
        if WEATHER:
            raise RuntimeError(WEATHER.pop())
        return value


def test_a_job_goes_on_after_an_error_that_does_not_come_again() -> None:
    harness = Harness.keyed(Fragile(), key=str).feed(["a", CHECKPOINT])
    WEATHER.append("storm")
    with pytest.raises(UserFunctionError, match="storm"):
        harness.feed(["b", "c"])
    assert (harness.attempt, harness.crashes) == (1, 0)
    assert harness.feed(["d"]).output == ["a", "b", "c", "d"]
    assert harness.attempt == 2
