"""Which changes of a state's schema are allowed, and what they do to columns (features O11, O12, reliability B-M12)."""

from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.codec.columns import decode_column, encode_column
from penstock.errors import IncompatibleStateError, TypeMismatchError
from penstock.model.descriptors import Migration, ValueStateDescriptor
from penstock.model.snapshot import OperatorStateInfo, StateTableInfo
from penstock.model.type_information import TypeInformation, parse_type
from penstock.model.types import Types, resolve_type
from penstock.state.format.conversion import evolve_column
from penstock.state.format.schema_evolution import common_info, common_type, compare_states, incompatible, widens
from penstock.state.ttl.stamps import with_ttl
from tests.codec.strategies import optional
from tests.state.evolving import EVOLVING, evolutions, evolved_value, exact


def table(type_text: str, kind: str = "value", **other: Any) -> StateTableInfo:
    stored = resolve_type(type_text).text
    return StateTableInfo("op", "s", kind, ["STRING"], f"LIST<{stored}>" if kind == "list" else stored, **other)


def operator(type_text: str, mode: str = "split") -> OperatorStateInfo:
    key = "STRING" if mode == "broadcast" else None
    return OperatorStateInfo("op", "s", mode, resolve_type(type_text).text, key, 3)


@pytest.mark.parametrize(
    ("was", "now", "lines"),
    [
        ("a int, b string", "a int, b string", ()),
        ("a int", "a int, country string", ("field `country` added",)),
        ("a int, b string", "a int", ("field `b` dropped",)),
        ("a int, b string", "b string, a int", ("fields of the value in another order",)),
        ("a int", "a bigint", ("`a` widened from INT to LONG",)),
        ("int", "double", ("the value widened from INT to DOUBLE",)),
        ("float", "double", ("the value widened from FLOAT to DOUBLE",)),
        ("decimal(10,2)", "decimal(12,4)", ("the value widened from DECIMAL(10,2) to DECIMAL(12,4)",)),
        (
            "p struct<zip: int>",
            "p struct<zip: bigint, town: string>",
            ("field `p.town` added", "`p.zip` widened from INT to LONG"),
        ),
        ("array<int>", "array<bigint>", ("`[]` widened from INT to LONG",)),
        ("i array<struct<n: int>>", "i array<struct<n: int, m: int>>", ("field `i[].m` added",)),
        ("map<string, int>", "map<string, bigint>", ("`{}` widened from INT to LONG",)),
    ],
)
def test_o11_changes_are_described(was: str, now: str, lines: tuple[str, ...]) -> None:
    for saved, declared in ((table(was), table(now)), (operator(was), operator(now))):
        change = compare_states(saved, declared)
        assert (change.outcome, change.lines, change.reason) == ("evolves" if lines else "same", lines, "")


def test_o11_the_fields_of_list_elements_and_of_map_values_evolve() -> None:
    assert compare_states(table("a int", "list"), table("a int, b int", "list")).lines == ("field `[].b` added",)
    assert compare_states(
        table("a int", "map", map_key_type="STRING"), table("a int, b int", "map", map_key_type="STRING")
    ).lines == ("field `b` added",)


def test_o11_a_time_to_live_is_added_or_removed_with_other_changes() -> None:
    plain, more = table("a int"), with_ttl(table("a bigint"))
    assert compare_states(plain, more).lines == (
        "`a` widened from INT to LONG",
        "time to live added: entries live until they are written",
    )
    assert compare_states(with_ttl(plain), table("a int")).lines == ("time to live removed",)
    assert compare_states(with_ttl(table("int", "list")), with_ttl(table("bigint", "list"))).lines == (
        "`[]` widened from INT to LONG",
    )


