"""Built-in operators that process columns: what `running`, `deduplicate` and `window(...).agg` add to the program."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.errors import UsageError
from penstock.graph.aggregate_windows import (
    WINDOW_END,
    WINDOW_START,
    AggregateWindows,
    check_aggregates,
    check_assigner,
)
from penstock.graph.batch_types import require_columns
from penstock.graph.job_graph import KEYED_AGGREGATE_WINDOW, KEYED_BATCH
from penstock.graph.stream_graph import KeyBy, OperatorSpec
from penstock.model.column_aggregates import bind_aggregates
from penstock.model.time import Time, TimeSpan, milliseconds
from penstock.model.ttl import StateTtlConfig
from penstock.model.type_information import scalar
from penstock.model.types import TypeInformation, Types

if TYPE_CHECKING:
    from penstock.datastream.data_stream import DataStream
    from penstock.datastream.keyed_stream import KeyedStream
    from penstock.datastream.windowed_stream import WindowSettings


def add_running(stream: "KeyedStream", aggregates: Mapping[str, Any]) -> "DataStream":
    """The operator of `running`."""
    from penstock.runtime.operators.running_aggregates import RunningAggregates

    require_columns(stream.get_type(), "running()")
    bound = bind_aggregates(aggregates, stream.get_type(), "running()")
    keys = key_fields(stream, "running()")
    fields = [*keys.items(), *((aggregate.name, aggregate.result_type) for aggregate in bound)]
    return _added(stream, "Running", RunningAggregates(tuple(keys), bound), row_type(fields, "running()"))


def add_deduplicate(stream: "KeyedStream", ttl: StateTtlConfig | TimeSpan | None) -> "DataStream":
    """The operator of `deduplicate`."""
    from penstock.runtime.operators.running_aggregates import Deduplicate

    require_columns(stream.get_type(), "deduplicate()")
    if ttl is not None and not isinstance(ttl, StateTtlConfig):
        ttl = StateTtlConfig.new_builder(Time.milliseconds(milliseconds(ttl))).build()
    return _added(stream, "Deduplicate", Deduplicate(ttl), stream.get_type())


def add_window_aggregates(
    stream: "KeyedStream", windows: "WindowSettings", aggregates: Mapping[str, Any]
) -> "DataStream":
    """The operator of `window(...).agg`."""
    from penstock.datastream.data_stream import DataStream

    assigner = windows._window_assigner
    check_assigner(assigner, has_trigger=windows._window_trigger is not None)
    name = type(assigner).__name__
    require_columns(stream.get_type(), f"agg() of {name!r}")
    bound = bind_aggregates(aggregates, stream.get_type(), f"agg() of {name!r}")
    check_aggregates(assigner, bound)
    fields = list(key_fields(stream, f"agg() of {name!r}").items())
    fields += [(column, scalar("TIMESTAMP")) for column in (WINDOW_START, WINDOW_END)]
    fields += [(aggregate.name, aggregate.result_type) for aggregate in bound]
    function = AggregateWindows(assigner, bound, windows._allowed_lateness_ms, windows._late_data_output_tag)
    spec = OperatorSpec(KEYED_AGGREGATE_WINDOW, function)
    node = stream._add("operator", name, spec, row_type(fields, f"agg() of {name!r}"))
    node.description = f"Window({assigner!r}, {', '.join(map(repr, aggregates.values()))})"
    return DataStream(stream._environment, node)


def key_fields(stream: "KeyedStream", method: str) -> dict[str, TypeInformation]:
    """The names and types of the key in the rows of a result."""
    key_by: KeyBy = stream._node.payload
    if any(key.kind != "arrow" for key in key_by.key_types):
        raise UsageError(
            f'{method} needs a key of a declared type, because its rows contain the key; write key_by("customer") '
            f"with the name of a column, or key_by({key_by.label}, key_type=Types.STRING())"
        )
    if key_by.columns is not None:
        return dict(zip(key_by.columns, key_by.key_types, strict=True))
    if len(key_by.key_types) == 1:
        return {"key": key_by.key_types[0]}
    return {f"key_{index}": key for index, key in enumerate(key_by.key_types)}


def row_type(fields: list[tuple[str, TypeInformation]], method: str) -> TypeInformation:
    """The type of rows with these fields. Raises if two of them have one name."""
    names = [name for name, _ in fields]
    doubled = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if doubled:
        raise UsageError(
            f"{method} would return two columns named {doubled[0]!r}: the key's columns and the aggregates are in one "
            f"row; give the aggregate another name"
        )
    return Types.ROW_NAMED(names, [kind for _, kind in fields])


def _added(stream: "KeyedStream", name: str, function: Any, output_type: TypeInformation) -> "DataStream":
    from penstock.datastream.data_stream import DataStream

    spec = OperatorSpec(KEYED_BATCH, function)
    return DataStream(stream._environment, stream._add("operator", name, spec, output_type))
