"""numpy arrays and scalars as values of states of declared numeric types, on both backends."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from penstock.common import Types
from penstock.datastream import KeyedProcessFunction, RuntimeContext
from penstock.datastream.state import ListStateDescriptor, ValueStateDescriptor
from penstock.errors import UserFunctionError
from penstock.testing import CHECKPOINT, CRASH, Harness

TYPES = [
    (Types.LONG(), np.int64, int),
    (Types.INT(), np.int32, int),
    (Types.SHORT(), np.uint8, int),
    (Types.DOUBLE(), np.float64, float),
    (Types.FLOAT(), np.float32, float),
    (Types.BOOLEAN(), np.bool_, bool),
]


class Keeps(KeyedProcessFunction):
    """Keeps arrays in a list state and in a value, and a scalar."""

    def __init__(self, type_info: Any, dtype: Any) -> None:
        self.type_info, self.dtype = type_info, dtype

    def open(self, runtime_context: RuntimeContext) -> None:
        self.elements: Any = runtime_context.get_list_state(ListStateDescriptor("list", self.type_info))
        self.array = runtime_context.get_state(ValueStateDescriptor("array", Types.LIST(self.type_info)))
        self.scalar = runtime_context.get_state(ValueStateDescriptor("scalar", self.type_info))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        self.elements.update(np.array([1, 0], dtype=self.dtype))
        self.elements.add_all(np.array([1], dtype=self.dtype))
        self.elements.add(self.dtype(0))
        self.array.update(np.array([1, 0, 1], dtype=self.dtype))
        self.scalar.update(self.dtype(1))
        yield from ()


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize(("type_info", "dtype", "plain"), TYPES, ids=lambda value: str(value))
def test_numbers_of_numpy_are_stored_as_plain_ones(type_info: Any, dtype: Any, plain: type, backend: str) -> None:
    harness = Harness.keyed(Keeps(type_info, dtype), key=str, backend=backend).feed(["a", CHECKPOINT, CRASH])
    assert harness.state("list", "a") == [1, 0, 1, 0]
    assert harness.state("array", "a") == [1, 0, 1]
    assert harness.state("scalar", "a") == 1
    kept = [*harness.state("list", "a"), *harness.state("array", "a"), harness.state("scalar", "a")]
    assert {type(number) for number in kept} == {plain}


def test_numbers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UserFunctionError, match="does not fit the declared type BYTE"):
        Harness.keyed(TooLarge(Types.BYTE(), np.int64), key=str).feed(["a"])


class TooLarge(Keeps):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        self.elements.update(np.array([300]))
        yield from ()
