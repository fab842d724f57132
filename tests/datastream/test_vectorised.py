"""`running`, `deduplicate` and `window(...).agg`: the same results as functions of one record at a time."""

from datetime import date, datetime, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.common import Row, Time, Types
from penstock.datastream import BatchProcessFunction, StreamExecutionEnvironment, agg
from penstock.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from penstock.errors import ArgumentError, UsageError, UserFunctionError
from penstock.graph.stages import GraphSettings, build_job_graph
from penstock.model.execution import RuntimeExecutionMode
from penstock.state.backend.backend_registry import find_backend
from penstock.state.backend.backend_settings import BackendSettings
from penstock.testing import CHECKPOINT, CRASH, Advance, Harness
from penstock.testing.harness_options import HarnessOptions
from tests.datastream.vectorised_reference import (
    AGGREGATES,
    LATE,
    ORDERED,
    by_key,
    graph_of,
    order,
    orders,
    running,
    windowed,
)

MS = Time.milliseconds
NUMBER: Any = 1
WINDOWS = [
    TumblingEventTimeWindows.of(MS(10)),
    TumblingEventTimeWindows.of(MS(7), MS(3)),
    SlidingEventTimeWindows.of(MS(10), MS(4)),
    SlidingEventTimeWindows.of(MS(4), MS(6), MS(1)),
]

floats = st.sampled_from([None, 0.0, -0.0, 0.1, 0.2, 1e16, -1.5, float("nan"), float("inf")])
integers = st.sampled_from([None, 0, 1, -7, 2**57, -(2**57)])
records = st.builds(order, st.sampled_from("abc"), st.integers(0, 40), integers, floats)
exact_records = st.builds(
    order, st.sampled_from("abc"), st.integers(0, 60), integers, st.sampled_from([None, 0.0, 0.5, -2.0, float("inf")])
)
streams = st.lists(st.lists(records, max_size=6), max_size=6)
backends = st.sampled_from(["hashmap"] * 6 + ["rocksdb"])


def harness_of(graph: Any, backend: str = "hashmap", seed: int | None = None) -> Harness:
    return Harness(graph, HarnessOptions(backend=BackendSettings(find_backend(backend)()), seed=seed))


def with_crashes(epochs: list[list[Any]]) -> list[Any]:
    """Each epoch ends with a checkpoint, and every second one is lost once."""
    items: list[Any] = []
    for number, epoch in enumerate(epochs):
        half = len(epoch) // 2
        items += [*epoch[:half], CRASH, *epoch[half:], CHECKPOINT] if number % 2 else [*epoch, CHECKPOINT]
    return items


@settings(max_examples=25)
@given(epochs=streams, parallelism=st.integers(1, 3), backend=backends, seed=st.integers(0, 9))
def test_running_aggregates(epochs: list[list[Any]], parallelism: int, backend: str, seed: int) -> None:
    every = {**AGGREGATES, **ORDERED}
    expected = harness_of(graph_of(running(vectorised=False, aggregates=every)))
    expected.feed([item for item in with_crashes(epochs) if item is not CRASH])
    graph = graph_of(running(vectorised=True, aggregates=every).map(tuple), parallelism=parallelism)
    harness = harness_of(graph, backend, seed).feed(with_crashes(epochs))
    assert by_key(harness.output) == by_key(expected.output)


@settings(max_examples=30)
@given(
    epochs=streams,
    windows=st.sampled_from(WINDOWS),
    lateness=st.sampled_from([0, 0, 5, 30]),
    parallelism=st.integers(1, 3),
    backend=backends,
)
def test_windows(epochs: list[list[Any]], windows: Any, lateness: int, parallelism: int, backend: str) -> None:
    every = {**AGGREGATES, **ORDERED}
    expected = harness_of(graph_of(*windowed(windows, lateness, vectorised=False, aggregates=every)))
    expected.feed(with_crashes(epochs)).finish()
    graph = graph_of(*windowed(windows, lateness, vectorised=True, aggregates=every), parallelism=parallelism)
    harness = harness_of(graph, backend).feed(with_crashes(epochs)).finish()
    assert by_key(harness.output) == by_key(expected.output)


@settings(max_examples=30)
@given(
    epochs=st.lists(st.lists(exact_records, max_size=8), max_size=6),
    gap=st.integers(1, 12),
    lateness=st.sampled_from([0, 0, 5, 30]),
    backend=backends,
)
def test_sessions(epochs: list[list[Any]], gap: int, lateness: int, backend: str) -> None:
    windows = EventTimeSessionWindows.with_gap(MS(gap))
    expected = harness_of(graph_of(*windowed(windows, lateness, vectorised=False, aggregates=AGGREGATES)))
    expected.feed(with_crashes(epochs)).finish()
    graph = graph_of(*windowed(windows, lateness, vectorised=True, aggregates=AGGREGATES), parallelism=2)
    harness = harness_of(graph, backend).feed(with_crashes(epochs)).finish()
    assert by_key(harness.output) == by_key(expected.output)


