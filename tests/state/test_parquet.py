"""Keyed state as Parquet: what goes in comes out, for every type; damage is an error that names the state."""

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.codec import tagged
from penstock.errors import CheckpointCorruptError, CheckpointDeclinedError
from penstock.model.snapshot import StateTableInfo, TableFile
from penstock.model.type_information import TypeInformation, list_of, parse_type, scalar, tuple_of
from penstock.state.format.keyed_parquet import decode_table, encode_table
from penstock.state.format.table_rows import Rows, decode_rows, empty_table, encode_rows, key_codec_of
from tests.codec.strategies import TYPES, optional, values_of

GROUPS = 16
ALL = (0, GROUPS - 1)
KEY_TYPES = ("STRING", "LONG", "INT", "BINARY", "TAGGED", "TIMESTAMP", 'ROW<"a" LONG, "b" STRING>', "TUPLE<LONG, DATE>")


def table_of(info: StateTableInfo, rows: Rows) -> pa.Table:
    codec = key_codec_of(info)
    batches = list(encode_rows(rows, info, codec))
    return pa.Table.from_batches(batches) if batches else empty_table(info)


def there_and_back(info: StateTableInfo, rows: pa.Table, ttl_ms: int = 0, groups: tuple[int, int] = ALL) -> Rows:
    data, count = encode_table(info, rows, GROUPS, ttl_ms)
    file = TableFile(info.operator_uid, info.name, "keyed", count, ttl_ms)
    return decode_rows(decode_table(data, file, info, groups, GROUPS), info)


def info_of(
    value_type: TypeInformation | str, kind: str = "value", keys: tuple[str, ...] = ("STRING",), **more: Any
) -> StateTableInfo:
    text = value_type if isinstance(value_type, str) else value_type.text
    return StateTableInfo("op", "state", kind, list(keys), text, **more)


def key_values(name: str) -> st.SearchStrategy[Any]:
    type_info = parse_type(name)
    if name == "TAGGED":
        return st.text(max_size=5)
    if type_info.children:  # no part of a key is null
        return st.tuples(*map(values_of, type_info.children))
    return values_of(type_info)


def has_form(type_info: TypeInformation) -> bool:
    """Parquet has no rows without fields."""
    is_empty = type_info.name in ("TUPLE", "ROW") and not type_info.children
    return not is_empty and all(map(has_form, type_info.children))


def test_a_type_that_parquet_does_not_have_is_refused_with_a_way_out() -> None:
    info = info_of(tuple_of([]))
    with pytest.raises(CheckpointDeclinedError, match="native savepoint"):
        encode_table(info, table_of(info, Rows(["a"], None, [()], None)), GROUPS)


@given(st.data())
def test_any_value_of_any_type_comes_back(data: st.DataObject) -> None:
    type_info = data.draw(TYPES.filter(has_form))
    keys = data.draw(st.lists(st.text(max_size=8), unique=True, max_size=6))
    values = [data.draw(optional(type_info)) for _ in keys]
    info = info_of(type_info)
    before = table_of(info, Rows(keys, None, values, None))
    after = there_and_back(info, before)
    expected = decode_rows(before, info)
    assert sorted(zip(after.keys, map(repr, after.values), strict=True)) == sorted(
        zip(expected.keys, map(repr, expected.values), strict=True)
    )


