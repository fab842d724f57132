"""Checks of the settings of a harness that describe its function: what cannot work, or would have no effect."""

from typing import TYPE_CHECKING, Any

from penstock.errors import ArgumentError, UsageError
from penstock.graph.callables import describe_given
from penstock.graph.function_checks import check_function
from penstock.model.functions import AggregateFunction, ReduceFunction
from penstock.model.join_functions import CoGroupFunction, FlatJoinFunction, JoinFunction, ProcessJoinFunction
from penstock.model.window_assigners import WindowAssigner
from penstock.model.window_functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from penstock.model.window_triggers import Trigger

if TYPE_CHECKING:
    from penstock.testing.graphs import FunctionProgram

WINDOW_JOINS = (CoGroupFunction, JoinFunction, FlatJoinFunction)
"""Functions that get the records of two streams, by key and window."""
OF_WINDOWS = ("trigger", "allowed_lateness", "window_function", "accumulator_type")


def check_program(program: "FunctionProgram") -> None:
    """Raise for settings of the wrong kind, and for those that need another one."""
    _check_numbers(program)
    for name in ("key", "timestamp", "second_key", "second_timestamp"):
        given = getattr(program, name)
        if given is not None and not callable(given):
            raise ArgumentError(f"{name}={given!r}: it must be a function of a record, such as lambda r: r.name")
    joins = isinstance(program.function, ProcessJoinFunction)
    if program.between is not None and not joins:
        raise UsageError("between= is of an interval join; give a ProcessJoinFunction, or remove it")
    if isinstance(program.function, WINDOW_JOINS):
        _check_window_join(program)
    if program.window is not None:
        _check_windows(program)
        return
    for name in OF_WINDOWS:
        if getattr(program, name):
            raise UsageError(f"{name}= has no effect without window=; give a window assigner, or remove it")
    if program.late_data is not None and not joins:
        raise UsageError("late_data= has no effect without window= or between=; give one of them, or remove it")


def _check_numbers(program: "FunctionProgram") -> None:
    for name in ("parallelism", "max_parallelism"):
        number = getattr(program, name)
        is_number = isinstance(number, int) and not isinstance(number, bool)
        if not (is_number and number >= 1) and not (number is None and name == "max_parallelism"):
            raise UsageError(f"{name}={number!r}: it must be a number of 1 or more")


def _check_window_join(program: "FunctionProgram") -> None:
    """A join by window has the settings of windows without those that the stream's method does not have."""
    name = type(program.function).__name__
    if program.key is None or program.window is None:
        missing = "window=" if program.key is not None else "Harness.keyed(…, key=…)"
        raise UsageError(f"{name} gets the records of two streams with one key in one window; write {missing}")
    for setting in ("late_data", "window_function", "accumulator_type"):
        if getattr(program, setting) is not None:
            raise UsageError(f"{setting}= has no meaning for {name}: a join by window has no such thing; remove it")
    kinds = {CoGroupFunction: "co_group", JoinFunction: "join", FlatJoinFunction: "flat_join"}
    check_function(program.function, next(kind for base, kind in kinds.items() if isinstance(program.function, base)))


def _check_windows(program: "FunctionProgram") -> None:
    if not isinstance(program.window, WindowAssigner):
        raise ArgumentError(
            f"window= takes a WindowAssigner, not {describe_given(program.window)}; give "
            f"TumblingEventTimeWindows.of(Time.seconds(10)), for example"
        )
    if program.trigger is not None and not isinstance(program.trigger, Trigger):
        raise ArgumentError(
            f"trigger= takes a Trigger, not {describe_given(program.trigger)}; give CountTrigger.of(10), for example"
        )
    if isinstance(program.function, WINDOW_JOINS):
        return
    suffix = "" if program.key is not None else "_all"
    combines: dict[type, str] = {ReduceFunction: "window_reduce", AggregateFunction: "window_aggregate"}
    evaluates: dict[type, str] = {
        WindowFunction if program.key is not None else AllWindowFunction: f"window_apply{suffix}",
        ProcessWindowFunction if program.key is not None else ProcessAllWindowFunction: f"window_process{suffix}",
    }
    is_combined = isinstance(program.function, tuple(combines))
    _check_kind("a harness with window=", program.function, {**combines, **evaluates})
    if program.window_function is None:
        return
    if not is_combined:
        raise UsageError(
            "window_function= gets what a ReduceFunction or an AggregateFunction has combined; the function of this "
            "harness gets the records itself, so remove it"
        )
    _check_kind("window_function=", program.window_function, evaluates)


def _check_kind(what: str, function: Any, kinds: dict[type, str]) -> None:
    kind = next((kind for base, kind in kinds.items() if isinstance(function, base)), None)
    if kind is None:
        names = [base.__name__ for base in kinds]
        raise ArgumentError(
            f"{what} takes an instance of {', '.join(names[:-1])} or {names[-1]}, not {describe_given(function)}"
        )
    check_function(function, kind)
