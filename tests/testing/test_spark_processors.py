"""StatefulProcessors of Spark on the harness: called as Spark calls them, with state that survives like any other."""

from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from penstock.errors import ArgumentError, UserFunctionError
from penstock.jobmanager.attempt.recovery import StartOptions
from penstock.model.execution import RuntimeExecutionMode
from penstock.model.row import row_class
from penstock.model.types import Types, resolve_type
from penstock.spark.stateful_processors import INITIAL_LOADED, ProcessorSettings, SparkProcessorFunction
from penstock.testing import CHECKPOINT, CRASH, Advance, Harness, Watermark, spark_processor

READING = resolve_type("sensor string, value bigint, at bigint")
make_reading = row_class(("sensor", "value", "at")).make
COUNT = StructType([StructField("value", IntegerType())])


def reading(sensor: str, value: int, at: int = 0) -> Any:
    return make_reading((sensor, value, at))


def harness(processor: StatefulProcessor, output: str = "sensor string, n bigint", **settings: Any) -> Harness:
    names = ("form", "time_mode", "input_type", "initial_type", "initial_rows", "time_zone")
    chosen = {name: settings.pop(name) for name in names if name in settings}
    given = {"input_type": READING, "output_type": resolve_type(output), "key_types": (Types.STRING(),), **chosen}
    function = SparkProcessorFunction(processor, ProcessorSettings(**given))
    return Harness.keyed(function, key=lambda r: r[0], key_type=Types.STRING(), **settings)


class Tally(StatefulProcessor):
    """All three kinds of state."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.count = handle.getValueState("count", COUNT)
        self.values = handle.getListState("values", "value bigint")
        self.by_value = handle.getMapState("by_value", "value bigint", "n int, last string")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        (sensor,) = key
        found = list(rows)
        assert all(type(row) is Row and row.sensor == sensor for row in found)
        before = self.count.get()[0] if self.count.exists() else 0  # type: ignore[index]
        self.count.update((before + len(found),))
        self.values.appendList([(row.value,) for row in found])
        for row in found:
            n, _ = self.by_value.getValue((row.value,)) or (0, "")
            self.by_value.updateValue((row.value,), (np.int64(n + 1), sensor))
        yield Row(n=before + len(found), sensor=sensor)

    def close(self) -> None:
        pass


def test_input_comes_once_per_key_and_epoch() -> None:
    h = harness(Tally())
    h.feed([reading("a", 1), reading("b", 7), reading("a", 2), CHECKPOINT, reading("a", 2)])
    assert h.output == [("a", 2), ("b", 1), ("a", 3)]
    assert h.state("values", "a") == [(1,), (2,), (2,)] and h.state("count", "b") == (1,)
    assert h.state("by_value", "a") == {(1,): (1, "a"), (2,): (2, "a")}


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_state_survives_a_crash_and_a_savepoint_at_another_parallelism(backend: str, tmp_path: Path) -> None:
    h = harness(Tally(), backend=backend, parallelism=2)
    h.feed([reading("a", 1), reading("b", 7), CHECKPOINT, reading("a", 2), CRASH, reading("b", 8)])
    assert h.crashes == 1 and h.state("count", "a") == (2,)
    path = h.savepoint(tmp_path)
    for other in ("hashmap", "rocksdb"):
        again = harness(Tally(), backend=other, parallelism=3, start=StartOptions(path))
        again.feed([reading("a", 1)])
        assert again.output == [("a", 3)] and again.state("values", "b") == [(7,), (8,)]
        assert again.state("by_value", "a") == {(1,): (2, "a"), (2,): (1, "a")}


def test_a_lost_task_processes_its_rows_once() -> None:
    h = harness(Tally(), lost_after=lambda tries: 1 if tries == 0 else None)
    h.feed([reading("a", 1), reading("a", 2)])
    assert h.lost_tasks == 1 and h.output == [("a", 2)] and h.state("values", "a") == [(1,), (2,)]


class Alarm(StatefulProcessor):
    """Yields the values of a key 10 ms after its last row."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.total = handle.getValueState("total", "value bigint")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        found = list(rows)
        self.total.update(((self.total.get() or (0,))[0] + sum(row.value for row in found),))
        now = timerValues.getCurrentProcessingTimeInMs()
        latest = now if timerValues.getCurrentWatermarkInMs() == -1 else max(row.at for row in found)
        for timer in self.handle.listTimers():
            self.handle.deleteTimer(timer)
        self.handle.registerTimer(latest + 10)
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        assert list(self.handle.listTimers()) == [expiredTimerInfo.getExpiryTimeInMs()]
        (total,) = self.total.get() or (None,)
        self.total.clear()
        yield Row(sensor=key[0], n=total)

    def close(self) -> None:
        pass