@given(data=st.data(), key_type=st.sampled_from(KEY_TYPES), several=st.booleans())
def test_any_key_comes_back_in_one_order_and_only_to_its_key_groups(
    data: st.DataObject, key_type: str, *, several: bool
) -> None:
    info = info_of("LONG", keys=(key_type, "LONG") if several else (key_type,))
    codec = key_codec_of(info)
    single = key_values(key_type)
    users = data.draw(st.lists(st.tuples(single, st.integers(0, 5)) if several else single, max_size=12))
    keys = list(dict.fromkeys(codec.to_state_key(user) for user in users))
    rows = table_of(info, Rows(keys, None, list(range(len(keys))), None))
    whole = there_and_back(info, rows)
    assert dict(zip(whole.keys, whole.values, strict=True)) == dict(zip(keys, range(len(keys)), strict=True))
    shuffled = data.draw(st.permutations(range(len(keys))))
    again = table_of(info, Rows([keys[i] for i in shuffled], None, list(shuffled), None))
    assert encode_table(info, rows, GROUPS)[0] == encode_table(info, again, GROUPS)[0]
    halves = [there_and_back(info, rows, groups=half) for half in ((0, 7), (8, 15))]
    assert set(halves[0].keys + halves[1].keys) == set(keys)
    assert len(halves[0].keys + halves[1].keys) == len(keys)
    assert all((codec.hash(key) % GROUPS) // 8 == number for number, half in enumerate(halves) for key in half.keys)


@given(
    st.dictionaries(
        st.tuples(st.sampled_from("abcdef"), st.integers(0, 3)),
        st.tuples(st.none() | st.integers(0, 10**12), st.text(max_size=3)),
    )
)
def test_stamps_of_map_entries_become_expiry_times(
    entries: dict[tuple[str, int], tuple[int | None, str]],
) -> None:
    info = info_of(tuple_of([scalar("LONG"), scalar("STRING")]), "map", map_key_type="LONG", ttl=True)
    rows = table_of(info, Rows([k for k, _ in entries], [m for _, m in entries], list(entries.values()), None))
    data, _ = encode_table(info, rows, GROUPS, 500)
    shown = pq.read_table(io.BytesIO(data)).to_pylist()
    ends = {(row["key"], row["map_key"]): row["expires_at"] for row in shown}
    assert {place: None if end is None else round(end.timestamp() * 1000) for place, end in ends.items()} == {
        place: None if stamp is None else stamp + 500 for place, (stamp, _) in entries.items()
    }
    after = there_and_back(info, rows, 500)
    assert after.map_keys is not None
    assert dict(zip(zip(after.keys, after.map_keys, strict=True), after.values, strict=True)) == entries


@given(st.dictionaries(st.text(max_size=3), st.lists(st.tuples(st.none() | st.integers(0, 10**12), st.integers(0, 9)))))
def test_stamps_of_list_elements_come_back(lists: dict[str, list[tuple[int | None, int]]]) -> None:
    info = info_of(list_of(tuple_of([scalar("LONG"), scalar("LONG")])), "list", ttl=True)
    after = there_and_back(info, table_of(info, Rows(list(lists), None, list(lists.values()), None)), 700)
    assert dict(zip(after.keys, after.values, strict=True)) == lists


def test_the_last_of_several_rows_of_an_entry_wins_and_deleted_ones_are_left_out() -> None:
    info = info_of("LONG", "map", map_key_type="STRING")
    rows = Rows(["a", "a", "b", "a"], ["x", "y", "x", "x"], [1, 2, 3, None], [False, False, False, True])
    after = there_and_back(info, table_of(info, rows))
    assert sorted(zip(after.keys, after.map_keys or [], after.values, strict=True)) == [("a", "y", 2), ("b", "x", 3)]


def test_timers_of_one_key_are_several_entries() -> None:
    info = info_of("LONG", "timer")
    after = there_and_back(info, table_of(info, Rows(["a", "a", "a"], None, [5, 3, 5], [False, False, True])))
    assert (after.keys, after.values) == (["a"], [3])


def test_another_max_parallelism_reads_every_row_by_its_hash() -> None:
    info = info_of("LONG", keys=("LONG",))
    data, count = encode_table(info, table_of(info, Rows(list(range(500)), None, list(range(500)), None)), GROUPS)
    file = TableFile("op", "state", "keyed", count)
    halves = [decode_rows(decode_table(data, file, info, half, 6), info).keys for half in ((0, 2), (3, 5))]
    assert sorted(halves[0] + halves[1]) == list(range(500)) and len(halves[0]) > 100 < len(halves[1])


@pytest.mark.parametrize("damage", ["half", "empty", "noise", "rows", "column", "type", "null"])
def test_damage_is_an_error_that_names_the_state(damage: str) -> None:
    info = info_of("LONG")
    data, count = encode_table(info, table_of(info, Rows(["a", "b"], None, [1, 2], None)), GROUPS)
    table = pq.read_table(io.BytesIO(data))
    if damage == "half":
        data = data[: len(data) // 2]
    elif damage == "empty":
        data = b""
    elif damage == "noise":
        data = bytes(255 - byte for byte in data)
    elif damage == "rows":
        count += 1
    elif damage == "column":
        data = _written(table.rename_columns(["key_group", "key_hash", "keys", "value"]))
    elif damage == "type":
        data = _written(table.set_column(3, "value", table["value"].cast(pa.float64())))
    else:
        data = _written(table.set_column(2, "key", pa.array(["a", None])))
    with pytest.raises(CheckpointCorruptError, match="state 'state' of operator 'op'"):
        decode_table(data, TableFile("op", "state", "keyed", count), info, ALL, GROUPS)


def _written(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def test_untyped_values_are_bytes_of_the_tagged_codec() -> None:
    info = info_of("TAGGED")
    data, _ = encode_table(info, table_of(info, Rows(["a"], None, [{"x": (1, None)}], None)), GROUPS)
    (row,) = pq.read_table(io.BytesIO(data)).to_pylist()
    assert tagged.decode(row["value"]) == {"x": (1, None)}


def test_rows_are_counted_before_any_is_decoded() -> None:
    info = info_of("LONG")
    file = TableFile("op", "state", "keyed", 5)
    sink = io.BytesIO()
    pq.write_table(pa.table({"other": [0] * 1_000_000}), sink)  # a few bytes, very many rows
    with pytest.raises(CheckpointCorruptError, match="expected 5 rows, found 1000000 rows"):
        decode_table(sink.getvalue(), file, info, ALL, GROUPS)
