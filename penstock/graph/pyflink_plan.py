"""The nodes of a plan as PyFlink lists them, for programs written for PyFlink that look into it.

PyFlink computes keys and partitions in operators of their own, turns records into text before it prints them, maps the
records of a side output, and runs a chain of Python operators as one node.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from penstock.graph.job_graph import JobGraph

KEY = "_stream_key_by_map_operator"
PARTITION = "_partition_custom_map_operator"
VALUES = "_keyed_stream_values_operator"
AGGREGATES = ("Sum", "Min", "Max", "Min By", "Max By")
"""Names of operators that PyFlink makes with `reduce`."""
WATERMARKS = "Timestamps/Watermarks"
PRINT = "Sink: Print to Std. Out"
SINKS = {"Sink: Sink": "Sink: Unnamed"}
"""The sink of `add_sink` here and in PyFlink, unless the program names it."""

Node = dict[str, Any]


def pyflink_nodes(nodes: Sequence[Node], job: JobGraph) -> list[Node]:
    """The nodes, as `plan_json` describes them, in PyFlink's form. Sinks come last."""
    sources = [node for node in nodes if node["pact"] == "Data Source"]
    for node, source in zip(sources, job.sources, strict=True):
        node["parallelism"] = 1 if source.spec.kind == "collection" else job.parallelism
    for node in nodes:
        if "predecessors" in node:
            node["predecessors"] = [dict(edge) for edge in node["predecessors"]]
    plan = _Rewriting(list(nodes))
    for node in nodes:
        plan.rewrite(node, _types(node, job))
    return plan.chained()


def _types(node: Node, job: JobGraph) -> set[str]:
    """The types of the records that arrive at an operator or sink."""
    return {op.input_type.name for stage in job.stages for op in stage.operators if op.uid == node.get("uid")}


class _Rewriting:
    """Adds nodes before others, and then merges chains."""

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes
        self._next = max((node["id"] for node in nodes), default=0) + 1
        self._by_id = {node["id"]: node for node in nodes}

    def rewrite(self, node: Node, types: set[str]) -> None:
        if node["type"] in AGGREGATES:
            node["type"] = node["contents"] = "Reduce"
        if node["type"] in SINKS:
            node["type"] = node["contents"] = SINKS[node["type"]]
        if node.pop("selector", False):
            node["type"] = node["contents"] = KEY
            node["parallelism"] = self._by_id[node["predecessors"][0]["id"]]["parallelism"]
        for edge in node.get("predecessors", []):
            before = self._by_id[edge["id"]]
            if edge["ship_strategy"] == "FORWARD" and before["parallelism"] != node["parallelism"]:
                edge["ship_strategy"] = "REBALANCE"
            if edge["ship_strategy"] == "CUSTOM":
                computed = self._insert(node, PARTITION, before["parallelism"], _edge(before["id"], "FORWARD"))
                values = self._insert(node, VALUES, node["parallelism"], _edge(computed, "CUSTOM"))
                edge.update(_edge(values, "FORWARD"))
                edge.pop("exchange", None)
        if node["pact"] == "Data Sink" and node["type"] == PRINT and types & {"PICKLE", "ROW"}:
            text = self._insert(node, "Map", node["parallelism"], *node["predecessors"])
            node["predecessors"] = [_edge(text, "FORWARD")]

    def _insert(self, before: Node, name: str, parallelism: int, *predecessors: Node) -> int:
        """A new operator in front of a node; its id."""
        node = {"id": self._next, "type": name, "pact": "Operator", "contents": name, "parallelism": parallelism}
        node["predecessors"] = list(predecessors)
        self.nodes.insert(self.nodes.index(before), node)
        self._by_id[self._next] = node
        self._next += 1
        return self._next - 1

    def chained(self) -> list[Node]:
        """The nodes with chains merged, numbered from 1: sources, single operators, chains, sinks."""
        into: dict[int, Node] = {}
        """Id of a node that was merged -> the chain that it belongs to."""
        merged: list[Node] = []
        for node in self.nodes:
            head = self._head(node)
            if head is None:
                continue
            chain = into.get(head["id"])
            if chain is None:
                chain = {**head, "type": head["type"], "id": -head["id"]}
                into[head["id"]] = chain
                merged.append(chain)
            if chain["contents"] == chain["type"]:
                chain["contents"] = f"{chain['type']}, {node['type']}"
            chain["type"] = f"{chain['type']}, {node['type']}"
            into[node["id"]] = chain
        left = [node for node in self.nodes if node["id"] not in into]
        return _numbered([*_of(left, "Data Source"), *_of(left, "Operator"), *merged, *_of(left, "Data Sink")], into)

    def _head(self, node: Node) -> Node | None:
        """The operator that PyFlink runs in one node with this one, if there is one."""
        edges = node.get("predecessors", [])
        if node["pact"] != "Operator" or len(edges) != 1 or edges[0]["ship_strategy"] != "FORWARD":
            return None
        before = self._by_id[edges[0]["id"]]
        readers = [edge for other in self.nodes for edge in other.get("predecessors", []) if edge["id"] == before["id"]]
        alone = before["pact"] != "Operator" or "Broadcast" in before["type"] or before["type"] == WATERMARKS
        return None if alone or len(readers) > 1 or "exchange" in edges[0] else before


def _edge(origin: int, strategy: str) -> Node:
    return {"id": origin, "ship_strategy": strategy, "side": "second"}


def _of(nodes: Iterable[Node], pact: str) -> list[Node]:
    return [node for node in nodes if node["pact"] == pact]


def _numbered(nodes: list[Node], into: dict[int, Node]) -> list[Node]:
    numbers = {node["id"]: number for number, node in enumerate(nodes, 1)}
    numbers |= {member: numbers[chain["id"]] for member, chain in into.items()}
    for node in nodes:
        node["id"] = numbers[node["id"]]
        for edge in node.get("predecessors", []):
            edge.pop("exchange", None)
            edge["id"] = numbers[edge["id"]]
    return nodes
