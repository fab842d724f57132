"""The beginning of an attempt: claim the job, choose what to restore, settle the sinks (PROTOCOL section 5, 1 to 3)."""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from penstock import failpoint
from penstock.checkpoint.coordinator import CheckpointCoordinator, CheckpointListenerHook
from penstock.checkpoint.entries import Claim
from penstock.checkpoint.log import JobLog
from penstock.checkpoint.redistribution import redistribute, require_whole_key_groups
from penstock.checkpoint.restore import (
    choose_restore,
    finish_open_deletes,
    plan_restore,
    record_restore,
    recover_sinks,
    require_mapped,
)
from penstock.checkpoint.settings import CheckpointSettings, WriterIdentity
from penstock.clock import Clock
from penstock.errors import CheckpointError, FencedError, UsageError, WrongJobError
from penstock.graph.execution_graph import ExecutionGraph
from penstock.graph.job_graph import JobGraph
from penstock.jobmanager.committer import GraphCommitter
from penstock.model.ids import JobId, StageId, SubtaskId, new_token
from penstock.model.snapshot import Manifest, OperatorStateShare
from penstock.runtime.messages import Deploy
from penstock.storage.blobs import Storage


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
    """What is restored; None where the job starts from nothing."""
    coordinator: CheckpointCoordinator
    log: JobLog


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
    """Above every number that this JobManager has given out: one that failed may have left no trace (features M2)."""
    own_claims: set[str] = field(default_factory=set)
    """Of this JobManager, by the hash of their tokens. Once there is one, it goes on only behind one of its own."""


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
    claim = Claim(number, token_hash, token_hash[:16], job.name, job.program, graph.parallelism, graph.max_parallelism)
    log.claim(claim, reopen=options.reopen)
    failpoint.before("C24")
    finish_open_deletes(log)
    manifest = choose_restore(
        log,
        allow_fallback=options.allow_fallback,
        sinks_idempotent=allows_fallback(graph, options.settings),
        damaged=options.damaged,
        report=options.warn,
    )
    if manifest is not None:
        if manifest.job_id != job.job_id:
            raise WrongJobError(
                f"{storage.uri} holds the checkpoints of job {manifest.job_id}, and this is job {job.job_id}; "
                f"each job needs a folder of its own (WRONG_JOB)"
            )
        sink_uids = [sink.uid for sink in graph.sinks]
        require_mapped(manifest, [uid for stage in graph.stages for uid in stage.uids], sink_uids)
        require_same_sources(manifest.sources.source_uids, [source.uid for source in graph.sources])
        require_whole_key_groups(manifest, graph.max_parallelism)
        require_same_inputs(manifest, graph)
    record_restore(log, manifest, _why(manifest, graph, options.warn))
    committer = GraphCommitter.of(job.job_id, graph)
    recover_sinks(log, manifest, committer)
    failpoint.after("C24")
    identity = WriterIdentity(JobId(job.job_id), number, token_hash[:16], options.first_checkpoint)
    coordinator = CheckpointCoordinator(options.settings, log, identity, committer, hook, restored=manifest)
    return Attempt(number, token, manifest, coordinator, log)


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


def require_same_sources(saved: Sequence[str], now: Sequence[str]) -> None:
    """Spark knows the sources of a position by their order alone: in another one each would go on where another was."""
    if len(saved) > 1 and list(saved) != list(now):
        raise UsageError(
            f"the checkpoint holds the positions of the sources {list(saved)}, in this order, and the program reads "
            f"{list(now)}; give the sources their old order and uids, or start a new job"
        )


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


def deploy_orders(execution: ExecutionGraph, manifest: Manifest | None, plan: bytes) -> dict[str, Deploy]:
    """For each TaskManager its subtasks, and for each subtask what it restores (PROTOCOL section 5, 5)."""
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
