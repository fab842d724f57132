"""Small job graphs for the harness, made without a program."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from penstock.errors import ArgumentError, UsageError
from penstock.graph.batch_types import require_columns
from penstock.graph.callables import CallableKeySelector, describe_given
from penstock.graph.function_checks import check_function
from penstock.graph.interval_bounds import INTERVAL_JOIN, IntervalBounds
from penstock.graph.job_graph import (
    KEYED_BATCH,
    SIDE_OUTPUT,
    SPARK_SINK,
    EdgePlan,
    JobGraph,
    OperatorPlan,
    Partitioning,
    SinkPlan,
    SourcePlan,
    SourceRef,
    StageOutput,
    StagePlan,
)
from penstock.graph.pickling import dumps
from penstock.graph.runtime_mode import kind_in_mode
from penstock.graph.stream_graph import SinkSpec, SourceSpec
from penstock.graph.tagged_union import SideKey, SidesOfWindow
from penstock.graph.window_operation import KEYED_WINDOW, WINDOW_CONTENTS, SameKey, WindowOperation, check_operation
from penstock.model.async_functions import AsyncFunction, AsyncFunctionDescriptor
from penstock.model.batch_functions import BatchProcessFunction
from penstock.model.broadcast_functions import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from penstock.model.co_functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from penstock.model.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
)
from penstock.model.epoch_functions import KeyedEpochFunction
from penstock.model.execution import RuntimeExecutionMode
from penstock.model.functions import (
    AggregateFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
)
from penstock.model.join_functions import ProcessJoinFunction
from penstock.model.key_groups import default_max_parallelism
from penstock.model.options.execution_options import ASYNC_WAIT
from penstock.model.output_tag import OutputTag
from penstock.model.sink import Sink
from penstock.model.sink_functions import SinkFunction
from penstock.model.time import TimeSpan, milliseconds
from penstock.model.type_information import TypeInformation, as_key_type
from penstock.model.types import TAGGED, Types, resolve_type
from penstock.model.window_assigners import WindowAssigner
from penstock.model.window_triggers import Trigger
from penstock.testing.setting_checks import WINDOW_JOINS, check_program

FUNCTION_UID = "function"
SINK_UID = "sink"
MARKED_RECORDS = "marked_records"
"""In the config of the operator: its records are pairs of the number of their stream, 1 or 2, and the record."""
KEYED_KINDS: list[tuple[type, str]] = [
    (BatchProcessFunction, KEYED_BATCH),
    (KeyedProcessFunction, "keyed_process"),
    (KeyedBroadcastProcessFunction, "keyed_broadcast"),
    (KeyedCoProcessFunction, "keyed_co_process"),
    (ProcessJoinFunction, INTERVAL_JOIN),
    (CoMapFunction, "keyed_co_map"),
    (CoFlatMapFunction, "keyed_co_flat_map"),
    (MapFunction, "keyed_map"),
    (FlatMapFunction, "keyed_flat_map"),
    (FilterFunction, "keyed_filter"),
    (ReduceFunction, "reduce"),
    (KeyedEpochFunction, "keyed_epoch"),
]
KINDS: list[tuple[type, str]] = [
    (ProcessFunction, "process"),
    (BroadcastProcessFunction, "broadcast"),
    (CoProcessFunction, "co_process"),
    (CoMapFunction, "co_map"),
    (CoFlatMapFunction, "co_flat_map"),
    (MapFunction, "map"),
    (FlatMapFunction, "flat_map"),
    (FilterFunction, "filter"),
    (AsyncFunctionDescriptor, "async_wait"),
    (SinkFunction, "sink_function"),
]


@dataclass(frozen=True)
class FunctionProgram:
    """One function on a stream. Without a key the stream is not keyed."""

    function: Any
    key: Callable[[Any], Any] | None = None
    parallelism: int = 1
    max_parallelism: int | None = None
    key_type: Any = None
    timestamp: Callable[[Any], int] | None = None
    sink: Sink | None = None
    sink_type: Any = None
    """The type of the records that the sink gets: as `output_type` in a program."""
    second_key: Callable[[Any], Any] | None = None
    """Of the records of the second stream; None: the same."""
    second_timestamp: Callable[[Any], int] | None = None
    broadcast: tuple[MapStateDescriptor, ...] = ()
    """The states of a broadcast stream."""
    side_outputs: tuple[OutputTag, ...] = ()
    """The tags whose records `Harness.side_output` returns."""
    window: WindowAssigner[Any, Any] | None = None
    """The windows that `function` reduces, aggregates or evaluates; without a key, as `window_all` does."""
    trigger: Trigger[Any, Any] | None = None
    allowed_lateness: TimeSpan = 0
    late_data: OutputTag | None = None
    """The side output of records that are too late."""
    between: tuple[int, int] | None = None
    """The bounds of an interval join in milliseconds, both inclusive; `late_data` is for both streams."""
    window_function: Any = None
    """Gets what `function` has reduced or aggregated."""
    accumulator_type: Any = None
    runtime_mode: RuntimeExecutionMode = RuntimeExecutionMode.STREAMING
    """BATCH: everything is processed by `finish`, one key after the other."""
    uid: str = FUNCTION_UID
    restore_from: str | None = None
    """Of the settings of a harness: `restored_operator` reads it."""
    key_types: tuple[TypeInformation, ...] = ()
    """Instead of `key_type`, for a key of several columns."""
    record_type: Any = None
    """The type of the records, as which windows, joins, `reduce` and async calls keep them; None: any."""
    output_type: Any = None
    """The type of the results of a BatchProcessFunction; None: that of the columns it returns."""
    second_type: Any = None
    """Of the records of the second stream of an interval join."""
    async_wait_ms: int = ASYNC_WAIT.default
    """How long an epoch waits at its end for the requests of an AsyncFunction."""
    created: str = ""
    """The line of the test that made it."""


class Selector(KeySelector):
    """The key function, and the event time beside it."""

    def __init__(self, key: Callable[[Any], Any] | None, timestamp: Callable[[Any], int] | None) -> None:
        self.key = key
        self.timestamp = timestamp

    def get_key(self, value: Any) -> Any:
        assert self.key is not None
        return self.key(value)


def function_graph(program: FunctionProgram) -> JobGraph:
    """source (→ key_by) → function (→ sink). The function's output also goes to the harness."""
    check_program(program)
    is_window_join = isinstance(program.function, WINDOW_JOINS)
    if is_window_join:
        program = _with_marked_records(program)
    if program.window is not None and program.key is None:
        program = replace(program, key=SameKey().get_key, key_type=Types.BYTE(), parallelism=1)
    if program.late_data is not None and program.late_data not in program.side_outputs:
        program = replace(program, side_outputs=(*program.side_outputs, program.late_data))
    max_parallelism = program.max_parallelism or default_max_parallelism(program.parallelism)
    keyed = program.key is not None
    key_types = (program.key_types or (as_key_type(resolve_type(program.key_type)),)) if keyed else ()
    selector = dumps(Selector(program.key, program.timestamp), "key_by")
    partitioning: Partitioning = "key" if keyed else "forward"
    edge = EdgePlan(0, SourceRef(0), "s0", TAGGED, partitioning, key_selector=selector, key_types=key_types)
    edges = [edge]
    config: dict[str, Any] = {"state": "_reduce"}
    if program.broadcast:
        edges.append(EdgePlan(2, SourceRef(1), "s0", TAGGED, "broadcast"))
        config = {"descriptors": dumps(program.broadcast, FUNCTION_UID), "broadcast_inputs": [-2]}
    if isinstance(program.function, (AsyncFunction, AsyncFunctionDescriptor)):
        program = replace(program, function=_described(program.function))
        config = {"wait_ms": program.async_wait_ms}
    operation = program.function
    if program.window is not None:
        kind, operation = KEYED_WINDOW, window_operation(program)
    else:
        kind = kind_of(program.function, keyed=keyed)
        check_function(program.function, kind)
    if "co_" in kind:
        edges.append(replace(edge, id=2, source=SourceRef(1), key_selector=_second_selector(program)))
        config = {"second_inputs": [-2]}
    if kind == INTERVAL_JOIN:
        config["bounds"] = _bounds(program)
    if is_window_join:
        config[MARKED_RECORDS] = True
    record_type = resolve_type(program.record_type)
    if kind == KEYED_BATCH:
        require_columns(record_type, f"{type(program.function).__name__} (record_type= of the harness)")
    batch = program.runtime_mode is not RuntimeExecutionMode.STREAMING  # what a harness is fed ends
    function = OperatorPlan(
        program.uid,
        FUNCTION_UID,
        kind_in_mode(kind, batch=batch),
        dumps(operation, FUNCTION_UID),
        record_type,
        resolve_type(program.output_type) if kind == KEYED_BATCH else record_type if kind == "reduce" else TAGGED,
        tuple(-1 - index for index in range(len(edges))),
        keyed=keyed,
        key_types=key_types,
        explicit_uid=True,
        config=config,
        created=program.created,
    )
    sinks = [] if program.sink is None else [_sink_plan(program.sink, program.sink_type)]
    stage = StagePlan(
        "s0",
        FUNCTION_UID,
        program.parallelism,
        max_parallelism,
        key_types if keyed else None,
        tuple(edges),
        (function, *(_sink_operator(sink) for sink in sinks), *map(_side_output, program.side_outputs)),
        tuple(_outputs(1 + len(sinks), program.side_outputs)),
        batch=batch,
    )
    spec = SourceSpec("collection", None, TAGGED)
    names = ["source", "second" if "second_inputs" in config else "broadcast"][: len(edges)]
    sources = [SourcePlan(index, name, name, spec, TAGGED, None, bounded=True) for index, name in enumerate(names)]
    return JobGraph((stage,), tuple(sources), tuple(sinks), (), max_parallelism, batch=batch)


