"""DataFrames as sources: the type of their records, and which ones are refused."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import DataFrame

from penstock.errors import UsageError
from penstock.model.types import TypeInformation, resolve_type

STATEFUL_NODES = {
    "Aggregate": "groupBy().agg()",
    "Distinct": "distinct()",
    "Deduplicate": "dropDuplicates() or distinct()",
    "DeduplicateWithinWatermark": "dropDuplicatesWithinWatermark()",
    "FlatMapGroupsInPandasWithState": "applyInPandasWithState()",
    "FlatMapGroupsWithState": "flatMapGroupsWithState()",
    "GlobalLimit": "limit()",
    "Join": "a join of two streams",
    "TransformWithState": "transformWithState()",
    "TransformWithStateInPySpark": "transformWithState()",
}
REPLAYABLE = frozenset({"rate", "rate-micro-batch", "kafka"})
IN_MEMORY = frozenset({"socket", "textSocket", "memory", "MemoryStream"})
_AT_THE_END = re.compile(r":\s*-1\b")
"""In Spark's JSON of offsets: after the last record of a partition."""
IN_KEYED_STATE = "do it after from_dataframe() with keyed state, which is part of every snapshot"


def describe(frame: Any) -> TypeInformation:
    """The row type of a DataFrame's records."""
    found = resolve_type(frame.schema)
    for name, column in zip(found.names or (), found.children, strict=True):
        refuse_time(name, column)
    return found


def refuse_time(name: str, column: TypeInformation) -> None:
    """Raise UsageError for a column with Spark's type TIME, whose hash and numbers are of other units than ours."""
    if column.name == "TIME":
        raise UsageError(
            f"column {name!r} has Spark's type TIME, which Penstock does not read; make it a text, a number or a "
            f"timestamp: df.withColumn({name!r}, F.col({name!r}).cast('string'))"
        )
    for child in column.children:
        refuse_time(name, child)


def check_source(frame: DataFrame, *, replayable: bool = False) -> None:
    """Raise UsageError unless the DataFrame can be a source (PROTOCOL R27).

    `replayable`: the user asserts that every source in it gives the same rows for the same offsets, from a fixed start.
    """
    analyzed = frame._jdf.queryExecution().analyzed()
    for node in _streaming_nodes(analyzed):
        name = str(node.nodeName())
        if name == "EventTimeWatermark":
            raise UsageError(
                "the DataFrame has a watermark of Spark's, which has no effect here; remove withWatermark() and use "
                "from_dataframe(df, event_time=…, max_out_of_orderness=…)"
            )
        if name in STATEFUL_NODES and (name != "Join" or _joins_streams(node)):
            raise UsageError(
                f"the DataFrame contains {STATEFUL_NODES[name]}, for which Spark keeps state that is not in our "
                f"snapshots; {IN_KEYED_STATE}"
            )
        if name == "StreamingRelation":
            _check_file_source(node)
        if node.children().size() == 0:
            _check_replayable(node, replayable=replayable)
    check_static_source(frame)


def check_static_source(frame: DataFrame) -> None:
    """Raise UsageError unless the DataFrame gives the same rows when it is read again."""
    if not frame._jdf.queryExecution().analyzed().deterministic():
        raise UsageError(
            "the DataFrame contains an expression that gives another value each time, such as rand() or uuid(): rows "
            "that are read again after a failure would differ; compute it in a function after key_by()"
        )


def has_fixed_start(frame: DataFrame) -> bool:
    """Whether a query without a position begins at the same rows each time. Spark's Kafka source may not."""
    nodes = _streaming_nodes(frame._jdf.queryExecution().analyzed())
    relations = [node for node in nodes if str(node.nodeName()) == "StreamingRelationV2"]
    return all(has_fixed_offsets(_options(leaf)) for leaf in relations if str(leaf.sourceName()) == "kafka")


def _options(relation: Any) -> dict[str, str]:
    """The options of a source, with their names in lower case."""
    return {str(key).lower(): str(value) for key, value in relation.extraOptions().items()}


def has_fixed_offsets(options: Mapping[str, str]) -> bool:
    """Whether Spark's Kafka source with these options, whose names are in lower case, begins at fixed offsets.

    >>> has_fixed_offsets({}), has_fixed_offsets({"startingoffsets": "earliest"})
    (False, True)
    """
    if "startingtimestamp" in options or "startingoffsetsbytimestamp" in options:
        return True
    starting = options.get("startingoffsets", "latest").strip().lower()
    return starting != "latest" and _AT_THE_END.search(starting) is None


def _check_file_source(relation: Any) -> None:
    options = relation.dataSource().options().iterator()
    while options.hasNext():
        option = options.next()
        if str(option._1()).lower() == "cleansource" and str(option._2()).lower() != "off":
            raise UsageError(
                "the source has the option cleanSource, but a recovery may need files again that it has removed; leave "
                "the option out and remove old files by other means"
            )


def _check_replayable(leaf: Any, *, replayable: bool) -> None:
    """A recovery reads again what came after the checkpoint: the source must still have it, and start where it started.

    Spark's file, rate and Kafka sources do, and record where they started. Of others that is not known; the
    `initialOffset` of a Python source is called again by every query that has not committed a batch.
    """
    name = str(leaf.sourceName()) if str(leaf.nodeName()).startswith("StreamingRelation") else str(leaf.nodeName())
    if name in IN_MEMORY:
        raise UsageError(
            f"the source {name!r} keeps its rows only in memory, so a recovery could not read them again; write them "
            f"to files or to Kafka and read those"
        )
    if not (replayable or name.startswith("FileSource[") or name in REPLAYABLE):
        raise UsageError(
            f"nothing is known about the source {name!r}: a recovery reads the same offsets again and must get the "
            f"same rows, and after a failed first start it must begin at the same initial offset; if the source does "
            f"both, say so with from_dataframe(df, replayable=True)"
        )


def _joins_streams(join: Any) -> bool:
    return bool(join.left().isStreaming() and join.right().isStreaming())


def _streaming_nodes(node: Any) -> Iterator[Any]:
    """The nodes through which a stream flows; static inputs keep no state."""
    if not node.isStreaming():
        return
    yield node
    children = node.children()
    for index in range(children.size()):
        yield from _streaming_nodes(children.apply(index))
