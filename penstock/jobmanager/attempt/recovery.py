"""The beginning of an attempt: claim the job, choose what to restore, settle the sinks (PROTOCOL section 5)."""

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from penstock import failpoint
from penstock.checkpoint.checkpoint_settings import CheckpointSettings, WriterIdentity
from penstock.checkpoint.coordinator import CheckpointCoordinator
from penstock.checkpoint.log.entries import Claim, Restore
from penstock.checkpoint.log.job_log import JobLog
from penstock.checkpoint.publication import CheckpointListenerHook
from penstock.checkpoint.restore.redistribution import redistribute, require_whole_key_groups
from penstock.checkpoint.restore.restore_plan import (
    choose_restore,
    finish_open_deletes,
    path_to_restore,
    plan_restore,
    record_restore,
    recover_sinks,
)
from penstock.checkpoint.restore.uid_mapping import ProgramUids, find_renames, rename, require_mapped
from penstock.checkpoint.snapshot.event_time import begin_time_anew, has_ended
from penstock.checkpoint.snapshot.snapshot_location import OpenSnapshot, full_address, open_snapshot
from penstock.clock import Clock
from penstock.errors import (
    CheckpointError,
    FencedError,
    JobConflictError,
    SinkTransactionLostError,
    SnapshotRefusedError,
    WrongJobError,
)
from penstock.graph.execution_graph import ExecutionGraph
from penstock.graph.job_graph import JobGraph
from penstock.jobmanager.attempt.sink_committer import GraphCommitter
from penstock.model.ids import JobId, StageId, SubtaskId, new_token
from penstock.model.snapshot import Manifest, OperatorStateShare
from penstock.runtime.process.messages import Deploy
from penstock.storage.storage import Storage


@dataclass(frozen=True)
class JobIdentity:
    """What the job log says about a job."""

    job_id: str
    name: str
    program: str


@dataclass(frozen=True)
class Attempt:
    """A claimed attempt, ready to deploy."""

    number: int
    token: str
    manifest: Manifest | None
    """What is restored, under the program's uids; None where the job starts from nothing."""
    coordinator: CheckpointCoordinator
    log: JobLog
    origin: "Origin"
    """Where it comes from."""


@dataclass(frozen=True)
class Origin:
    """Where the files of what is restored are, and the uids in them that the program has no more."""

    storage: Storage | None = None
    """Of a snapshot elsewhere; None: in the job's own folder."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Old uid -> new uid."""

    @property
    def address(self) -> str:
        """Empty: the job's own folder."""
        return self.storage.uri if self.storage is not None else ""


@dataclass(frozen=True)
class StartOptions:
    """What a job starts from, and what may be left behind."""

    path: str | None = None
    """A savepoint, or a retained checkpoint of another job; counts when the job is new."""
    allow_non_restored: bool = False
    claim: bool = False


@dataclass(frozen=True)
class RecoveryOptions:
    """How an attempt may begin."""

    settings: CheckpointSettings
    allow_fallback: bool = False
    reopen: bool = False
    """The job was asked for by name, although its last attempt failed."""
    warn: Callable[[str], None] | None = None
    """Told of a damaged checkpoint that is passed over, and of key groups that are split anew."""
    damaged: Mapping[int, CheckpointError] = field(default_factory=dict)
    """Checkpoints whose contents were found wrong when this JobManager restored them."""
    wait: Callable[[float], None] = time.sleep
    """The pause before a write to the log without a reply is tried again."""
    first_checkpoint: int = 0
    """Above every number that this JobManager has given out: one that failed may have left no trace."""
    own_claims: set[str] = field(default_factory=set)
    """Of this JobManager, by the hash of their tokens. Once there is one, it goes on only behind one of its own."""
    start: StartOptions = StartOptions()


