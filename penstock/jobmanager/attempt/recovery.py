"""How an attempt begins, step by step (PROTOCOL section 5). This file has the order; it calls each step once.

    begin_attempt   1. claim the job in its log
                    2. finish the deletes that older attempts left open
                    3. choose what to restore, and append it to the log
                    4. sinks commit what the restored checkpoint lists, and abort everything else
    start_attempt   5. the sources go back to the restored position
                    6. TaskManagers load the state
                    7. the query starts

Between the two the JobManager looks at what was restored: a job that had ended already is not started.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from msgspec import UNSET

from penstock import failpoint
from penstock.checkpoint.checkpoint_settings import CheckpointSettings, WriterIdentity
from penstock.checkpoint.coordinator import CheckpointCoordinator
from penstock.checkpoint.log.entries import Claim, Restore
from penstock.checkpoint.log.job_log import JobLog
from penstock.checkpoint.no_checkpoints import NoCheckpoints, NoJobLog
from penstock.checkpoint.publication import CheckpointListenerHook
from penstock.checkpoint.restore.program_fit import ProgramOutline, changes_key_groups, fit_to_program
from penstock.checkpoint.restore.restore_choice import (
    choose_restore,
    finish_open_deletes,
    path_to_restore,
    record_restore,
)
from penstock.checkpoint.restore.sink_recovery import recover_sinks
from penstock.checkpoint.restore.uid_mapping import ProgramUids
from penstock.checkpoint.snapshot.manifest import digest
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
from penstock.graph.job_graph import SIDE_OUTPUT, JobGraph
from penstock.jobmanager.attempt.attempt import Attempt, JobIdentity, Origin
from penstock.jobmanager.attempt.sink_committer import GraphCommitter
from penstock.model.ids import JobId, new_token
from penstock.storage.storage import Storage


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
    """The job is resumed by name, although its last attempt failed."""
    warn: Callable[[str], None] = lambda text: None
    """Called with a warning about a damaged checkpoint that is skipped, or another number of key groups."""
    damaged: Mapping[int, CheckpointError] = field(default_factory=dict)
    """Checkpoints whose contents were found wrong when this JobManager restored them."""
    wait: Callable[[float], None] = time.sleep
    """The pause before a write to the log without a reply is retried."""
    first_checkpoint: int = 0
    """Above every number that this JobManager has used: a checkpoint that failed may have left no trace."""
    own_claims: set[str] = field(default_factory=set)
    """Token hashes of this JobManager's claims, and of the one that it has replaced: it continues after no other."""
    start: StartOptions = StartOptions()
    rescaled: int | None = None
    """The parallelism that a rescale has set, for the next driver."""
    last_attempt: int = 0
    """The number of this JobManager's last attempt, for a job without a log that knows it."""


def begin_attempt(
    job: JobIdentity,
    graph: JobGraph,
    storage: Storage | None,
    options: RecoveryOptions,
    hook: CheckpointListenerHook,
    clock: Clock,
) -> Attempt:
    """Own the job from here on. Everything that an older attempt left open is finished or thrown away.

    Without a storage the job takes no checkpoints: there is no log to claim, and it starts from the same place again.
    """
    if storage is None:
        return _begin_without_log(job, graph, GraphCommitter.of(job.job_id, graph, None, options.warn), options)
    log = JobLog.open(storage, clock, wait=options.wait)
    token = _claim(job, graph, log, options)  # step 1
    failpoint.before("C24")
    finish_open_deletes(log)  # step 2
    origin = _choose(job, graph, log, options)  # step 3
    _record(log, origin, graph, options)
    # In mode AT_LEAST_ONCE an older attempt may have published epochs behind the checkpoint that is restored.
    own_from = 0 if options.settings.exactly_once else log.view().attempt
    committer = GraphCommitter.of(job.job_id, graph, storage, options.warn, own_from)
    _settle_sinks(log, origin, committer)  # step 4
    failpoint.after("C24")
    first_checkpoint = options.first_checkpoint
    if origin.snapshot is not None:
        first_checkpoint = max(first_checkpoint, origin.snapshot.manifest.checkpoint_id + 1)
    writer = _writer(job, log.view().attempt, token, first_checkpoint)
    coordinator = CheckpointCoordinator(options.settings, log, writer, committer, hook, restored=origin.manifest)
    return Attempt(job, graph, writer, token, log, coordinator, storage, origin)


