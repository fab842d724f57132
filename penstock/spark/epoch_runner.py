"""Runs the stages of one epoch as a Spark job, and hands its rows to the `to_spark` writers."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from penstock.clock import Clock, SystemClock
from penstock.graph.job_graph import EdgePlan, JobGraph, StageOutput
from penstock.model.ids import SubtaskId, Version
from penstock.runtime.process.messages import EpochHeader
from penstock.spark.epoch_planner import EpochPlanner, EpochRequest
from penstock.spark.first_task import FirstTask
from penstock.spark.pipe import OwnerAddress


@dataclass(frozen=True)
class SparkEpoch:
    """What a `to_spark` writer gets about its rows. Only with `exactly_once=True` they have an owner and a version."""

    job_id: str
    id: int
    """The epoch; with `exactly_once=True`, the last one of the checkpoint."""
    checkpoint: int | None
    owner: str | None = None
    """Job and sink, as one text."""
    version: int | None = None
    """Grows with every checkpoint of the owner, over restarts too; the same rows always have the same one."""

    @property
    def token(self) -> str | None:
        """Owner and version as one text: a writer that has stored it has stored these rows, and must skip them."""
        return None if self.owner is None else f"{self.owner}/{self.version}"


class EpochRunner:
    """Runs epochs on the TaskManagers that own the subtasks of one attempt."""

    def __init__(
        self, graph: JobGraph, token: str, owners: Mapping[SubtaskId, OwnerAddress], clock: Clock | None = None
    ) -> None:
        self._graph = graph
        self._token = token
        self._owners = owners
        self._planner = EpochPlanner(graph)
        self._clock = clock or SystemClock()
        self._first_task = FirstTask(self._clock)

    def run(
        self,
        session: SparkSession,
        rows: DataFrame | None,
        header: EpochHeader,
        parents: Mapping[SubtaskId, Version],
    ) -> int | None:
        """One Spark action for all stages, then the writers of `to_spark`. `rows` None: an epoch without input.

        Returns when its first task began; None if that is not known.
        """
        request = EpochRequest(header, self._token, parents, self._owners)
        began_ms, started_ms = None, self._clock.now_ms()
        if self._graph.stages:
            self._planner.plan(session, rows, request).collect()
            began_ms = self._first_task.began_ms(session, started_ms)
        self._write_spark_sinks(session, rows, request)
        return began_ms

    def _write_spark_sinks(self, session: SparkSession, rows: DataFrame | None, request: EpochRequest) -> None:
        """`to_spark`: the user's writer gets the epoch's rows, at least once."""
        header = request.header
        for sink in self._graph.spark_sinks:
            found = [self._edge_rows(session, rows, request, edge) for edge in sink.edges]
            frames = [frame for frame in found if frame is not None]
            if frames:
                frame = frames[0]
                for other in frames[1:]:
                    frame = frame.union(other)
                sink.function(frame, SparkEpoch(header.job_id, header.epoch, header.checkpoint))

    def _edge_rows(
        self, session: SparkSession, rows: DataFrame | None, request: EpochRequest, edge: EdgePlan
    ) -> DataFrame | None:
        """The epoch's rows of an edge into a Spark sink; None for a source in an epoch without input."""
        if isinstance(edge.source, StageOutput):
            return self._planner.replay(session, request, edge)
        return self._planner.source_rows(rows, edge) if rows is not None else None
