"""Whether a program can start from a snapshot, operator by operator, without starting anything (features O4 to O12).

To find out which states a program has, the functions of the first subtask of each stage are opened on a temporary
backend. Sinks are not opened, and no Spark query starts.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from penstock.checkpoint.restore.program_fit import changes_key_groups, restore_refusals
from penstock.checkpoint.restore.uid_mapping import find_renames, rename, source_uids, stateful_uids
from penstock.checkpoint.snapshot.event_time import has_ended
from penstock.checkpoint.snapshot.manifest import state_files, verify_file
from penstock.checkpoint.snapshot.snapshot_location import OpenSnapshot, open_snapshot
from penstock.errors import PenstockError
from penstock.graph.job_graph import SIDE_OUTPUT, EdgePlan, JobGraph, StagePlan
from penstock.jobmanager.attempt.recovery import StartOptions, program_outline
from penstock.jobmanager.settings.start_options import TIME_HAS_ENDED
from penstock.model.descriptors import Migration
from penstock.model.operator_ids import operator_id
from penstock.model.snapshot import Manifest, NativeName, OperatorStateInfo, OwnTables, StateTableInfo, files_of_format
from penstock.runtime.operator_chain import EdgeOutput
from penstock.runtime.subtask_place import SubtaskPlace
from penstock.runtime.task import Subtask
from penstock.state.backend.backend_registry import find_backend
from penstock.state.backend.backend_spec import ReadsFiles
from penstock.state.format.schema_evolution import compare_states

RESTORED, NEW, DROPPED = "restored", "new", "dropped"
NOT_ASKED_FOR = "open() does not ask for it; it is kept, and restored when the function asks for it"
_Declared = list[tuple[StateTableInfo | OperatorStateInfo, Migration | None]]


class StateReport(msgspec.Struct, frozen=True):
    """One state of an operator."""

    name: str
    kind: str
    outcome: str
    """same, evolves, migrates, refused, new, dropped; or waits: kept, and restored when the function asks for it."""
    changes: list[str] = []
    reason: str = ""


class OperatorReport(msgspec.Struct, frozen=True):
    """One operator of the program or of the snapshot."""

    uid: str
    operator_id: str
    outcome: str
    """restored (it is in the snapshot, with or without state), new or dropped."""
    states: list[StateReport] = []
    was: str = ""
    """Its uid in the snapshot, if that differs."""
    parallelism: tuple[int | None, int | None] = (None, None)
    """In the snapshot and in the program."""


class SourceReport(msgspec.Struct, frozen=True):
    """One source: it continues (restored), begins (new), or its position is not used (dropped)."""

    uid: str
    outcome: str


class RestoreReport(msgspec.Struct, frozen=True):
    """What a restore would do."""

    path: str
    kind: str
    """canonical savepoint, native savepoint or checkpoint."""
    job_id: str
    checkpoint_id: int
    possible: bool
    operators: list[OperatorReport]
    sources: list[SourceReport]
    changes: list[str]
    """Changes of the whole job: max parallelism, backend."""
    needed: list[str]
    """What must change before the restore is possible."""
    verified: int | None = None
    """How many files were verified by their hash; None: only their sizes were checked."""


@dataclass(frozen=True)
class ProgramToCheck:
    """The program, and its settings for a restore."""

    graph: JobGraph
    start: StartOptions
    backend: str
    job_parameters: dict[str, str] = field(default_factory=dict)


def check_restore(
    program: ProgramToCheck, path: str, progress: Callable[[int, int], None] | None = None
) -> RestoreReport:
    """What a restore would do. With `progress` every file is verified; it is called with the bytes done and in total.

    Raises what `open_snapshot` raises: without a snapshot there is nothing to compare.
    """
    snapshot = open_snapshot(path)
    verified = None if progress is None else _verify(snapshot, progress)
    outline = program_outline(program.graph)
    uids = outline.uids
    renamed = find_renames(snapshot.manifest, uids)
    manifest = rename(snapshot.manifest, renamed)
    allow_non_restored = program.start.allow_non_restored
    refusals = restore_refusals(manifest, outline, path=snapshot.path, allow_non_restored=allow_non_restored)
    needed = [str(refusal) for refusal in refusals]
    was = {new: old for old, new in renamed.items()}
    stages = program.graph.stages
    parameters = program.job_parameters
    operators = [report for stage in stages for report in _stage_reports(stage, parameters, manifest, was, needed)]
    known = {report.uid for report in operators}
    operators += [_dropped(manifest, uid) for uid in stateful_uids(manifest) if uid not in known]
    if needed:
        needed += _uid_hints(program.graph, operators)
    saved = source_uids(manifest)
    sources = [SourceReport(uid, RESTORED if uid in saved else NEW) for uid in uids.sources]
    sources += [SourceReport(uid, DROPPED) for uid in saved if uid not in uids.sources]
    return RestoreReport(
        snapshot.path,
        f"{manifest.savepoint} savepoint" if manifest.savepoint else "checkpoint",
        manifest.job_id,
        manifest.checkpoint_id,
        not needed,
        operators,
        sources,
        list(_changes(manifest, program)),
        needed,
        verified,
    )


def _verify(snapshot: OpenSnapshot, progress: Callable[[int, int], None]) -> int:
    files = list(state_files(snapshot.manifest))
    total, done = sum(file.size for file in files), 0
    for file in files:
        verify_file(snapshot.storage, file)
        done += file.size
        progress(done, total)
    return len(files)


def _stage_reports(
    stage: StagePlan, job_parameters: dict[str, str], manifest: Manifest, was: dict[str, str], needed: list[str]
) -> Iterator[OperatorReport]:
    """The operators of one stage; what their states need is added to `needed`."""
    try:
        declared = declared_states(stage, job_parameters)
    except PenstockError as error:
        needed.append(f"the functions of {stage.name!r} cannot be opened to see their states: {error}")
        declared = {}
    for uid in (plan.uid for plan in stage.operators if plan.kind not in ("sink", SIDE_OUTPUT)):
        states = list(_compared(_saved_states(manifest, uid), declared[uid])) if uid in declared else []
        needed += [
            f"state {state.name!r} of operator {uid!r} cannot be restored: {state.reason}; declare it as it was, give "
            f"its descriptor a migrate function, or give the state another name"
            for state in states
            if state.outcome == "refused"
        ]
        old_parallelism = _old_parallelism(manifest, uid)
        outcome = RESTORED if old_parallelism is not None or uid in stateful_uids(manifest) else NEW
        parallelism = (old_parallelism, stage.parallelism)
        yield OperatorReport(uid, operator_id(uid), outcome, states, was.get(uid, ""), parallelism)


def _uid_hints(graph: JobGraph, operators: Sequence[OperatorReport]) -> Iterator[str]:
    """Hints for operators without an explicit uid, which may be those that the remaining state belongs to."""
    lost = [report.uid for report in operators if report.outcome == DROPPED]
    new = {report.uid for report in operators if report.outcome == NEW and report.states}
    for plan in (plan for stage in graph.stages for plan in stage.operators):
        if lost and plan.uid in new and not plan.explicit_uid:
            choice = " or ".join(f".uid({uid!r})" for uid in lost)
            yield f"operator {plan.name!r} has no uid of its own: if it is the one whose state is left, add {choice}"


def declared_states(stage: StagePlan, job_parameters: dict[str, str]) -> dict[str, _Declared]:
    """Operator uid -> the states that its function declares when it is opened."""
    subtask = Subtask(SubtaskPlace("0" * 32, 1, stage, 0, job_parameters=job_parameters), _no_output)
    subtask.open_functions()
    found: dict[str, _Declared] = {}
    for plan in stage.operators:
        if plan.kind != "sink":
            found[plan.uid] = [*subtask.operator_states[plan.uid].declared()]
            if plan.uid in subtask.backends:
                found[plan.uid] += subtask.backends[plan.uid].declared()
    subtask.close()
    return found


def _no_output(edge: EdgePlan) -> EdgeOutput:
    raise AssertionError(f"a program that is only checked emits nothing, but has an output for edge {edge.id}")


def _saved_states(manifest: Manifest, uid: str) -> dict[tuple[str, str], StateTableInfo | OperatorStateInfo]:
    """(registry, name) -> what was saved, without timers and raw state."""
    found: dict[tuple[str, str], StateTableInfo | OperatorStateInfo] = {}
    for old in manifest.subtasks:
        for info in old.tables:
            if info.operator_uid == uid and info.kind != "timer":
                found[_place(info)] = info
        for state in old.operator_states:
            if state.operator_uid == uid and state.name:
                found[_place(state)] = state
    return found


def _place(info: StateTableInfo | OperatorStateInfo) -> tuple[str, str]:
    if isinstance(info, StateTableInfo):
        return "keyed", info.name
    return "broadcast" if info.mode == "broadcast" else "list", info.name


def _compared(
    saved: dict[tuple[str, str], StateTableInfo | OperatorStateInfo], declared: _Declared
) -> Iterator[StateReport]:
    places = {_place(info) for info, _ in declared}
    for info, migration in declared:
        old = saved.get(_place(info))
        if old is None:
            yield StateReport(info.name, _kind(info), NEW)
        else:
            change = compare_states(old, info, migration)
            yield StateReport(info.name, _kind(info), change.outcome, list(change.lines), change.reason)
    for place, info in saved.items():
        if place not in places:
            yield StateReport(info.name, _kind(info), "waits", reason=NOT_ASKED_FOR)


def _kind(info: StateTableInfo | OperatorStateInfo) -> str:
    return info.kind if isinstance(info, StateTableInfo) else info.mode


def _dropped(manifest: Manifest, uid: str) -> OperatorReport:
    states = [StateReport(info.name, _kind(info), DROPPED) for info in _saved_states(manifest, uid).values()]
    return OperatorReport(uid, operator_id(uid), DROPPED, states, parallelism=(_old_parallelism(manifest, uid), None))


def _old_parallelism(manifest: Manifest, uid: str) -> int | None:
    return sum(uid in old.operator_uids for old in manifest.subtasks) or None


def _changes(manifest: Manifest, program: ProgramToCheck) -> Iterator[str]:
    now = program.graph.max_parallelism
    if changes_key_groups(manifest, now):
        yield f"max parallelism: {manifest.max_parallelism} -> {now}; keyed state is split anew by the hash of its keys"
    if has_ended(manifest):
        yield TIME_HAS_ENDED
    old = _old_backend(manifest, program.backend)
    if old is not None and old != program.backend:
        yield f"state backend: {old} -> {program.backend}"


def _old_backend(manifest: Manifest, new: str) -> str | None:
    """None if it is not known: rows are the same from every backend, and may be of the new one too."""
    files = [file for old in manifest.subtasks for file in old.files]
    native = [name.backend for _, name in files_of_format(files, NativeName)]
    if native:
        return native[0]
    has_rows = bool(files_of_format(files, OwnTables)) and isinstance(find_backend(new)(), ReadsFiles)
    return "hashmap" if has_rows else None