def test_late_records_are_counted_without_a_side_output() -> None:
    windows = orders().key_by("customer").window(WINDOWS[0]).agg(n=agg.count())
    harness = harness_of(graph_of(windows.map(tuple)))
    harness.feed([order("a", 30, 1, 1.0), CHECKPOINT, order("a", 31, 1, 1.0), CHECKPOINT])
    harness.feed([order("a", 32, 1, 1.0), order("a", 1, 1, 1.0), CHECKPOINT])
    assert [subtask._result.late for subtask in harness._host.subtasks()] == [0, 1]
    assert [row[3] for row in harness.finish().output] == [3]


def test_an_overflow_is_an_error_that_names_the_sum() -> None:
    harness = harness_of(graph_of(running(vectorised=True, aggregates={"total": agg.sum("n")}).map(tuple)))
    harness.feed([order("a", 1, 2**62, None), order("a", 1, 2**62 - 1, None), CHECKPOINT])
    assert harness.output[-1] == ("a", 2**63 - 1)
    with pytest.raises(
        UserFunctionError, match=r"the sum 'total' of column 'n' does not fit into a bigint.*"
    ) as caught:
        harness.feed([order("a", 1, 1, None)])
    assert "in operator 'Running'" in str(caught.value)


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_the_first_record_of_each_key(backend: str) -> None:
    stream = orders().key_by("customer").deduplicate(ttl=MS(100)).uid("once")
    harness = harness_of(graph_of(stream.map(lambda row: (row.customer, row.n))), backend)
    harness.feed([order("a", 1, 1, 0.0), order("b", 1, 2, 0.0), order("a", 2, 3, 0.0), CHECKPOINT])
    harness.feed([Advance(50), order("a", 3, 4, 0.0), order("c", 3, 5, 0.0), CRASH, order("c", 3, 6, 0.0), CHECKPOINT])
    assert harness.output == [("a", 1), ("b", 2), ("c", 5)]
    harness.feed([Advance(60), order("a", 4, 7, 0.0), order("c", 4, 8, 0.0), order("a", 4, 9, 0.0)])
    assert harness.output[3:] == [("a", 7)]


def test_results_have_the_key_and_types() -> None:
    keyed = orders().key_by("customer")
    assert keyed.running(n=agg.count(), total=agg.sum("n"), mean=agg.avg("n"), last=agg.last("at")).get_type() == (
        Types.ROW_NAMED(
            ["customer", "n", "total", "mean", "last"],
            [Types.STRING(), Types.LONG(), Types.LONG(), Types.DOUBLE(), Types.LONG()],
        )
    )
    windows = keyed.window(WINDOWS[0]).agg(most=agg.max("amount"))
    assert windows.get_type().names == ("customer", "window_start", "window_end", "most")
    by_function = orders().key_by(lambda row: row.n, Types.LONG()).running(rows=agg.count())
    assert by_function.get_type().names == ("key", "rows")
    two = orders().key_by(lambda row: (row.n, row.customer), Types.TUPLE([Types.LONG(), Types.STRING()]))
    assert two.running(rows=agg.count()).get_type().names == ("key_0", "key_1", "rows")
    assert orders().key_by("customer", "n").deduplicate().get_type() == orders().get_type()


def test_columns_of_every_type() -> None:
    kinds = "k string, a tinyint, b smallint, c int, d float, e date, f timestamp, g string, h array<bigint>"
    day, noon = date(2024, 2, 29), datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
    first = Row(k="x", a=100, b=-5, c=2**31 - 1, d=0.5, e=day, f=noon, g="ü", h=[1])
    second = Row(k="x", a=100, b=None, c=2**31 - 1, d=-0.0, e=date(1969, 1, 1), f=None, g=None, h=None)
    stream = StreamExecutionEnvironment.get_execution_environment().from_collection([first], kinds).key_by("k")
    numbers = {f"sum_{name}": agg.sum(name) for name in "abcd"}
    ordered = {f"{fold.__name__}_{name}": fold(name) for fold in (agg.min, agg.max) for name in "abcdef"}
    picked = {f"{fold.__name__}_{name}": fold(name) for fold in (agg.first, agg.last) for name in "adegh"}
    harness = harness_of(graph_of(stream.running(**numbers, **ordered, **picked)))
    row = harness.feed([first, CHECKPOINT, second, CRASH]).output[-1]
    assert [row[f"sum_{name}"] for name in "abcd"] == [200, -5, 2**32 - 2, 0.5]
    assert [row[f"min_{name}"] for name in "abcdef"] == [100, -5, 2**31 - 1, -0.0, date(1969, 1, 1), noon]
    assert [row[f"max_{name}"] for name in "abcdef"] == [100, -5, 2**31 - 1, 0.5, day, noon]
    assert [row[f"first_{name}"] for name in "adegh"] == [100, 0.5, day, "ü", [1]]
    assert [row[f"last_{name}"] for name in "adegh"] == [100, -0.0, date(1969, 1, 1), "ü", [1]]


