"""Which types a state gets that a DataFrame is written as."""

from typing import Any

import pytest

from penstock.common import Types
from penstock.errors import UsageError
from penstock.model.snapshot import StateTableInfo
from penstock.state.ttl.stamps import with_ttl
from penstock.state_processor.state_types import (
    KeyedStateSpec,
    StateTypes,
    keyed_info,
    operator_info,
    require_columns,
    text_form,
)

COLUMNS: dict[str, Any] = {"key": "string", "value": "bigint", "map_key": "string"}
SAVED = StateTableInfo("op", "s", "value", ["TAGGED"], "DOUBLE")


def info(
    kind: str | None = None,
    types: StateTypes | None = None,
    ttl_ms: int | None = None,
    saved: StateTableInfo | None = None,
    **columns: str,
) -> StateTableInfo:
    spec = KeyedStateSpec("op", "s", kind, types or StateTypes(), ttl_ms)
    return keyed_info(spec, {**COLUMNS, **columns}, saved, None)


def test_a_new_state_has_the_types_of_its_columns() -> None:
    assert info() == StateTableInfo("op", "s", "value", ["STRING"], "LONG")
    assert info("map") == StateTableInfo("op", "s", "map", ["STRING"], "LONG", "STRING")
    assert info("list", value="array<int>").value_type == "LIST<INT>"


def test_a_struct_of_numbered_fields_is_a_key_of_several_columns_and_any_other_is_a_row() -> None:
    assert info(key="struct<f0: string, f1: int>").key_types == ["STRING", "INT"]
    assert info(key="struct<a: string, b: int>").key_types == ['ROW<"a" STRING, "b" INT>']
    assert info(types=StateTypes(key=["string", Types.INT()])).key_types == ["STRING", "INT"]


def test_a_replaced_state_keeps_its_types_unless_others_are_declared() -> None:
    assert info(saved=SAVED) == SAVED
    assert info(types=StateTypes(value="bigint"), saved=SAVED).value_type == "LONG"
    assert info(types=StateTypes(key="untyped", value="untyped")).value_type == "TAGGED"
    assert info("list", types=StateTypes(value="untyped")).value_type == "LIST<TAGGED>"


def test_the_time_to_live_stays_comes_and_goes() -> None:
    stamped = with_ttl(SAVED)
    assert info(saved=stamped) == stamped
    assert info(saved=stamped, ttl_ms=0) == SAVED
    assert info(saved=SAVED, ttl_ms=5) == stamped
    assert info("list", ttl_ms=5, value="array<int>").value_type == "LIST<TUPLE<LONG, INT>>"


@pytest.mark.parametrize(
    ("required", "message"),
    [
        ({"kind": "set"}, "not one of value, list, map"),
        ({"types": StateTypes(key=Types.PICKLED_BYTE_ARRAY())}, "cannot be a key"),
        ({"kind": "map", "types": StateTypes(map_key="array<int>")}, "cannot be the type of map keys"),
    ],
)
def test_what_cannot_be_stored_is_refused(required: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        info(**required)


def test_operator_state_has_the_types_of_its_columns() -> None:
    split = operator_info(("op", "split", "s"), COLUMNS, StateTypes(), None)
    assert (split.mode, split.value_type, split.map_key_type) == ("split", "LONG", None)
    broadcast = operator_info(("op", "broadcast", "s"), COLUMNS, StateTypes(value="untyped"), None)
    assert (broadcast.value_type, broadcast.map_key_type) == ("TAGGED", "STRING")


def test_text_that_becomes_untyped_must_be_said_to_be_json_or_not() -> None:
    assert text_form(StateTypes(), is_saved=True, has_text=True) == "json"
    assert text_form(StateTypes(), is_saved=False, has_text=False) == "json"
    assert text_form(StateTypes(text="plain"), is_saved=False, has_text=True) == "plain"
    with pytest.raises(UsageError, match="text='plain'"):
        text_form(StateTypes(), is_saved=False, has_text=True)
    with pytest.raises(UsageError, match="not one of 'json' and 'plain'"):
        StateTypes(text="xml")


def test_missing_columns_are_named_with_those_that_are_there() -> None:
    with pytest.raises(UsageError, match="has no column 'key'; it needs key, value and has value, other"):
        require_columns(["value", "other"], ["key", "value"], "state 's'")


def test_a_column_of_namespaces_gives_a_new_state_namespaces() -> None:
    namespaced = info(namespace="struct<start: bigint, end: bigint>")
    assert namespaced.namespace == 'ROW<"start" LONG, "end" LONG>'
    window = StateTypes(namespace=Types.TUPLE([Types.LONG(), Types.LONG()]))
    assert info(types=window, namespace="struct<f0: bigint, f1: bigint>").namespace == "TUPLE<LONG, LONG>"
    with pytest.raises(UsageError, match="cannot be a key"):
        info(namespace="array<int>")


def test_a_replaced_state_keeps_its_namespaces() -> None:
    saved = StateTableInfo("op", "s", "value", ["STRING"], "LONG", namespace_type="LONG")
    assert info(saved=saved, namespace="int") == info(saved=saved) == saved
    assert info(saved=SAVED, namespace="int").namespace is None  # any other column is ignored, too
