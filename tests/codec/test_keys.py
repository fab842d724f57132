from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.codec.key_hashes import LONG_KEY_BYTES, hash_columns
from penstock.codec.keys import KeyCodec
from penstock.errors import InvalidKeyError, UnsupportedValueError, UsageError
from penstock.model import type_information as ti
from penstock.model.key_groups import spark_hash
from penstock.model.row import Row, make_row
from penstock.model.types import TAGGED, Types, resolve_type
from tests.codec.strategies import HASHABLE, KEY_SCALARS, values_of

NAN = float("nan")
KEY_TYPES = st.lists(
    KEY_SCALARS
    | st.lists(KEY_SCALARS, min_size=1, max_size=2).map(ti.tuple_of)
    | KEY_SCALARS.map(lambda t: ti.row_of(["a"], [t])),
    min_size=1,
    max_size=3,
)


def user_keys(types: list[ti.TypeInformation]) -> st.SearchStrategy[Any]:
    return keys_of(types[0]) if len(types) == 1 else st.tuples(*map(keys_of, types))


def keys_of(type_info: ti.TypeInformation) -> st.SearchStrategy[Any]:
    """Values without None in any field."""
    if not type_info.children:
        return values_of(type_info)
    fields = st.tuples(*map(keys_of, type_info.children))
    return fields if type_info.names is None else fields.map(lambda values: make_row(type_info.names, values))


@given(KEY_TYPES.flatmap(lambda types: st.tuples(st.just(types), st.lists(user_keys(types), min_size=1, max_size=4))))
def test_state_keys_survive_the_trip_through_columns_and_hash_as_in_spark(case):
    types, keys = case
    codec = KeyCodec(types)
    state_keys = [codec.to_state_key(key) for key in keys]
    columns = codec.encode(state_keys)
    assert codec.decode(columns) == state_keys == keys
    assert [codec.to_user_key(key) for key in state_keys] == keys
    assert (
        list(map(codec.hash, state_keys)) == codec.hash_batch(columns).tolist() == codec.hash_keys(state_keys).tolist()
    )
    assert len({codec.to_state_key(key) for key in keys}) == len(set(keys))
    sorted(state_keys, key=codec.order)


@given(st.lists(HASHABLE.filter(lambda key: key is not None), min_size=1, max_size=5))
def test_untyped_state_keys_are_canonical_bytes(keys):
    codec = KeyCodec([TAGGED])
    state_keys = [codec.to_state_key(key) for key in keys]
    assert all(type(key) is bytes for key in state_keys)
    assert codec.decode(codec.encode(state_keys)) == state_keys
    assert [codec.to_user_key(key) for key in state_keys] == keys
    assert codec.hash_batch(codec.encode(state_keys)).tolist() == list(map(codec.hash, state_keys))


def test_one_true_and_one_point_zero_are_three_untyped_keys():
    codec = KeyCodec([TAGGED])
    assert len({codec.to_state_key(key) for key in (1, True, 1.0, "1")}) == 4


@pytest.mark.parametrize("types", [[TAGGED], [Types.DOUBLE()], [Types.FLOAT()]])
def test_minus_zero_and_zero_are_one_key(types):
    codec = KeyCodec(types)
    assert codec.to_state_key(-0.0) == codec.to_state_key(0.0)
    assert codec.hash(codec.to_state_key(-0.0)) == codec.hash(codec.to_state_key(0.0))


def test_minus_zero_in_a_column_is_the_key_zero():
    for type_info in (Types.DOUBLE(), Types.FLOAT()):
        codec = KeyCodec([type_info])
        (key,) = codec.decode([pa.array([-0.0], type_info.arrow)])
        assert str(key) == "0.0"
        assert codec.hash_batch([pa.array([-0.0], type_info.arrow)])[0] == codec.hash(0.0)


@pytest.mark.parametrize(
    ("types", "key"),
    [
        ([TAGGED], None),
        ([Types.STRING()], None),
        ([Types.LONG()], None),
        ([Types.DOUBLE()], None),
        ([Types.SQL_TIMESTAMP()], None),
        ([Types.STRING(), Types.LONG()], ("a", None)),
        ([Types.STRING(), TAGGED], ("a", None)),
        ([Types.TUPLE([Types.STRING(), Types.LONG()])], ("a", None)),
        ([Types.TUPLE([Types.STRING()])], None),
    ],
)
def test_b1_a_key_must_not_be_none(types, key):
    with pytest.raises(InvalidKeyError, match="Assigned key must not be null!.*filter such records"):
        KeyCodec(types).to_state_key(key)


@pytest.mark.parametrize("types", [[TAGGED], [Types.DOUBLE()], [Types.FLOAT()]])
def test_a_key_must_not_be_nan(types):
    with pytest.raises(InvalidKeyError, match="NaN cannot be a key.*filter such records"):
        KeyCodec(types).to_state_key(NAN)


def test_a_key_column_with_null_or_nan_is_refused():
    with pytest.raises(InvalidKeyError, match="must not be null"):
        KeyCodec([Types.STRING()]).decode([pa.array(["a", None])])
    with pytest.raises(InvalidKeyError, match="must not be null"):
        KeyCodec([Types.STRING(), Types.LONG()]).decode([pa.array(["a"]), pa.array([None], pa.int64())])
    with pytest.raises(InvalidKeyError, match="must not be null"):
        KeyCodec([TAGGED]).decode([pa.array([None], pa.binary())])
    with pytest.raises(InvalidKeyError, match="must not be null"):
        struct = pa.array([{"f0": None}], pa.struct([("f0", pa.int64())]))
        KeyCodec([Types.TUPLE([Types.LONG()])]).decode([struct])
    with pytest.raises(InvalidKeyError, match="NaN"):
        KeyCodec([Types.DOUBLE()]).decode([pa.array([1.0, NAN])])


