"""Settings of a harness that cannot work are errors that say what can."""

from typing import Any

import pytest

from penstock.common import Time
from penstock.datastream import OutputTag, ProcessWindowFunction
from penstock.datastream.window import CountTrigger, TumblingEventTimeWindows
from penstock.errors import ArgumentError, UsageError
from penstock.graph.callables import CallableReduce
from penstock.model.functions import KeyedProcessFunction, MapFunction
from penstock.testing import Harness, Watermark


class Keeps(MapFunction):
    def map(self, value: Any) -> Any:
        return value


class NoContext(KeyedProcessFunction):
    def process_element(self, v: Any) -> Any:  # type: ignore[override]
        yield v


@pytest.mark.parametrize("number", [0, -1, "2", True, None])
def test_the_parallelism_is_a_number_of_1_or_more(number: Any) -> None:
    with pytest.raises(UsageError, match=f"^parallelism={number!r}: it must be a number of 1 or more$"):
        Harness.keyed(Keeps(), key=str, parallelism=number)


def test_max_parallelism_and_rescaling_are_checked_too() -> None:
    with pytest.raises(UsageError, match="^max_parallelism=0: it must be a number of 1 or more$"):
        Harness.keyed(Keeps(), key=str, max_parallelism=0)
    with pytest.raises(UsageError, match="^parallelism=0"):
        Harness.keyed(Keeps(), key=str).rescale(0)


def test_a_misspelled_setting_is_recognized() -> None:
    with pytest.raises(ArgumentError, match=r"^a harness has no setting paralelism=; did you mean parallelism=\?$"):
        Harness.keyed(Keeps(), key=str, paralelism=2)
    with pytest.raises(
        ArgumentError, match="^a harness has no setting xyz=; there are accumulator_type=, allow_fallback=, "
    ):
        Harness.keyed(Keeps(), key=str, xyz=2)


def test_key_and_timestamp_are_functions_and_only_a_keyed_harness_has_a_key() -> None:
    with pytest.raises(ArgumentError, match="^key='name': it must be a function of a record, such as lambda"):
        Harness.keyed(Keeps(), key="name")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="^timestamp=5: it must be a function of a record"):
        Harness.keyed(Keeps(), key=str, timestamp=5)
    with pytest.raises(UsageError, match=r"non_keyed\(\) takes no key=; use Harness.keyed"):
        Harness.non_keyed(Keeps(), key=str)


def test_a_function_is_checked_as_in_a_program() -> None:
    with pytest.raises(ArgumentError, match=r"^the class Keeps \(did you mean Keeps\(\)\?\) cannot run on a keyed"):
        Harness.keyed(Keeps, key=str)
    with pytest.raises(ArgumentError, match="takes (.*), but process"):
        Harness.keyed(NoContext(), key=str)


def test_one_record_instead_of_a_list_is_refused() -> None:
    record: Any = 5
    with pytest.raises(UsageError, match=r"^feed\(\) takes a list of records and control items, not 5; write feed"):
        Harness.keyed(Keeps(), key=str).feed(record)


TEN = TumblingEventTimeWindows.of(Time.seconds(10))
FIRST = CallableReduce(lambda first, second: first)


class Elements(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        return elements


class OneArgument(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, elements: Any) -> Any:  # type: ignore[override]
        yield elements


@pytest.mark.parametrize(
    ("function", "settings", "message"),
    [
        (FIRST, {"window": 10}, "^window= takes a WindowAssigner, not an object of type int; give Tumbling"),
        (FIRST, {"window": TEN, "trigger": CountTrigger}, "^trigger= takes a Trigger, not the class CountTrigger"),
        (Keeps(), {"window": TEN}, "^a harness with window= takes an instance of ReduceFunction, .*not an object of"),
        (OneArgument(), {"window": TEN}, r"OneArgument.process .*\(key, context, elements\)"),
        (Elements(), {"window": TEN, "window_function": FIRST}, "^window_function= gets what a ReduceFunction or"),
        (FIRST, {"window": TEN, "window_function": Keeps()}, "^window_function= takes an instance of WindowFunction"),
        (Keeps(), {"trigger": CountTrigger.of(2)}, "^trigger= has no effect without window="),
        (Keeps(), {"allowed_lateness": 5}, "^allowed_lateness= has no effect without window="),
        (Keeps(), {"late_data": OutputTag("late")}, "^late_data= has no effect without window= or between="),
        (Keeps(), {"between": (-5, 5)}, "^between= is of an interval join; give a ProcessJoinFunction"),
    ],
)
def test_settings_of_windows_and_joins_belong_together(function: Any, settings: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Harness.keyed(function, key=str, timestamp=int, **settings)


def test_a_lateness_is_a_time_in_any_form() -> None:
    for lateness in (5000, "5 s", Time.seconds(5)):
        harness = Harness.keyed(FIRST, key=str, timestamp=int, window=TEN, allowed_lateness=lateness)
        harness.feed([1, Watermark(9_999), 2, Watermark(14_999), 3])
        assert sorted(harness.output) == [1, 2]
