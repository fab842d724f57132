import pickle
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import UsageError
from penstock.model.types import TAGGED, TypeInformation, Types, from_arrow, parse_type, resolve_type, to_ddl
from tests.codec.strategies import TYPES

SCALAR_DDL = {
    "boolean": "BOOLEAN",
    "tinyint": "BYTE",
    "byte": "BYTE",
    "smallint": "SHORT",
    "short": "SHORT",
    "int": "INT",
    "integer": "INT",
    "bigint": "LONG",
    "long": "LONG",
    "float": "FLOAT",
    "real": "FLOAT",
    "double": "DOUBLE",
    "string": "STRING",
    "varchar(20)": "STRING",
    "char(3)": "STRING",
    "binary": "BINARY",
    "date": "DATE",
    "time": "TIME",
    "time(6)": "TIME",
    "timestamp": "TIMESTAMP",
    "timestamp_ltz": "TIMESTAMP",
    "timestamp_ntz": "TIMESTAMP_NTZ",
    "interval day to second": "DURATION",
    "interval hour": "DURATION",
    "decimal": "DECIMAL(10,0)",
    "dec(5)": "DECIMAL(5,0)",
    "numeric(10, 2)": "DECIMAL(10,2)",
    "array<int>": "LIST<INT>",
    "map<string, array<double>>": "MAP<STRING, LIST<DOUBLE>>",
    "struct<a:int, `b c`: string>": 'ROW<"a" INT, "b c" STRING>',
    "struct<>": "ROW<>",
}


@given(TYPES)
def test_the_text_of_a_type_reads_back_as_the_type(type_info):
    assert parse_type(type_info.text) == type_info
    assert hash(parse_type(type_info.text)) == hash(type_info)


@given(TYPES, TYPES)
def test_types_are_equal_exactly_if_their_texts_are(left, right):
    assert (left == right) == (left.text == right.text)


@given(TYPES)
def test_types_survive_pickling(type_info):
    assert pickle.loads(pickle.dumps(type_info)) == type_info


@given(TYPES)
def test_ddl_of_a_type_names_the_stored_type(type_info):
    assert resolve_type(to_ddl(type_info)).arrow == type_info.arrow


@given(st.text(max_size=30) | st.text('ROWLISTMAP<>()," DECIMAL12a\\', max_size=30))
def test_any_other_text_of_a_type_is_a_usage_error(text):
    try:
        parse_type(text)
    except UsageError:
        pass


@given(st.text(max_size=30) | st.text("abstring int<>(),:`' 12", max_size=30))
def test_any_other_ddl_is_a_usage_error(text):
    try:
        resolve_type(text)
    except UsageError:
        pass


@pytest.mark.parametrize(
    "text", ["LIST<" * 1000 + "INT" + ">" * 1000, "LIST<INT, INT>", "MAP<INT>", "DECIMAL(39,0)", "INT INT"]
)
def test_hostile_texts_of_types_are_refused(text):
    with pytest.raises(UsageError):
        parse_type(text)


@pytest.mark.parametrize(("ddl", "expected"), SCALAR_DDL.items())
def test_a_ddl_type_alone_is_that_type(ddl, expected):
    assert resolve_type(ddl).text == expected
    assert resolve_type(ddl.upper() if "`" not in ddl and "a:" not in ddl else ddl).text == expected


@pytest.mark.parametrize(
    ("ddl", "names"),
    [
        ("customer string, amount double, at timestamp", ("customer", "amount", "at")),
        ("a: int, b: string", ("a", "b")),
        ("a int NOT NULL, b string COMMENT 'it''s' ", None),
        ("a int not null comment 'x, y', b string", ("a", "b")),
        ("`a b` int, `c``d` string", ("a b", "c`d")),
        ("date date, time time", ("date", "time")),
        ("array array<int>, struct struct<x:int>", ("array", "struct")),
        ("a decimal(10,2)", ("a",)),
        ("order-id string", ("order-id",)),
        ("not int, comment string", ("not", "comment")),
    ],
)
def test_a_ddl_field_list_is_a_row(ddl, names):
    if names is None:
        with pytest.raises(UsageError):
            resolve_type(ddl)
    else:
        assert resolve_type(ddl).names == names


