"""The barriers of an epoch: which ones must arrive, and the watermarks they carry (PROTOCOL R8, R9)."""

from collections.abc import Mapping, Sequence

from penstock.errors import RpcError
from penstock.graph.job_graph import SourceRef, StagePlan
from penstock.model.ids import SubtaskId
from penstock.model.time import IDLE_WATERMARK, MAX_WATERMARK, MIN_WATERMARK
from penstock.runtime.process.messages import Barrier, EpochHeader

DRIVER = "driver"
"""The channel of barriers that the JobManager sends."""


def channel(edge_id: int, upstream: SubtaskId) -> str:
    """The name of the channel from one upstream subtask over an edge."""
    return f"{edge_id}:{upstream}"


def source_key(source_id: int) -> str:
    """The name under which a header carries the watermark of a source without event time."""
    return f"source-{source_id}"


def align(
    stage: StagePlan, channels: Mapping[int, int], header: EpochHeader, barriers: Sequence[Barrier]
) -> dict[int, int]:
    """The watermark of each input position, or IDLE_WATERMARK, if every expected barrier has arrived exactly once.

    `channels` is the number of upstream subtasks of each edge from a stage. Raises RpcError if a barrier is missing,
    repeated or foreign: rows may be missing too.
    """
    expected = _expected_channels(stage, channels)
    found = sorted(barrier.channel for barrier in barriers)
    if found != sorted(expected):
        raise RpcError(f"epoch {header.epoch} of stage {stage.id}: expected barriers {sorted(expected)}, got {found}")
    for barrier in barriers:
        if (barrier.epoch, barrier.checkpoint) != (header.epoch, header.checkpoint):
            raise RpcError(f"barrier {barrier} does not belong to epoch {header.epoch}, checkpoint {header.checkpoint}")
    by_channel = {barrier.channel: barrier.watermark for barrier in barriers}
    watermarks = {}
    for index, edge in enumerate(stage.inputs):
        position = -1 - index
        if isinstance(edge.source, SourceRef):
            watermarks[position] = _source_watermark(stage, position, edge.source, header)
        else:
            watermarks[position] = min(by_channel[name] for name in expected if name.startswith(f"{edge.id}:"))
    return watermarks


def _expected_channels(stage: StagePlan, channels: Mapping[int, int]) -> list[str]:
    names = [DRIVER] if any(isinstance(edge.source, SourceRef) for edge in stage.inputs) else []
    for edge in stage.inputs:
        if not isinstance(edge.source, SourceRef):
            names += [f"{edge.id}:{edge.source.stage_id}/{index}" for index in range(channels[edge.id])]
    return names


def _source_watermark(stage: StagePlan, position: int, source: SourceRef, header: EpochHeader) -> int:
    if header.ends_time:
        return MAX_WATERMARK
    for generator in stage.watermark_generators:
        if generator.position == position:
            return generated_watermark(header, generator.uid)
    return header.watermarks.get(source_key(source.source_id), MIN_WATERMARK)


def generated_watermark(header: EpochHeader, uid: str) -> int:
    """The watermark of a generator in this epoch, or IDLE_WATERMARK."""
    if header.ends_time:
        return MAX_WATERMARK
    return IDLE_WATERMARK if uid in header.idle else header.watermarks.get(uid, MIN_WATERMARK)