@pytest.mark.parametrize(
    ("was", "now", "reason"),
    [
        ("bigint", "string", "the value was LONG and is STRING"),
        ("bigint", "int", "the value was LONG and is INT, which does not hold every LONG exactly"),
        ("bigint", "double", "the value was LONG and is DOUBLE, which does not hold every LONG exactly"),
        ("int", "float", "the value was INT and is FLOAT, which does not hold every INT exactly"),
        ("double", "float", "which does not hold every DOUBLE exactly"),
        ("decimal(10,2)", "decimal(10,4)", "which does not hold every DECIMAL(10,2) exactly"),
        ("a int, b array<bigint>", "a int, b array<string>", "`b[]` was LONG and is STRING"),
        ("a int", "b int", "no field of the value has its old name; the old ones are a"),
        ("m map<int, int>", "m map<bigint, int>", "the keys of `m` change from INT to LONG"),
        ("timestamp", "timestamp_ntz", "the value was TIMESTAMP and is TIMESTAMP_NTZ"),
        ("a int", "array<int>", 'the value was ROW<"a" INT> and is LIST<INT>'),
    ],
)
def test_o12_anything_else_is_refused_with_the_reason(was: str, now: str, reason: str) -> None:
    change = compare_states(table(was), table(now))
    assert change.is_refused and reason in change.reason
    assert compare_states(operator(was), operator(now)).reason == change.reason


def test_o12_tuples_keep_their_number_of_fields() -> None:
    info = table("int")
    saved = msgspec.structs.replace(info, value_type=Types.TUPLE([Types.INT(), Types.INT()]).text)
    wider = msgspec.structs.replace(info, value_type=Types.TUPLE([Types.LONG(), Types.INT()]).text)
    assert compare_states(saved, wider).lines == ("`[0]` widened from INT to LONG",)
    longer = Types.TUPLE([Types.INT()] * 3).text
    assert compare_states(saved, msgspec.structs.replace(info, value_type=longer)).is_refused


@pytest.mark.parametrize(
    ("saved", "declared", "reason"),
    [
        (table("int", "map", map_key_type="STRING"), table("int"), "a map state is not a value state"),
        (table("int", "list"), table("array<int>"), "a list state is not a value state"),
        (table("int"), table("int", "reducing"), "a value state is not a reducing state"),
        (
            table("int", "map", map_key_type="INT"),
            table("int", "map", map_key_type="LONG"),
            "the keys of the map change from INT to LONG",
        ),
        (operator("int"), operator("int", "union"), "a list state is not a union list state"),
        (operator("int"), table("int"), "keyed state and operator state are two things"),
        (
            table("int"),
            msgspec.structs.replace(table("int"), key_types=["LONG"]),
            "the keys of its stream change from STRING to LONG",
        ),
    ],
)
def test_o12_another_shape_or_key_is_refused(saved: Any, declared: Any, reason: str) -> None:
    assert reason in compare_states(saved, declared).reason


def test_o12_keys_are_never_widened() -> None:
    by_int, by_long = (msgspec.structs.replace(table("int"), key_types=[name]) for name in ("INT", "LONG"))
    assert compare_states(by_int, by_long, Migration(str, from_pickle=True)).is_refused


def test_bm12_the_error_names_state_operator_both_schemas_and_the_way_out() -> None:
    saved, declared = table("a int"), table("string")
    error = incompatible(saved, declared, compare_states(saved, declared).reason)
    was, now = """'value state of ROW<"a" INT>'""", "'value state of STRING'"
    assert str(error).startswith(f"INCOMPATIBLE_STATE name='s' was={was} now={now}: state 's' of operator 'op' was")
    assert "migrate(function)" in str(error) and error.exit_code == 5
    assert isinstance(error, TypeMismatchError) and str(IncompatibleStateError(*error.args)) == str(error)


def test_a_function_migrates_only_what_no_rule_covers() -> None:
    migration = Migration(str, from_pickle=False)
    assert compare_states(table("int"), table("bigint"), migration).outcome == "evolves"
    assert compare_states(table("int"), table("int"), migration).outcome == "same"
    assert compare_states(table("int"), table("string"), migration).outcome == "migrates"
    assert compare_states(table("int"), table("int", "aggregating"), migration).outcome == "migrates"
    assert compare_states(table("int", "list"), table("string"), migration).is_refused