def test_timers_in_processing_time_are_listed_deleted_and_expire() -> None:
    h = harness(Alarm(), time_mode="ProcessingTime")
    h.feed([reading("a", 1), Advance(5), reading("a", 2), reading("b", 9), Advance(7)])
    assert h.output == []  # the first timer was deleted
    h.feed([CHECKPOINT, CRASH, Advance(3)])
    assert sorted(h.output) == [("a", 3), ("b", 9)]
    assert h.state("total", "a") is None and h.state("_expiry_times", "a") == {}


def test_timers_in_event_time_expire_with_the_watermark_and_late_rows_are_dropped() -> None:
    h = harness(Alarm(), time_mode="EventTime", timestamp=lambda r: r[2])
    h.feed([reading("a", 1, 100), reading("b", 2, 200), Watermark(109)])
    assert h.output == []
    h.feed([Watermark(110)])
    assert h.output == [("a", 1)]
    h.feed([reading("b", 5, 111), reading("b", 7, 112), Watermark(150)])  # Spark's watermark is 111: it is late
    h.feed([Watermark(250)])
    assert h.output[1:] == [("b", 9)]


def test_the_end_of_the_input_expires_all_timers_in_event_time() -> None:
    h = harness(Alarm(), time_mode="EventTime", timestamp=lambda r: r[2])
    h.feed([reading("a", 1, 100)]).finish()
    assert h.output == [("a", 1)]


def test_batch_mode_processes_one_key_after_the_other() -> None:
    h = harness(Alarm(), time_mode="EventTime", timestamp=lambda r: r[2], runtime_mode=RuntimeExecutionMode.BATCH)
    h.feed([reading("b", 1, 100), reading("a", 2, 300), reading("b", 4, 200)]).finish()
    assert sorted(h.output) == [("a", 2), ("b", 5)]


