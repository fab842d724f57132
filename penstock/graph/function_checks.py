"""Finds mistakes in functions before anything runs.

They are: parameters that do not fit, `yield` where one result is expected, `async`, timers without an `on_timer`.

A function without a readable signature, such as some builtins, is accepted: the first record shows whether it works.
"""

import inspect
import types
from collections.abc import Iterator
from functools import partial
from typing import Any

from penstock.errors import ArgumentError, UsageError
from penstock.graph.callables import as_written, describe_given, is_wrapped
from penstock.model.async_functions import (
    AsyncFunction,
    AsyncFunctionDescriptor,
    AsyncRetryStrategy,
    NoRetryStrategy,
)
from penstock.model.broadcast_functions import KeyedBroadcastProcessFunction
from penstock.model.co_functions import KeyedCoProcessFunction
from penstock.model.functions import Function, KeyedProcessFunction
from penstock.model.operator_state import CheckpointedFunction, CheckpointListener
from penstock.model.time import milliseconds
from penstock.model.watermark import CallableAssigner, WatermarkStrategy

_Parameters = tuple[str, ...]
_ELEMENT: _Parameters = ("value", "ctx")
_TIMER: _Parameters = ("timestamp", "ctx")
_METHODS: dict[str, dict[str, _Parameters]] = {
    "map": {"map": ("value",)},
    "flat_map": {"flat_map": ("value",)},
    "filter": {"filter": ("value",)},
    "reduce": {"reduce": ("value1", "value2")},
    "key_by": {"get_key": ("value",)},
    "partition_custom": {"partition": ("key", "num_partitions")},
    "process": {"process_element": _ELEMENT},
    "keyed_process": {"process_element": _ELEMENT, "on_timer": _TIMER},
    "broadcast": {"process_element": _ELEMENT, "process_broadcast_element": _ELEMENT},
    "keyed_broadcast": {"process_element": _ELEMENT, "process_broadcast_element": _ELEMENT, "on_timer": _TIMER},
    "co_map": {"map1": ("value",), "map2": ("value",)},
    "co_flat_map": {"flat_map1": ("value",), "flat_map2": ("value",)},
    "co_process": {"process_element1": _ELEMENT, "process_element2": _ELEMENT},
    "keyed_co_process": {"process_element1": _ELEMENT, "process_element2": _ELEMENT, "on_timer": _TIMER},
    "window_reduce": {"reduce": ("value1", "value2")},
    "window_aggregate": {
        "create_accumulator": (),
        "add": ("value", "accumulator"),
        "get_result": ("accumulator",),
        "merge": ("acc_a", "acc_b"),
    },
    "window_apply": {"apply": ("key", "window", "inputs")},
    "window_apply_all": {"apply": ("window", "inputs")},
    "window_process": {"process": ("key", "context", "elements"), "clear": ("context",)},
    "window_process_all": {"process": ("context", "elements"), "clear": ("context",)},
    "keyed_epoch": {},
    "keyed_batch": {"process_batch": ("batch", "keys", "ctx")},
    "stateful_processor": {
        "init": ("handle",),
        "handleInputRows": ("key", "rows", "timerValues"),
        "handleExpiredTimer": ("key", "timerValues", "expiredTimerInfo"),
        "handleInitialState": ("key", "initialState", "timerValues"),
        "close": (),
    },
    "source_function": {"run": ("ctx",), "cancel": ()},
    "sink_function": {"invoke": ("value", "context"), "finish": ()},
    "async_wait": {"async_invoke": ("value",), "timeout": ("value",)},
    "co_interval_join": {"process_element": ("left", "right", "ctx")},
    "join": {"join": ("first", "second")},
    "flat_join": {"join": ("first", "second")},
    "co_group": {"co_group": ("first", "second")},
    "timestamps": {"extract_timestamp": ("value", "record_timestamp")},
}
_OF_EVERY_FUNCTION: dict[type, dict[str, _Parameters]] = {
    Function: {"open": ("runtime_context",), "close": ()},
    CheckpointedFunction: {"initialize_state": ("context",), "snapshot_state": ("context",)},
    CheckpointListener: {
        "notify_checkpoint_complete": ("checkpoint_id",),
        "notify_checkpoint_aborted": ("checkpoint_id",),
    },
}
_CALLERS = {
    "timestamps": "with_timestamp_assigner",
    "async_wait": "the operator",
    "source_function": "add_source",
    "sink_function": "add_sink",
    "keyed_batch": "process",
    "broadcast": "process",
    "keyed_broadcast": "process",
    "co_map": "map",
    "co_flat_map": "flat_map",
    "co_process": "process",
    "keyed_co_process": "process",
    "co_interval_join": "process",
    "join": "apply",
    "flat_join": "apply",
    "co_group": "apply",
}
"""Kind -> the method of the stream, where it has another name."""
_SHORTER: dict[tuple[str, str], _Parameters] = {("stateful_processor", "handleInputRows"): ("key", "rows")}
"""Kind and method -> fewer parameters that are accepted too: those of the examples in Spark's API reference."""
_ONE_RESULT = ("map", "map1", "map2", "filter", "reduce", "get_key", "partition", "extract_timestamp", "process_batch")
_REGISTER = ("register_event_time_timer", "register_processing_time_timer")
_COUNTS = ("no arguments", "one argument", "two arguments", "three arguments")


