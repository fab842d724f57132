"""Key groups (features E3 to E5) and Spark's hash.

The vectors were computed by Spark 4.3.0 with `SELECT hash(...)`.
"""

from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import UnsupportedValueError, UsageError
from penstock.model.key_groups import (
    MAX_KEY_GROUPS,
    check_parallelism,
    default_max_parallelism,
    key_group_of,
    key_group_range,
    spark_hash,
    subtask_of,
    subtasks_of,
)
from penstock.model.time import Instant
from penstock.model.types import TAGGED, Types, parse_type

INF, NAN = float("inf"), float("nan")
SPARK_HASHES = [
    ("STRING", "", 142593372),
    ("STRING", "a", 1485273170),
    ("STRING", "ab", -97053317),
    ("STRING", "abc", 1322437556),
    ("STRING", "abcd", -396302900),
    ("STRING", "hello", -1008564952),
    ("STRING", "customer-123", 1572733373),
    ("STRING", "Grüße", 1598803708),
    ("STRING", "日本語", -1143049834),
    ("STRING", "😀x", -1814635023),
    ("BINARY", b"", 142593372),
    ("BINARY", b"\xc8", -801278332),
    ("BINARY", b"\xc8\xed", -2048021450),
    ("BINARY", b"\xc8\xed\x12", 722298566),
    ("BINARY", b"\xc8\xed\x127", -1734322870),
    ("BINARY", b"\xc8\xed\x127\\", -531530139),
    ("BINARY", b"\xc8\xed\x127\\\x81", 303597494),
    ("BINARY", b"\xc8\xed\x127\\\x81\xa6", -2075875763),
    ("BINARY", b"\xc8\xed\x127\\\x81\xa6\xcb", -622141027),
    ("BINARY", b"\xc8\xed\x127\\\x81\xa6\xcb\xf0", 1857999133),
    ("INT", 0, 933211791),
    ("INT", 1, -559580957),
    ("INT", -1, -1604776387),
    ("INT", 42, 29417773),
    ("INT", 2147483647, 133916647),
    ("INT", -2147483648, 723455942),
    ("LONG", 0, -1670924195),
    ("LONG", 1, -1712319331),
    ("LONG", -1, -939490007),
    ("LONG", 42, 1316951768),
    ("LONG", 10000000000, 1311884982),
    ("LONG", -10000000000, -1464145958),
    ("LONG", 9223372036854775807, -1604625029),
    ("LONG", -9223372036854775808, -853646085),
    ("SHORT", 0, 933211791),
    ("SHORT", -1, -1604776387),
    ("SHORT", 32767, 1249274084),
    ("SHORT", -32768, -1871935946),
    ("BYTE", 0, 933211791),
    ("BYTE", -1, -1604776387),
    ("BYTE", 127, 1135925485),
    ("BYTE", -128, 1110053733),
    ("BOOLEAN", True, -559580957),
    ("BOOLEAN", False, 933211791),
    ("DOUBLE", 0.0, -1670924195),
    ("DOUBLE", -0.0, -1670924195),
    ("DOUBLE", 1.0, -460888942),
    ("DOUBLE", -1.5, 2099784398),
    ("DOUBLE", 1e300, -359479591),
    ("DOUBLE", INF, 833680482),
    ("DOUBLE", -INF, 461104036),
    ("DOUBLE", 5e-324, -1712319331),
    ("DOUBLE", 0.1, -1777758357),
    ("DOUBLE", NAN, -1281358385),
    ("FLOAT", 0.0, 933211791),
    ("FLOAT", -0.0, 933211791),
    ("FLOAT", 1.0, -466301895),
    ("FLOAT", -1.5, 1765572753),
    ("FLOAT", 0.1, 38965448),
    ("FLOAT", INF, 2026854605),
    ("FLOAT", NAN, -349261430),
    ("DATE", date(1970, 1, 1), 933211791),
    ("DATE", date(2024, 2, 29), 653915859),
    ("DATE", date(1969, 12, 31), -1604776387),
    ("DATE", date(1, 1, 1), -1147107224),
    ("DATE", date(9999, 12, 31), 1135886659),
    ("TIMESTAMP", datetime(1970, 1, 1, 0, 0, tzinfo=timezone.utc), -1670924195),
    ("TIMESTAMP", datetime(2024, 2, 29, 12, 34, 56, 789012, tzinfo=timezone.utc), -1367554535),
    ("TIMESTAMP", datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=timezone.utc), -939490007),
    ("TIMESTAMP_NTZ", datetime(1970, 1, 1, 0, 0), -1670924195),
    ("TIMESTAMP_NTZ", datetime(2024, 2, 29, 12, 34, 56, 789012), -1367554535),
    ("TIMESTAMP_NTZ", datetime(1969, 12, 31, 23, 59, 59, 999999), -939490007),
    ("DECIMAL(10,2)", Decimal("0"), -1670924195),
    ("DECIMAL(10,2)", Decimal("1.23"), -46242105),
    ("DECIMAL(10,2)", Decimal("-1.23"), 1993430267),
    ("DECIMAL(10,2)", Decimal("99999999.99"), -138896179),
    ("DECIMAL(18,0)", Decimal("0"), -1670924195),
    ("DECIMAL(18,0)", Decimal("-1"), -939490007),
    ("DECIMAL(18,0)", Decimal("999999999999999999"), -1795328666),
    ("DECIMAL(38,18)", Decimal("0"), -783713497),
    ("DECIMAL(38,18)", Decimal("1"), 981769809),
    ("DECIMAL(38,18)", Decimal("-1"), -181059451),
    ("DECIMAL(38,18)", Decimal("1.5"), -144108884),
    ("DECIMAL(38,18)", Decimal("-12345678901234567890.5"), 2060816491),
    ("DECIMAL(38,18)", Decimal("1.28E-16"), -544401882),
    ("DECIMAL(38,18)", Decimal("-1.28E-16"), 775851899),
    ("DECIMAL(38,18)", Decimal("12345678901234567890.123456789012345678"), -1328266464),
    ("DECIMAL(19,0)", Decimal("0"), -783713497),
    ("DECIMAL(19,0)", Decimal("127"), 1185089389),
    ("DECIMAL(19,0)", Decimal("128"), -544401882),
    ("DECIMAL(19,0)", Decimal("255"), 1246198977),
    ("DECIMAL(19,0)", Decimal("256"), 188218374),
    ("DECIMAL(19,0)", Decimal("-128"), 775851899),
    ("DECIMAL(19,0)", Decimal("-129"), -771458971),
    ("DECIMAL(19,0)", Decimal("9223372036854775808"), 1479175736),
    ("DURATION", timedelta(0), -1670924195),
    ("DURATION", timedelta(days=1, seconds=7384, microseconds=5), 1767191497),
    ("DURATION", timedelta(days=-2, seconds=79015, microseconds=500000), -220290262),
]


