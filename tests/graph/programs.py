"""Small programs as stream graphs, without the user's API."""

from typing import Any

from penstock.graph.callables import (
    CallableFilter,
    CallableKeySelector,
    CallableMap,
    CallableReduce,
)
from penstock.graph.job_graph import JobGraph
from penstock.graph.stages import GraphSettings, build_job_graph
from penstock.graph.stream_graph import (
    EventTime,
    JvmSpec,
    KeyBy,
    Node,
    OperatorSpec,
    SinkSpec,
    SourceSpec,
    StreamGraph,
)
from penstock.model.functions import KeyedProcessFunction
from penstock.model.types import TAGGED, Types, resolve_type

ORDERS = resolve_type("customer string, amount double")


class Count(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


class Program:
    """Adds nodes with one call each; every method returns the new node."""

    def __init__(self) -> None:
        self.graph = StreamGraph()

    def source(self, name: str = "orders", event_time: EventTime | None = None, bounded: bool = False) -> Node:
        spec = SourceSpec("dataframe", object(), ORDERS, event_time, bounded)
        return self.graph.add("source", name, (), spec, ORDERS)

    def where(self, node: Node, sql: str = "amount > 0") -> Node:
        return self.graph.add("jvm", "where", [node.id], JvmSpec(("where", sql), None), node.output_type)

    def map(self, node: Node, function: Any = str, parallelism: int | None = None) -> Node:
        return self._operator(node, "map", "Map", CallableMap(function), TAGGED, parallelism)

    def filter(self, node: Node, function: Any = bool, parallelism: int | None = None) -> Node:
        return self._operator(node, "filter", "Filter", CallableFilter(function), node.output_type, parallelism)

    def keyed_map(self, node: Node, function: Any = str) -> Node:
        return self._operator(node, "keyed_map", "Map", CallableMap(function), TAGGED, None)

    def process(self, node: Node, parallelism: int | None = None) -> Node:
        return self._operator(node, "keyed_process", "KEYED PROCESS", Count(), ORDERS, parallelism)

    def reduce(self, node: Node) -> Node:
        return self._operator(node, "reduce", "Reduce", CallableReduce(max), node.output_type, None)

    def timestamps(self, node: Node, out_of_orderness_ms: int | None = 0) -> Node:
        made = self._operator(node, "timestamps", "Timestamps", CallableMap(str), node.output_type, None)
        made.payload.config["out_of_orderness_ms"] = out_of_orderness_ms
        return made

    def key_by(self, node: Node, *columns: str) -> Node:
        types = tuple(node.output_type.field(column) for column in columns)
        return self.graph.add("key_by", "Key By", [node.id], KeyBy(columns, None, types), node.output_type)

    def key_by_function(self, node: Node, function: Any = str) -> Node:
        key_by = KeyBy(None, CallableKeySelector(function), (Types.STRING(),))
        return self.graph.add("key_by", "Key By", [node.id], key_by, node.output_type)

    def rebalance(self, node: Node) -> Node:
        return self.graph.add("partition", "Rebalance", [node.id], None, node.output_type)

    def union(self, *nodes: Node) -> Node:
        return self.graph.add("union", "Union", [node.id for node in nodes], None, nodes[0].output_type)

    def print(self, node: Node, parallelism: int | None = None) -> Node:
        made = self.graph.add("sink", "Print", [node.id], SinkSpec("print"), node.output_type)
        made.parallelism = parallelism
        return made

    def to_spark(self, node: Node, function: Any = print) -> Node:
        return self.graph.add("sink", "Spark", [node.id], SinkSpec("spark", function), node.output_type)

    def build(self, parallelism: int = 2, **settings: Any) -> JobGraph:
        return build_job_graph(self.graph, GraphSettings(parallelism, **settings))

    def _operator(
        self, node: Node, kind: str, name: str, function: Any, output_type: Any, parallelism: int | None
    ) -> Node:
        made = self.graph.add("operator", name, [node.id], OperatorSpec(kind, function), output_type)
        made.parallelism = parallelism
        return made