def _bounds(program: FunctionProgram) -> IntervalBounds:
    if program.between is None:
        raise UsageError("an interval join needs between=(lower, upper), in milliseconds")
    tag = None if program.late_data is None else program.late_data.tag_id
    types = resolve_type(program.record_type), resolve_type(program.second_type)
    return IntervalBounds(*program.between, *types, tag, tag)


def _with_marked_records(program: FunctionProgram) -> FunctionProgram:
    """A join by window as a window over records that are marked with the number of their stream."""
    first, second = _of_record(program.key), _of_record(program.second_key or program.key)
    timestamps = program.timestamp, program.second_timestamp or program.timestamp

    def timestamp(marked: Any) -> int:
        side, record = marked
        extract = timestamps[side - 1]
        assert extract is not None
        return extract(record)

    return replace(
        program,
        function=SidesOfWindow(program.function),
        key=SideKey(first, second).get_key,
        timestamp=None if program.timestamp is None else timestamp,
    )


def _of_record(key: Callable[[Any], Any] | None) -> KeySelector:
    assert key is not None
    return CallableKeySelector(key)


def _second_selector(program: FunctionProgram) -> bytes:
    key, timestamp = program.second_key or program.key, program.second_timestamp or program.timestamp
    return dumps(Selector(key, timestamp), "key_by")