@pytest.mark.parametrize(
    ("ddl", "problem"),
    [
        ("strin", "no type 'strin'"),
        ("a strin", "no type 'strin'"),
        ("a int,", "ends too early"),
        ("a int, a string", "occur twice"),
        ("array<int", "ends too early"),
        ("decimal(39,0)", "precision is 1 to 38"),
        ("decimal(x)", "expected a number"),
        ("interval year to month", "only intervals of day"),
        ("a int b", "after the type"),
        ("", "ends too early"),
        ("a int ''", "after the type"),
        ("a variant", "no type 'variant'"),
    ],
)
def test_a_wrong_ddl_says_what_is_wrong(ddl, problem):
    with pytest.raises(UsageError) as caught:
        resolve_type(ddl)
    assert problem in str(caught.value)


def test_none_is_the_untyped_type_and_types_are_themselves():
    assert resolve_type(None) is TAGGED
    assert resolve_type(Types.LONG()) is Types.LONG()
    assert (TAGGED.kind, Types.PICKLED_BYTE_ARRAY().kind, Types.LONG().kind) == ("tagged", "pickle", "arrow")


@pytest.mark.parametrize(
    ("arrow", "expected"),
    [
        (pa.int64(), "LONG"),
        (pa.large_string(), "STRING"),
        (pa.string_view(), "STRING"),
        (pa.large_binary(), "BINARY"),
        (pa.timestamp("ns", "Europe/Berlin"), "TIMESTAMP"),
        (pa.timestamp("s"), "TIMESTAMP_NTZ"),
        (pa.time32("ms"), "TIME"),
        (pa.time64("us"), "TIME"),
        (pa.date64(), "DATE"),
        (pa.duration("s"), "DURATION"),
        (pa.decimal128(5, 2), "DECIMAL(5,2)"),
        (pa.decimal128(38, 0), "DECIMAL(38,0)"),
        (pa.binary(), "BINARY"),
        (pa.large_list(pa.int8()), "LIST<BYTE>"),
        (pa.list_(pa.int8(), 3), "LIST<BYTE>"),
        (pa.map_(pa.string(), pa.float32()), "MAP<STRING, FLOAT>"),
        (pa.struct([("a", pa.bool_())]), 'ROW<"a" BOOLEAN>'),
        (pa.dictionary(pa.int32(), pa.string()), "STRING"),
    ],
)
def test_arrow_types_are_types(arrow, expected):
    assert from_arrow(arrow).text == expected


def test_an_arrow_schema_is_a_row():
    schema = pa.schema([("customer", pa.string()), ("amount", pa.float64())])
    assert resolve_type(schema) == resolve_type("customer string, amount double")


@pytest.mark.parametrize("arrow", [pa.uint64(), pa.null(), pa.float16(), pa.decimal256(50, 0)])
def test_arrow_types_without_a_counterpart_are_refused(arrow):
    with pytest.raises(UsageError):
        resolve_type(arrow)


class SparkType:
    """What `resolve_type` looks for in a Spark type."""

    def __init__(self, json_value: Any) -> None:
        self._json_value = json_value

    def jsonValue(self) -> Any:
        return self._json_value

    def simpleString(self) -> str:
        return "not used"


def test_a_spark_schema_is_a_row():
    field = {"nullable": True, "metadata": {}}
    struct = {
        "type": "struct",
        "fields": [
            {"name": "a b", "type": "long", **field},
            {"name": "c", "type": {"type": "array", "elementType": "decimal(10,2)", "containsNull": True}, **field},
            {"name": "d", "type": {"type": "map", "keyType": "string", "valueType": "timestamp_ntz"}, **field},
        ],
    }
    expected = 'ROW<"a b" LONG, "c" LIST<DECIMAL(10,2)>, "d" MAP<STRING, TIMESTAMP_NTZ>>'
    assert resolve_type(SparkType(struct)).text == expected
    assert resolve_type(SparkType("integer")) == Types.INT()
    with pytest.raises(UsageError, match="udt"):
        resolve_type(SparkType({"type": "udt"}))


