"""What a DataFrame is to us: a type of records, and whether it can be a source."""

from typing import Any

from pyspark.sql import DataFrame

from penstock.errors import UsageError
from penstock.model.types import TypeInformation, resolve_type

STATEFUL_NODES = (
    "Aggregate",
    "Deduplicate",
    "DeduplicateWithinWatermark",
    "Join",
    "TransformWithState",
    "EventTimeWatermark",
)
WAYS_OUT = {
    "EventTimeWatermark": "remove withWatermark and say from_dataframe(df, event_time=…, max_out_of_orderness=…)",
    "Join": "join in a process function, or join with a static table after key_by",
}


def describe(frame: Any) -> TypeInformation:
    """The row type of a DataFrame's records."""
    return resolve_type(frame.schema)


def check_source(frame: DataFrame) -> None:
    """Raise UsageError unless the DataFrame can be a source (PROTOCOL R27)."""
    if not frame.isStreaming:
        raise UsageError("the DataFrame is not streaming; read it with spark.readStream, or use from_collection")
    node = frame._jdf.queryExecution().analyzed()
    for name in _node_names(node):
        if name in STATEFUL_NODES:
            way = WAYS_OUT.get(name, "do it after from_dataframe with keyed state, where snapshots hold it")
            raise UsageError(
                f"the DataFrame contains Spark's own stateful {name}, whose state is not in our snapshots; {way}"
            )


def _node_names(node: Any) -> list[str]:
    names = [str(node.nodeName())]
    children = node.children()
    for index in range(children.size()):
        names += _node_names(children.apply(index))
    return names
