"""Adds an operator for a StatefulProcessor of Spark to the program, with the checks that need no data."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from penstock.errors import ArgumentError, UsageError
from penstock.graph.stream_graph import KeyBy, OperatorSpec
from penstock.model.types import TypeInformation, resolve_type

if TYPE_CHECKING:
    from penstock.datastream.data_stream import DataStream
    from penstock.datastream.keyed_stream import KeyedStream
    from penstock.spark.processor_handle import TimeMode
    from penstock.spark.stateful_processors import Form, ProcessorSettings

OUTPUT_MODES = ("append", "update")
TIME_MODES: "dict[str, TimeMode]" = {"none": "None", "processingtime": "ProcessingTime", "eventtime": "EventTime"}
SPARK_NAMES = {
    "statefulProcessor": "processor",
    "outputStructType": "output_type",
    "outputMode": "output_mode",
    "timeMode": "time_mode",
    "initialState": "initial_state",
}
"""Spark's name of a parameter -> ours."""


@dataclass(frozen=True)
class ProcessorCall:
    """The arguments of `transform_with_state`."""

    method: str
    form: "Form"
    processor: Any
    output_type: Any
    output_mode: Any
    time_mode: Any
    initial_state: Any

    @staticmethod
    def of(method: str, form: "Form", given: dict[str, Any], spark_names: dict[str, Any]) -> "ProcessorCall":
        """The arguments under our names, or under Spark's."""
        arguments = dict(given)
        for name, value in spark_names.items():
            if name == "eventTimeColumnName":
                raise UsageError(
                    f"{method}() has no eventTimeColumnName; call assign_timestamps_and_watermarks(…) on its result"
                )
            if name not in SPARK_NAMES:
                known = ", ".join([*given, *SPARK_NAMES])
                raise ArgumentError(f"{method}() has no parameter {name!r}; there are {known}")
            arguments[SPARK_NAMES[name]] = value
        return ProcessorCall(method, form, **arguments)


def add_processor(stream: "KeyedStream", call: ProcessorCall) -> "DataStream":
    """Add the operator and return the stream of its results."""
    from penstock.datastream.data_stream import DataStream
    from penstock.spark.stateful_processors import SparkProcessorFunction

    function = SparkProcessorFunction(call.processor, _settings(stream, call))
    environment = stream._environment
    spec = OperatorSpec("keyed_epoch", function)
    output_type = function.settings.output_type
    node = environment._graph.add("operator", "TransformWithState", [stream._node.id], spec, output_type)
    return DataStream(environment, node)


def _settings(stream: "KeyedStream", call: ProcessorCall) -> "ProcessorSettings":
    from penstock.spark.stateful_processors import ProcessorSettings

    input_type, output_type = stream.get_type(), resolve_type(call.output_type)
    if input_type.names is None:
        raise UsageError(
            f"{call.method}() needs rows with named fields, the records are {input_type.text}; declare them where they "
            f'are made, for example output_type="customer string, amount double"'
        )
    if output_type.names is None:
        raise ArgumentError(
            f"{call.method}() needs the fields of its results; write output_type=, a StructType or DDL such as "
            f'"id string, count bigint"'
        )
    key_by: KeyBy = stream._node.payload
    settings = ProcessorSettings(
        form=call.form,
        time_mode=_time_mode(stream, call),
        input_type=input_type,
        output_type=output_type,
        key_types=key_by.key_types,
        time_zone=_time_zone(stream) if _shows_time_zone(call, input_type, output_type) else "UTC",
    )
    _check_output_mode(call)
    return settings if call.initial_state is None else _with_initial_state(settings, call, key_by)


def _with_initial_state(settings: "ProcessorSettings", call: ProcessorCall, key_by: KeyBy) -> "ProcessorSettings":
    from penstock.spark.initial_state import read_initial_state

    record_type, rows = read_initial_state(call.initial_state, key_by.columns, key_by.selector)
    return replace(settings, initial_type=record_type, initial_rows=rows)


def _time_mode(stream: "KeyedStream", call: ProcessorCall) -> "TimeMode":
    mode = TIME_MODES.get(str(call.time_mode).lower())
    if mode is None:
        raise ArgumentError(f"time_mode={call.time_mode!r}; it is 'None', 'ProcessingTime' or 'EventTime'")
    if mode == "EventTime" and not stream._environment._graph.has_event_time(stream._node.id):
        raise UsageError(
            f"{call.method}() with time_mode='EventTime' needs event time; write "
            f'from_dataframe(df, event_time="at", max_out_of_orderness=…) or assign_timestamps_and_watermarks(…)'
        )
    return mode


def _check_output_mode(call: ProcessorCall) -> None:
    """Raise for an unknown output mode. Both of Spark's modes emit the same rows."""
    if str(call.output_mode).lower() not in OUTPUT_MODES:
        raise ArgumentError(f"output_mode={call.output_mode!r}; it is 'Append' or 'Update'")


def _shows_time_zone(call: ProcessorCall, *types: TypeInformation) -> bool:
    """Return whether DataFrames may have timestamps, which are in the session's time zone."""
    if call.form != "pandas":
        return False
    return call.initial_state is not None or any(f.name == "TIMESTAMP" for t in types for f in t.children)


def _time_zone(stream: "KeyedStream") -> str:
    return str(stream._environment.spark.conf.get("spark.sql.session.timeZone"))
