"""BatchProcessFunction in the harness: the same results and the same state as a function of one record at a time."""

from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.common import Row, Time, Types
from penstock.datastream import (
    BatchProcessFunction,
    BatchRuntimeContext,
    KeyedProcessFunction,
    KeySlots,
    RuntimeContext,
)
from penstock.datastream.state import ListStateDescriptor, StateTtlConfig, ValueStateDescriptor
from penstock.errors import ArgumentError, UsageError, UserFunctionError
from penstock.model.types import resolve_type
from penstock.runtime.operators.batch_operator import checked_output
from penstock.testing import CHECKPOINT, CRASH, Advance, Harness, Watermark

ORDER = "customer string, amount double"
TOTAL = Types.TUPLE([Types.LONG(), Types.DOUBLE()])
PROGRAM: dict[str, Any] = {"key": lambda r: r[0], "key_type": Types.STRING()}


class RecordTotal(KeyedProcessFunction):
    """Count and sum of a key; a sum below zero removes the value."""

    def __init__(self, ttl: StateTtlConfig | None = None) -> None:
        self.ttl = ttl

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(descriptor(self.ttl))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        n, total = self.total.value() or (0, 0.0)
        n, total = n + 1, total + value[1]
        if total < 0:
            self.total.clear()
        else:
            self.total.update((n, total))
        yield value[0], n, total


class BatchTotal(BatchProcessFunction):
    """The same, for the values of a batch that are all of different keys; otherwise row by row."""

    def __init__(self, ttl: StateTtlConfig | None = None) -> None:
        self.ttl = ttl

    def open(self, runtime_context: BatchRuntimeContext) -> None:  # type: ignore[override]
        self.total = runtime_context.get_state(descriptor(self.ttl))

    def process_batch(self, batch: pa.RecordBatch, keys: KeySlots, ctx: BatchProcessFunction.Context) -> Any:
        n, total = self.total.get_numpy(keys, (0, 0.0))
        counts, totals = [], []
        for index, amount in zip(keys.indices.tolist(), batch.column("amount").to_pylist(), strict=True):
            counts.append(int(n[index]) + 1)
            totals.append(float(total[index]) + amount)
            n, total = n.copy(), total.copy()
            n[index], total[index] = (0, 0.0) if totals[-1] < 0 else (counts[-1], totals[-1])
        self.total.put_many(keys, (n, total), where=n > 0)
        self.total.clear_many(keys, where=n == 0)
        return pa.record_batch({"customer": batch.column("customer"), "n": counts, "total": totals})


def descriptor(ttl: StateTtlConfig | None = None) -> ValueStateDescriptor:
    total = ValueStateDescriptor("total", TOTAL)
    if ttl is not None:
        total.enable_time_to_live(ttl)
    return total


def record_harness(**settings: Any) -> Harness:
    return Harness.keyed(RecordTotal(settings.pop("ttl", None)), **PROGRAM, **settings)


def batch_harness(**settings: Any) -> Harness:
    return Harness.keyed(BatchTotal(settings.pop("ttl", None)), record_type=ORDER, **PROGRAM, **settings)


