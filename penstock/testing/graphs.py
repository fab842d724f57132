"""Small job graphs for the harness, made without a program."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.errors import UsageError
from penstock.graph.job_graph import (
    SPARK_SINK,
    EdgePlan,
    JobGraph,
    OperatorPlan,
    SinkPlan,
    SourcePlan,
    SourceRef,
    StageOutput,
    StagePlan,
)
from penstock.graph.pickling import dumps
from penstock.graph.stream_graph import SinkSpec, SourceSpec
from penstock.model.functions import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ReduceFunction,
)
from penstock.model.key_groups import default_max_parallelism
from penstock.model.sink import Sink
from penstock.model.types import TAGGED, resolve_type

FUNCTION_UID = "function"
SINK_UID = "sink"
KINDS: list[tuple[type, str]] = [
    (KeyedProcessFunction, "keyed_process"),
    (MapFunction, "keyed_map"),
    (FlatMapFunction, "keyed_flat_map"),
    (FilterFunction, "keyed_filter"),
    (ReduceFunction, "reduce"),
]


@dataclass(frozen=True)
class KeyedProgram:
    """One function on a keyed stream."""

    function: Any
    key: Callable[[Any], Any]
    parallelism: int = 1
    max_parallelism: int | None = None
    key_type: Any = None
    timestamp: Callable[[Any], int] | None = None
    sink: Sink | None = None


class Selector(KeySelector):
    """The key function, and the event time beside it."""

    def __init__(self, key: Callable[[Any], Any], timestamp: Callable[[Any], int] | None) -> None:
        self.key = key
        self.timestamp = timestamp

    def get_key(self, value: Any) -> Any:
        return self.key(value)


def keyed_graph(program: KeyedProgram) -> JobGraph:
    """source → key_by → function (→ sink), with the function's output on an edge to the harness."""
    max_parallelism = program.max_parallelism or default_max_parallelism(program.parallelism)
    key_types = (resolve_type(program.key_type),)
    selector = dumps(Selector(program.key, program.timestamp), "key_by")
    edge = EdgePlan(0, SourceRef(0), "s0", TAGGED, "key", key_selector=selector, key_types=key_types)
    operators = [
        OperatorPlan(
            FUNCTION_UID,
            FUNCTION_UID,
            kind_of(program.function),
            dumps(program.function, FUNCTION_UID),
            TAGGED,
            TAGGED,
            (-1,),
            keyed=True,
            key_types=key_types,
            explicit_uid=True,
            config={"state": "_reduce"},
        )
    ]
    sinks = []
    if program.sink is not None:
        spec = SinkSpec("sink", program.sink)
        operators.append(
            OperatorPlan(
                SINK_UID,
                SINK_UID,
                "sink",
                dumps(spec, SINK_UID),
                TAGGED,
                TAGGED,
                (0,),
                keyed=False,
                config={"sink": "sink"},
            )
        )
        sinks.append(SinkPlan(SINK_UID, SINK_UID, spec, "s0", TAGGED))
    output = EdgePlan(1, StageOutput("s0", 0), SPARK_SINK, TAGGED, "forward")
    stage = StagePlan(
        "s0", FUNCTION_UID, program.parallelism, max_parallelism, key_types, (edge,), tuple(operators), (output,)
    )
    source = SourcePlan(0, "source", "source", SourceSpec("collection", None, TAGGED), TAGGED, None, bounded=True)
    return JobGraph((stage,), (source,), tuple(sinks), (), max_parallelism)


def kind_of(function: Any) -> str:
    """The operator that calls such a function on a keyed stream."""
    for base, kind in KINDS:
        if isinstance(function, base):
            return kind
    raise UsageError(f"a {type(function).__name__} cannot run on a keyed stream; derive it from KeyedProcessFunction")