class Stubborn(StatefulProcessor):
    """Registers a timer for now whenever one expires."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 1)
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        expired = expiredTimerInfo.getExpiryTimeInMs()
        if timerValues.getCurrentProcessingTimeInMs() - expired < 3:
            self.handle.registerTimer(expired)  # forgotten, as in Spark: the timer ends with its call
            self.handle.registerTimer(expired - 1)
        yield Row(sensor=key[0], n=timerValues.getCurrentProcessingTimeInMs() - expired)


def test_a_timer_that_is_registered_for_the_past_waits_for_the_next_epoch() -> None:
    h = harness(Stubborn(), time_mode="ProcessingTime")
    h.feed([reading("a", 1), Advance(1)])
    assert h.output == [("a", 0), ("a", 1), ("a", 2), ("a", 3)]  # the harness runs epochs while timers are due


class Remembers(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self.seen = handle.getValueState("seen", "value bigint", ttlDurationMs=1000)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        yield Row(sensor=key[0], n=(self.seen.get() or (0,))[0])
        self.seen.update((next(rows).value,))


def test_state_expires_a_while_after_its_last_update() -> None:
    h = harness(Remembers(), time_mode="ProcessingTime")
    h.feed([reading("a", 1), Advance(900), reading("a", 2), Advance(900), reading("a", 3), Advance(1001)])
    h.feed([reading("a", 4)])
    assert [n for _, n in h.output] == [0, 1, 2, 0]


def test_a_time_to_live_needs_processing_time() -> None:
    with pytest.raises(UserFunctionError, match="needs time_mode='ProcessingTime'"):
        harness(Remembers(), time_mode="None").feed([reading("a", 1)])


class Successor(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        handle.deleteIfExists("values")
        handle.deleteIfExists("never there")
        self.count = handle.getValueState("count", COUNT)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        yield Row(sensor=key[0], n=(self.count.get() or (0,))[0])


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_state_that_is_deleted_is_gone_and_the_others_stay(backend: str, tmp_path: Path) -> None:
    path = harness(Tally()).feed([reading("a", 1)]).savepoint(tmp_path)
    h = harness(Successor(), backend=backend, start=StartOptions(path, allow_non_restored=True))
    h.feed([reading("a", 2), CHECKPOINT, CRASH, reading("a", 3)])
    assert h.output == [("a", 1), ("a", 1)] and h.state("values", "a") in (None, [])


class Seeded(Tally):
    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        assert initialState.sensor == key[0]
        before = self.count.get() or (0,)
        self.count.update((before[0] + initialState.start,))


START: dict[str, Any] = {
    "initial_type": resolve_type("sensor string, start int"),
    "initial_rows": (("a", ("a", 100)), ("a", ("a", 10)), ("c", ("c", 5))),
}


def test_the_initial_state_is_loaded_once() -> None:
    h = harness(Seeded(), parallelism=2, **START)
    h.feed([reading("a", 1), reading("b", 1), CRASH, reading("a", 1), CHECKPOINT, CRASH, reading("a", 1)])
    assert [n for sensor, n in h.output if sensor == "a"] == [112, 113]  # the replay has one epoch less
    assert h.state("count", "c") == (5,) and h.state("count", "b") == (1,)
    h.feed([CHECKPOINT])
    h.rescale(3).feed([reading("c", 1)])
    assert h.state("count", "c") == (6,) and h.state("count", "a") == (113,)


def test_the_mark_of_a_loaded_initial_state_does_not_grow_with_restores() -> None:
    h = harness(Seeded(), parallelism=2, **START)
    for _ in range(4):
        h.feed([reading("a", 1), CHECKPOINT, CRASH, reading("a", 1), CHECKPOINT])
    assert h.operator_state(INITIAL_LOADED) == [[True], [True]]


class Frames(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self.total = handle.getValueState("total", "value double")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        frame = pd.concat(list(rows))
        total = (self.total.get() or (0.0,))[0] + frame["value"].sum()
        self.total.update((total,))
        yield pd.DataFrame({"total": [total], "sensor": [key[0]], "last": [frame["at"].max()]})

    def handleInitialState(self, key: Any, initialState: pd.DataFrame, timerValues: Any) -> None:
        self.total.update((initialState["start"].sum(),))


def test_the_pandas_form_gets_and_yields_frames() -> None:
    typed = resolve_type("sensor string, value double, at timestamp")
    make = row_class(("sensor", "value", "at")).make
    noon = datetime(2026, 3, 2, 12, tzinfo=timezone.utc)
    rows = [make(("a", 1.5, noon)), make(("b", None, noon)), make(("a", 2.0, noon.replace(hour=13)))]
    output = "sensor string, total double, last timestamp"
    h = harness(Frames(), output, form="pandas", input_type=typed, time_zone="Europe/Oslo", **START)
    h.feed([*rows, CHECKPOINT, make(("a", 1.0, noon))])
    expected = [("a", 113.5, noon.replace(hour=13)), ("b", 0.0, noon), ("a", 114.5, noon)]
    assert [(sensor, total, last) for sensor, total, last in h.output] == expected


def test_a_timestamp_of_the_hour_that_clocks_repeat_is_taken_as_winter_time_as_in_spark() -> None:
    typed = resolve_type("sensor string, value double, at timestamp")
    summer, winter = (datetime(2026, 10, 25, hour, 30, tzinfo=timezone.utc) for hour in (0, 1))  # both 2:30 in Oslo
    settings: dict[str, Any] = {"form": "pandas", "input_type": typed, "time_zone": "Europe/Oslo"}
    h = harness(Frames(), "sensor string, total double, last timestamp", **settings)
    h.feed([row_class(("sensor", "value", "at")).make((key, 1.0, at)) for key, at in (("a", summer), ("b", winter))])
    assert [last for _, _, last in h.output] == [winter, winter]


class Nested(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self.last = handle.getValueState("last", "at timestamp, place struct<x: int, y: int>, tags array<string>")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        row = list(rows)[-1]
        assert row.at.tzinfo is None and row.place.y == 2
        self.last.update((row.at, row.place, ["new"]))
        at, place, tags = self.last.get() or (None, None, None)
        assert type(place) is Row and at == row.at and tags == ["new"]
        yield Row(place=place, at=at, key=key[0])


def test_rows_and_timestamps_have_sparks_form_inside_and_ours_outside() -> None:
    typed = resolve_type("key string, at timestamp, place struct<x: int, y: int>")
    noon = datetime(2026, 3, 2, 12, tzinfo=timezone.utc)
    record = ("k", noon, (1, 2))
    output = "key string, at timestamp, place struct<x: int, y: int>"
    h = harness(Nested(), output, input_type=typed)
    h.feed([record, CHECKPOINT, CRASH])
    assert h.output == [record] and h.state("last", "k") == (noon, (1, 2), ["new"])


class Wrong(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.values = handle.getListState("values", "value bigint")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        value = next(rows).value
        if value == 1:
            self.handle.registerTimer(5)
        if value == 2:
            self.values.put([])
        return iter([(key[0], 1, 2)])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (1, r"registerTimer\(\) needs a clock"),
        (2, r"put\(\) of list state 'values' got no values"),
        (3, "it has 3 fields, the type has 2"),
    ],
)
def test_errors_name_the_method_and_the_way_out(value: int, message: str) -> None:
    with pytest.raises(UserFunctionError, match=message) as caught:
        harness(Wrong()).feed([reading("a", value)])
    assert "handleInputRows()" in str(caught.value)


def test_only_an_instance_of_a_stateful_processor_with_its_methods_is_accepted() -> None:
    with pytest.raises(ArgumentError, match="a StatefulProcessor is required, not the class Tally"):
        harness(Tally)  # type: ignore[arg-type]

    class OneParameter(Tally):
        def handleInputRows(self, key: Any) -> Any:  # type: ignore[override]
            return iter(())

    with pytest.raises(ArgumentError, match="three arguments"):
        harness(OneParameter())


def test_processors_may_be_like_the_examples_of_sparks_reference() -> None:
    class Sizes(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            pass

        def handleInputRows(self, key: Any, rows: Any) -> Any:  # type: ignore[override]
            yield Row(sensor=key, n=len(list(rows)))  # the whole key, which is a tuple

    assert harness(Sizes()).feed([reading("a", 1), reading("a", 2)]).output == [("a", 2)]


def test_tests_of_users_make_the_function_of_a_processor() -> None:
    tally = spark_processor(Tally(), "sensor string, value bigint", "sensor string, n bigint")
    h = Harness.keyed(tally, key=lambda r: r[0], parallelism=2).feed([("a", 1), ("b", 7), CHECKPOINT, ("a", 2), CRASH])
    assert sorted(h.output) == [("a", 1), ("a", 2), ("b", 1)] and h.state("values", "a") == [(1,), (2,)]
    alarm = spark_processor(Alarm(), "sensor string, value bigint, at bigint", COUNTED, time_mode="EventTime")
    timed = Harness.keyed(alarm, key=lambda r: r[0], timestamp=lambda r: r[2])
    assert timed.feed([("a", 1, 100), Watermark(110)]).output == [("a", 1)]
    frames = spark_processor(Sums(), "sensor string, value bigint", COUNTED, pandas=True)
    assert Harness.keyed(frames, key=lambda r: r[0]).feed([("a", 1), ("a", 2)]).output == [("a", 3)]
    with pytest.raises(ArgumentError, match="output_type=LONG: a struct is required"):
        spark_processor(Tally(), "sensor string", Types.LONG())
    with pytest.raises(ArgumentError, match="time_mode='Clock'; it is 'None', 'ProcessingTime'"):
        spark_processor(Tally(), COUNTED, COUNTED, time_mode="Clock")  # type: ignore[arg-type]


COUNTED = "sensor string, n bigint"


class Sums(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        pass

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        yield pd.DataFrame({"sensor": key, "n": [sum(frame["value"].sum() for frame in rows)]})


def test_a_schema_that_is_no_struct_is_refused() -> None:
    class Plain(Tally):
        def init(self, handle: StatefulProcessorHandle) -> None:
            handle.getValueState("count", StringType())  # type: ignore[arg-type]

    with pytest.raises(UserFunctionError, match="state variables are structs"):
        harness(Plain()).feed([reading("a", 1)])
