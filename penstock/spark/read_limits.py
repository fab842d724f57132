"""How many files one epoch reads, for file sources for which the program sets no limit. It changes from epoch to epoch.

Spark takes the limit of a source from its options when a query starts, and keeps it in the query. The first limit is
written into the options; later ones replace the one in the query, between two batches and in the query's own thread. A
batch that Spark has planned is in the offset log with its end: no limit changes it (PROTOCOL R19).
"""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

_CHOSEN_BY_USER = ("maxfilespertrigger", "maxbytespertrigger", "latestfirst")


def unlimited_file_sources(frame: DataFrame) -> tuple[bool, ...]:
    """For each stream of the frame, in Spark's order: whether it reads files, as many as there are."""
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
    return tuple(_is_unlimited(leaf) for leaf in map(leaves.apply, range(leaves.size())) if leaf.isStreaming())


def limit_files(frame: DataFrame, files: int) -> DataFrame:
    """The same stream, whose file sources without a limit of their own read at most `files` files in an epoch."""
    session = frame.sparkSession
    plan = frame._jdf.queryExecution().analyzed()
    limited = _limit_leaves(session, plan, files)
    if limited is plan:
        return frame
    jvm: Any = session._jvm
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, limited), session)


def set_file_limit(session: SparkSession, query: StreamingQuery, limited: Sequence[bool], files: int) -> None:
    """Let the `limited` streams of a running query read at most so many files in a batch. Called inside a batch."""
    execution: Any = query._jsq.streamingQuery()
    streams, limits = execution.sources(), execution.uniqueSources()
    if streams.size() != len(limited):
        return  # it is not known which is which: the limits stay as they are
    jvm: Any = session._jvm
    limit = jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit.maxFiles(files)
    for stream in (streams.apply(index) for index, is_limited in enumerate(limited) if is_limited):
        if limits.contains(stream):
            limits = limits.updated(stream, limit)
    getattr(execution, "uniqueSources_$eq")(limits)


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