def begin_attempt(
    job: JobIdentity,
    graph: JobGraph,
    storage: Storage,
    options: RecoveryOptions,
    hook: CheckpointListenerHook,
    clock: Clock,
) -> Attempt:
    """Own the job from here on. Everything an older attempt left open is finished or thrown away."""
    log = JobLog.open(storage, clock, wait=options.wait)
    token = new_token()
    token_hash = hashlib.sha256(token.encode()).hexdigest()
    require_own_claim(log, options.own_claims)
    options.own_claims.add(token_hash)
    number = log.view().attempt + 1
    given = full_address(options.start.path) if options.start.path is not None else None
    start_from = path_to_restore(log.view(), given)
    claim = Claim(
        number,
        token_hash,
        token_hash[:16],
        job.name,
        job.program,
        graph.parallelism,
        graph.max_parallelism,
        start_from=start_from or "",
    )
    log.claim(claim, reopen=options.reopen)
    failpoint.before("C24")
    finish_open_deletes(log)
    path = path_to_restore(log.view(), given)
    snapshot = _reopen(path, log.view().restore, options) if path is not None else None
    manifest = snapshot.manifest if snapshot is not None else _choose(log, graph, options)
    origin = Origin()
    if manifest is not None:
        if snapshot is None and manifest.job_id != job.job_id:
            raise WrongJobError(
                f"{storage.uri} holds the checkpoints of job {manifest.job_id}, and this is job {job.job_id}; "
                f"each job needs a folder of its own (WRONG_JOB)"
            )
        manifest, renamed = map_to_program(manifest, graph, options.start, path=path or "")
        origin = Origin(snapshot.storage if snapshot is not None else None, renamed)
    why = _why(manifest, graph, options.warn)
    if snapshot is not None:
        claimed = (options.start.claim and given == path) or log.view().claimed == path
        log.append(Restore(None, path, why, claimed, snapshot.sha256))  # its number says nothing in this log
    else:
        record_restore(log, manifest, why)
    committer = GraphCommitter.of(job.job_id, graph)
    _settle_sinks(log, manifest, committer, path)
    failpoint.after("C24")
    first_checkpoint = options.first_checkpoint
    if snapshot is not None:
        first_checkpoint = max(first_checkpoint, snapshot.manifest.checkpoint_id + 1)  # features M2
    identity = WriterIdentity(JobId(job.job_id), number, token_hash[:16], first_checkpoint)
    coordinator = CheckpointCoordinator(options.settings, log, identity, committer, hook, restored=manifest)
    return Attempt(number, token, manifest, coordinator, log, origin)


def program_uids(graph: JobGraph) -> ProgramUids:
    """What the program has, for the mapping of state."""
    return ProgramUids(
        {operator.uid: operator.uid_hash for stage in graph.stages for operator in stage.operators},
        {source.uid: source.uid_hash for source in graph.sources},
        frozenset(sink.uid for sink in graph.sinks),
    )


def map_to_program(
    manifest: Manifest, graph: JobGraph, start: StartOptions, *, path: str = ""
) -> tuple[Manifest, dict[str, str]]:
    """The manifest under the program's uids, and what was renamed for that. Raises what speaks against a restore."""
    uids = program_uids(graph)
    renamed = find_renames(manifest, uids)
    manifest = rename(manifest, renamed)
    require_mapped(manifest, uids, path=path, allow_non_restored=start.allow_non_restored)
    require_whole_key_groups(manifest, graph.max_parallelism)
    require_same_inputs(manifest, graph)
    is_behind_end = path != "" and (manifest.final or has_ended(manifest))
    return begin_time_anew(manifest) if is_behind_end else manifest, renamed


def open_start(graph: JobGraph, start: StartOptions) -> OpenSnapshot | None:
    """What a new job starts from, if the program can start from it; nothing is changed by this."""
    if start.path is None:
        return None
    snapshot = open_snapshot(start.path)
    if start.claim and not snapshot.has_ended:
        raise JobConflictError(
            f"checkpoint {snapshot.manifest.checkpoint_id} of job {snapshot.manifest.job_id} cannot be claimed: the "
            f"job has not ended, and may need it; stop the job first, or start with claim mode no_claim"
        )
    map_to_program(snapshot.manifest, graph, start, path=snapshot.path)
    return snapshot


def start_unlogged(job_id: str, graph: JobGraph, start: StartOptions) -> tuple[Manifest | None, Origin]:
    """What an attempt of a job without checkpoints starts from: every time the same."""
    snapshot = open_start(graph, start)
    if snapshot is None:
        return None, Origin()
    manifest, renamed = map_to_program(snapshot.manifest, graph, start, path=snapshot.path)
    GraphCommitter.of(job_id, graph).commit(manifest.committables)
    return manifest, Origin(snapshot.storage, renamed)


def _reopen(path: str, begun: Restore | None, options: RecoveryOptions) -> OpenSnapshot:
    """The snapshot that the job was started from, which it still needs as long as it has no checkpoint of its own.

    `begun`: what an earlier attempt has found there.
    """
    snapshot = open_snapshot(path)
    if begun is not None and begun.sha256 not in ("", snapshot.sha256):
        raise SnapshotRefusedError(
            "CHANGED_SNAPSHOT",
            f"there is another snapshot at {path} than the one the job has begun with: bring that one back, or start a "
            f"new job",
        )
    found = options.damaged.get(snapshot.manifest.checkpoint_id)
    if found is not None:
        raise found
    return snapshot


def _choose(log: JobLog, graph: JobGraph, options: RecoveryOptions) -> Manifest | None:
    return choose_restore(
        log,
        allow_fallback=options.allow_fallback,
        sinks_idempotent=allows_fallback(graph, options.settings),
        damaged=options.damaged,
        report=options.warn,
    )


def _settle_sinks(log: JobLog, manifest: Manifest | None, committer: GraphCommitter, path: str | None) -> None:
    """Output of a checkpoint of another job that nobody has confirmed is committed here too, which changes nothing if
    that job has done so; savepoints have none (PROTOCOL R26, R29)."""
    try:
        recover_sinks(log, manifest, committer)
    except SinkTransactionLostError as error:
        if path is None:
            raise
        raise SnapshotRefusedError(
            "UNCOMMITTED_OUTPUT",
            f"the checkpoint {path} has output that its own job has not confirmed, and the sinks of this program "
            f"cannot commit it: {error}; let that job go on until its next checkpoint, or start from a savepoint",
        ) from error