def by_key(output: list[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for key, *values in output:
        found.setdefault(key, []).append(values)
    return found


def totals(harness: Harness) -> dict[str, Any]:
    return {key: harness.state("total", key) for key in harness.keys("total")}


orders = st.tuples(st.sampled_from("abcdefg"), st.sampled_from([1.0, 2.5, 0.1, -1.0, -20.0]))
items = st.lists(orders | st.sampled_from([CHECKPOINT, CRASH]), max_size=30)
backends = st.sampled_from(["hashmap"] * 5 + ["rocksdb"])


@settings(max_examples=40)
@given(stream=items, parallelism=st.integers(1, 3), other=st.integers(1, 3), backend=backends, seed=st.integers(0, 9))
def test_batches_give_what_records_give(
    stream: list[Any], parallelism: int, other: int, backend: str, seed: int
) -> None:
    expected = record_harness().feed([item for item in stream if not isinstance(item, type(CRASH))])
    harness = batch_harness(parallelism=parallelism, max_parallelism=8, backend=backend, seed=seed)
    half = len(stream) // 2
    harness.feed(stream[:half]).rescale(other).feed(stream[half:])
    assert by_key(harness.output) == by_key(expected.output)
    assert totals(harness) == totals(expected)


@settings(max_examples=25)
@given(first=items, second=items, backend=backends, other=backends, to_batch=st.booleans(), canonical=st.booleans())
def test_a_job_changes_to_batches_and_back(
    first: list[Any], second: list[Any], backend: str, other: str, to_batch: bool, canonical: bool
) -> None:
    expected = record_harness().feed([item for item in [*first, *second] if not isinstance(item, type(CRASH))])
    new = (record_harness, batch_harness) if to_batch else (batch_harness, record_harness)
    before = new[0](parallelism=2, max_parallelism=8, backend=backend).feed(first)
    with TemporaryDirectory() as folder:
        path = before.savepoint(folder, format="canonical" if canonical else "native")
        after = new[1](parallelism=3, max_parallelism=8, backend=other, restore_from=path).feed(second)
        assert by_key([*before.output, *after.output]) == by_key(expected.output)
        assert totals(after) == totals(expected)


def test_entries_expire_as_those_of_records() -> None:
    ttl = StateTtlConfig.new_builder(Time.milliseconds(100)).build()
    stream = [("a", 1.0), ("b", 1.0), CHECKPOINT, Advance(60), ("a", 1.0), CHECKPOINT, Advance(60), ("a", 1.0)]
    stream += [("b", 1.0), CRASH, ("c", 1.0), Advance(200), ("a", 5.0)]
    harnesses = [record_harness(ttl=ttl), batch_harness(ttl=ttl), batch_harness(ttl=ttl, backend="rocksdb")]
    results = [by_key(harness.feed(stream).output) for harness in harnesses]
    assert results[0] == results[1] == results[2]
    assert results[0]["a"] == [[1, 1.0], [2, 2.0], [3, 3.0], [1, 5.0]] and results[0]["b"] == [[1, 1.0], [1, 1.0]]
    assert totals(harnesses[0]) == totals(harnesses[1])


def test_late_tasks_run_again_on_the_state_before() -> None:
    harness = batch_harness(lost_after=lambda tries: 2 if tries == 0 else None)
    harness.feed([("a", 1.0)] * 8).feed([("a", 1.0), ("b", 2.0)])
    assert harness.lost_tasks == 1 or harness.lost_tasks == 2
    assert by_key(harness.output)["a"][-1] == [9, 9.0] and harness.state("total", "b") == (1, 2.0)


class Expensive(BatchProcessFunction):
    """Rows above 10, with the watermark; emits fewer rows than it gets."""

    def process_batch(self, batch: pa.RecordBatch, keys: KeySlots, ctx: BatchProcessFunction.Context) -> Any:
        rows = np.flatnonzero(batch.column("amount").to_numpy() > 10)
        if self.says_rows:
            ctx.set_source_rows(rows)
        assert ctx.timestamps is not None and len(ctx.timestamps) == batch.num_rows
        return batch.take(pa.array(rows))

    def __init__(self, *, says_rows: bool) -> None:
        self.says_rows = says_rows


TIMED: dict[str, Any] = {**PROGRAM, "timestamp": lambda r: int(r[1]), "record_type": ORDER}


def test_fewer_rows_need_to_say_where_they_come_from() -> None:
    stream = [("a", 20.0), ("a", 5.0), Watermark(30), ("b", 40.0)]
    harness = Harness.keyed(Expensive(says_rows=True), **TIMED)
    assert harness.feed(stream).output == [Row(customer="a", amount=20.0), Row(customer="b", amount=40.0)]
    with pytest.raises(UserFunctionError, match=r"returned 1 rows for a batch of 2.*ctx.set_source_rows\(rows\)"):
        Harness.keyed(Expensive(says_rows=False), **TIMED).feed(stream)


def test_a_function_may_reuse_its_arrays() -> None:
    numbers, flags = np.arange(4.0), np.zeros(4, np.bool_)
    emitted = pa.record_batch({"n": numbers, "flag": pa.array(flags, mask=flags), "text": ["a"] * 4}).slice(1, 2)
    rows, _ = checked_output(emitted, resolve_type("n double, flag boolean, text string"))
    numbers[:] = 7
    assert rows.to_pydict() == {"n": [1.0, 2.0], "flag": [False, False], "text": ["a", "a"]}


class Faulty(BatchProcessFunction):
    def __init__(self, result: Any, state: Any = None) -> None:
        self.result = result
        self.state = state

    def open(self, runtime_context: Any) -> None:
        if isinstance(self.state, ListStateDescriptor):
            runtime_context.get_list_state(self.state)
        elif self.state is not None:
            self.handle = runtime_context.get_state(self.state)

    def process_batch(self, batch: pa.RecordBatch, keys: KeySlots, ctx: BatchProcessFunction.Context) -> Any:
        if callable(self.result):
            return self.result(self, batch, keys)
        return self.result


class Generator(BatchProcessFunction):
    def process_batch(self, batch: pa.RecordBatch, keys: KeySlots, ctx: BatchProcessFunction.Context) -> Any:
        yield batch


LONGS = ValueStateDescriptor("longs", Types.LONG())


@pytest.mark.parametrize(
    ("function", "output_type", "message"),
    [
        (Faulty([1]), None, r"returned an object of type list; return a pyarrow.RecordBatch"),
        (Faulty(pa.record_batch({"x": [1]})), "y bigint", "returned the columns x; output_type declares y"),
        (Faulty(pa.record_batch({"x": ["a"]})), "x bigint", "not of the declared type LONG"),
        (Faulty(lambda self, batch, keys: 1 // 0), None, "records 1 to 2 of epoch 1 in subtask s0/0"),
        (Faulty(None, ListStateDescriptor("l", Types.LONG())), None, "'l' is a list state"),
        (Faulty(None, ValueStateDescriptor("untyped")), None, "state 'untyped' .* has no declared type"),
        (Faulty(lambda s, b, keys: s.handle.put_many(keys, [1, 2, 3]), LONGS), None, "3 values for 1 keys"),
        (Faulty(lambda s, b, keys: s.handle.put_many(keys, [1.5]), LONGS), None, "not of the declared type LONG"),
        (Faulty(lambda s, b, keys: s.handle.put_many(keys, [1], [1]), LONGS), None, None),
    ],
)
def test_mistakes_name_the_operator(function: Any, output_type: Any, message: str | None) -> None:
    def run() -> None:
        harness = Harness.keyed(function, **PROGRAM, record_type=ORDER, output_type=output_type)
        harness.feed([("a", 1.0), ("a", 2.0)])

    if message is None:
        run()
        return
    with pytest.raises(UserFunctionError, match=message) as caught:
        run()
    assert "in operator 'function'" in str(caught.value)


def test_mistakes_are_found_before_anything_runs() -> None:
    with pytest.raises(UsageError, match="without declared columns.*output_type="):
        Harness.keyed(BatchTotal(), **PROGRAM)
    with pytest.raises(ArgumentError, match="yields, but process.. takes one result for each batch"):
        Harness.keyed(Generator(), **PROGRAM, record_type=ORDER)
    with pytest.raises(ArgumentError, match="cannot run on a stream without a key"):
        Harness.non_keyed(BatchTotal(), record_type=ORDER)


class Keys(BatchProcessFunction):
    """The distinct keys of a batch."""

    def process_batch(self, batch: pa.RecordBatch, keys: KeySlots, ctx: BatchProcessFunction.Context) -> Any:
        found = keys.to_pylist()
        return pa.record_batch({"keys": [repr([found[n] for n in keys.indices])] * batch.num_rows})


@pytest.mark.parametrize(
    ("key", "key_type", "values"),
    [
        (lambda r: r[1], Types.DOUBLE(), [0.0, -0.0, 1.5]),
        (lambda r: r[1], Types.FLOAT(), [0.5, -0.0, 0.0]),
        (lambda r: (r[0], int(r[1])), Types.TUPLE([Types.STRING(), Types.LONG()]), [1.0, 2.0, 1.0]),
        (lambda r: r[1] > 0, Types.BOOLEAN(), [1.0, -1.0, 2.0]),
        (lambda r: int(r[1]) if r[1] > 0 else None is None, None, [1.0, -1.0, 2.0]),
        (lambda r: {"list": [r[1]]}, None, [1.0, 2.0, 1.0]),
    ],
)
def test_distinct_keys_of_every_type(key: Any, key_type: Any, values: list[float]) -> None:
    harness = Harness.keyed(Keys(), key=key, key_type=key_type, record_type=ORDER)
    harness.feed([("a", value) for value in values])
    wanted = [harness._graph.stages[0].key_types and key(("a", value)) for value in values]
    assert harness.output[0].keys == repr([0.0 if w == 0 and isinstance(w, float) else w for w in wanted])
