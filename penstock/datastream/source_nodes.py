"""The nodes of sources in the graph, checked while the program is built."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from penstock import compat
from penstock.codec.row_codec import RowCodec
from penstock.connectors.function_source import FunctionSource
from penstock.connectors.kafka.kafka_source import (
    PARTITION_COLUMN,
    TIMESTAMP_COLUMN,
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaSource,
)
from penstock.connectors.position_sources import DataGeneratorSource, IteratorSource, SocketSource
from penstock.connectors.source_connectors import CollectionSource, FileSource, NumberSequenceSource
from penstock.errors import ArgumentError, TypeMismatchError, UnsupportedValueError, UsageError
from penstock.graph.function_checks import check_function
from penstock.graph.stream_graph import EventTime, SourceKind, SourceSpec
from penstock.model.narrowed_integers import narrowed
from penstock.model.readable_values import shortened
from penstock.model.source_functions import SourceFunction
from penstock.model.time import milliseconds
from penstock.model.types import TypeInformation, record_type, resolve_type
from penstock.model.watermark import WatermarkStrategy

_CONNECTORS: tuple[tuple[type, SourceKind], ...] = (
    (FileSource, "file"),
    (NumberSequenceSource, "sequence"),
    (CollectionSource, "collection"),
    (DataGeneratorSource, "generator"),
    (IteratorSource, "iterator"),
    (SocketSource, "socket"),
    (KafkaSource, "kafka"),
)
_EVENT_TIME_TYPES = ("TIMESTAMP", "TIMESTAMP_NTZ", "DATE", "LONG", "INT")


def dataframe_source(
    df: Any, event_time: str | None, max_out_of_orderness: Any, *, replayable: bool = False
) -> SourceSpec:
    """A source of the rows of a DataFrame. One that is not streaming is bounded, and needs batch mode."""
    from penstock.spark.dataframe_checks import check_source, check_static_source, describe, has_fixed_start

    refuse_connect(df, "DataFrame")
    if not hasattr(df, "isStreaming") or not hasattr(df, "schema"):
        raise ArgumentError(
            f"from_dataframe() takes a Spark DataFrame, not an object of type {type(df).__name__}; see "
            "from_collection()"
        )
    if df.isStreaming:
        check_source(df, replayable=replayable)
    else:
        check_static_source(df)
    record_type = describe(df)
    time = _event_time(event_time, max_out_of_orderness, record_type)
    if not df.isStreaming:
        return SourceSpec("static", df, record_type, time, bounded=True)
    return SourceSpec("dataframe", df, record_type, time, fixed_start=has_fixed_start(df))


def collection_source(collection: Iterable[Any], type_info: Any) -> SourceSpec:
    """A source of the records of an iterable. In a program written for PyFlink integers wrap around, as there."""
    if isinstance(collection, str | bytes | dict) or not isinstance(collection, Iterable):
        raise ArgumentError(
            f"from_collection() takes a list of records, not an object of type {type(collection).__name__}; write "
            "[record]"
        )
    source = CollectionSource.of(collection, type_info)
    if compat.is_installed():
        source = replace(source, records=tuple(narrowed(record, source.record_type) for record in source.records))
    _check_records(source, type_info)
    return SourceSpec("collection", source, source.record_type, bounded=True)


def _check_records(source: CollectionSource, type_info: Any) -> None:
    """Raise if a record does not fit the declared type, or needs one."""
    if not source.records and type_info is None and not compat.is_installed():
        raise UsageError(
            "from_collection() got no records, so their type is unknown; declare it, for example "
            "from_collection([], Types.STRING())"
        )
    codec = RowCodec(source.record_type)
    try:
        codec.encode(source.records)
    except UnsupportedValueError as error:
        raise TypeMismatchError(_misfit(codec, source.records, type_info) or str(error)) from None


def _misfit(codec: RowCodec, records: Sequence[Any], type_info: Any) -> str | None:
    """Which record does not fit, and what to do."""
    for index, record in enumerate(records):
        try:
            codec.encode([record])
        except UnsupportedValueError as error:
            advice = "change the record, or declare another type_info="
            if type_info is None:
                advice = "make it a tuple, list, dict, Row, text, number or date, or declare type_info="
            return f"collection[{index}] is {shortened(record, 80)}: {error.problem}; {advice}"
    return None


def function_source(function: SourceFunction, type_info: Any) -> SourceSpec:
    """A source that runs a function of the program."""
    check_function(function, "source_function")
    record = record_type(type_info)
    source = FunctionSource.of(function, record)
    return SourceSpec("function", source, record, bounded=False, delivery=source.delivery)


def connector_source(source: Any, type_info: Any) -> SourceSpec:
    """A source of `penstock.connectors`."""
    kind = next((kind for connector, kind in _CONNECTORS if isinstance(source, connector)), None)
    if kind is None:
        hint = "give a FileSource, a NumberSequenceSource or, to add_source(), an instance of a SourceFunction"
        if hasattr(source, "build"):
            hint = "call .build() on it"
        raise ArgumentError(
            f"not a source: an object of type {type(source).__name__}; {hint}; a DataFrame goes to from_dataframe()"
        )
    if type_info is not None and resolve_type(type_info) != source.record_type:
        raise TypeMismatchError(
            f"type_info is {resolve_type(type_info).text}, but the source's records are "
            f"{source.record_type.text}; leave it out"
        )
    return SourceSpec(
        kind,
        source,
        source.record_type,
        bounded=source.bounded,
        delivery=source.delivery,
        fixed_start=not isinstance(source, KafkaSource) or _is_fixed(source.starting),
    )


def _is_fixed(starting: KafkaOffsetsInitializer) -> bool:
    """Whether it stands for the same offsets each time, and not for those behind the newest records."""
    return starting.kind != "latest" and starting.reset is not KafkaOffsetResetStrategy.LATEST


def has_own_event_time(source: Any, strategy: WatermarkStrategy) -> bool:
    """Return whether the source itself assigns timestamps, so that each of its partitions has its own event time."""
    return isinstance(source, KafkaSource) and strategy.out_of_orderness_ms is not None


def kafka_source(source: KafkaSource, type_info: Any, strategy: WatermarkStrategy) -> SourceSpec:
    """A Kafka source with event time: that of the strategy's assigner, or the messages' own."""
    spec = connector_source(source.with_event_time(strategy.timestamp_assigner), type_info)
    lag_ms = strategy.out_of_orderness_ms or 0
    return replace(spec, event_time=EventTime(TIMESTAMP_COLUMN, lag_ms, PARTITION_COLUMN, strategy.idle_after_ms))


def refuse_connect(thing: Any, what: str) -> None:
    """Raise for a session or DataFrame of Spark Connect."""
    if ".connect." in f"{type(thing).__module__}.":
        raise UsageError(
            f"the {what} belongs to Spark Connect, which has no driver process for the JobManager to run in; "
            f"use a classic session: SparkSession.builder.master(...).getOrCreate(), without .remote(...)"
        )


def _event_time(column: str | None, max_out_of_orderness: Any, record_type: TypeInformation) -> EventTime | None:
    if column is None:
        if max_out_of_orderness is not None:
            raise UsageError(
                'max_out_of_orderness= has no effect without event_time=; name the column: event_time="at"'
            )
        return None
    names = record_type.names or ()
    if column not in names:
        raise UsageError(
            f"there is no column {column!r} for the event time; the DataFrame has {', '.join(map(repr, names))}"
        )
    if record_type.field(column).name not in _EVENT_TIME_TYPES:
        raise UsageError(
            f"event time column {column!r} is of type {record_type.field(column).text}; use a timestamp, a date or a "
            f"bigint of milliseconds"
        )
    return EventTime(column, 0 if max_out_of_orderness is None else milliseconds(max_out_of_orderness))
