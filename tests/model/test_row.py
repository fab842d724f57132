import copy
import pickle

import cloudpickle
import pytest

from penstock.model.row import Row, RowKind, make_row, row_class


def test_a_row_is_read_by_name_index_attribute_and_unpacking():
    row = Row(customer="ada", amount=2.0)
    customer, amount = row
    assert (customer, amount) == ("ada", 2.0) == (row.customer, row.amount) == (row["customer"], row[1])
    assert row[0:1] == ("ada",) and row[-1] == 2.0 and len(row) == 2 and "customer" in row and "ada" in Row("ada")
    assert row._fields == ("customer", "amount") == tuple(row.get_field_names())
    with pytest.raises(KeyError):
        row["total"]
    with pytest.raises(IndexError):
        row[len(row)]
    assert not hasattr(row, "total")
    with pytest.raises(AttributeError):
        setattr(row, "amount", 3.0)  # noqa: B010


def test_equality_and_hash_are_those_of_the_tuple():
    assert Row(a=1, b=2) == (1, 2) == Row(1, 2) == Row(x=1, y=2)
    assert hash(Row(a=1)) == hash((1,))


def test_rows_look_as_in_pyflink():
    assert repr(Row(a=1, b="x")) == "Row(a=1, b='x')"
    assert repr(Row("a", 1)) == "<Row('a', 1)>"


def test_one_class_per_schema_is_made_once():
    cls = row_class(("a", "b"))
    assert row_class(("a", "b")) is cls is type(Row(a=1, b=2))
    row = cls.make(iter([1, 2]))
    assert type(row) is cls and row.b == 2
    assert cls(1, 2) == cls(b=2, a=1) == row


def test_columns_may_have_any_name():
    row = row_class(("make", "count", "index", "as_dict", "a b", "class", "_fields", "__len__")).make(range(8))
    assert (row.make, row.count, row.index, row.as_dict) == (0, 1, 2, 3)
    assert row["a b"] == 4 and row["_fields"] == 6 and row["__len__"] == 7
    assert len(row) == 8 and type(row).make(range(8)) == row
    assert pickle.loads(pickle.dumps(row))["_fields"] == 6


@pytest.mark.parametrize("row", [Row(a=1, b=[2]), Row(1, [2]), Row(), row_class(())()])
def test_rows_are_pickled_and_copied(row):
    for other in (pickle.loads(pickle.dumps(row)), cloudpickle.loads(cloudpickle.dumps(row)), copy.copy(row)):
        assert other == row and type(other) is type(row)
    deep = copy.deepcopy(row)
    assert deep == row and type(deep) is type(row)
    assert len(row) == 0 or deep[1] is not row[1]


def test_wrong_values_are_refused():
    cls = row_class(("a", "b"))
    for wrong in (lambda: cls(1), lambda: cls(a=1, c=2), lambda: Row(1, b=2)):
        with pytest.raises(ValueError):
            wrong()


def test_a_row_of_names_makes_rows():
    person = Row("name", "age")
    assert person("ada", 36).name == "ada"


def test_a_row_as_a_dictionary():
    row = Row(a=1, b=Row(c=2, d=[Row(e=3)], f={"g": Row(4)}))
    assert row.as_dict() == {"a": 1, "b": row.b}
    assert row.as_dict(recursive=True) == {"a": 1, "b": {"c": 2, "d": [{"e": 3}], "f": {"g": (4,)}}}
    with pytest.raises(TypeError):
        Row(1, 2).as_dict()


def test_rows_only_insert():
    assert Row(1).get_row_kind() is RowKind.INSERT
    assert make_row(None, [1]).get_field_names() == []


def test_the_kind_of_a_row() -> None:
    row = Row.of_kind(RowKind.UPDATE_AFTER, name="ada", total=2)
    assert row.get_row_kind() is RowKind.UPDATE_AFTER and tuple(row) == ("ada", 2) and row.name == "ada"
    assert repr(row) == "Row(name='ada', total=2)"
    assert pickle.loads(pickle.dumps(row)).get_row_kind() is RowKind.UPDATE_AFTER
    row.set_row_kind(RowKind.INSERT)
    assert row.get_row_kind() is RowKind.INSERT and type(row) is row_class(("name", "total"))
    assert Row.of_kind(RowKind.DELETE, 1).get_row_kind() is RowKind.DELETE
    assert [str(kind) for kind in RowKind] == ["+I", "-U", "+U", "-D"]


def test_the_fields_of_a_row_can_be_named_later() -> None:
    row = Row(1, 2)
    assert row.get_fields_by_names(["any"]) == [1, 2]
    row.set_field_names(["a", "b"])
    assert row.b == 2 and row.get_fields_by_names(["b", "a"]) == [2, 1] and "a" in row and 1 not in row
    with pytest.raises(KeyError, match="no fields c"):
        row.get_fields_by_names(["c"])
    with pytest.raises(ValueError, match="1 names given for a row of 2 values"):
        row.set_field_names(["a"])


def test_a_change_of_a_row_is_an_error_that_says_what_to_do() -> None:
    row = Row(customer="ada", amount=1)
    with pytest.raises(TypeError, match=r"a Row cannot be changed.*\['amount'\] = 2; make a new one"):
        row["amount"] = 2
    assert row._values == ["ada", 1]
