"""Functions that the graph provides: wrapped callables, aggregates, projection."""

import operator
from typing import Any

import pytest

from penstock.errors import UsageError
from penstock.graph.aggregates import FieldReduce, RecordReduce, resolve_position
from penstock.graph.callables import CallableMap, as_function, as_written, is_wrapped
from penstock.graph.pickling import dumps, loads
from penstock.graph.projection import project
from penstock.model.functions import FilterFunction, MapFunction
from penstock.model.row import Row
from penstock.model.types import TAGGED, Types, resolve_type

ORDER = resolve_type("customer string, amount double")


class Double(MapFunction):
    def map(self, value: Any) -> Any:
        return value * 2


def test_a_callable_becomes_the_method_itself():
    wrapped = as_function(str.upper, MapFunction, CallableMap)
    assert isinstance(wrapped, CallableMap) and wrapped.map is str.upper
    assert is_wrapped(wrapped) and as_written(wrapped) is str.upper
    assert loads(dumps(wrapped, "Map")).map("a") == "A"


def test_a_function_object_is_taken_as_it_is():
    double = Double()
    assert as_function(double, MapFunction, CallableMap) is double
    assert not is_wrapped(double) and as_written(double) is double


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "not None"),
        (3, "not an object of type int"),
        (Double, r"not the class Double \(did you mean Double\(\)\?\)"),
        (type("Other", (FilterFunction,), {"filter": lambda self, value: True})(), "not an object of type Other"),
    ],
)
def test_anything_else_is_a_type_error_that_says_what_to_write(given: Any, said: str):
    with pytest.raises(TypeError, match=f"The input must be a MapFunction or a callable function, {said}"):
        as_function(given, MapFunction, CallableMap)


def test_sum_keeps_the_first_record_and_adds_one_field():
    add = FieldReduce(operator.add, 1)
    assert add.reduce(("ada", 1), ("bob", 2)) == ("ada", 3)
    assert add.reduce(["ada", 1], ["bob", 2]) == ["ada", 3]
    summed = add.reduce(Row(customer="ada", amount=1.0), Row(customer="bob", amount=2.0))
    assert (summed.customer, summed.amount) == ("ada", 3.0)


def test_min_by_keeps_the_whole_record_and_the_first_of_equals():
    least = RecordReduce(operator.lt, 1)
    assert least.reduce(("a", 2), ("b", 1)) == ("b", 1)
    assert least.reduce(("a", 1), ("b", 1)) == ("a", 1)
    assert RecordReduce(operator.gt, 0).reduce(3, 5) == 5


def test_a_plain_value_is_its_own_field_0():
    assert FieldReduce(min, 0).reduce(4, 3) == 3
    with pytest.raises(TypeError, match="The 1 field selected on a basic type"):
        FieldReduce(min, 1).reduce(4, 3)
    with pytest.raises(TypeError, match="The 1 field selected on a basic type"):
        resolve_position(1, Types.LONG())


def test_a_field_is_found_by_name_from_the_type_or_from_the_record():
    assert resolve_position("amount", ORDER) == 1
    assert resolve_position("amount", TAGGED) == "amount"
    by_name = FieldReduce(operator.add, "amount")
    assert by_name.reduce(Row(customer="ada", amount=1), Row(customer="ada", amount=2)).amount == 3
    with pytest.raises(UsageError, match="no field 'amount' in"):
        by_name.reduce(("ada", 1), ("ada", 2))


def test_a_field_that_is_not_there_is_an_error_while_building():
    with pytest.raises(UsageError, match="no field 'total'"):
        resolve_position("total", ORDER)
    with pytest.raises(UsageError, match="no field 2 in records of type"):
        resolve_position(2, ORDER)
    with pytest.raises(TypeError, match="The field position must be of int or str type"):
        resolve_position(1.0, ORDER)


def test_project_keeps_fields_in_the_given_order():
    function, output_type = project(ORDER, (1, 0))
    row = function.map(Row(customer="ada", amount=2.0))
    assert row == (2.0, "ada") and row.amount == 2.0
    assert output_type == resolve_type("amount double, customer string")
    function, output_type = project(Types.TUPLE([Types.STRING(), Types.LONG()]), (1,))
    assert function.map(("ada", 2)) == (2,) and output_type == Types.TUPLE([Types.LONG()])


def test_project_needs_fields_to_choose_from():
    with pytest.raises(UsageError, match="Only Tuple DataStreams can be projected"):
        project(TAGGED, (0,))
    with pytest.raises(UsageError, match="give positions from 0 to 1"):
        project(ORDER, (2,))