def _side_output(tag: OutputTag) -> OperatorPlan:
    uid, function, config = f"side output {tag.tag_id}", dumps(None, tag.tag_id), {"tag": tag.tag_id}
    return OperatorPlan(uid, uid, SIDE_OUTPUT, function, TAGGED, tag.type_info, (0,), keyed=False, config=config)


def _outputs(first: int, side_outputs: tuple[OutputTag, ...]) -> Iterator[EdgePlan]:
    """The edges to the harness: of the function, and of the side outputs, whose operators begin at a position."""
    yield EdgePlan(1, StageOutput("s0", 0), SPARK_SINK, TAGGED, "forward")
    for number, tag in enumerate(side_outputs):
        yield EdgePlan(3 + number, StageOutput("s0", first + number), SPARK_SINK, tag.type_info, "forward")


def window_operation(program: FunctionProgram) -> WindowOperation:
    """The function on windows."""
    assert program.window is not None
    function = program.function
    after = program.window_function
    contents: StateDescriptor
    if isinstance(function, ReduceFunction):
        contents = ReducingStateDescriptor(WINDOW_CONTENTS, function, program.record_type)
    elif isinstance(function, AggregateFunction):
        contents = AggregatingStateDescriptor(WINDOW_CONTENTS, function, program.accumulator_type)
    else:
        contents, after = ListStateDescriptor(WINDOW_CONTENTS, program.record_type), function
    trigger = program.trigger or program.window.get_default_trigger(None)
    lateness_ms = milliseconds(program.allowed_lateness)
    operation = WindowOperation(program.window, trigger, contents, after, lateness_ms, program.late_data)
    check_operation(operation, FUNCTION_UID)
    return operation


def _described(function: AsyncFunction | AsyncFunctionDescriptor) -> AsyncFunctionDescriptor:
    return AsyncFunctionDescriptor(function, 60_000) if isinstance(function, AsyncFunction) else function


def _sink_plan(sink: Sink, sink_type: Any) -> SinkPlan:
    record_type = resolve_type(sink_type)
    return SinkPlan(SINK_UID, SINK_UID, SinkSpec("sink", sink), "s0", record_type)


def _sink_operator(sink: SinkPlan) -> OperatorPlan:
    function = dumps(sink.spec, sink.uid)
    config = {"sink": sink.spec.kind}
    record_type = sink.record_type
    return OperatorPlan(
        sink.uid, sink.uid, "sink", function, record_type, record_type, (0,), keyed=False, config=config
    )


def kind_of(function: Any, *, keyed: bool) -> str:
    """The operator that calls such a function."""
    for base, kind in KEYED_KINDS if keyed else KINDS:
        if isinstance(function, base):
            return kind
    stream, parent = ("keyed stream", "KeyedProcessFunction") if keyed else ("stream without a key", "ProcessFunction")
    raise ArgumentError(
        f"{describe_given(function)} cannot run on a {stream}; give an instance of a subclass of {parent}, "
        f"MapFunction, FlatMapFunction or FilterFunction"
    )