def check_function(function: Any, kind: str) -> None:
    """Raise unless an operator of this kind can call the function (kinds are those of `OperatorPlan`, and key_by)."""
    if kind == "timestamps":
        function = function.timestamp_assigner if isinstance(function, WatermarkStrategy) else function
        if function is None:
            return
    if isinstance(function, AsyncFunctionDescriptor):
        check_async(function)
        function = function.async_function
    plain = kind if kind in _METHODS else kind.removeprefix("keyed_")
    caller = _CALLERS.get(plain, plain.removeprefix("keyed_"))
    if plain.startswith("window_"):
        caller = plain.removeprefix("window_").removesuffix("_all")
    for method, parameters in _METHODS[plain].items():
        shorter = _SHORTER.get((plain, method))
        is_short = shorter is not None and takes(getattr(function, method), shorter)
        _check_method(function, method, shorter if is_short and shorter else parameters, caller)
    for base, methods in _OF_EVERY_FUNCTION.items():
        if isinstance(function, base) and not is_wrapped(function):
            for method, parameters in methods.items():
                _check_method(function, method, parameters, "the operator")
    elements = [getattr(function, method) for method in _METHODS[plain] if method.startswith("process_element")]
    if "on_timer" in _METHODS[plain] and not handles_timers(function) and any(map(_registers_timers, elements)):
        raise UsageError(no_on_timer(function))


def check_async(call: AsyncFunctionDescriptor) -> None:
    """Raise unless an AsyncFunction can be called as described."""
    strategy, capacity = call.async_retry_strategy, call.capacity
    if not isinstance(call.async_function, AsyncFunction):
        raise ArgumentError(
            f"async I/O takes an AsyncFunction, not {describe_given(call.async_function)}; give an instance of a "
            f"subclass of AsyncFunction"
        )
    if isinstance(capacity, bool) or not isinstance(capacity, int) or capacity < 1:
        raise ArgumentError(f"capacity is {capacity!r}; it must be 1 or more")
    if not isinstance(strategy, AsyncRetryStrategy):
        raise ArgumentError(f"async_retry_strategy is {strategy!r}; give one such as AsyncRetryStrategy.fixed_delay(…)")
    if strategy.get_retry_predicate() is None:
        raise ArgumentError(f"the retry predicate of {type(strategy).__name__} is None; return an AsyncRetryPredicate")
    if milliseconds(call.timeout) == 0 and not isinstance(strategy, NoRetryStrategy):
        raise ArgumentError("Timeout should be configured when do async with retry; give one of more than 0")


def check_writer(write: Any) -> None:
    """Raise unless `to_spark` can call the function with a DataFrame and an epoch."""
    _check_parameters(write, ("df", "epoch"), _describe_callable(write), "to_spark()", "write")