def test_operators_of_records_and_of_columns_in_one_chain() -> None:
    """Records are encoded before an operator on columns, and decoded behind it, only once."""
    totals = orders().map(lambda row: row, output_type=orders().get_type()).key_by("customer")
    running_totals = totals.running(total=agg.sum("amount")).filter(lambda row: row.total > 1)
    again = running_totals.key_by("customer").running(n=agg.count(), most=agg.max("total"))
    harness = harness_of(graph_of(again.map(tuple), parallelism=2))
    harness.feed([order("a", 1, 1, 1.0), order("b", 1, 1, 5.0), order("a", 1, 1, 2.0), CHECKPOINT, CRASH])
    harness.feed([order("a", 1, 1, -0.5)])
    assert by_key(harness.output) == by_key([("a", 1, 3.0), ("b", 1, 5.0), ("a", 2, 3.0)])


def test_batch_mode_aggregates_key_by_key() -> None:
    keyed = orders().key_by("customer")
    for stream in (keyed.running(n=agg.count()).map(tuple), keyed.window(WINDOWS[0]).agg(n=agg.count()).map(tuple)):
        stream.to_spark(lambda df, epoch: None)
    graph = keyed._environment._graph
    job = build_job_graph(graph, GraphSettings(2, mode=RuntimeExecutionMode.BATCH))
    items = [order("a", 15, 1, 1.0), order("b", 1, 1, 5.0), order("a", 1, 1, 2.0), order("a", 2, 1, 2.0)]
    output = Harness(job).feed(items).finish().output
    assert sorted(row for row in output if len(row) == 2) == [("a", 1), ("a", 2), ("a", 3), ("b", 1)]
    assert sorted((row[0], row[3]) for row in output if len(row) == 4) == [("a", 1), ("a", 2), ("b", 1)]


class Model(BatchProcessFunction):
    def process_batch(self, batch: Any, keys: Any, ctx: Any) -> Any:
        return batch


def by_n(stream: Any) -> Any:
    return stream.key_by("n")


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (lambda s: s.process(Model(), "a bigint"), "is a BatchProcessFunction, which needs a key; call .key_by"),
        (lambda s: by_n(s).process(Model()), 'whose results need a type; write output_type="customer string'),
        (lambda s: s.map(lambda r: r).key_by(str).process(Model(), "a bigint"), "without declared columns"),
        (lambda s: by_n(s).running(), r"running\(\) has no aggregates; write running\(total=agg.sum"),
        (lambda s: by_n(s).running(x=agg.sum("no")), r"x=agg.sum\('no'\): there is no column 'no'; the records"),
        (lambda s: by_n(s).running(x=agg.sum("customer")), "needs a column of numbers, but 'customer' is"),
        (lambda s: by_n(s).running(x=agg.min("customer")), "needs a column of numbers or times"),
        (lambda s: by_n(s).running(n=agg.count()), "two columns named 'n'"),
        (lambda s: by_n(s).running(x=sum), "give an aggregate of a column"),
        (lambda s: by_n(s).running(x=agg.sum(NUMBER)), r"takes the name of a column, not 1; write agg.sum"),
        (lambda s: s.key_by(lambda r: r.n).running(x=agg.count()), "needs a key of a declared type"),
        (lambda s: s.map(lambda r: r).key_by(str).deduplicate(), "without declared columns"),
        (lambda s: by_n(s).deduplicate(ttl=1.5), "is not a duration"),
        (lambda s: by_n(s).window(TumblingProcessingTimeWindows.of(MS(5))).agg(x=agg.count()), "not supported"),
        (lambda s: by_n(s).window(GlobalWindows.create()).agg(x=agg.count()), "use aggregate.. with an Aggregate"),
        (lambda s: by_n(s).window(WINDOWS[0]).trigger(CountTrigger.of(2)).agg(x=agg.count()), "remove trigger"),
        (lambda s: by_n(s).window(WINDOWS[0]).agg(x=agg.sum("customer")), "agg.. of 'Tumbling.*x="),
        (lambda s: by_n(s).window(EventTimeSessionWindows.with_gap(MS(5))).agg(x=agg.last("at")), "order of arrival"),
    ],
)
def test_mistakes_fail_when_the_program_is_built(program: Any, message: str) -> None:
    with pytest.raises((UsageError, ArgumentError), match=message):
        program(orders())


def test_a_window_that_is_aggregated_is_finished() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    assert isinstance(env, StreamExecutionEnvironment)
    stream = orders().key_by("customer").window(WINDOWS[0]).side_output_late_data(LATE).agg(n=agg.count())
    assert graph_of(stream).stages[-1].operators[0].kind == "keyed_aggregate_window"
    assert isinstance(order("a", 1, 1, 1.0), Row)
