"""Which sources of a job Penstock reads itself, with packed rows, and why others pass through Spark row by row.

Files are packed only where the results are certainly those of Spark's reader. It is decided when the job is planned.
Positions are the same on both paths, so another decision in a later run changes nothing but the speed.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from os.path import normpath
from urllib.parse import urlsplit

from penstock.connectors.kafka.kafka_source import KafkaSource
from penstock.connectors.source_connectors import FileSource
from penstock.graph.job_graph import EdgePlan, JobGraph, SourcePlan, SourceRef, StagePlan
from penstock.model.configuration import Configuration
from penstock.model.options.execution_options import SOURCE_PACKED

Setting = Callable[[str], str | None]
"""The value of one of Spark's settings; None where it is not set."""

NEVER = "never"
FIRST_PYSPARK = (4, 2)
PATTERN = re.compile(r"[*?{}\[\]\\]")
NUMBERS = frozenset({"SHORT", "INT", "LONG", "DOUBLE"})
TYPES = {
    "parquet": NUMBERS | {"BOOLEAN", "BYTE", "FLOAT", "STRING", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ"},
    "json": NUMBERS | {"BOOLEAN", "STRING"},
    "csv": NUMBERS | {"BOOLEAN", "BYTE", "STRING"},
}
"""For each format the types of which equal results are certain."""
ASSUMED = {
    "spark.sql.caseSensitive": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.legacy.json.allowEmptyString.enabled": "false",
    "spark.sql.legacy.parquet.nanosAsLong": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.fieldId.read.enabled": "false",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96TimestampConversion": "false",
    "spark.hadoop.fs.defaultFS": "file:///",
}
"""Spark's settings that change what its reader returns, with the value for which ours returns the same."""
CORRUPT_COLUMN = "spark.sql.columnNameOfCorruptRecord"


def plan_read_paths(graph: JobGraph, configuration: Configuration, setting: Setting) -> JobGraph:
    """The graph with a decision for each source, at this parallelism and at any other."""
    sources = tuple(_decided(graph, source, configuration, setting) for source in graph.sources)
    packed = {source.id for source in sources if source.packed}
    again = graph.at_parallelism
    return replace(
        graph,
        sources=sources,
        stages=tuple(_with_packed(stage, packed) for stage in graph.stages),
        at_parallelism=None if again is None else lambda p: plan_read_paths(again(p), configuration, setting),
    )


def reading_lines(graph: JobGraph) -> list[str]:
    """How each source is read, one line each."""
    return [f"source {source.name!r}: {_reading(source)}" for source in graph.sources]


def _reading(source: SourcePlan) -> str:
    return "packed" if source.packed else f"row by row: {source.reading}"


def packed_edge(graph: JobGraph, source: SourcePlan) -> tuple[EdgePlan, StagePlan]:
    """The only edge that reads a packed source, and its stage."""
    return next((edge, stage) for stage in graph.stages for edge in stage.inputs if edge.source == SourceRef(source.id))


def _with_packed(stage: StagePlan, packed: set[int]) -> StagePlan:
    edges = [
        replace(edge, packed=isinstance(edge.source, SourceRef) and edge.source.source_id in packed)
        for edge in stage.inputs
    ]
    return replace(stage, inputs=tuple(edges))


def _decided(graph: JobGraph, source: SourcePlan, configuration: Configuration, setting: Setting) -> SourcePlan:
    reason = _job_reason(graph, source, configuration)
    given = source.spec.object
    if reason is None and not isinstance(given, KafkaSource):
        reason = _file_reason(given, setting) if isinstance(given, FileSource) else "it reads neither files nor topics"
    return replace(source, packed=reason is None, reading=reason or "")


def _job_reason(graph: JobGraph, source: SourcePlan, configuration: Configuration) -> str | None:
    if configuration.get(SOURCE_PACKED) == NEVER:
        return f"{SOURCE_PACKED.key} is {NEVER}"
    if graph.batch:
        return "the job runs in batch mode, which sorts rows on arrival"
    edges = [edge for stage in graph.stages for edge in stage.inputs if edge.source == SourceRef(source.id)]
    if any(edge.source == SourceRef(source.id) for sink in graph.spark_sinks for edge in sink.edges):
        return "to_spark() writes its rows"
    if len(edges) != 1:
        return f"{len(edges)} stages read it"
    if edges[0].jvm_ops:
        return "SQL is computed on its rows before the first operator"
    if edges[0].event_time is not None:
        return "its rows carry event times of their own"
    return None


def _file_reason(source: FileSource, setting: Setting) -> str | None:
    if _pyspark_version() < FIRST_PYSPARK:
        return "it needs PySpark 4.2 or newer, which tells a source in Python how much to read"
    wanted = TYPES.get(source.format)
    if wanted is None:
        return f"files of the format {source.format} are read by Spark only"
    if len(source.paths) != 1 or PATTERN.search(source.path):
        return "its path is a pattern, or it has several"
    if local_path(source) is None:
        return "its path is not in the local file system"
    if source.partition_columns:
        return "some of its columns are in the names of folders"
    if source.options.get("encoding") is not None:
        return f"its charset is {source.options['encoding']}"
    return _type_reason(source, wanted, setting) or _setting_reason(setting)


def _type_reason(source: FileSource, wanted: frozenset[str], setting: Setting) -> str | None:
    names = source.record_type.names or ()
    for name, column in zip(names, source.record_type.children, strict=True):
        if column.name not in wanted or column.children:
            return f"column {name!r} of type {column.text} in {source.format} files is read by Spark only"
    if len({name.lower() for name in names}) < len(names):
        return "some of its columns differ only in case"
    if source.format != "parquet" and (setting(CORRUPT_COLUMN) or "_corrupt_record") in names:
        return "one of its columns is Spark's column of corrupt records"
    return None


def _setting_reason(setting: Setting) -> str | None:
    for key, assumed in ASSUMED.items():
        value = setting(key)
        if value is not None and value.lower() != assumed.lower():
            return f"{key} is {value}"
    return None


def local_path(source: FileSource) -> str | None:
    """The path of a source in the local file system; None if it is somewhere else."""
    if source.path.startswith("/"):
        return source.path
    address = urlsplit(source.path)
    is_plain = address.scheme == "file" and not address.netloc and not address.query and not address.fragment
    if not is_plain or not address.path.startswith("/") or "%" in address.path:
        return None
    return "/" + normpath(address.path).lstrip("/")  # as in the addresses that Spark writes into its logs


def _pyspark_version() -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version("pyspark"))[:2]))