@pytest.mark.parametrize(("type_text", "value", "expected"), SPARK_HASHES)
def test_a_hash_is_the_one_of_spark(type_text, value, expected):
    assert spark_hash([value], [parse_type(type_text)]) == expected


@pytest.mark.parametrize(
    ("values", "types", "expected"),
    [
        (["a", 1], "STRING LONG", 1838122449),
        (["a", "b", True], "STRING STRING BOOLEAN", 798777599),
        ([1, 2.5, date(2024, 1, 1)], "INT DOUBLE DATE", -1989241746),
        ([None, 1], "STRING INT", -559580957),
        ([None], "STRING", 42),
    ],
)
def test_a_hash_of_several_columns_is_the_one_of_spark(values, types, expected):
    assert spark_hash(values, [parse_type(text) for text in types.split()]) == expected


def test_a_struct_hashes_like_its_fields():
    pair = Types.TUPLE([Types.STRING(), Types.LONG()])
    assert spark_hash([("a", 1)], [pair]) == 1838122449
    nested = Types.TUPLE([Types.STRING(), Types.TUPLE([Types.INT(), parse_type("BINARY")])])
    assert spark_hash([("a", (7, b"\x00\xff"))], [nested]) == 991731622


def test_types_that_share_a_stored_form_share_a_hash():
    moment = datetime(2024, 2, 29, 12, 34, 56, 789012, tzinfo=timezone.utc)
    local = moment.astimezone(timezone(timedelta(hours=5, minutes=30)))
    instant = Instant(int(moment.timestamp()), moment.microsecond * 1000)
    hashes = {
        spark_hash([moment], [Types.SQL_TIMESTAMP()]),
        spark_hash([local], [Types.SQL_TIMESTAMP()]),
        spark_hash([moment.replace(tzinfo=None)], [parse_type("TIMESTAMP_NTZ")]),
        spark_hash([instant], [Types.INSTANT()]),
        spark_hash([instant.to_epoch_micro()], [Types.LONG()]),
    }
    assert len(hashes) == 1
    assert spark_hash([time(0, 0, 1)], [Types.SQL_TIME()]) == spark_hash([1_000_000], [Types.LONG()])
    assert spark_hash([5], [Types.BIG_INT()]) == spark_hash([Decimal(5)], [parse_type("DECIMAL(38,0)")])
    assert spark_hash([b"ab"], [TAGGED]) == spark_hash([b"ab"], [parse_type("BINARY")])


