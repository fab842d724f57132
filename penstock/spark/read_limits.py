"""How much one epoch reads of sources for which the program sets no limit. It changes from epoch to epoch.

Spark takes the limit of a source from its options when a query starts, and keeps it in the query. The first limit of
Spark's file source is written into the options, and sources of ours are made with it; later ones replace the one in the
query, between two batches and in the query's own thread. A batch that Spark has planned is in the offset log with its
end: no limit changes it (PROTOCOL R19).
"""

import json
from collections.abc import Sequence
from typing import Any

from py4j.java_gateway import JavaClass
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

FILES, ROWS = "files", "rows"
LIMITED_NAMES = {FILES: "penstock-files-", ROWS: "penstock-rows-"}
"""How the names of sources in Python begin that read as many of these as they are told."""
_CHOSEN_BY_USER = ("maxfilespertrigger", "maxbytespertrigger", "latestfirst")


def free_sources(frame: DataFrame) -> tuple[str, ...]:
    """For each stream of the frame, in Spark's order, what can be limited: FILES, ROWS or nothing."""
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
    return tuple(_unit(leaf) for leaf in map(leaves.apply, range(leaves.size())) if leaf.isStreaming())


def limit_files(frame: DataFrame, files: int) -> DataFrame:
    """The same stream, whose file sources without a limit of their own read at most `files` files in an epoch."""
    session = frame.sparkSession
    plan = frame._jdf.queryExecution().analyzed()
    limited = _limit_leaves(session, plan, files)
    if limited is plan:
        return frame
    jvm: Any = session._jvm
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, limited), session)


def set_limit(session: SparkSession, query: StreamingQuery, limited: Sequence[str], wanted: tuple[str, int]) -> None:
    """Let the streams of a running query that are `limited` so read at most `wanted` in a batch, FILES or ROWS and how
    many. Called inside a batch.
    """
    execution: Any = query._jsq.streamingQuery()
    streams, limits = execution.sources(), execution.uniqueSources()
    if streams.size() != len(limited):
        return  # it is not known which is which: the limits stay as they are
    unit, count = wanted
    for stream in (streams.apply(index) for index, of_stream in enumerate(limited) if of_stream == unit):
        if limits.contains(stream):
            is_python = "Python" in limits.apply(stream).getClass().getName()
            limit = _limit_of_python(session, unit, count) if is_python else _limit_of_files(session, count)
            limits = limits if limit is None else limits.updated(stream, limit)
    getattr(execution, "uniqueSources_$eq")(limits)


def _limit_of_files(session: SparkSession, count: int) -> Any:
    """The limit of Spark's own file source."""
    jvm: Any = session._jvm
    return jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit.maxFiles(count)


def _limit_of_python(session: SparkSession, unit: str, count: int) -> Any:
    """Sources in Python have a class of their own, with the limit as JSON. None if Spark has none."""
    jvm: Any = session._jvm
    of_python = jvm.org.apache.spark.sql.execution.datasources.v2.python.PythonStreamingSourceReadLimit
    text = json.dumps({"_type": f"ReadMax{unit.capitalize()}", f"max_{unit}": count})
    return of_python(text) if isinstance(of_python, JavaClass) else None


def _unit(leaf: Any) -> str:
    if leaf.nodeName() == "StreamingRelationV2":
        return next((unit for unit, name in LIMITED_NAMES.items() if leaf.sourceName().startswith(name)), "")
    return FILES if _is_unlimited(leaf) else ""


def _is_unlimited(leaf: Any) -> bool:
    """Whether a leaf of a plan is a file source without a limit."""
    if leaf.nodeName() != "StreamingRelation" or not leaf.sourceName().startswith("FileSource["):
        return False
    options = leaf.dataSource().options().keys().toSeq()
    return not any(options.apply(index).lower() in _CHOSEN_BY_USER for index in range(options.size()))


def _limit_leaves(session: SparkSession, plan: Any, files: int) -> Any:
    """The plan with an option for each file source that has no limit; the same object if there is none."""
    if _is_unlimited(plan):
        source = plan.dataSource()
        options = source.options().updated("maxFilesPerTrigger", str(files))
        return _copied(plan, "dataSource", _copied(source, "options", options))
    children = plan.children()
    before = [children.apply(index) for index in range(children.size())]
    after = [_limit_leaves(session, child, files) for child in before]
    if all(new is old for new, old in zip(after, before, strict=True)):
        return plan
    jvm: Any = session._jvm
    return plan.withNewChildren(jvm.PythonUtils.toSeq(after))


def _copied(value: Any, field: str, new: Any) -> Any:
    """A copy of a Scala case class with another value of one field. The other fields depend on Spark's version."""
    names = [value.productElementName(index) for index in range(value.productArity())]
    return value.copy(*(new if name == field else value.productElement(index) for index, name in enumerate(names)))
