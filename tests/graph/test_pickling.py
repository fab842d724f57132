"""Functions as bytes, and the errors for those that cannot be pickled."""

import threading
from typing import Any

import pytest

from penstock.errors import NotPicklableError
from penstock.graph.callables import CallableMap
from penstock.graph.pickling import dumps, function_name, loads
from penstock.model.functions import MapFunction

LOCK = threading.Lock()


def with_global(value: Any) -> Any:
    return LOCK, value


class Holder(MapFunction):
    def __init__(self) -> None:
        self.connections = {"first": threading.Lock()}

    def map(self, value: Any) -> Any:
        return value


def test_a_lambda_with_a_closure_comes_back_equal():
    offset = 3
    copy = loads(dumps(CallableMap(lambda value: value + offset), "Map"))
    assert copy.map(4) == 7


def test_every_load_is_a_new_object():
    data = dumps(CallableMap(str), "Map")
    assert loads(data) is not loads(data)


def test_a_captured_variable_at_fault_is_named():
    lock = threading.Lock()
    with pytest.raises(NotPicklableError, match=r"operator 'Parse'.*uses 'lock', a _thread\.lock.*open\(\)"):
        dumps(CallableMap(lambda value: (lock, value)), "Parse")


def test_an_attribute_at_fault_is_named_with_its_path():
    with pytest.raises(NotPicklableError, match=r"function 'Holder' of operator 'Map'.*'connections\.first'"):
        dumps(Holder(), "Map")


def test_a_global_at_fault_is_named():
    def in_main(value: Any) -> Any:
        return LOCK, value

    with pytest.raises(NotPicklableError, match="'LOCK'"):
        dumps(CallableMap(in_main), "Map")


def test_a_method_at_fault_names_what_its_object_holds():
    class Client:
        def __init__(self) -> None:
            self.lock = threading.Lock()

        def call(self, value: Any) -> Any:
            return value

    with pytest.raises(NotPicklableError, match=r"'self\.lock'"):
        dumps(CallableMap(Client().call), "Map")


def test_a_default_at_fault_is_named():
    def with_default(value: Any, guard: Any = threading.Lock()) -> Any:  # noqa: B008
        return guard, value

    with pytest.raises(NotPicklableError, match="'guard'"):
        dumps(CallableMap(with_default), "Map")


def test_an_object_whose_own_pickling_fails_is_reported_with_its_reason():
    class Stubborn(MapFunction):
        def map(self, value: Any) -> Any:
            return value

        def __reduce__(self) -> Any:
            raise TypeError("never")

    with pytest.raises(NotPicklableError, match="'Stubborn' of operator 'Map'.*: never;"):
        dumps(Stubborn(), "Map")


def test_names_of_functions_are_those_of_the_program():
    assert function_name(CallableMap(with_global)) == "with_global"
    assert function_name(CallableMap(lambda value: value)) == "lambda"
    assert function_name(Holder()) == "Holder"
