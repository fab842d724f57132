"""Windows in programs: what the methods make, and mistakes that are errors before anything runs."""

from typing import Any

import pytest

from penstock.common import Time, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import (
    AggregateFunction,
    AllWindowFunction,
    OutputTag,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    WindowFunction,
)
from penstock.datastream.data_stream import AllWindowedStream, DataStream, WindowedStream
from penstock.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    NeverTrigger,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from penstock.errors import ArgumentError, UsageError
from penstock.graph.job_graph import JobGraph
from penstock.graph.stages import GraphSettings, build_job_graph
from penstock.testing import Harness

Env = StreamExecutionEnvironment
RECORD = Types.TUPLE([Types.STRING(), Types.LONG()])
FIVE = TumblingEventTimeWindows.of(Time.milliseconds(5))


class Second(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])


class CountElements(ProcessWindowFunction[tuple, tuple, str, TimeWindow]):
    def process(self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Any) -> Any:
        return [(key, context.window().start, context.window().end, len(list(elements)))]


class Count(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class All(AllWindowFunction[Any, Any, TimeWindow]):
    def apply(self, window: TimeWindow, inputs: Any) -> Any:
        yield window.start, len(list(inputs))


def timed(env: Env) -> DataStream:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
    return env.from_collection([("hi", 1)], RECORD).assign_timestamps_and_watermarks(strategy)


def build(env: Env, parallelism: int = 2) -> JobGraph:
    return build_job_graph(env._graph, GraphSettings(parallelism))


def emitted(env: Env, records: list[Any]) -> list[Any]:
    """What the program makes of the records on the harness."""
    env._graph.add("sink", "Spark", [env._graph.roots[-1]], _to_spark(), env._graph.nodes[-1].output_type)
    return Harness(build(env)).feed(records).finish().output


def _to_spark() -> Any:
    from penstock.graph.stream_graph import SinkSpec

    return SinkSpec("spark", print)


RECORDS = [("hi", time) for time in (1, 2, 3, 4, 5, 8, 9, 15)]


def test_a_program_of_pyflink_s_examples(env: Env) -> None:
    keyed = timed(env).key_by(lambda record: record[0], key_type=Types.STRING())
    keyed.window(FIVE).process(CountElements(), Types.TUPLE([Types.STRING(), *[Types.LONG()] * 3]))
    assert emitted(env, RECORDS) == [("hi", 0, 5, 4), ("hi", 5, 10, 3), ("hi", 15, 20, 1)]


@pytest.mark.parametrize(
    ("window", "counts"),
    [
        (SlidingEventTimeWindows.of(Time.milliseconds(5), Time.milliseconds(2)), [2, 4, 4, 3, 2, 2, 1, 1]),
        (EventTimeSessionWindows.with_gap(Time.milliseconds(5)), [7, 1]),
    ],
)
def test_other_windows_of_pyflink_s_examples(env: Env, window: Any, counts: list[int]) -> None:
    timed(env).key_by(lambda record: record[0], Types.STRING()).window(window).aggregate(
        Count(), output_type=Types.LONG()
    )
    assert emitted(env, RECORDS) == counts


def test_windows_can_follow_windows(env: Env) -> None:
    first = timed(env).key_by(lambda record: record[0], Types.STRING()).window(FIVE)
    counted = first.aggregate(Count(), output_type=Types.LONG())
    counted.window_all(TumblingEventTimeWindows.of(Time.milliseconds(10))).reduce(lambda a, b: a + b)
    assert emitted(env, RECORDS) == [7, 1]


def test_window_all_runs_in_one_subtask(env: Env) -> None:
    timed(env).window_all(FIVE).apply(All(), "start bigint, n bigint").uid("all")
    (plan, stage) = next((o, s) for s in build(env, 3).stages for o in s.operators if o.uid == "all")
    assert (stage.parallelism, plan.kind, plan.keyed, plan.name) == (
        1,
        "keyed_window",
        True,
        "TumblingEventTimeWindows",
    )
    with pytest.raises(UsageError, match="is not parallel"):
        timed(env).window_all(FIVE).aggregate(Count()).set_parallelism(2)


def test_count_windows(env: Env) -> None:
    keyed = env.from_collection([("a", 1)], RECORD).key_by(lambda record: record[0])
    assert isinstance(keyed.count_window(3), WindowedStream)
    assert repr(keyed.count_window(3, 2)._window_assigner) == "CountSlidingWindowAssigner(3, 2)"
    everything = keyed.count_window_all(3)
    assert isinstance(everything, AllWindowedStream) and everything.get_input_type() == RECORD
    with pytest.raises(ArgumentError, match="the size of a count window is 0; give a number of elements of 1 or more"):
        keyed.count_window(0)


def test_types_of_results(env: Env) -> None:
    window = timed(env).key_by(lambda record: record[0]).window(FIVE)
    assert window.reduce(lambda a, b: a).get_type() == RECORD
    assert (
        window.aggregate(Count(), accumulator_type=Types.LONG(), output_type="n bigint").get_type().text
        == 'ROW<"n" LONG>'
    )
    assert window.process(CountElements()).get_type().kind == "tagged"
    assert window.get_execution_environment() is env


def test_windows_that_nothing_is_done_with_are_an_error_when_the_program_is_executed(env: Env) -> None:
    stream = timed(env)
    window = stream.key_by(lambda record: record[0]).window(FIVE).allowed_lateness(1)
    stream.print()
    with pytest.raises(UsageError, match=r"'TumblingEventTimeWindows' \(.*test_windowed_stream.*call .reduce\(\)"):
        env.execute()
    assert env._spark is None  # before Spark has started
    window.aggregate(Count())
    build(env)


def test_event_time_windows_need_timestamps(env: Env, frame: Any) -> None:
    plain = env.from_collection([("a", 1)], RECORD).map(lambda record: record, RECORD)
    with pytest.raises(UsageError, match=r"'TumblingEventTimeWindows' .*no timestamps; write .assign_timestamps_and"):
        plain.key_by(lambda record: record[0]).window(FIVE)
    with pytest.raises(UsageError, match="no timestamps"):
        plain.window_all(EventTimeSessionWindows.with_gap(Time.seconds(1)))
    plain.window_all(TumblingProcessingTimeWindows.of(Time.seconds(1))).aggregate(Count())
    orders = env.from_dataframe(frame, event_time="at", max_out_of_orderness="5 seconds")
    orders.union(orders).key_by("customer").window(FIVE).aggregate(Count())


def test_lateness_needs_event_time(env: Env) -> None:
    keyed = timed(env).key_by(lambda record: record[0])
    for window in (TumblingProcessingTimeWindows.of(Time.seconds(1)), GlobalWindows.create()):
        with pytest.raises(UsageError, match=r"allowed_lateness\(\) of .* has no meaning: nothing is late for"):
            keyed.window(window).allowed_lateness(5)
        with pytest.raises(UsageError, match=r"side_output_late_data\(\) of .* has no meaning"):
            keyed.window(window).side_output_late_data(OutputTag("late"))


class Three(WindowFunction[Any, Any, Any, Any]):
    def apply(self, window: Any, inputs: Any) -> Any:  # type: ignore[override]
        return []


class Yields(Count):
    def add(self, value: Any) -> int:  # type: ignore[override]
        return 1


class Everything(ProcessAllWindowFunction[Any, Any, Any]):
    def process(self, context: Any, elements: Any) -> Any:
        return []


NOTHING: Any = None
SOMETHING: Any = object()
MISTAKES: list[tuple[Any, str]] = [
    (lambda k: k.window(TumblingEventTimeWindows), "take a WindowAssigner, not the class TumblingEventTimeWindows"),
    (lambda k: k.window(5), "take a WindowAssigner, not an object of type int; write TumblingEventTimeWindows.of"),
    (lambda k: k.window(FIVE).trigger(CountTrigger), "takes a Trigger, not the class CountTrigger"),
    (
        lambda k: k.window(EventTimeSessionWindows.with_gap(Time.seconds(1))).trigger(NeverTrigger()),
        "A merging window assigner cannot be used with a trigger that does not support merging",
    ),
    (lambda k: k.window(FIVE).side_output_late_data("late"), "takes an OutputTag, such as OutputTag"),
    (lambda k: k.window(FIVE).aggregate(lambda a: a), "takes an AggregateFunction, not an object of type function"),
    (lambda k: k.window(FIVE).aggregate(Count), "takes an AggregateFunction, not the class Count"),
    (
        lambda k: k.window(FIVE).aggregate(Yields()),
        r"Yields.add at .* calls it with two arguments, \(value, accumulator",
    ),
    (lambda k: k.window(FIVE).reduce(lambda a: a), r"takes \(a\), but reduce\(\) calls it with two arguments"),
    (lambda k: k.window(FIVE).apply(CountElements()), r"apply\(\) .* takes a WindowFunction"),
    (lambda k: k.window(FIVE).apply(Three()), r"calls it with three arguments, \(key, window, inputs\)"),
    (lambda k: k.window(FIVE).process(Everything()), r"process\(\) .* takes a ProcessWindowFunction"),
    (lambda k: k.window_all(FIVE).process(CountElements()), "takes a ProcessAllWindowFunction"),
    (lambda k: k.window(FIVE).reduce(lambda a, b: a, All()), "takes a WindowFunction or ProcessWindowFunction"),
    (lambda k: TumblingEventTimeWindows.of(Time.seconds(0)), r"must satisfy abs\(offset\) < size"),
    (lambda k: TumblingEventTimeWindows.of(Time.seconds(1), Time.seconds(-1)), r"must satisfy abs\(offset\) < size"),
    (lambda k: TumblingEventTimeWindows.of(NOTHING), r"must satisfy"),
    (lambda k: TumblingEventTimeWindows.of(SOMETHING), "is not a duration of a window; give a Time"),
    (lambda k: SlidingEventTimeWindows.of(Time.seconds(1), Time.seconds(0)), r"must satisfy abs\(offset\) < slide"),
    (lambda k: EventTimeSessionWindows.with_gap(Time.seconds(0)), "parameters must satisfy 0 < size"),
    (lambda k: EventTimeSessionWindows.with_dynamic_gap(SOMETHING), "takes a SessionWindowTimeGapExtractor"),
    (lambda k: CountTrigger.of(0), "takes a number of elements of 1 or more, not 0"),
]


@pytest.mark.parametrize(("mistake", "message"), MISTAKES)
def test_mistakes_are_errors_where_they_are_made(env: Env, mistake: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        mistake(timed(env).key_by(lambda record: record[0]))


def test_a_time_window() -> None:
    windows = [TimeWindow(5, 10), TimeWindow(1, 3), TimeWindow(1, 2)]
    assert sorted(windows) == [TimeWindow(1, 2), TimeWindow(1, 3), TimeWindow(5, 10)]
    assert TimeWindow(1, 3) <= TimeWindow(1, 3) and TimeWindow(1, 3).intersects(TimeWindow(3, 4))
    assert len({TimeWindow(1, 3), TimeWindow(1, 3)}) == 1 and TimeWindow(1, 3).cover(TimeWindow(5, 6)) == TimeWindow(
        1, 6
    )
    assert repr(TimeWindow(1, 3)) == "TimeWindow(start=1, end=3)" and TimeWindow(1, 3).max_timestamp() == 2
    with pytest.raises(TypeError, match="Does not support comparison with non-TimeWindow"):
        _ = TimeWindow(1, 2) < 5  # type: ignore[operator]
