"""Windows on the harness: when they fire, what they contain, what survives (features A5, B12)."""

import gc
import weakref
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from penstock.common import Time, Types
from penstock.datastream import (
    AggregateFunction,
    AllWindowFunction,
    OutputTag,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    ReduceFunction,
    WindowFunction,
)
from penstock.datastream.state import ListStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from penstock.errors import UserFunctionError
from penstock.jobmanager.attempt.recovery import StartOptions
from penstock.jobmanager.restore_check import declared_states
from penstock.testing import CHECKPOINT, CRASH, Advance, Harness, Watermark
from penstock.testing.graphs import FunctionProgram, function_graph

BACKENDS = ["hashmap", "rocksdb"]
LATE = OutputTag("late")
TEN = TumblingEventTimeWindows.of(Time.milliseconds(10))


class CountAndSum(AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0, 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator[0] + 1, accumulator[1] + value[2]

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Collected(AggregateFunction):
    """Its accumulator is mutable."""

    def create_accumulator(self) -> Any:
        return []

    def add(self, value: Any, accumulator: Any) -> Any:
        accumulator.append(value[2])
        return accumulator

    def get_result(self, accumulator: Any) -> Any:
        return list(accumulator)

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


class Larger(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return max(value1, value2, key=lambda value: value[2])


class Bounds(WindowFunction[Any, Any, Any, TimeWindow]):
    def apply(self, key: Any, window: TimeWindow, inputs: Any) -> Any:
        return [(key, window.start, window.end, *inputs)]


class Firings(ProcessWindowFunction[Any, Any, Any, Any]):
    """Counts how often the window has fired, and how often any window of the key has."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        descriptor = ValueStateDescriptor("firings", Types.LONG())
        counts = []
        for state in (context.window_state().get_state(descriptor), context.global_state().get_state(GLOBAL)):
            state.update((state.value() or 0) + 1)
            counts.append(state.value())
        yield key, context.window().start, len(list(elements)), *counts

    def clear(self, context: Any) -> None:
        context.window_state().get_state(ValueStateDescriptor("firings", Types.LONG())).clear()


GLOBAL = ValueStateDescriptor("all firings", Types.LONG())


def windows(function: Any, window: Any = TEN, **settings: Any) -> Harness:
    timestamp = (lambda record: record[1]) if window.is_event_time() else None
    return Harness.keyed(function, key=lambda record: record[0], timestamp=timestamp, window=window, **settings)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_window_is_aggregated_and_emitted_once_when_the_watermark_passes_its_end(backend: str) -> None:
    harness = windows(CountAndSum(), window_function=Bounds(), backend=backend)
    harness.feed([("a", 1, 1), ("a", 9, 2), ("a", 10, 4), Watermark(8)])
    assert harness.output == []
    harness.feed([Watermark(9)])
    assert harness.output == [("a", 0, 10, (2, 3))]
    harness.finish()
    assert harness.output == [("a", 0, 10, (2, 3)), ("a", 10, 20, (1, 4))]


def test_a_mutable_accumulator_and_a_reduced_record_are_kept_between_epochs() -> None:
    records = [("a", 1, 1), CHECKPOINT, ("a", 2, 5), Watermark(3), ("a", 3, 2)]
    assert windows(Collected()).feed(records).finish().output == [[1, 5, 2]]
    assert windows(Larger()).feed(records).finish().output == [("a", 2, 5)]
    assert windows(Larger(), window_function=Bounds()).feed(records).finish().output == [("a", 0, 10, ("a", 2, 5))]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a5_a_half_filled_window_survives_a_crash_and_fires_once_with_all_elements(backend: str) -> None:
    harness = windows(Bounds(), backend=backend, parallelism=2)
    harness.feed([("a", 1, 1), ("b", 2, 2), CHECKPOINT, ("a", 3, 3), CRASH, ("a", 5, 4), Watermark(9), CHECKPOINT])
    harness.crash().finish()
    assert sorted(harness.output) == [
        ("a", 0, 10, ("a", 1, 1), ("a", 3, 3), ("a", 5, 4)),
        ("b", 0, 10, ("b", 2, 2)),
    ]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["canonical", "native"])
@pytest.mark.parametrize("function", [CountAndSum(), Larger(), Bounds()], ids=lambda it: type(it).__name__)
def test_a5_a_half_filled_window_continues_from_a_savepoint(
    backend: str, kind: str, function: Any, tmp_path: Path
) -> None:
    records = [("a", 1, 1), ("b", 2, 2), ("c", 14, 3), ("a", 15, 4)]
    rest = [("a", 3, 10), ("b", 4, 20), Watermark(12)]
    path = (
        windows(function, backend=backend, parallelism=2).feed([*records, CHECKPOINT]).savepoint(tmp_path, format=kind)
    )
    other = BACKENDS[1 - BACKENDS.index(backend)] if kind == "canonical" else backend
    restored = windows(function, backend=other, parallelism=3, start=StartOptions(path)).feed(rest).finish()
    through = windows(function, backend=backend).feed([*records, *rest]).finish()
    assert sorted(map(repr, restored.output)) == sorted(map(repr, through.output))
    assert len(through.output) == 4


def test_contents_are_keyed_state_in_the_namespace_of_the_window() -> None:
    harness = windows(CountAndSum()).feed([("a", 1, 1), ("a", 12, 5)])
    assert harness.state("window-contents", "a", namespace=(0, 10)) == (1, 1)
    assert harness.state("window-contents", "a", namespace=(10, 20)) == (1, 5)
    harness.feed([Watermark(9)])
    assert harness.state("window-contents", "a", namespace=(0, 10)) is None


def test_a_late_record_fires_its_window_again_as_long_as_lateness_allows() -> None:
    harness = windows(CountAndSum(), allowed_lateness=5, late_data=LATE)
    harness.feed([("a", 1, 1), Watermark(9), ("a", 2, 2), Watermark(13), ("a", 3, 4), Watermark(14), ("a", 4, 8)])
    assert harness.output == [(1, 1), (2, 3), (3, 7)]
    assert harness.side_output(LATE) == [("a", 4, 8)]


def test_late_records_without_a_side_output_are_dropped() -> None:
    harness = windows(CountAndSum()).feed([("a", 1, 1), Watermark(9), ("a", 2, 2), ("a", 10, 4)])
    assert [
        subtask.report(harness._book.parents[subtask.place.id], subtask._result).late
        for subtask in harness._host.subtasks()
    ] == [1]
    assert harness.finish().output == [(1, 1), (1, 4)]


def test_a_record_is_late_against_the_watermark_at_the_start_of_its_epoch() -> None:
    harness = windows(CountAndSum(), late_data=LATE).feed([Watermark(5), ("a", 1, 1), ("a", 30, 1), Watermark(9)])
    assert (harness.output, harness.side_output(LATE)) == ([(1, 1)], [])


def test_sliding_windows_overlap_and_may_be_late_one_by_one() -> None:
    window = SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5))
    harness = windows(CountAndSum(), window, window_function=Bounds(), late_data=LATE)
    harness.feed([("a", 7, 1), Watermark(9), ("a", 8, 2), Watermark(14), ("a", 3, 4)]).finish()
    assert harness.output == [("a", 0, 10, (1, 1)), ("a", 5, 15, (2, 3))]
    assert harness.side_output(LATE) == [("a", 3, 4)]


def test_windows_start_at_their_offset_also_before_1970() -> None:
    window = TumblingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(-3))
    harness = windows(CountAndSum(), window, window_function=Bounds())
    harness.feed([("a", -4, 1), ("a", -3, 1), ("a", 6, 1), ("a", 7, 1)]).finish()
    assert harness.output == [("a", -13, -3, (1, 1)), ("a", -3, 7, (2, 2)), ("a", 7, 17, (1, 1))]


def test_processing_time_windows_fire_when_the_clock_passes_their_end() -> None:
    harness = windows(CountAndSum(), TumblingProcessingTimeWindows.of(Time.milliseconds(100)))
    harness.feed([("a", 0, 1), ("a", 0, 2), Advance(40), ("a", 0, 4), Advance(100), ("a", 0, 8)])
    assert harness.output == [(3, 7)]
    harness.feed([Advance(100)])
    assert harness.output == [(3, 7), (1, 8)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_sessions_merge_with_their_neighbours_only(backend: str) -> None:
    window = EventTimeSessionWindows.with_gap(Time.milliseconds(5))
    harness = windows(CountAndSum(), window, window_function=Bounds(), backend=backend)
    harness.feed([("a", 1, 1), ("a", 20, 2), ("a", 9, 4), CHECKPOINT, ("a", 5, 8), CRASH, ("b", 6, 16)]).finish()
    assert sorted(harness.output) == [("a", 1, 14, (3, 13)), ("a", 20, 25, (1, 2)), ("b", 6, 11, (1, 16))]


def test_a_session_that_grows_moves_no_contents() -> None:
    harness = windows(CountAndSum(), EventTimeSessionWindows.with_gap(Time.milliseconds(5)))
    harness.feed([("a", 1, 1), ("a", 3, 2), ("a", 5, 4)])
    assert harness.state("merging-window-set", "a") == {(1, 10): (1, 6)}
    assert harness.state("window-contents", "a", namespace=(1, 6)) == (3, 7)
    harness.finish()
    assert harness.output == [(3, 7)]


def test_a_session_that_late_data_reopens_fires_again() -> None:
    window = EventTimeSessionWindows.with_gap(Time.milliseconds(5))
    harness = windows(CountAndSum(), window, window_function=Bounds(), allowed_lateness=10, late_data=LATE)
    harness.feed([("a", 1, 1), Watermark(6), ("a", 4, 2), Watermark(20), ("a", 2, 4)])
    assert harness.output == [("a", 1, 6, (1, 1)), ("a", 1, 9, (2, 3))]
    assert harness.side_output(LATE) == [("a", 2, 4)]


def test_processing_time_sessions_end_after_a_gap() -> None:
    harness = windows(CountAndSum(), ProcessingTimeSessionWindows.with_gap(Time.milliseconds(100)))
    harness.feed([("a", 0, 1), Advance(60), ("a", 0, 2), Advance(60)])
    assert harness.output == []
    harness.feed([Advance(60), ("a", 0, 4)])
    assert harness.output == [(2, 3)]


def test_a_complete_count_window_leaves_nothing_behind() -> None:
    harness = windows(Bounds2(), CountTumblingWindowAssigner.of(2)).feed([("a", 0, 1), ("a", 0, 2), ("a", 0, 3)])
    assert harness.output == [("a", 0, [1, 2])]
    assert harness.state("window-contents", "a", namespace=0) == []
    assert harness.state("window-contents", "a", namespace=1) == [("a", 0, 3)]


class Bounds2(WindowFunction[Any, Any, Any, Any]):
    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        return [(key, window.id, [record[2] for record in inputs])]


def test_a_global_window_fires_as_its_trigger_says() -> None:
    harness = windows(CountAndSum(), GlobalWindows.create()).feed([("a", 0, 1), ("a", 0, 2)]).finish()
    assert harness.output == []
    counted = windows(CountAndSum(), GlobalWindows.create(), trigger=PurgingTrigger.of(CountTrigger.of(2)))
    assert counted.feed([("a", 0, number) for number in range(5)]).finish().output == [(2, 1), (2, 5)]


def test_a_continuous_trigger_fires_within_the_window() -> None:
    harness = windows(CountAndSum(), trigger=ContinuousEventTimeTrigger.of(Time.milliseconds(3)))
    harness.feed([("a", 1, 1), Watermark(3), ("a", 4, 2), Watermark(5), Watermark(6), Watermark(30)])
    assert harness.output == [(1, 1), (2, 3), (2, 3)]  # at 3, 6 and 9, which is the end


def test_b12_state_of_a_window_and_of_its_key() -> None:
    harness = windows(Firings(), allowed_lateness=5)
    harness.feed([("a", 1, 1), Watermark(9), ("a", 2, 2), ("a", 11, 4), Watermark(19), CHECKPOINT, CRASH, ("a", 21, 1)])
    harness.finish()
    assert harness.output == [("a", 0, 1, 1, 1), ("a", 0, 2, 2, 2), ("a", 10, 1, 1, 3), ("a", 20, 1, 1, 4)]
    assert harness.state("firings", "a", namespace=(0, 10)) is None, "clear() was called"
    assert harness.state("all firings", "a") == 4


MADE: list[Any] = []
"""References to the descriptors that `MakesDescriptors` has made."""


class MakesDescriptors(ProcessWindowFunction[Any, Any, Any, Any]):
    """Makes a descriptor whenever it needs one, as Flink's documentation does."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        descriptor = ValueStateDescriptor("firings", Types.LONG())
        MADE.append(weakref.ref(descriptor))
        context.window_state().get_state(descriptor).update(1)
        yield key


def test_descriptors_that_a_function_makes_for_each_window_are_not_kept() -> None:
    MADE.clear()
    harness = windows(MakesDescriptors())
    for end in range(9, 200, 10):
        harness.feed([("a", end, 1), Watermark(end)])
    gc.collect()
    assert len(MADE) == 20
    assert len([made for made in MADE if made() is not None]) <= 1


class CountsPerKey(CountAndSum):
    """Counts the records of each key in a state of its own."""

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def add(self, value: Any, accumulator: Any) -> Any:
        self.seen.update((self.seen.value() or 0) + 1)
        return super().add(value, accumulator)


def test_a_function_that_combines_records_has_the_state_of_their_key() -> None:
    harness = windows(CountsPerKey()).feed([("a", 1, 1), ("b", 2, 1), ("a", 3, 1), ("a", 4, 1), Watermark(9)])
    assert harness.output == [(3, 3), (1, 1)]
    assert (harness.state("seen", "a"), harness.state("seen", "b")) == (3, 1)


class AddsToFirst(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        value1[2] += value2[2]
        return value1


class AddsToSecond(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        value2[2] += value1[2]
        return value2


@pytest.mark.parametrize("function", [AddsToFirst(), AddsToSecond()])
@pytest.mark.parametrize("trigger", [None, PurgingTrigger.of(EventTimeTrigger.create())])
@pytest.mark.parametrize("between", [[], [CHECKPOINT]], ids=["one epoch", "two epochs"])
def test_a_function_that_changes_a_record_does_not_change_it_in_other_windows(
    function: Any, trigger: Any, between: list[Any]
) -> None:
    sliding = SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5))
    harness = windows(function, sliding, trigger=trigger)
    harness.feed([["a", 7, 1], ["a", 8, 2], *between, ["a", 9, 4], Watermark(30)])
    assert [record[2] for record in harness.output] == [7, 7]


def test_b12_merging_windows_have_no_state_of_their_own() -> None:
    harness = windows(Firings(), EventTimeSessionWindows.with_gap(Time.milliseconds(5))).feed([("a", 1, 1)])
    with pytest.raises(UserFunctionError, match="Per-window state is not allowed when using merging windows."):
        harness.feed([Watermark(20)])


class AllBounds(AllWindowFunction[Any, Any, TimeWindow]):
    def apply(self, window: TimeWindow, inputs: Any) -> Any:
        yield window.start, sorted(inputs)


class AllCounts(ProcessAllWindowFunction[Any, Any, TimeWindow]):
    def process(self, context: Any, elements: Any) -> Any:
        yield context.window().start, len(list(elements)), context.current_watermark()


def test_windows_without_a_key_contain_all_records() -> None:
    def all_windows(function: Any) -> Harness:
        return Harness.non_keyed(function, timestamp=lambda record: record[1], window=TEN)

    records = [("a", 1, 1), ("b", 2, 2), ("c", 11, 3), Watermark(9)]
    assert all_windows(AllBounds()).feed(records).output == [(0, [("a", 1, 1), ("b", 2, 2)])]
    assert all_windows(AllCounts()).feed(records).output == [(0, 2, 9)]
    assert all_windows(CountAndSum()).feed(records).output == [(2, 3)]


# ---- users' own triggers and assigners


class LeavesElements(WindowFunction[Any, Any, Any, Any]):
    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        raise ValueError("no")


def test_an_error_of_a_window_function_names_the_key_and_the_operator() -> None:
    harness = windows(LeavesElements()).feed([("ada", 1, 1)])
    with pytest.raises(UserFunctionError, match=r"(?s)'function', in a window that fires in epoch 2.*key: 'ada'"):
        harness.feed([Watermark(9)])


class BadAdd(CountAndSum):
    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator[0] + 1, accumulator[1] + value[2] // value[1]


def test_an_error_while_a_record_is_added_names_record_and_key() -> None:
    harness = windows(BadAdd())
    with pytest.raises(UserFunctionError, match=r"record 2 of epoch") as caught:
        harness.feed([("ada", 1, 1), ("bob", 0, 1)])
    assert "bob" in str(caught.value)


def test_state_of_a_window_of_every_kind() -> None:
    class Keeps(ProcessWindowFunction[Any, Any, Any, Any]):
        def process(self, key: Any, context: Any, elements: Any) -> Any:
            state = context.window_state().get_list_state(ListStateDescriptor("kept", Types.LONG()))
            state.add(len(list(elements)))
            yield list(state.get())

    harness = windows(Keeps(), allowed_lateness=50)
    harness.feed([("a", 1, 1), Watermark(9), ("a", 2, 2), ("a", 3, 3)])
    assert harness.output == [[1], [1, 2], [1, 2, 3]]


def declared(function: Any, window: Any, **settings: Any) -> dict[str, tuple[str, str | None]]:
    """The states that `penstock restore --check` sees: their kinds, and the types of their namespaces."""
    program = FunctionProgram(function, key=lambda record: record[0], window=window, **settings)
    (stage,) = function_graph(program).stages
    (states,) = declared_states(stage, {}).values()
    return {info.name: (getattr(info, "kind", ""), getattr(info, "namespace", None)) for info, _ in states}


def test_a_restore_check_knows_the_states_of_windows_before_they_are_used() -> None:
    time = "TUPLE<LONG, LONG>"
    assert declared(CountAndSum(), TEN) == {"window-contents": ("aggregating", time)}
    assert declared(Larger(), EventTimeSessionWindows.with_gap(Time.seconds(1)), trigger=CountTrigger.of(2)) == {
        "window-contents": ("reducing", time),
        "count": ("reducing", time),
        "merging-window-set": ("map", None),
    }
    assert declared(Bounds(), CountTumblingWindowAssigner.of(2)) == {
        "window-contents": ("list", "LONG"),
        "count": ("reducing", "LONG"),
        "tumble-count-assigner": ("value", None),
    }


def test_a_savepoint_has_a_row_for_each_key_and_window(tmp_path: Path) -> None:
    path = (
        windows(CountAndSum(), accumulator_type=Types.TUPLE([Types.LONG(), Types.LONG()]))
        .feed([("a", 1, 1), ("b", 2, 2), ("a", 12, 3), CHECKPOINT])
        .savepoint(tmp_path)
    )
    (file,) = Path(path).rglob("window-contents/*.parquet")
    rows = pq.read_table(file).to_pylist()
    assert sorted((row["namespace"]["f0"], row["namespace"]["f1"], row["value"]["f1"]) for row in rows) == [
        (0, 10, 1),
        (0, 10, 2),
        (10, 20, 3),
    ]


def test_a_trigger_of_processing_time_fires_once_for_a_window_of_event_time_that_is_long_past() -> None:
    trigger = ContinuousProcessingTimeTrigger.of(Time.milliseconds(5))
    made: dict[str, Any] = {"key": lambda e: e[0], "timestamp": lambda e: e[1], "window": TEN, "trigger": trigger}
    harness = Harness.keyed(CountAndSum(), **made)
    assert harness.feed([("a", 1, 1), ("a", 2, 1)]).output == [(2, 2)]
    assert harness.feed([("a", 3, 1)]).finish().output == [(2, 2), (3, 3)]