def start_attempt(
    *, rewind_sources: Callable[[], None], load_state: Callable[[], None], start_query: Callable[[], None]
) -> None:
    """Bring what runs the attempt, Spark or a test instrument, to what it starts from, and start it."""
    rewind_sources()  # step 5
    load_state()  # step 6
    failpoint.before("C26")
    start_query()  # step 7
    failpoint.after("C26")


def _begin_without_log(
    job: JobIdentity, graph: JobGraph, committer: GraphCommitter, options: RecoveryOptions
) -> Attempt:
    token = new_token()
    writer = _writer(job, options.last_attempt + 1, token)
    snapshot = open_start(graph, options.start)
    origin = _fit(snapshot, snapshot.path, graph, options.start) if snapshot is not None else Origin()
    if origin.manifest is not None:
        committer.commit(origin.manifest.committables)
    if graph.batch and options.last_attempt:
        committer.sweep([], writer.attempt)  # a batch job commits at its end: what older attempts wrote is not needed
    return Attempt(job, graph, writer, token, NoJobLog(), NoCheckpoints(), None, origin)


# ---- 1. claim


def _claim(job: JobIdentity, graph: JobGraph, log: JobLog, options: RecoveryOptions) -> str:
    """The token of the attempt that owns the job now."""
    token = new_token()
    token_hash = digest(token.encode())
    require_own_claim(log, options.own_claims)
    replaced = log.view().claim
    if replaced is not None:  # so that another claim may replace it if this one fails
        options.own_claims.add(replaced.token_hash)
    options.own_claims.add(token_hash)
    claim = Claim(
        log.view().attempt + 1,
        token_hash,
        token_hash[:16],
        job.name,
        job.program,
        graph.parallelism,
        graph.max_parallelism,
        start_from=path_to_restore(log.view(), _start_path(options)) or "",
        rescaled=options.rescaled if options.rescaled is not None else UNSET,
    )
    log.claim(claim, reopen=options.reopen)
    return token


def require_own_claim(log: JobLog, own_claims: set[str]) -> None:
    """Raise FencedError if this JobManager has owned the job and another one has taken it over (PROTOCOL R4)."""
    claim = log.view().claim
    if own_claims and claim is not None and claim.token_hash not in own_claims:
        raise FencedError(
            f"attempt {claim.attempt} of another driver owns the job now; this driver does not take it back"
        )


def _writer(job: JobIdentity, number: int, token: str, first_checkpoint: int = 0) -> WriterIdentity:
    return WriterIdentity(JobId(job.job_id), number, digest(token.encode())[:16], first_checkpoint)


def _start_path(options: RecoveryOptions) -> str | None:
    return full_address(options.start.path) if options.start.path is not None else None


# ---- 3. choose and record


def open_start(graph: JobGraph, start: StartOptions) -> OpenSnapshot | None:
    """The snapshot that a new job starts from, if the program can start from it. Changes nothing."""
    if start.path is None:
        return None
    snapshot = open_snapshot(start.path)
    if start.claim and not snapshot.has_ended:
        raise JobConflictError(
            f"checkpoint {snapshot.manifest.checkpoint_id} of job {snapshot.manifest.job_id} cannot be claimed: the "
            f"job has not ended, and may need it; stop the job first, or start with claim mode no_claim"
        )
    _fit(snapshot, snapshot.path, graph, start)
    return snapshot


def _choose(job: JobIdentity, graph: JobGraph, log: JobLog, options: RecoveryOptions) -> Origin:
    path = path_to_restore(log.view(), _start_path(options))
    if path is not None:
        return _fit(_reopen(path, log.view().restore, options), path, graph, options.start)
    manifest = choose_restore(
        log,
        allow_fallback=options.allow_fallback,
        sinks_idempotent=allows_fallback(graph, options.settings),
        damaged=options.damaged,
        report=options.warn,
    )
    if manifest is None:
        return Origin()
    if manifest.job_id != job.job_id:
        raise WrongJobError(
            f"{log.storage.uri} holds the checkpoints of job {manifest.job_id}, and this is job {job.job_id}; "
            f"each job needs a folder of its own (WRONG_JOB)"
        )
    allow_non_restored = options.start.allow_non_restored
    fitted, renamed = fit_to_program(manifest, program_outline(graph), allow_non_restored=allow_non_restored)
    return Origin(fitted, renamed=renamed)


