"""The job as JSON for people and tools: one node for each source, operator and sink, and the stages they run in.

A key computed in Python is a node, since it costs a pass over the records. A key of columns and SQL steps are
attributes of the edge, since they stay in the JVM.
"""

import json
from typing import Any

from penstock import compat
from penstock.graph.job_graph import SIDE_OUTPUT, EdgePlan, JobGraph, SourceRef, StagePlan
from penstock.graph.pickling import function_name, loads
from penstock.graph.pyflink_plan import pyflink_nodes


def plan_json(job: JobGraph) -> str:
    """What `get_execution_plan` returns: Flink's form (`nodes`), and `stages` with their chained names.

    PyFlink programs `eval` it, so it is a Python literal too: it contains no `true`, `false` or `null`.
    """
    plan = describe_plan(job)
    if compat.is_installed():
        plan["nodes"] = pyflink_nodes(_Plan(job, pyflink=True).nodes, job)
    plan["stages"] = [{**stage, "keyed": int(stage["keyed"])} for stage in plan["stages"]]
    return json.dumps(plan, indent=2)


def describe_plan(job: JobGraph) -> dict[str, Any]:
    """The plan as plain data."""
    plan = _Plan(job)
    return {"nodes": plan.nodes, "stages": [_stage(stage) for stage in job.stages]}


class _Plan:
    """Numbers the nodes from 1, upstream first."""

    def __init__(self, job: JobGraph, *, pyflink: bool = False) -> None:
        """`pyflink`: with what `pyflink_nodes` needs."""
        self.job = job
        self._pyflink = pyflink
        self.nodes: list[dict[str, Any]] = []
        self._ids: dict[tuple[str, int], int] = {}
        """(stage id, position), ("source", source id) or ("selector", edge id) -> node id."""
        for source in job.sources:
            self._ids["source", source.id] = self._add(f"Source: {source.name}", "Data Source", 1, [], source.uid)
        for stage in job.stages:
            self._add_stage(stage)
        for sink in job.spark_sinks:
            before = [self._arrival(edge) for edge in sink.edges]
            self._add(f"Sink: {sink.name}", "Data Sink", 1, before, sink.uid)

    def _add(
        self, contents: str, pact: str, parallelism: int, predecessors: list[dict[str, Any]], uid: str | None = None
    ) -> int:
        node: dict[str, Any] = {"id": len(self.nodes) + 1, "type": contents, "pact": pact, "contents": contents}
        node["parallelism"] = parallelism
        if uid is not None:
            node["uid"] = uid
        if predecessors:
            node["predecessors"] = predecessors
        self.nodes.append(node)
        return len(self.nodes)

    def _add_stage(self, stage: StagePlan) -> None:
        arrivals = [self._arrival(edge) for edge in stage.inputs]
        for position, operator in enumerate(stage.operators):
            before = [
                arrivals[-1 - producer] if producer < 0 else _forward(self._ids[stage.id, producer])
                for producer in operator.inputs
            ]
            if operator.kind == SIDE_OUTPUT and self._pyflink:
                self._ids[stage.id, position] = self._add("Map", "Operator", stage.parallelism, before)
                continue
            if operator.kind == SIDE_OUTPUT:
                self._ids[stage.id, position] = self._ids[stage.id, operator.inputs[0]]
                continue
            is_sink = operator.kind in ("sink", "sink_function")
            contents = f"Sink: {operator.name}" if is_sink else operator.name
            pact = "Data Sink" if is_sink else "Operator"
            self._ids[stage.id, position] = self._add(contents, pact, stage.parallelism, before, operator.uid)
            self.nodes[-1]["contents"] = operator.description or contents
        for edge in stage.outputs:
            if edge.key_selector is not None:
                self._add_selector(stage, edge, arrivals)

    def _add_selector(self, stage: StagePlan, edge: EdgePlan, arrivals: list[dict[str, Any]]) -> None:
        assert not isinstance(edge.source, SourceRef) and edge.key_selector is not None
        position = edge.source.position
        before = arrivals[-1 - position] if position < 0 else _forward(self._ids[stage.id, position])
        contents = f"Key By: {function_name(loads(edge.key_selector))} (in Python)"
        self._ids["selector", edge.id] = self._add(contents, "Operator", stage.parallelism, [before])
        if self._pyflink:
            self.nodes[-1]["selector"] = True

    def _arrival(self, edge: EdgePlan) -> dict[str, Any]:
        """An edge as the node that reads it lists it."""
        if isinstance(edge.source, SourceRef):
            origin = self._ids["source", edge.source.source_id]
        elif edge.key_selector is not None:
            origin = self._ids["selector", edge.id]
        elif edge.source.position < 0:
            passed_on = self.job.stage(edge.source.stage_id).inputs[-1 - edge.source.position]
            return self._arrival(passed_on)
        else:
            origin = self._ids[edge.source.stage_id, edge.source.position]
        found = {
            **_forward(origin),
            "ship_strategy": "HASH" if edge.partitioning == "key" else edge.partitioning.upper(),
        }
        if self._pyflink:
            found["exchange"] = True
        if edge.key_columns is not None:
            found["key"] = ", ".join(edge.key_columns)
        if edge.jvm_ops:
            found["jvm"] = [f"{op[0]}({', '.join(op[1:])})" for op in edge.jvm_ops]
        return found


def _forward(node_id: int) -> dict[str, Any]:
    return {"id": node_id, "ship_strategy": "FORWARD", "side": "second"}


def _stage(stage: StagePlan) -> dict[str, Any]:
    return {
        "id": stage.id,
        "name": stage.name,
        "parallelism": stage.parallelism,
        "max_parallelism": stage.max_parallelism,
        "keyed": stage.keyed,
        "operators": list(stage.uids),
        "inputs": [
            f"source {edge.source.source_id}" if isinstance(edge.source, SourceRef) else edge.source.stage_id
            for edge in stage.inputs
        ],
    }
