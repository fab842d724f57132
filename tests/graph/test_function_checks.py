"""Mistakes in functions that are found while the program is built."""

import functools
import inspect
import operator
from typing import Any

import pytest

from penstock.errors import UsageError
from penstock.graph.callables import CallableKeySelector, CallableMap, CallableReduce
from penstock.graph.creation_site import creation_site, site_line
from penstock.graph.function_checks import check_function
from penstock.model.broadcast_functions import KeyedBroadcastProcessFunction
from penstock.model.functions import FlatMapFunction, KeyedProcessFunction, MapFunction, ProcessFunction, ReduceFunction
from penstock.model.operator_state import CheckpointedFunction
from penstock.model.watermark import WatermarkStrategy

HERE = __file__
MAP: Any = CallableMap
REDUCE: Any = CallableReduce
KEY: Any = CallableKeySelector
"""Untyped: what is wrong here is seen by a type checker too."""


def message_of(function: Any, kind: str) -> str:
    with pytest.raises(UsageError) as caught:
        check_function(function, kind)
    return str(caught.value)


def test_a_lambda_with_other_parameters_is_shown_with_its_line_and_what_to_write() -> None:
    text = message_of(MAP(lambda a, b: a), "map")
    line = inspect.currentframe().f_lineno - 1  # type: ignore[union-attr]
    assert text == (
        f"the lambda at {HERE}:{line} takes (a, b), but map() calls it with one argument, (value); "
        f"write lambda value: ..."
    )
    assert "reduce() calls it with two arguments, (value1, value2)" in message_of(REDUCE(lambda a: a), "reduce")
    assert "key_by() calls it with one argument" in message_of(KEY(lambda: 1), "key_by")


def test_a_wrong_argument_is_a_type_error_too() -> None:
    with pytest.raises(TypeError):
        check_function(MAP(lambda: 1), "map")


class NoContext(KeyedProcessFunction):
    def process_element(self, v: Any) -> Any:  # type: ignore[override]
        yield v


class NoTimerContext(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value

    def on_timer(self, timestamp: int) -> Any:  # type: ignore[override]
        yield timestamp


class NoRuntimeContext(MapFunction):
    def open(self) -> None:  # type: ignore[override]
        pass

    def map(self, value: Any) -> Any:
        return value


class NoSnapshotContext(FlatMapFunction, CheckpointedFunction):
    def flat_map(self, value: Any) -> Any:
        yield value

    def initialize_state(self, context: Any) -> None: ...

    def snapshot_state(self) -> None:  # type: ignore[override]
        ...


class TwoForOne(ReduceFunction):
    def reduce(self, value1: Any) -> Any:  # type: ignore[override]
        return value1


@pytest.mark.parametrize(
    ("function", "kind", "said"),
    [
        (
            NoContext(),
            "keyed_process",
            "(self, v), but process() calls it with two arguments, (value, ctx); write def ",
        ),
        (NoTimerContext(), "keyed_process", "write def on_timer(self, timestamp, ctx)"),
        (NoRuntimeContext(), "map", "but the operator calls it with one argument, (runtime_context)"),
        (NoSnapshotContext(), "flat_map", "write def snapshot_state(self, context)"),
        (TwoForOne(), "reduce", "write def reduce(self, value1, value2)"),
    ],
)
def test_a_method_with_other_parameters_is_shown_with_its_definition(function: Any, kind: str, said: str) -> None:
    text = message_of(function, kind)
    assert text.startswith(type(function).__name__ + ".") and f" at {HERE}:" in text and said in text


def test_a_timestamp_assigner_takes_the_record_and_its_former_timestamp() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    text = message_of(strategy.with_timestamp_assigner(lambda record: 1), "timestamps")  # type: ignore[arg-type,misc]
    assert "(value, record_timestamp)" in text
    check_function(strategy.with_timestamp_assigner(lambda record, former: 1), "timestamps")
    check_function(strategy, "timestamps")


class Adder:
    def __init__(self, amount: int = 1) -> None:
        self.amount = amount

    def __call__(self, value: Any) -> Any:
        return value + self.amount

    def twice(self, value: Any, factor: int = 2) -> Any:
        return factor * value


def injects(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(value: Any) -> Any:
        return function(value, 2)

    return wrapper


@injects
def add(value: Any, amount: int) -> Any:
    return value + amount


@pytest.mark.parametrize(
    "function",
    [
        int,
        str,
        str.upper,
        len,
        dict.fromkeys,
        operator.itemgetter(0),
        lambda *values: values,
        lambda value, more=1: value,
        lambda value, *, scale=1: value,
        functools.partial(operator.add, 1),
        functools.partial(lambda a, b: a, b=1),
        Adder(),
        Adder().twice,
        Adder,
        add,
    ],
)
def test_whatever_takes_one_argument_is_accepted(function: Any) -> None:
    check_function(MAP(function), "map")


@pytest.mark.parametrize(
    "function",
    [
        lambda value, *, scale: value,
        functools.partial(lambda a, b, c: a, 1),
        functools.partial(lambda a: a, 1),
    ],
)
def test_partials_and_keyword_only_parameters_are_looked_into(function: Any) -> None:
    assert "map() calls it with one argument" in message_of(MAP(function), "map")


def test_a_class_instead_of_its_instance_is_recognized() -> None:
    class Doubles:
        def __call__(self, value: Any) -> Any:
            return 2 * value

    text = message_of(MAP(Doubles), "map")
    assert text.startswith("the class Doubles takes ()") and text.endswith("write Doubles(), an instance of the class")


def test_yield_where_one_result_is_expected_and_async_are_refused() -> None:
    def yields(value: Any) -> Any:
        yield value

    async def waits(value: Any) -> Any:
        return value

    assert "yields, but map() takes one result for each record; use flat_map()" in message_of(MAP(yields), "map")
    assert "yields, but key_by()" in message_of(KEY(yields), "key_by")
    assert "is async" in message_of(MAP(waits), "map")


class Registers(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        def later() -> None:
            ctx.timer_service().register_event_time_timer(5)

        later()


class Fires(Registers):
    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield timestamp


class RegistersBesideBroadcast(KeyedBroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_processing_time_timer(5)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any: ...


def test_a_timer_without_on_timer_is_found_where_it_can_be_seen() -> None:
    assert message_of(Registers(), "keyed_process") == (
        "Registers registers timers but has no on_timer(), so nothing would happen when they fire; "
        "add def on_timer(self, timestamp, ctx)"
    )
    assert "no on_timer()" in message_of(RegistersBesideBroadcast(), "keyed_broadcast")
    check_function(Fires(), "keyed_process")


class Plain(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


def test_functions_as_they_should_be_are_accepted() -> None:
    check_function(Plain(), "process")
    check_function(REDUCE(max), "reduce")
    check_function(REDUCE(operator.add), "reduce")


def test_the_creation_site_is_the_line_of_the_program() -> None:
    site = creation_site()
    assert site.startswith(f"{HERE}:") and site.endswith(": site = creation_site()")
    assert site_line(site) == site.removesuffix(": site = creation_site()")
    assert site_line("<stdin>:3") == "<stdin>:3"