@pytest.mark.parametrize("spec", [5, int, SparkType, [Types.LONG()], {"a": "int"}])
def test_anything_else_is_not_a_type(spec):
    with pytest.raises(UsageError, match="is not a type"):
        resolve_type(spec)


def test_pyflinks_constructors():
    assert Types.ROW([Types.LONG(), "string"]) == Types.ROW_NAMED(["f0", "f1"], [Types.LONG(), Types.STRING()])
    assert Types.ROW([Types.LONG()]).get_field_names() == ["f0"]
    assert Types.ROW([Types.LONG()]).get_field_types() == [Types.LONG()]
    assert Types.TUPLE([Types.LONG()]) != Types.ROW([Types.LONG()])
    assert Types.PRIMITIVE_ARRAY(Types.BYTE()).arrow == pa.binary()
    assert Types.PRIMITIVE_ARRAY(Types.INT()) == Types.BASIC_ARRAY(Types.INT()) == Types.OBJECT_ARRAY(Types.INT())
    assert Types.LIST(Types.INT()) == Types.BASIC_ARRAY(Types.INT())
    assert Types.CHAR() == Types.STRING()
    assert Types.BIG_DEC().text == "BIG_DEC"
    assert Types.MAP(Types.BIG_DEC(), Types.BIG_DEC()).text == "MAP<DECIMAL(38,18), BIG_DEC>"
    assert Types.MAP(Types.STRING(), Types.SQL_DATE()).children[1] == Types.SQL_DATE()
    assert (Types.SHORT().arrow, Types.FLOAT().arrow, Types.BOOLEAN().arrow) == (pa.int16(), pa.float32(), pa.bool_())
    assert (Types.SQL_TIME().text, Types.INSTANT().text, Types.BIG_INT().text) == ("TIME", "INSTANT", "BIG_INT")


def test_a_type_is_written_as_in_pyflink():
    pair = [Types.STRING(), Types.INT()]
    assert str(Types.ROW_NAMED(["a", "b"], pair)) == "RowTypeInfo(a: String, b: Integer)"
    assert str(Types.ROW(pair)) == "RowTypeInfo(String, Integer)"
    assert str(Types.TUPLE([*pair, Types.LIST(Types.LONG())])) == "TupleTypeInfo(String, Integer, ListTypeInfo<Long>)"
    assert str(Types.MAP(Types.STRING(), Types.SQL_DATE())) == "MapTypeInfo<String, DateTypeInfo>"
    assert str(Types.PICKLED_BYTE_ARRAY()) == str(resolve_type(None)) == "PickledByteArrayTypeInfo"
    assert str(resolve_type("price decimal(10,2)")) == "RowTypeInfo(price: DECIMAL(10,2))"
    assert repr(Types.ROW(pair)) == """TypeInformation('ROW<"f0" STRING, "f1" INT>')"""


def test_a_field_of_a_row_has_its_type():
    row = resolve_type("customer string, amount double")
    assert row.field("amount") == Types.DOUBLE()
    assert (row.get_field_index("amount"), row.get_field_index("total")) == (1, -1)
    with pytest.raises(UsageError, match="its fields are 'customer', 'amount'"):
        row.field("total")
    with pytest.raises(UsageError, match="has no named fields"):
        Types.LONG().field("x")


def test_rows_need_a_name_and_a_type_for_each_field():
    for names, fields in (["a"], []), ([""], [Types.LONG()]), (["a", "a"], [Types.LONG(), Types.LONG()]):
        with pytest.raises(UsageError):
            Types.ROW_NAMED(names, fields)


def test_pickles_are_found_inside_other_types():
    assert Types.LIST(Types.PICKLED_BYTE_ARRAY()).uses_pickle
    assert not Types.LIST(TAGGED).uses_pickle
    assert repr(Types.LIST(TAGGED)) == "TypeInformation('LIST<TAGGED>')"
    assert isinstance(TAGGED, TypeInformation)