def handles_timers(function: Any) -> bool:
    """Return whether the function has an `on_timer` of its own; the inherited one does nothing."""
    inherited = (
        KeyedProcessFunction.on_timer,
        KeyedBroadcastProcessFunction.on_timer,
        KeyedCoProcessFunction.on_timer,
    )
    own = getattr(type(function), "on_timer", None)
    return "on_timer" in getattr(function, "__dict__", {}) or (own is not None and own not in inherited)


def no_on_timer(function: Any) -> str:
    """The message for a function that registers timers but does not handle them."""
    return (
        f"{type(function).__name__} registers timers but has no on_timer(), so nothing would happen when they fire; "
        f"add def on_timer(self, timestamp, ctx)"
    )


def _check_method(function: Any, method: str, parameters: _Parameters, caller: str) -> None:
    if is_wrapped(function):
        called, what = as_written(function), _describe_callable(as_written(function))
    elif isinstance(function, CallableAssigner):
        called, what = function.function, _describe_callable(function.function)
    else:
        called = getattr(function, method)
        what = f"{type(function).__name__}.{method}{_place(called)}"
    call = "the operator" if caller == "the operator" else f"{caller}()"
    _check_parameters(called, parameters, what, call, method)
    body = _body(called)
    if method == "async_invoke":
        if not inspect.iscoroutinefunction(body):
            raise ArgumentError(f"{what} should be declared as 'async def'")
    elif inspect.iscoroutinefunction(body) or inspect.isasyncgenfunction(body):
        raise ArgumentError(f"{what} is async, but functions are called one record at a time; write def, not async def")
    if method in _ONE_RESULT and inspect.isgeneratorfunction(body):
        instead = "use flat_map(), or return the value" if method == "map" else "return the value"
        each = "batch: a pyarrow.RecordBatch" if method == "process_batch" else "record"
        raise ArgumentError(f"{what} yields, but {call} takes one result for each {each}; {instead}")


def takes(called: Any, parameters: _Parameters) -> bool:
    """Return whether a function can be called with these arguments, as far as its signature can be read."""
    try:
        signature = inspect.signature(called, follow_wrapped=False)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(*parameters)
    except TypeError:
        return False
    return True


def _check_parameters(called: Any, parameters: _Parameters, what: str, call: str, method: str) -> None:
    if takes(called, parameters):
        return
    signature = inspect.signature(called, follow_wrapped=False)
    bound = isinstance(called, types.MethodType)
    names = [str(parameter.replace(annotation=parameter.empty)) for parameter in signature.parameters.values()]
    taken = ", ".join(["self", *names] if bound else names)
    wanted = ", ".join(parameters)
    example = f"def {method}({', '.join(['self', *parameters])})" if bound else f"lambda {wanted}: ..."
    if isinstance(called, type) and callable(getattr(called, method, None) or vars(called).get("__call__")):
        example = f"{called.__name__}(), an instance of the class"
    raise ArgumentError(
        f"{what} takes ({taken}), but {call} calls it with {_COUNTS[len(parameters)]}, ({wanted}); write {example}"
    )


def _describe_callable(function: Any) -> str:
    if isinstance(function, type):
        return f"the class {function.__name__}"
    name = getattr(function, "__name__", type(function).__name__)
    return (f"the {name.strip('<>')}" if name == "<lambda>" else f"the function {name}") + _place(function)


def _place(function: Any) -> str:
    code = getattr(_body(function), "__code__", None)
    return f" at {code.co_filename}:{code.co_firstlineno}" if isinstance(code, types.CodeType) else ""


def _body(function: Any) -> Any:
    """The plain function inside a method, a partial or a callable object."""
    while True:
        if isinstance(function, types.MethodType):
            function = function.__func__
        elif isinstance(function, partial):
            function = function.func
        elif not isinstance(function, (types.FunctionType, types.BuiltinFunctionType, type)):
            call = type(function).__call__ if callable(function) else None
            return call if isinstance(call, types.FunctionType) else function
        else:
            return function


def _registers_timers(function: Any) -> bool:
    code = getattr(_body(function), "__code__", None)
    return isinstance(code, types.CodeType) and any(name in _REGISTER for name in _names(code))


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)
