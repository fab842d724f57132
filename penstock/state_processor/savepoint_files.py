"""Writes a savepoint: executors write the files and copy unchanged ones; the manifest comes last."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from penstock.checkpoint.snapshot.manifest import (
    FORMAT_VERSION,
    MAGIC,
    digest,
    encode_manifest,
    file_paths,
    verify_file,
)
from penstock.checkpoint.snapshot.readable_state import readable
from penstock.checkpoint.snapshot.savepoint_paths import (
    METADATA,
    clear_folder,
    keyed_path,
    operator_path,
    savepoint_folder,
    source_path,
)
from penstock.checkpoint.snapshot.snapshot_location import open_snapshot
from penstock.checkpoint.snapshot.stored_snapshot import StoredSnapshot
from penstock.errors import UsageError
from penstock.model.ids import StageId, SubtaskId, Version, new_job_id, new_nonce
from penstock.model.key_groups import key_group_range
from penstock.model.snapshot import (
    Manifest,
    OperatorStateInfo,
    SourcePosition,
    StateFile,
    StateTableInfo,
    SubtaskSnapshot,
    TableFile,
    files_of_format,
)
from penstock.model.time import MIN_WATERMARK
from penstock.spark import state_frames, state_writer
from penstock.spark.state_writer import Copy, Handles, Target
from penstock.state_processor.planned_state import Place, PlannedState
from penstock.storage.address import join_address
from penstock.storage.storage import Storage, open_storage


class Plan(Protocol):
    """What to write: a `Savepoint`."""

    @property
    def max_parallelism(self) -> int: ...
    @property
    def parallelism(self) -> int: ...
    @property
    def base(self) -> StoredSnapshot | None: ...
    @property
    def states(self) -> Mapping[Place, PlannedState]: ...
    @property
    def uids(self) -> Mapping[str, str | None]: ...


@dataclass(frozen=True)
class StageShape:
    """The subtasks of some operators."""

    id: str
    parallelism: int
    uids: tuple[str, ...]
    """Their present uids."""
    old: tuple[SubtaskSnapshot, ...] = ()
    """The subtasks of the loaded snapshot, by index."""


def write_savepoint(spark: Any, plan: Plan, target_dir: str) -> str:
    """The path of the new savepoint. Removes the folder if writing fails."""
    require_settled(plan.base)
    stages = _stages(plan)
    job_id = plan.base.manifest.job_id if plan.base is not None else new_job_id()
    uri = join_address(target_dir, savepoint_folder(job_id))
    storage = open_storage(uri)
    try:
        files = {place: _write_state(spark, plan, planned, uri, stages) for place, planned in plan.states.items()}
        manifest = _manifest(plan, stages, files, job_id, storage)
        data = encode_manifest(manifest)
        for path in set(storage.list("")) - file_paths(manifest):
            storage.delete(path)  # left by a task that Spark ran twice
        storage.put_new(METADATA, data)
    except BaseException:
        clear_folder(storage)
        raise
    return uri


def require_settled(base: StoredSnapshot | None) -> None:
    """Raise UsageError for a checkpoint that also holds rows in flight or uncommitted output."""
    if base is None or base.manifest.savepoint:
        return
    way_out = "take a savepoint of the job (`penstock savepoint JOB`) and change that"
    checkpoint = open_snapshot(base.uri)  # PROTOCOL R25: its job's log says that it is complete
    if any(snapshot.spool for snapshot in checkpoint.manifest.subtasks):
        raise UsageError(
            f"{base.uri} is an unaligned checkpoint with rows in flight, which are not part of any state; {way_out}"
        )
    if checkpoint.manifest.committables:
        raise UsageError(f"{base.uri} has sink output that may not be committed yet; {way_out}")


def _stages(plan: Plan) -> dict[str, StageShape]:
    """Operator uid -> its stage: that of the loaded snapshot, or one of its own."""
    now = {old: uid for uid, old in plan.uids.items() if old is not None}
    found: dict[str, StageShape] = {}
    old_stages: dict[str, list[SubtaskSnapshot]] = {}
    for snapshot in plan.base.manifest.subtasks if plan.base is not None else []:
        old_stages.setdefault(snapshot.subtask.stage, []).append(snapshot)
    for stage, snapshots in old_stages.items():
        ordered = sorted(snapshots, key=lambda snapshot: snapshot.subtask.index)
        uids = tuple(now[uid] for uid in _operators(ordered) if uid in now)
        shape = StageShape(stage, len(ordered), uids, tuple(ordered))
        if shape.parallelism > plan.max_parallelism:
            raise UsageError(
                f"operators {', '.join(map(repr, uids))} have parallelism {shape.parallelism}, more than the max "
                f"parallelism {plan.max_parallelism} requested; take a savepoint at a lower parallelism"
            )
        found.update(dict.fromkeys(uids, shape))
    numbers = (f"new{number}" for number in range(len(plan.uids) + len(old_stages)))
    for uid in plan.uids:
        if uid not in found:
            stage = next(name for name in numbers if name not in old_stages)
            found[uid] = StageShape(stage, plan.parallelism, (uid,))
    return found


def _operators(snapshots: Iterable[SubtaskSnapshot]) -> list[str]:
    found: dict[str, None] = {}
    for snapshot in snapshots:
        found.update(dict.fromkeys(snapshot.operator_uids))
        found.update(dict.fromkeys(info.operator_uid for info in snapshot.tables))
        found.update(dict.fromkeys(info.operator_uid for info in snapshot.operator_states))
    return list(found)


def _write_state(spark: Any, plan: Plan, planned: PlannedState, uri: str, stages: Mapping[str, StageShape]) -> Handles:
    info = planned.info
    shape = stages[info.operator_uid]
    target = Target(uri, shape.id, shape.parallelism, plan.max_parallelism)
    frame = planned.stored
    if planned.state is not None:
        assert plan.base is not None
        is_same_split = plan.base.manifest.max_parallelism == plan.max_parallelism
        is_as_it_was = planned.state.is_uniform and (is_same_split or isinstance(info, OperatorStateInfo))
        if plan.base.kind == "canonical" and is_as_it_was:
            return _copied(spark, plan.base, planned, target)
        frame = state_frames.stored_frame(spark, plan.base, readable(planned.state))
    if isinstance(info, StateTableInfo):
        return state_writer.write_keyed(frame, info, planned.ttl_ms, target)
    return state_writer.write_operator(frame, info, target)


def _copied(spark: Any, base: StoredSnapshot, planned: PlannedState, target: Target) -> Handles:
    """Copies of an unchanged state's files, under its operator's present uid."""
    assert planned.state is not None
    old = (planned.state.uid, planned.state.mode, planned.state.name)
    indices, copies = [], []
    for part in planned.state.parts:
        subtask = part.snapshot.subtask.index
        for file, table in files_of_format((*part.snapshot.files, *part.snapshot.operator_files), TableFile):
            if table.state == old:
                indices.append(subtask)
                copies.append(_copy(file, table, planned, target.subtask(subtask)))
    made = state_writer.copy_files(spark, base.storage.uri, target.uri, copies)
    return list(zip(indices, made, strict=True))


def _copy(file: StateFile, table: TableFile, planned: PlannedState, subtask: SubtaskId) -> Copy:
    uid, mode, name = planned.place
    path = keyed_path(uid, name, subtask) if mode == "keyed" else operator_path(uid, mode, name, subtask)
    return Copy(file, path, msgspec.structs.replace(table, operator_uid=uid))


def _manifest(
    plan: Plan, stages: Mapping[str, StageShape], files: Mapping[Place, Handles], job_id: str, storage: Storage
) -> Manifest:
    subtasks = [
        _snapshot(plan, shape, index, files)
        for shape in {shape.id: shape for shape in stages.values()}.values()
        for index in range(shape.parallelism)
    ]
    if plan.base is None:
        sources = SourcePosition(-1, None, [])
        return Manifest(
            MAGIC, FORMAT_VERSION, job_id, 0, 1, digest(b""), 0, 0, None, plan.max_parallelism, {}, {}, subtasks,
            sources, [], savepoint="canonical",
        )  # fmt: skip
    old = plan.base.manifest
    return msgspec.structs.replace(
        old,
        parent=None,
        max_parallelism=plan.max_parallelism,
        subtasks=subtasks,
        sources=_copied_sources(plan.base, storage),
        committables=[],
        savepoint="canonical",
    )


def _copied_sources(base: StoredSnapshot, storage: Storage) -> SourcePosition:
    file = base.manifest.sources.file
    if file is None or file.inline is not None:
        return base.manifest.sources
    path = source_path()
    storage.put_new(path, verify_file(base.storage, file))
    return msgspec.structs.replace(base.manifest.sources, file=msgspec.structs.replace(file, path=path))


def _snapshot(plan: Plan, shape: StageShape, index: int, files: Mapping[Place, Handles]) -> SubtaskSnapshot:
    """One subtask: the tables of its stage's operators, and its own files of them."""
    tables: list[StateTableInfo] = []
    states: list[OperatorStateInfo] = []
    keyed_files: list[StateFile] = []
    operator_files: list[StateFile] = []
    for place, handles in files.items():
        info = plan.states[place].info
        if info.operator_uid not in shape.uids:
            continue
        own = [file for subtask, file in handles if subtask == index]
        if isinstance(info, StateTableInfo):
            tables.append(info)
            keyed_files += own
        elif own:
            (file,) = own
            assert isinstance(file.format, TableFile)
            states.append(msgspec.structs.replace(info, count=file.format.rows))
            operator_files.append(file)
    old = shape.old[index] if shape.old else None
    is_same_split = plan.base is not None and plan.base.manifest.max_parallelism == plan.max_parallelism
    key_groups = key_group_range(plan.max_parallelism, shape.parallelism, index)
    if old is not None and (not tables or (is_same_split and old.tables)):
        key_groups = old.key_groups
    return SubtaskSnapshot(
        old.subtask if old is not None else SubtaskId(StageId(shape.id), index),
        old.version if old is not None else Version(1, 0, new_nonce()),
        key_groups,
        keyed_files,
        tables,
        old.watermark if old is not None else _watermark(plan.base),
        list(shape.uids),
        states,
        operator_files=operator_files,
    )


def _watermark(base: StoredSnapshot | None) -> int:
    """Of an operator that is new: event time is where all others are, and does not go back for any of them."""
    return min((s.watermark for s in base.manifest.subtasks), default=MIN_WATERMARK) if base else MIN_WATERMARK
