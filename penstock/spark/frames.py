"""What a DataFrame is to us: a type of records, and whether it can be a source."""

from collections.abc import Iterator
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
IN_KEYED_STATE = "do it behind from_dataframe() with keyed state, where snapshots hold it"


def describe(frame: Any) -> TypeInformation:
    """The row type of a DataFrame's records."""
    return resolve_type(frame.schema)


def check_source(frame: DataFrame) -> None:
    """Raise UsageError unless the DataFrame can be a source (PROTOCOL R27)."""
    if not frame.isStreaming:
        raise UsageError("the DataFrame is not streaming; read it with spark.readStream, or use from_collection")
    analyzed = frame._jdf.queryExecution().analyzed()
    for node in _streaming_nodes(analyzed):
        name = str(node.nodeName())
        if name == "EventTimeWatermark":
            raise UsageError(
                "the DataFrame has a watermark of Spark's, which does nothing here; remove withWatermark() and say "
                "from_dataframe(df, event_time=…, max_out_of_orderness=…)"
            )
        if name in STATEFUL_NODES and (name != "Join" or _joins_streams(node)):
            raise UsageError(
                f"the DataFrame contains {STATEFUL_NODES[name]}, for which Spark keeps state that is not in our "
                f"snapshots; {IN_KEYED_STATE}"
            )
        if name == "StreamingRelation":
            _check_file_source(node)
    if not analyzed.deterministic():
        raise UsageError(
            "the DataFrame contains an expression that gives another value each time, such as rand() or uuid(): rows "
            "that are read again after a failure would differ; compute it in a function behind key_by()"
        )


def _check_file_source(relation: Any) -> None:
    options = relation.dataSource().options().iterator()
    while options.hasNext():
        option = options.next()
        if str(option._1()).lower() == "cleansource" and str(option._2()).lower() != "off":
            raise UsageError(
                "the source has the option cleanSource, but a recovery may need files again that it has removed; leave "
                "it out and remove old files by other means"
            )


def _joins_streams(join: Any) -> bool:
    return bool(join.left().isStreaming() and join.right().isStreaming())


def _streaming_nodes(node: Any) -> Iterator[Any]:
    """The nodes through which a stream flows; what is static beside it keeps no state."""
    if not node.isStreaming():
        return
    yield node
    children = node.children()
    for index in range(children.size()):
        yield from _streaming_nodes(children.apply(index))