@pytest.mark.parametrize(
    ("types", "key"),
    [
        ([Types.LONG()], True),
        ([Types.LONG()], 1.0),
        ([Types.INT()], 2**31),
        ([Types.STRING()], 5),
        ([Types.BOOLEAN()], 1),
        ([Types.FLOAT()], 1e300),
        ([resolve_type("timestamp")], datetime(2024, 1, 1)),
        ([Types.STRING(), Types.LONG()], "ab"),
        ([Types.STRING(), Types.LONG()], ("a", 1, 2)),
        ([TAGGED], {1, 2}),
        ([TAGGED], (1, NAN)),
        ([TAGGED], np.float64("nan")),
    ],
)
def test_a_key_of_another_type_is_refused(types, key):
    with pytest.raises(UnsupportedValueError):
        KeyCodec(types).to_state_key(key)


def test_keys_that_are_equal_after_conversion_are_one_state_key():
    double = KeyCodec([Types.DOUBLE()])
    assert double.to_state_key(1) == 1.0 and type(double.to_state_key(1)) is float
    single = KeyCodec([Types.FLOAT()])
    assert single.to_state_key(0.1) == single.decode(single.encode([0.1]))[0] != 0.1
    stamp = KeyCodec([Types.SQL_TIMESTAMP()])
    local = datetime(2024, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    assert stamp.to_state_key(local) == datetime(2024, 1, 1, tzinfo=timezone.utc)
    assert stamp.to_state_key(local).tzinfo is timezone.utc
    assert stamp.to_state_key(datetime(2024, 1, 1)) == stamp.to_state_key(local)
    assert KeyCodec([resolve_type("binary")]).to_state_key(bytearray(b"x")) == b"x"


def test_mixed_typed_and_untyped_columns_give_back_the_users_key():
    codec = KeyCodec([Types.STRING(), TAGGED])
    state_key = codec.to_state_key(("a", (1, 2)))
    assert codec.to_user_key(state_key) == ("a", (1, 2))
    assert codec.ddl == "`_key_0` string, `_key_1` binary"


def test_a_row_key_is_a_row_again():
    codec = KeyCodec([Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.LONG()])])
    key = codec.to_state_key(("x", 1))
    assert isinstance(key, Row) and key.a == "x"
    assert codec.to_user_key(codec.decode(codec.encode([key]))[0]) == ("x", 1)
    assert codec.hash(key) == KeyCodec([Types.STRING(), Types.LONG()]).hash(("x", 1))


@pytest.mark.parametrize(
    "types",
    [
        [],
        [Types.PICKLED_BYTE_ARRAY()],
        [Types.LIST(Types.LONG())],
        [Types.MAP(Types.LONG(), Types.LONG())],
        [Types.TUPLE([Types.LIST(Types.LONG())])],
        [Types.BIG_DEC()],
        [Types.TUPLE([Types.BIG_DEC()])],
        [Types.TUPLE([TAGGED])],
    ],
)
def test_types_that_cannot_be_keys_are_refused(types):
    with pytest.raises(UsageError):
        KeyCodec(types)


def test_column_hashes_equal_single_hashes_for_long_keys_nulls_and_slices():
    texts = ["", "x" * LONG_KEY_BYTES, "y" * (LONG_KEY_BYTES + 1), None, "Grüße"]
    numbers = [Decimal("12345678901234567890.5"), None, Decimal("-1"), Decimal(0), Decimal("0.5")]
    types = [Types.STRING(), resolve_type("decimal(38,18)")]
    columns = [pa.array(texts), pa.array(numbers, types[1].arrow)]
    expected = [spark_hash(row, types) for row in zip(texts, numbers, strict=True)]
    assert hash_columns(columns, types).tolist() == expected
    assert hash_columns([column.slice(1, 3) for column in columns], types).tolist() == expected[1:4]
    assert hash_columns([], []).tolist() == []
    assert hash_columns([pa.array([], pa.string())], [Types.STRING()]).tolist() == []
    assert hash_columns([pa.array(["a"], pa.large_string())], [Types.STRING()]).tolist() == [1485273170]


@given(st.integers(0, LONG_KEY_BYTES + 5).flatmap(lambda n: st.lists(st.text("ab\0é", min_size=n, max_size=n))))
def test_texts_of_one_length_are_hashed_as_one_by_one(keys: list[str]) -> None:
    codec = KeyCodec([Types.STRING()])
    assert codec.to_state_keys(keys) == keys
    expected = list(map(codec.hash, keys))
    assert codec.hash_keys(keys).tolist() == expected == codec.hash_batch(codec.encode(keys)).tolist()


def test_keys_are_checked_all_at_once_too() -> None:
    assert KeyCodec([Types.LONG()]).to_state_keys([1, 2]) == [1, 2]
    for wrong in ([None], ["ada", 5]):
        with pytest.raises((InvalidKeyError, UnsupportedValueError)):
            KeyCodec([Types.STRING()]).to_state_keys(wrong)
