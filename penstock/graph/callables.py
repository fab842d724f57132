"""Plain callables as function objects, so that an operator always holds an object with the method of its kind.

The callable itself becomes the method of the instance, so `function.map(value)` costs no more than calling it.
"""

from collections.abc import Callable
from typing import Any

from penstock.errors import ArgumentError
from penstock.model.functions import (
    FilterFunction,
    FlatMapFunction,
    Function,
    KeySelector,
    MapFunction,
    Partitioner,
    ReduceFunction,
)
from penstock.model.join_functions import JoinFunction


class CallableMap(MapFunction):
    """A callable as MapFunction."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        vars(self)["map"] = function

    def map(self, value: Any) -> Any:
        """Replaced by the callable."""
        raise NotImplementedError


class CallableFlatMap(FlatMapFunction):
    """A callable as FlatMapFunction."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        vars(self)["flat_map"] = function

    def flat_map(self, value: Any) -> Any:
        """Replaced by the callable."""
        raise NotImplementedError


class CallableFilter(FilterFunction):
    """A callable as FilterFunction."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        vars(self)["filter"] = function

    def filter(self, value: Any) -> bool:
        """Replaced by the callable."""
        raise NotImplementedError


class CallableReduce(ReduceFunction):
    """A callable as ReduceFunction."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        vars(self)["reduce"] = function

    def reduce(self, value1: Any, value2: Any) -> Any:
        """Replaced by the callable."""
        raise NotImplementedError


class CallableKeySelector(KeySelector):
    """A callable as KeySelector."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        vars(self)["get_key"] = function

    def get_key(self, value: Any) -> Any:
        """Replaced by the callable."""
        raise NotImplementedError


class CallableJoin(JoinFunction):
    """A callable as JoinFunction."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        vars(self)["join"] = function

    def join(self, first: Any, second: Any) -> Any:
        """Replaced by the callable."""
        raise NotImplementedError


class CallablePartitioner(Partitioner):
    """A callable as Partitioner."""

    def __init__(self, function: Callable[[Any, int], int]) -> None:
        vars(self)["partition"] = function

    def partition(self, key: Any, num_partitions: int) -> int:
        """Replaced by the callable."""
        raise NotImplementedError


_METHODS: dict[type, str] = {
    CallableMap: "map",
    CallableFlatMap: "flat_map",
    CallableFilter: "filter",
    CallableReduce: "reduce",
    CallableKeySelector: "get_key",
    CallablePartitioner: "partition",
    CallableJoin: "join",
}


def is_wrapped(function: Any) -> bool:
    """Return whether the program gave a plain callable: it cannot have state."""
    return type(function) in _METHODS


def as_written(function: Any) -> Any:
    """The function as the program gave it: the callable, if it was one."""
    method = _METHODS.get(type(function))
    return function if method is None else vars(function)[method]


def as_function(function: Any, expected: type[Function], wrapper: Callable[[Any], Function]) -> Function:
    """The function object itself, or a callable wrapped as one; anything else is an ArgumentError."""
    if isinstance(function, expected):
        return function
    is_function_class = isinstance(function, type) and issubclass(function, Function)
    if callable(function) and not is_function_class and not isinstance(function, Function):
        return wrapper(function)
    raise ArgumentError(
        f"The input must be a {expected.__name__} or a callable function, not {describe_given(function)}; "
        f"write lambda value: ... or an instance of a {expected.__name__} subclass"
    )


def describe_given(value: Any) -> str:
    """What the program gave where a function object is expected."""
    if isinstance(value, type):
        return f"the class {value.__name__} (did you mean {value.__name__}()?)"
    return "None" if value is None else f"an object of type {type(value).__name__}"
