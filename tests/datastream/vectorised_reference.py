"""What the aggregates of columns are, written as functions of one record at a time, and programs with both."""

import math
import struct
from collections.abc import Callable
from typing import Any

from penstock.common import Row, Types, WatermarkStrategy
from penstock.datastream import (
    AggregateFunction,
    DataStream,
    KeyedProcessFunction,
    OutputTag,
    ProcessWindowFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    agg,
)
from penstock.datastream.state import ValueStateDescriptor
from penstock.errors import UnsupportedValueError
from penstock.graph.job_graph import JobGraph
from penstock.graph.stages import GraphSettings, build_job_graph

ORDER = "customer string, at bigint, n bigint, amount double"
LATE = OutputTag("late", Types.ROW_NAMED(["customer", "at", "n", "amount"], [
    Types.STRING(), Types.LONG(), Types.LONG(), Types.DOUBLE()
]))  # fmt: skip
AGGREGATES: dict[str, Any] = {
    "rows": agg.count(),
    "ns": agg.count("n"),
    "n": agg.sum("n"),
    "amount": agg.sum("amount"),
    "least": agg.min("amount"),
    "most": agg.max("amount"),
    "least_n": agg.min("n"),
    "mean": agg.avg("amount"),
}
ORDERED: dict[str, Any] = {"first": agg.first("n"), "last": agg.last("amount")}
"""Of the order of arrival."""


def order(customer: str, at: int, n: int | None, amount: float | None) -> Row:
    return Row(customer=customer, at=at, n=n, amount=amount)


def exactly(values: Any) -> tuple[Any, ...]:
    """Values that are equal only if their bits are; every NaN is the same."""
    return tuple(
        ("nan" if math.isnan(value) else struct.pack("<d", value)) if isinstance(value, float) else value
        for value in values
    )


def by_key(rows: list[Any]) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = {}
    for key, *values in rows:
        found.setdefault(key, []).append(exactly(values))
    return found


def rank(value: float) -> Any:
    """The order of numbers: -0.0 before 0.0, NaN last."""
    return (math.isnan(value), value, math.copysign(1, value)) if isinstance(value, float) else value


FOLDS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda total, value: total + value,
    "min": lambda least, value: value if rank(value) < rank(least) else least,
    "max": lambda most, value: value if rank(value) > rank(most) else most,
    "first": lambda first, value: first,
    "last": lambda last, value: value,
}


class Reference(AggregateFunction):
    """The accumulator is a list with one entry for each aggregate."""

    def __init__(self, aggregates: dict[str, Any]) -> None:
        self.aggregates = list(aggregates.values())

    def create_accumulator(self) -> list[Any]:
        return [0 if each.kind == "count" else [-0.0, 0] if each.kind == "avg" else None for each in self.aggregates]

    def add(self, value: Any, accumulator: list[Any]) -> list[Any]:
        return [
            self._added(each, old, None if each.column is None else value[each.column])
            for each, old in zip(self.aggregates, accumulator, strict=True)
        ]

    def _added(self, each: Any, old: Any, value: Any) -> Any:
        if each.column is None:
            return old + 1
        if value is None:
            return old
        if each.kind == "count":
            return old + 1
        if each.kind == "avg":
            return [old[0] + value, old[1] + 1]
        new = value if old is None else FOLDS[each.kind](old, value)
        if isinstance(new, int) and not -(2**63) <= new < 2**63:
            raise UnsupportedValueError("too large")
        return new

    def get_result(self, accumulator: list[Any]) -> tuple[Any, ...]:
        return tuple(
            (old[0] / old[1] if old[1] else None) if each.kind == "avg" else old
            for each, old in zip(self.aggregates, accumulator, strict=True)
        )

    def merge(self, acc_a: list[Any], acc_b: list[Any]) -> list[Any]:
        return [self._merged(each, a, b) for each, a, b in zip(self.aggregates, acc_a, acc_b, strict=True)]

    def _merged(self, each: Any, a: Any, b: Any) -> Any:
        if each.kind == "count":
            return a + b
        if each.kind == "avg":
            return [a[0] + b[0], a[1] + b[1]]
        return b if a is None else a if b is None else FOLDS[each.kind](a, b)


class RunningReference(KeyedProcessFunction):
    def __init__(self, aggregates: dict[str, Any]) -> None:
        self.reference = Reference(aggregates)

    def open(self, runtime_context: RuntimeContext) -> None:
        self.accumulator = runtime_context.get_state(ValueStateDescriptor("accumulator"))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        accumulator = self.reference.add(value, self.accumulator.value() or self.reference.create_accumulator())
        self.accumulator.update(accumulator)
        yield (value.customer, *self.reference.get_result(accumulator))


class WithWindow(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield (key, context.window().start, context.window().end, *next(iter(elements)))


def orders() -> DataStream:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, before: row.at)
    env = StreamExecutionEnvironment.get_execution_environment()
    return env.from_collection([order("x", 0, 0, 0.0)], ORDER).assign_timestamps_and_watermarks(strategy)


def running(*, vectorised: bool, aggregates: dict[str, Any]) -> DataStream:
    keyed = orders().key_by("customer")
    return (keyed.running(**aggregates) if vectorised else keyed.process(RunningReference(aggregates))).uid("running")


def windowed(windows: Any, lateness: int, *, vectorised: bool, aggregates: dict[str, Any]) -> list[DataStream]:
    """The results of windows, and the late records."""
    stream = orders().key_by("customer").window(windows).allowed_lateness(lateness).side_output_late_data(LATE)
    if vectorised:
        results = stream.agg(**aggregates).uid("windows")
        late = results.get_side_output(LATE)
        return [results.map(in_milliseconds), late.map(marked)]
    results = stream.aggregate(Reference(aggregates), WithWindow()).uid("windows")
    return [results, results.get_side_output(LATE).map(marked)]


def in_milliseconds(row: Any) -> tuple[Any, ...]:
    key, start, end, *values = row
    return (key, round(start.timestamp() * 1000), round(end.timestamp() * 1000), *values)


def marked(row: Any) -> tuple[Any, ...]:
    return (f"late {row[0]}", *row[1:])


def graph_of(*streams: DataStream, parallelism: int = 1, max_parallelism: int | None = 8) -> JobGraph:
    """The job graph of streams, whose records the harness collects."""
    for stream in streams:
        stream.to_spark(_ignored)
    return build_job_graph(streams[0]._environment._graph, GraphSettings(parallelism, max_parallelism))


def _ignored(df: Any, epoch: Any) -> None:
    """Nothing is written."""
