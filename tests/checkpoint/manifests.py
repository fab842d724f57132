"""Manifests for tests, and their parts."""

import hashlib

import msgspec

from penstock.checkpoint.snapshot.manifest import FORMAT_VERSION, MAGIC
from penstock.model.ids import StageId, SubtaskId, Version
from penstock.model.snapshot import (
    Committable,
    Manifest,
    SourcePosition,
    StateFile,
    StateTableInfo,
    SubtaskSnapshot,
)

MAX_PARALLELISM = 8


def subtask(index: int, stage: str = "s0") -> SubtaskId:
    return SubtaskId(StageId(stage), index)


def file_of(path: str, data: bytes = b"state") -> StateFile:
    return StateFile(path, len(data), hashlib.sha256(data).hexdigest())


def inline_file(data: bytes) -> StateFile:
    return StateFile("", len(data), hashlib.sha256(data).hexdigest(), data)


def table(uid: str = "op", name: str = "total") -> StateTableInfo:
    return StateTableInfo(uid, name, "value", ["STRING"], "DOUBLE")


def snapshot(index: int, key_groups: tuple[int, int], *files: StateFile, stage: str = "s0") -> SubtaskSnapshot:
    version = Version(1, 4, f"n{index}")
    return SubtaskSnapshot(subtask(index, stage), version, key_groups, list(files), [table()], 0, ["op"])


def committable(name: str, epoch: int = 4, sink: str = "sink") -> Committable:
    return Committable(sink, subtask(0), epoch, name, {"path": name, "size": 3})


def manifest(**changes: object) -> Manifest:
    whole = Manifest(
        magic=MAGIC,
        format_version=FORMAT_VERSION,
        job_id="0" * 32,
        checkpoint_id=7,
        attempt=2,
        writer="writer",
        epoch=4,
        now_ms=1,
        parent=6,
        max_parallelism=MAX_PARALLELISM,
        watermarks={"source": 5},
        max_timestamps={"source": 9},
        subtasks=[
            snapshot(0, (0, 3), file_of("shared/2-7-s0-0-aa")),
            snapshot(1, (4, 7), file_of("shared/1-6-s0-1-bb"), inline_file(b"delta")),
        ],
        sources=SourcePosition(3, file_of("chk-7/2-source-cc", b"offsets"), ["source"]),
        committables=[committable("t1"), committable("t2")],
    )
    return msgspec.structs.replace(whole, **changes)