def test_pickled_values_are_migrated_only_where_the_program_says_so() -> None:
    pickled = msgspec.structs.replace(table("int"), value_type="PICKLE")
    refused = compare_states(pickled, table("int"), Migration(int, from_pickle=False))
    assert refused.is_refused and "from_pickle=True" in refused.reason
    assert compare_states(pickled, table("int"), Migration(int, from_pickle=True)).outcome == "migrates"


def test_migrate_takes_a_function() -> None:
    with pytest.raises(TypeError, match="state 's': 3 is not a function"):
        ValueStateDescriptor("s", Types.INT()).migrate(3)  # type: ignore[arg-type]


@given(st.data())
def test_o11_columns_evolve_as_values_do(data: st.DataObject) -> None:
    old: TypeInformation = data.draw(EVOLVING)
    new: TypeInformation = data.draw(evolutions(old))
    values = data.draw(st.lists(optional(old), max_size=5))
    column = encode_column(values, old)
    expected = [evolved_value(value, old, new) for value in values]
    assert exact(decode_column(evolve_column(column, old, new), new)) == exact(expected)
    start = data.draw(st.integers(0, len(values)))
    assert exact(decode_column(evolve_column(column[start:], old, new), new)) == exact(expected[start:])


@given(st.data())
def test_o11_what_may_evolve_is_never_refused_and_the_other_way_round(data: st.DataObject) -> None:
    old: TypeInformation = data.draw(EVOLVING)
    new: TypeInformation = data.draw(evolutions(old))
    change = compare_states(_info(old), _info(new))
    assert change.outcome == ("same" if old == new else "evolves")
    assert bool(change.lines) == (old != new)


@given(st.data())
def test_two_versions_of_a_type_have_one_in_common_that_loses_nothing(data: st.DataObject) -> None:
    old: TypeInformation = data.draw(EVOLVING)
    new: TypeInformation = data.draw(evolutions(old))
    merged = common_type(old, new)
    assert merged is not None and common_type(new, old) is not None
    for one in (old, new):
        assert not any("dropped" in line for line in compare_states(_info(one), _info(merged)).lines)
    assert compare_states(_info(merged), _info(new)).outcome in ("same", "evolves")


def _info(type_info: TypeInformation) -> StateTableInfo:
    return msgspec.structs.replace(table("int"), value_type=type_info.text)


def test_incompatible_parts_are_refused() -> None:
    with pytest.raises(IncompatibleStateError, match="parts of it were saved with types that do not fit together"):
        common_info(table("int"), table("string"))
    with pytest.raises(IncompatibleStateError, match="parts of it"):
        common_info(table("int"), table("int", "reducing"))
    merged = common_info(table("a int, b int"), with_ttl(table("a bigint, c int")))
    assert merged.ttl and parse_type(merged.value_type).children[1] == resolve_type("a bigint, b int, c int")


@pytest.mark.parametrize(("old", "new"), [("INT", "FLOAT"), ("LONG", "DOUBLE"), ("LONG", "INT"), ("FLOAT", "LONG")])
def test_numbers_are_not_widened_where_a_value_could_change(old: str, new: str) -> None:
    assert not widens(parse_type(old), parse_type(new))


def test_a_null_row_stays_null_and_its_fields_are_not_seen() -> None:
    old, new = resolve_type("a int, b string"), resolve_type("b string, a bigint, c double")
    column = pa.StructArray.from_arrays(
        [pa.array([1, 2], pa.int32()), pa.array(["x", "y"])], fields=list(old.arrow), mask=pa.array([False, True])
    )
    assert decode_column(evolve_column(column, old, new), new) == [("x", 1, None), None]
