"""Spark numbers the streams of a query; a DataFrame that is a union has several, and moves what comes after it."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.common.serialization import SimpleStringSchema
from penstock.connectors.kafka.group_offsets import GroupOffsets
from penstock.connectors.kafka.kafka_source import KafkaSource
from penstock.graph.job_graph import SourcePlan
from penstock.graph.stream_graph import SourceKind, SourceSpec
from penstock.jobmanager.attempt.source_groups import SourceGroups
from penstock.model.snapshot import SourcePosition
from penstock.model.types import Types
from penstock.spark import offset_log, source_frames
from penstock.spark.source_frames import EpochLimits, first_streams, open_sources
from tests.checkpoint.manifests import inline_file, manifest

NO_SESSION: Any = None
KAFKA = (
    KafkaSource.builder()
    .set_bootstrap_servers("b:1")
    .set_topics("orders")
    .set_group_id("g")
    .set_value_only_deserializer(SimpleStringSchema())
    .build()
)


def frame(*leaves: bool) -> Any:
    """As much of a DataFrame as is looked at: for each leaf of its plan whether it is a stream."""
    found = [SimpleNamespace(isStreaming=lambda it=it: it) for it in leaves]
    plan = SimpleNamespace(collectLeaves=lambda: SimpleNamespace(size=lambda: len(found), apply=found.__getitem__))
    return SimpleNamespace(_jdf=SimpleNamespace(queryExecution=lambda: SimpleNamespace(analyzed=lambda: plan)))


def sources(*given: Any) -> list[SourcePlan]:
    plans = []
    for number, source in enumerate(given):
        kind: SourceKind = "kafka" if source is KAFKA else "dataframe"
        spec = SourceSpec(kind, source, Types.STRING())
        plans.append(SourcePlan(number, f"s{number}", f"s{number}", spec, Types.STRING(), None, bounded=False))
    return plans


def test_the_streams_of_a_union_and_no_static_table_are_counted() -> None:
    union, joined = frame(True, True), frame(True, False)
    assert first_streams(sources(union, KAFKA, joined, KAFKA)) == [0, 2, 3, 4]
    assert first_streams(sources(KAFKA, union)) == [0, 1]


def test_a_kafka_source_keeps_where_it_began_in_the_log_of_its_own_stream(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    folders: list[Any] = []

    def read_kafka(session: Any, source: Any, limits: Any, folder: Any, packed: Any) -> Any:
        folders.append(folder)
        return frame(True)

    monkeypatch.setattr(source_frames, "read_kafka", read_kafka)
    monkeypatch.setattr(source_frames, "combine", lambda frames: frames[0])
    monkeypatch.setattr(source_frames, "_require_distinct", lambda combined: None)
    graph: Any = SimpleNamespace(sources=sources(frame(True, True), KAFKA))
    open_sources(NO_SESSION, graph, EpochLimits(folder=tmp_path))
    assert folders == [tmp_path / "sources" / "2"]


def test_a_group_gets_the_offsets_of_its_own_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(GroupOffsets, "commit", lambda group, offsets: told.append(offsets))
    lines = ["v1", "{}", '{"logOffset":4}', '{"logOffset":7}', json.dumps({"orders": {"0": 12}})]
    position = offset_log._pack({"metadata": b"{}", "offsets/4": "\n".join(lines).encode()})
    graph: Any = SimpleNamespace(sources=sources(frame(True, True), KAFKA))
    groups = SourceGroups(graph, None, told.append)
    groups.follow(manifest(sources=SourcePosition(4, inline_file(position), ["s0", "s1"])))
    groups.close()
    assert told == [{("orders", 0): 12}]
