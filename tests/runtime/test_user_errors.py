"""What a user reads when a function fails: the line, the operator, where it was created, the key and the record."""

import inspect
import pickle
from typing import Any

import pytest

from penstock.common import Row, Types
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.state import ValueStateDescriptor
from penstock.errors import InvalidKeyError, PenstockError, UserFunctionError
from penstock.graph.stages import GraphSettings, build_job_graph
from penstock.model.functions import FlatMapFunction, KeyedProcessFunction, MapFunction
from penstock.model.readable_values import shortened
from penstock.runtime.user_errors import CORRUPT_HINT, UNPARSED_HINT
from penstock.testing import Harness

ROW = "name string, price bigint"


def orders() -> Any:
    return StreamExecutionEnvironment.get_execution_environment().from_collection([("ada", 1)], ROW)


def failure_of(stream: Any, *records: Any, expected: type[PenstockError] = UserFunctionError) -> str:
    """The message of the program's failure."""
    harness = Harness(build_job_graph(stream.get_execution_environment()._graph, GraphSettings()))
    with pytest.raises(expected) as caught:
        harness.feed(records or [Row(name="ada", price=1)])
    assert caught.value.exit_code == 1
    copied = pickle.loads(pickle.dumps(caught.value))
    assert str(copied) == str(caught.value)
    return str(caught.value)


def test_a_failing_lambda_is_named_with_its_line_operator_uid_key_and_record() -> None:
    shares = orders().key_by("name").map(lambda row: 1 // row.price)
    created = inspect.currentframe().f_lineno - 1  # type: ignore[union-attr]
    text = failure_of(shares.name("Shares").uid("shares"), Row(name="bob", price=1), Row(name="ada", price=0))
    lines = text.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1] == f'  File "{__file__}", line {created}, in <lambda>'
    assert "ZeroDivisionError: integer division or modulo by zero" in lines
    assert lines[-4:] == [
        "in operator 'Shares' (uid 'shares'), record 2 of epoch 1 in subtask s0/0",
        f'  created at {__file__}:{created}: shares = orders().key_by("name").map(lambda row: 1 // row.price)',
        "  key: 'ada'",
        "  record: Row(name='ada', price=0)",
    ]


def test_a_summary_is_one_line_with_the_cause_and_the_operator() -> None:
    error = UserFunctionError("Shares", "record 1", "Traceback\n  File\nValueError: no\n", "shares", "  record: 1")
    assert error.summary == "ValueError: no, in operator 'Shares' (uid 'shares')"
    assert UserFunctionError("x", "record 1", "ValueError: no", "x").summary == "ValueError: no, in operator 'x'"


def test_a_builtin_that_fails_shows_no_frames_of_ours() -> None:
    text = failure_of(orders().map(lambda row: row.name).map(int))
    assert text.startswith("ValueError: invalid literal for int() with base 10: 'ada'\n\nin operator 'Map'")
    assert text.endswith("  record: 'ada'")


def test_causes_in_user_code_are_kept_without_our_frames() -> None:
    def fails(row: Any) -> Any:
        try:
            raise KeyError("lost")
        except KeyError as error:
            raise ValueError("no such price") from error

    text = failure_of(orders().map(fails))
    assert "KeyError: 'lost'" in text and "direct cause" in text and "ValueError: no such price" in text
    assert "penstock/runtime" not in text


