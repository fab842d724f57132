"""What Spark counts or hashes in another way than Penstock, and where sources of Spark begin."""

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import types as T

from penstock.common import Types
from penstock.errors import UsageError
from penstock.spark.dataframe_checks import describe, has_fixed_offsets, has_fixed_start
from penstock.spark.session import COLLATED_HASHES, query_settings, require_plain_hashes
from penstock.spark.state_columns import stored_columns
from penstock.spark.state_writer import StoredColumn, hashed

TIME = T.TimeType(6)


def frame_of(column: Any) -> Any:
    fields = [T.StructField("customer", T.StringType()), T.StructField("at", column)]
    return SimpleNamespace(schema=T.StructType(fields), select=list)


@pytest.mark.parametrize("column", [TIME, T.ArrayType(TIME), T.StructType([T.StructField("from", TIME)])])
def test_a_column_of_spark_s_type_time_is_refused(column: Any) -> None:
    """Spark counts nanoseconds and casts to seconds; a TIME here is a number of microseconds."""
    with pytest.raises(UsageError, match=r"column 'at' has Spark's type TIME.*cast\('string'\)"):
        describe(frame_of(column))


def test_other_columns_are_described() -> None:
    assert describe(frame_of(T.TimestampType())).text == 'ROW<"customer" STRING, "at" TIMESTAMP>'
    assert describe(SimpleNamespace(schema=T.StructType([]))).text == "ROW<>"


def test_a_state_is_not_written_from_a_column_of_spark_s_type_time() -> None:
    """Its values would be stored as if they were microseconds, or the numbers of the state."""
    for stored in (Types.SQL_TIME(), Types.LONG()):
        with pytest.raises(UsageError, match="column 'at' has Spark's type TIME"):
            stored_columns(frame_of(TIME), [StoredColumn("at", stored, "plain", is_key=False)], [])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, False),
        ({"startingoffsets": "Latest"}, False),
        ({"startingoffsets": "earliest"}, True),
        ({"startingoffsets": '{"orders":{"0":23,"1":-2}}'}, True),
        ({"startingoffsets": '{"orders":{"0":23,"1": -1}}'}, False),
        ({"startingtimestamp": "1000", "startingoffsets": "latest"}, True),
        ({"startingoffsetsbytimestamp": '{"orders":{"0":1000}}'}, True),
    ],
)
def test_spark_s_kafka_source_begins_behind_the_newest_records_unless_it_is_told_otherwise(
    options: dict[str, str], *, expected: bool
) -> None:
    assert has_fixed_offsets(options) is expected
    leaf = plan("StreamingRelationV2", "kafka", {key.upper(): value for key, value in options.items()})
    assert has_fixed_start(around(leaf)) is expected


def test_spark_s_other_sources_begin_where_they_began() -> None:
    assert has_fixed_start(around(plan("StreamingRelation", "FileSource[/in]", None)))
    assert has_fixed_start(around(plan("StreamingRelationV2", "rate", {})))


def plan(node: str, source: str, options: dict[str, str] | None) -> Any:
    """As much of a leaf of a plan as is looked at."""
    return SimpleNamespace(
        nodeName=lambda: node,
        sourceName=lambda: source,
        extraOptions=lambda: options,
        isStreaming=lambda: True,
        children=lambda: SimpleNamespace(size=lambda: 0),
    )


def around(leaf: Any) -> Any:
    """A DataFrame with one leaf below a projection."""
    children = SimpleNamespace(size=lambda: 1, apply=lambda index: leaf)
    root = SimpleNamespace(nodeName=lambda: "Project", isStreaming=lambda: True, children=lambda: children)
    return SimpleNamespace(_jdf=SimpleNamespace(queryExecution=lambda: SimpleNamespace(analyzed=lambda: root)))


def test_hashes_that_depend_on_a_collation_are_refused() -> None:
    """Of a text key with a collation Spark would compute another key group than a query or a timer."""
    for value in ("true", "TRUE"):
        session: Any = SimpleNamespace(conf={COLLATED_HASHES: value})
        with pytest.raises(UsageError, match=r"collationAwareHashFunctions is true.*set it to false"):
            require_plain_hashes(session)
        frame: Any = SimpleNamespace(sparkSession=session)
        with pytest.raises(UsageError, match="collationAwareHashFunctions"):
            hashed(frame)
    for conf in ({}, {COLLATED_HASHES: "false"}):
        plain: Any = SimpleNamespace(conf=conf)
        require_plain_hashes(plain)
    assert query_settings(1)[COLLATED_HASHES] == "false"