def test_a_list_has_no_hash():
    with pytest.raises(UnsupportedValueError, match="cannot be a key"):
        spark_hash([[1]], [Types.LIST(Types.LONG())])


@given(st.integers(1, MAX_KEY_GROUPS).flatmap(lambda m: st.tuples(st.just(m), st.integers(1, min(m, 300)))))
def test_e4_ranges_cover_all_key_groups_once_and_agree_with_their_owner(case):
    max_parallelism, parallelism = case
    next_group = 0
    for index in range(parallelism):
        first, last = key_group_range(max_parallelism, parallelism, index)
        assert first == next_group and last >= first
        assert subtask_of(first, max_parallelism, parallelism) == index
        assert subtask_of(last, max_parallelism, parallelism) == index
        next_group = last + 1
    assert next_group == max_parallelism


@given(st.lists(st.integers(-(2**31), 2**31 - 1)), st.integers(1, MAX_KEY_GROUPS), st.data())
def test_e4_owners_of_many_hashes_are_those_of_each(hashes, max_parallelism, data):
    parallelism = data.draw(st.integers(1, max_parallelism))
    expected = [subtask_of(key_group_of(one, max_parallelism), max_parallelism, parallelism) for one in hashes]
    assert subtasks_of(np.array(hashes, dtype=np.int32), max_parallelism, parallelism).tolist() == expected


@pytest.mark.parametrize(
    ("parallelism", "ranges"),
    [
        (2, [(0, 63), (64, 127)]),
        (3, [(0, 42), (43, 85), (86, 127)]),
        (5, [(0, 25), (26, 51), (52, 76), (77, 102), (103, 127)]),
    ],
)
def test_e4_ranges_of_128_key_groups(parallelism, ranges):
    assert [key_group_range(128, parallelism, index) for index in range(parallelism)] == ranges


@pytest.mark.parametrize(
    ("parallelism", "expected"),
    [(1, 128), (85, 128), (86, 256), (170, 256), (171, 256), (200, 512), (1000, 2048), (32768, 32768)],
)
def test_e5_default_max_parallelism(parallelism, expected):
    assert default_max_parallelism(parallelism) == expected


@given(st.integers(-(2**31), 2**31 - 1), st.integers(1, MAX_KEY_GROUPS))
def test_a_key_group_is_the_positive_remainder(key_hash, max_parallelism):
    group = key_group_of(key_hash, max_parallelism)
    assert 0 <= group < max_parallelism
    assert (key_hash - group) % max_parallelism == 0


@pytest.mark.parametrize(("max_parallelism", "parallelism"), [(0, 1), (32769, 1), (128, 0), (128, 129)])
def test_impossible_parallelisms_are_refused(max_parallelism, parallelism):
    with pytest.raises(UsageError, match="parallelism"):
        check_parallelism(max_parallelism, parallelism)


def test_a_subtask_beyond_the_parallelism_is_refused():
    with pytest.raises(UsageError, match="no subtask 2"):
        key_group_range(128, 2, 2)