def _fit(snapshot: OpenSnapshot, path: str, graph: JobGraph, start: StartOptions) -> Origin:
    fitted, renamed = fit_to_program(
        snapshot.manifest, program_outline(graph), path=path, allow_non_restored=start.allow_non_restored
    )
    return Origin(fitted, snapshot, path, renamed)


def _reopen(path: str, recorded: Restore | None, options: RecoveryOptions) -> OpenSnapshot:
    """The snapshot that the job was started from: needed until the job has completed a checkpoint of its own.

    `recorded`: what an earlier attempt found there.
    """
    snapshot = open_snapshot(path)
    if recorded is not None and recorded.sha256 not in ("", snapshot.sha256):
        raise SnapshotRefusedError(
            "CHANGED_SNAPSHOT",
            f"there is another snapshot at {path} than the one the job has begun with: bring that one back, or start a "
            f"new job",
        )
    found = options.damaged.get(snapshot.manifest.checkpoint_id)
    if found is not None:
        raise found
    return snapshot


def program_outline(graph: JobGraph) -> ProgramOutline:
    """What a restore must know of the program."""
    uids = ProgramUids(
        {o.uid: o.uid_hash for stage in graph.stages for o in stage.operators if o.kind != SIDE_OUTPUT},
        {source.uid: source.uid_hash for source in graph.sources},
        frozenset(sink.uid for sink in graph.sinks),
    )
    return ProgramOutline(uids, [stage.uids for stage in graph.stages], graph.max_parallelism)


def allows_fallback(graph: JobGraph, settings: CheckpointSettings) -> bool:
    """Whether every sink accepts rows again whose output may be visible (PROTOCOL R24).

    Printed lines and the writers of `to_spark` are at least once in any case. Collected records are handed to the
    program once, when their checkpoint completes, and cannot be taken back.
    """
    if not settings.exactly_once:
        return True
    return all(
        sink.spec.kind == "print" or (sink.spec.kind == "sink" and sink.spec.config.allows_fallback)
        for sink in graph.sinks
    )


def _record(log: JobLog, origin: Origin, graph: JobGraph, options: RecoveryOptions) -> None:
    """Append the `restore` entry. Another number of key groups is not refused, as Flink does, but reported."""
    manifest, snapshot, why = origin.manifest, origin.snapshot, "recovery"
    if manifest is not None and changes_key_groups(manifest, graph.max_parallelism):
        change = (
            f"max parallelism was {manifest.max_parallelism} in checkpoint {manifest.checkpoint_id} and is "
            f"{graph.max_parallelism} now: keyed state is split anew by the hash of its keys"
        )
        options.warn(change)
        why = f"recovery; {change}"
    if snapshot is None:
        record_restore(log, manifest, why)
        return
    is_claimed = options.start.claim and _start_path(options) == origin.path
    is_claimed = is_claimed or log.view().claimed == origin.path
    log.append(Restore(None, origin.path, why, is_claimed, snapshot.sha256))  # its number means nothing in this log


# ---- 4. sinks


def _settle_sinks(log: JobLog, origin: Origin, committer: GraphCommitter) -> None:
    """Bring the sinks to the restored checkpoint.

    Unconfirmed output of another job's checkpoint is committed here too; that changes nothing if that job has committed
    it. Savepoints have none (PROTOCOL R26, R29).
    """
    try:
        recover_sinks(log, origin.manifest, committer)
    except SinkTransactionLostError as error:
        if origin.snapshot is None:
            raise
        raise SnapshotRefusedError(
            "UNCOMMITTED_OUTPUT",
            f"the checkpoint {origin.path} has output that its own job has not confirmed, and the sinks of this "
            f"program cannot commit it: {error}; let that job go on until its next checkpoint, or start from a "
            f"savepoint",
        ) from error


# ---- after a failed restore


def note_damage(attempt: Attempt, error: CheckpointError, damaged: dict[int, CheckpointError]) -> None:
    """Record that the restored checkpoint is damaged: the next attempt, which gets `damaged`, must not choose it (R24).

    Raises FencedError if a newer attempt owns the job.
    """
    assert attempt.manifest is not None, "only what is restored can be damaged"
    attempt.log.check_fenced()  # PROTOCOL R4: a newer attempt may have deleted the file
    damaged[attempt.manifest.checkpoint_id] = error