class TooLarge(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.total.update(2**70)


def test_a_value_too_large_for_its_state_has_our_message_first_and_nothing_of_arrow() -> None:
    text = failure_of(orders().key_by("name").process(TooLarge()).uid("total"))
    first, second, *rest = text.splitlines()
    assert first.startswith(
        "value 1180591620717411303424 of type int does not fit the declared type LONG (it is too large)"
    )
    assert second.startswith(f"  at {__file__}:") and second.endswith("in process_element: self.total.update(2**70)")
    assert "During handling" not in text and "direct cause" not in text and "pyarrow" not in text
    assert rest[-2:] == ["  key: 'ada'", "  record: Row(name='ada', price=1)"]


class Late(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_processing_time_timer(0)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        raise ValueError("too late")


def test_a_failing_timer_is_named_with_its_key() -> None:
    text = failure_of(orders().key_by("name").process(Late()).uid("late"))
    assert "ValueError: too late" in text and "in on_timer() in epoch 1" in text and text.endswith("  key: 'ada'")


class Hidden(KeyedProcessFunction):
    """Registers a timer where no check of the program's text sees it."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        getattr(ctx.timer_service(), "register_" + "event_time_timer")(5)


def test_a_timer_without_on_timer_fails_when_it_is_registered() -> None:
    text = failure_of(orders().key_by("name").process(Hidden()).uid("hidden"))
    assert text.startswith("Hidden registers timers but has no on_timer(), so nothing would happen when they fire")


def test_a_failing_key_selector_is_named_instead_of_the_operator_before_it() -> None:
    text = failure_of(orders().map(lambda row: row).key_by(lambda row: row.amount).map(lambda row: row))
    assert "AttributeError: 'Row' object has no attribute 'amount'" in text
    assert "in operator 'key_by', when it computed a key\n  created at " in text
    assert text.endswith("  record: Row(name='ada', price=1)")


def test_a_null_key_is_a_data_error_with_the_record() -> None:
    text = failure_of(orders().key_by(lambda row: row.name).map(len), Row(name=None, price=1), expected=InvalidKeyError)
    assert text.startswith("Assigned key must not be null!") and "filter such records out before key_by" in text
    assert f"  key_by at {__file__}:" in text and text.endswith("  record: Row(name=None, price=1)")


def test_a_null_key_of_a_line_that_could_not_be_parsed_hints_at_the_mode_of_the_reader() -> None:
    stream = orders().key_by("name").map(len)
    text = failure_of(stream, Row(name=None, price=None), expected=InvalidKeyError)
    assert text.endswith(f"  record: Row(name=None, price=None)\n  {UNPARSED_HINT}")
    assert "PERMISSIVE" in UNPARSED_HINT and "columnNameOfCorruptRecord" in UNPARSED_HINT
    kept = Row(name=None, price=None, _corrupt_record='{"name": ')
    assert failure_of(stream, kept, expected=InvalidKeyError).endswith(CORRUPT_HINT)


@pytest.mark.parametrize("returned", [5, 2.5, "ada", b"ada", {"name": "ada"}, True])
def test_one_value_where_records_are_expected_says_yield_or_brackets(returned: Any) -> None:
    text = failure_of(orders().flat_map(lambda row: returned))
    assert text.startswith(
        f"flat_map() returned {returned!r}, of type {type(returned).__name__}; it must yield records or return an "
        f"iterable of them: write `yield value` or `return [value]`\n"
    )
    assert "  record: Row(name='ada', price=1)" in text


class Returns(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_processing_time_timer(0)
        return value.price if value.price else None

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        return "done"


def test_process_element_and_on_timer_return_records_too() -> None:
    stream = orders().key_by("name").process(Returns()).uid("returns")
    assert failure_of(stream).startswith("process_element() returned 1, of type int; it must yield records")
    text = failure_of(stream, Row(name="ada", price=0))
    assert text.startswith("on_timer() returned 'done', of type str; it must yield records")


def test_a_type_error_of_the_users_generator_stays_what_it_is() -> None:
    class Adds(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Any:
            yield value.price + "1"

    assert "TypeError: unsupported operand" in failure_of(orders().key_by("name").process(Adds()).uid("adds"))


class ReturnsTuple(FlatMapFunction):
    def flat_map(self, value: Any) -> Any:
        return ("a", value)


def test_a_bare_tuple_is_iterated_as_in_pyflink() -> None:
    assert Harness.non_keyed(ReturnsTuple()).feed([1]).output == ["a", 1]


def test_a_bare_tuple_where_rows_are_declared_says_what_was_probably_meant() -> None:
    text = failure_of(orders().flat_map(lambda row: (row.name, row.price), ROW).map(lambda row: row))
    assert text.startswith("value 'ada' of type str does not fit the declared type ROW<")
    assert "its elements were taken as records: write `yield (a, b)` or `return [(a, b)]`" in text


def test_a_map_without_return_where_rows_are_declared_says_so() -> None:
    def forgets(row: Any) -> Any:
        (row.name, row.price)  # noqa: B018

    text = failure_of(orders().map(forgets, ROW).map(lambda row: row))
    assert text.startswith("value None of type NoneType does not fit the declared type ROW<")
    assert text.endswith("the function returned None: perhaps it ends without `return`")


def test_a_field_of_the_wrong_length_gets_no_hint_about_tuples() -> None:
    text = failure_of(orders().flat_map(lambda row: [(row.name,)], ROW).map(lambda row: row))
    assert "number of fields: 1 instead of 2" in text and "taken as records" not in text


def test_records_of_a_row_type_are_rows_by_name_or_position() -> None:
    class Keeps(MapFunction):
        def map(self, value: Any) -> Any:
            assert value.name == "ada" and value.price == 1
            return value

    for made in ({"price": 1, "name": "ada"}, Row(price=1, name="ada"), ["ada", 1], ("ada", 1)):
        stream = orders().map(lambda row, made=made: made, ROW).map(Keeps())
        Harness(build_job_graph(stream.get_execution_environment()._graph, GraphSettings())).feed(
            [Row(name="a", price=1)]
        )
    text = failure_of(orders().map(lambda row: "ab", ROW).map(Keeps()))
    assert text.startswith("value 'ab' of type str does not fit the declared type ROW<")


def test_records_are_shortened_and_a_repr_that_fails_is_no_second_error() -> None:
    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError("no repr")

    assert len(shortened("x" * 1000)) == 200 and shortened("x" * 1000).endswith("…")
    assert shortened(Odd()) == "<Odd whose repr raises RuntimeError>"

    class Lines:
        def __repr__(self) -> str:
            return "a\n   b"

    assert shortened(Lines()) == "a b"
