"""The interfaces of functions and states: names as in PyFlink, and what they do by themselves."""

import doctest
import importlib
from typing import Any

import pytest

import penstock.common
from penstock.model.functions import (
    FilterFunction,
    Function,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    RuntimeContext,
)
from penstock.model.state import ListState, MapState
from penstock.model.window_functions import WindowFunction
from penstock.model.windows import CountWindow

MODULES = [
    "ddl",
    "key_groups",
    "narrowed_integers",
    "option",
    "quantities",
    "row",
    "time",
    "ttl",
    "type_information",
    "types",
    "configuration",
    "watermark",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_are_true(name):
    results = doctest.testmod(importlib.import_module(f"penstock.model.{name}"))
    assert results.attempted > 0 and results.failed == 0


def test_everything_in_all_can_be_imported_and_is_sorted():
    package = penstock.common
    assert package.__all__ == sorted(package.__all__)
    assert all(hasattr(package, name) for name in package.__all__)


class Doubled(MapFunction[int, int]):  # type: ignore[type-arg]
    def map(self, value: int) -> int:
        return value * 2


class Even(FilterFunction[int]):  # type: ignore[type-arg]
    def filter(self, value: int) -> bool:
        return value % 2 == 0


def test_functions_may_be_written_with_the_types_of_their_records():
    assert Doubled().map(2) == 4 and issubclass(Doubled, MapFunction)
    assert Even().filter(2) and not Even().filter(1)
    window: Any = WindowFunction[tuple[str, int], int, str, CountWindow]
    assert window.__origin__ is WindowFunction


class Letters(ListState[str]):
    def __init__(self) -> None:
        self.kept: list[str] = []

    def get(self):
        return list(self.kept)

    def add(self, value):
        self.kept.append(value)

    def add_all(self, values):
        self.kept.extend(values)

    def update(self, values):
        self.kept = list(values)

    def clear(self):
        self.kept = []


class Counts(MapState[str, int]):
    def __init__(self) -> None:
        self.kept: dict[str, int] = {}

    def get(self, key):
        return self.kept.get(key)

    def put(self, key, value):
        self.kept[key] = value

    def put_all(self, dict_value):
        self.kept.update(dict_value)

    def remove(self, key):
        self.kept.pop(key, None)

    def contains(self, key):
        return key in self.kept

    def items(self):
        return self.kept.items()

    def keys(self):
        return self.kept.keys()

    def values(self):
        return self.kept.values()

    def is_empty(self):
        return not self.kept

    def clear(self):
        self.kept.clear()


def test_b4_a_map_state_works_with_brackets_in_del_and_iteration():
    counts = Counts()
    counts["a"] = 1
    counts["b"] = 2
    assert counts["a"] == 1 and counts["missing"] is None and "a" in counts and list(counts) == ["a", "b"]
    del counts["a"]
    assert "a" not in counts


def test_b14_a_map_state_has_no_size():
    assert not hasattr(Counts(), "size")
    assert not hasattr(Counts(), "__len__")


def test_b3_a_list_state_is_iterable():
    letters = Letters()
    letters.add_all(["x", "y"])
    assert list(letters) == ["x", "y"]


class Identity(MapFunction):
    def map(self, value):
        return value


def test_b9_open_and_close_are_optional_and_the_work_is_not():
    function = Identity()
    function.open(None)  # type: ignore[arg-type]
    function.close()
    with pytest.raises(TypeError):
        MapFunction()  # type: ignore[abstract]
    assert issubclass(ProcessFunction, Function)


class Silent(KeyedProcessFunction):
    def process_element(self, value, ctx):
        return None


def test_on_timer_is_optional():
    context: Any = None
    assert Silent().on_timer(0, context) is None
    assert issubclass(KeyedProcessFunction.OnTimerContext, KeyedProcessFunction.Context)


def test_a_task_is_named_with_its_subtask_counted_from_one():
    class Context(RuntimeContext):
        def get_task_name(self):
            return "totals"

        def get_index_of_this_subtask(self):
            return 0

        def get_number_of_parallel_subtasks(self):
            return 2

    Context.__abstractmethods__ = frozenset()
    assert Context().get_task_name_with_subtasks() == "totals (1/2)"  # type: ignore[abstract]