def require_own_claim(log: JobLog, own_claims: set[str]) -> None:
    """Raise FencedError if this JobManager has owned the job, and another one has taken it over (PROTOCOL R4)."""
    claim = log.view().claim
    if own_claims and claim is not None and claim.token_hash not in own_claims:
        raise FencedError(
            f"attempt {claim.attempt} of another driver owns the job now; this driver does not take it back"
        )


def allows_fallback(graph: JobGraph, settings: CheckpointSettings) -> bool:
    """Whether every sink takes rows again whose output may be visible (PROTOCOL R24).

    Printed lines and the writers of `to_spark` are at least once in any case. Collected records are handed to the
    program once, when their checkpoint completes, and cannot be taken back.
    """
    if not settings.exactly_once:
        return True
    return all(
        sink.spec.kind == "print" or (sink.spec.kind == "sink" and sink.spec.config.allows_fallback)
        for sink in graph.sinks
    )


def note_damage(attempt: Attempt, error: CheckpointError, damaged: dict[int, CheckpointError]) -> None:
    """What the attempt was to restore is damaged: the next one, which gets `damaged`, must not choose it again (R24).

    Raises FencedError if a newer attempt owns the job.
    """
    assert attempt.manifest is not None, "only what is restored can be damaged"
    attempt.log.check_fenced()  # PROTOCOL R4: a newer attempt may have deleted the file
    damaged[attempt.manifest.checkpoint_id] = error


def _why(manifest: Manifest | None, graph: JobGraph, warn: Callable[[str], None] | None) -> str:
    """What the log says about the restore. Another number of key groups is not refused, as Flink does, but said."""
    if manifest is None or not manifest.subtasks or manifest.max_parallelism == graph.max_parallelism:
        return "recovery"
    change = (
        f"max parallelism was {manifest.max_parallelism} in checkpoint {manifest.checkpoint_id} and is "
        f"{graph.max_parallelism} now: keyed state is split anew by the hash of its keys"
    )
    if warn is not None:
        warn(change)
    return f"recovery; {change}"


def require_same_inputs(manifest: Manifest, graph: JobGraph) -> None:
    """Rows in flight are bound for the inputs of a stage: one with the same operators must be there to take them."""
    chains = [list(stage.uids) for stage in graph.stages]
    for snapshot in manifest.subtasks:
        if snapshot.spool and snapshot.operator_uids not in chains:
            raise CheckpointError(
                f"checkpoint {manifest.checkpoint_id} is unaligned and holds rows in flight to the operators "
                f"{snapshot.operator_uids}, which the program does not have in one stage; go on with the old program "
                f"until a checkpoint without rows in flight, then change it"
            )


def deploy_orders(
    execution: ExecutionGraph, manifest: Manifest | None, plan: bytes, origin: Origin | None = None
) -> dict[str, Deploy]:
    """For each TaskManager its subtasks, and for each subtask what it restores (PROTOCOL section 5, 5)."""
    origin = origin or Origin()
    orders = {}
    shares = _operator_shares(execution.job, manifest)
    for name in sorted(set(execution.owners.values())):
        subtasks = execution.of_task_manager(name)
        stages = [execution.job.stage(subtask.id.stage) for subtask in subtasks]
        orders[name] = Deploy(
            plan=plan,
            subtasks=[subtask.id for subtask in subtasks],
            restore=[
                plan_restore(manifest, stage.uids, subtask.key_groups, stage.max_parallelism)
                if manifest is not None
                else []
                for subtask, stage in zip(subtasks, stages, strict=True)
            ],
            checkpoint=manifest.checkpoint_id if manifest is not None else None,
            restored_epoch=manifest.epoch if manifest is not None else 0,
            max_parallelism_restored=manifest.max_parallelism if manifest is not None else 0,
            operator_state=[shares[subtask.id] for subtask in subtasks],
            origin=origin.address,
            renamed=dict(origin.renamed),
        )
    return orders


def _operator_shares(job: JobGraph, manifest: Manifest | None) -> dict[SubtaskId, list[OperatorStateShare]]:
    """What each new subtask gets of the operator state in a manifest."""
    shares: dict[SubtaskId, list[OperatorStateShare]] = {}
    for stage in job.stages:
        ids = [SubtaskId(StageId(stage.id), index) for index in range(stage.parallelism)]
        shares.update({subtask_id: [] for subtask_id in ids})
        for uid in stage.uids if manifest is not None else ():
            assert manifest is not None
            given = redistribute(manifest, uid, stage.parallelism, stage.max_parallelism)
            for subtask_id, more in zip(ids, given, strict=True):
                shares[subtask_id].extend(more)
    return shares
