"""StreamGraph to JobGraph to ExecutionGraph: uids, chaining, stages, owners."""

from penstock.graph.execution_graph import ExecutionGraph, SubtaskAssignment, assign_subtasks
from penstock.graph.job_graph import (
    SPARK_SINK,
    EdgePlan,
    JobGraph,
    OperatorPlan,
    SinkPlan,
    SourcePlan,
    SourceRef,
    SparkSinkPlan,
    StageOutput,
    StagePlan,
    WatermarkGenerator,
)
from penstock.graph.stages import GraphSettings, build_job_graph
from penstock.graph.stream_graph import EventTime, KeyBy, OperatorSpec, SinkSpec, SourceSpec, StreamGraph

__all__ = [
    "EdgePlan",
    "EventTime",
    "ExecutionGraph",
    "GraphSettings",
    "JobGraph",
    "KeyBy",
    "OperatorPlan",
    "OperatorSpec",
    "SPARK_SINK",
    "SinkPlan",
    "SinkSpec",
    "SourcePlan",
    "SourceRef",
    "SourceSpec",
    "SparkSinkPlan",
    "StageOutput",
    "StagePlan",
    "StreamGraph",
    "SubtaskAssignment",
    "WatermarkGenerator",
    "assign_subtasks",
    "build_job_graph",
]
