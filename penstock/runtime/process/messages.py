"""The messages between JobManager, TaskManagers and Spark tasks: msgspec structs, never pickles.

The one exception is `Deploy.plan`, the job graph with the user's own functions, sent once per attempt by the process
that holds the attempt's token.
"""

from typing import Any

import msgspec

from penstock.model.ids import SubtaskId, Version
from penstock.model.metric_readings import MetricReading
from penstock.model.snapshot import (
    CheckpointAck,
    CheckpointDecline,
    Committable,
    OperatorStateShare,
    SavepointAck,
    SavepointDecline,
    SavepointOrder,
    SavepointProgress,
    StateTableInfo,
    SubtaskSnapshot,
)
from penstock.model.subtask_work import SubtaskWork
from penstock.runtime.snapshots.local_copies import RestoreFigures


class Barrier(msgspec.Struct, frozen=True, array_like=True):
    """The control row after an epoch's rows: one from each upstream channel to each downstream subtask."""

    epoch: int
    checkpoint: int | None
    channel: str
    """`driver`, or the upstream subtask."""
    watermark: int
    waiting: bool = False
    """Rows of the epoch are left for later ones, in the upstream subtask or before it (PROTOCOL R13)."""


class EpochHeader(msgspec.Struct, frozen=True):
    """What is the same for every subtask of an epoch (PROTOCOL section 3, step 1)."""

    job_id: str
    attempt: int
    epoch: int
    now_ms: int
    checkpoint: int | None = None
    base: int | None = None
    """The newest completed checkpoint, the only one an increment may build on (PROTOCOL R18)."""
    watermarks: dict[str, int] = {}
    """Watermark generator uid -> watermark of this epoch."""
    idle: list[str] = []
    """Generators whose watermark holds back nobody: no record has advanced it for a while (R9)."""
    commit_epoch: bool = False
    """Sinks end their transaction with this epoch, although it has no checkpoint."""
    final: bool = False
    completed: int | None = None
    """The newest checkpoint that was completed since the last epoch, for functions that listen."""
    aborted: list[int] = []
    """Checkpoints that were aborted since the last epoch."""
    spool_after_ms: int | None = None
    """After this time a subtask leaves the rest of its rows for the next epoch; None: never (R13)."""
    drain: bool = False
    """Event time ends with this epoch, although the input has not."""
    savepoint: SavepointOrder | None = None
    """A savepoint is taken at this epoch's barrier."""

    @property
    def ends_time(self) -> bool:
        """All timers and windows fire."""
        return self.final or self.drain


class TaskHeader(msgspec.Struct, frozen=True, tag="task"):
    """The request of a Spark task to the owner of its subtask: process an epoch's rows."""

    token: str
    subtask: SubtaskId
    parent: Version
    consumer: str
    task_attempt: int
    edge: int | None
    """The output edge whose rows the task passes on; None for the last task of a branch."""
    epoch: EpochHeader


class Admitted(msgspec.Struct, frozen=True, tag="admitted"):
    """The owner's answer: send the rows (`run`), or do not, because the epoch is finished and its output replayed."""

    run: bool


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """The owner refuses the task, or its run failed. `error` is a class of penstock.errors."""

    error: str
    args: list[str]


class Finished(msgspec.Struct, frozen=True, tag="finished"):
    """The epoch's version is set; the output follows as an Arrow stream if the task asked for an edge."""

    version: Version


class Register(msgspec.Struct, frozen=True, tag="register"):
    """A TaskManager has started and waits for its subtasks."""

    taskmanager: str
    pid: int
    host: str
    unix_path: str
    tcp_port: int
    executor: str = ""


class Deploy(msgspec.Struct, frozen=True, tag="deploy"):
    """The subtasks a TaskManager owns in this attempt, and what each restores."""

    plan: bytes
    subtasks: list[SubtaskId]
    restore: list[list[SubtaskSnapshot]]
    """For each subtask the old snapshots that overlap its key groups."""
    checkpoint: int | None
    """The checkpoint that is restored; increments may build on it where ranges are unchanged."""
    restored_epoch: int
    max_parallelism_restored: int
    operator_state: list[list[OperatorStateShare]] = []
    """For each subtask its shares of the restored operator state."""
    origin: str = ""
    """The address of the folder with the files, if it is not the job's own: then no increment builds on them."""
    renamed: dict[str, str] = {}
    """Uids of operators inside the files -> their uids in the program."""


class Deployed(msgspec.Struct, frozen=True, tag="deployed"):
    """Every subtask is restored, with its first version of this attempt."""

    versions: list[tuple[SubtaskId, Version]]
    next_timers: list[tuple[int | None, int | None]] = []
    waiting: list[int] = []
    """For each subtask the number of rows in flight that were restored."""
    restored: RestoreFigures = RestoreFigures()


class SubtaskReport(msgspec.Struct, frozen=True, tag="report"):
    """A subtask has finished an epoch (PROTOCOL R10)."""

    subtask: SubtaskId
    epoch: int
    version: Version
    rows_in: int
    rows_out: int
    watermark: int
    committables: list[Committable]
    max_timestamps: dict[str, int]
    next_event_timer: int | None
    next_processing_timer: int | None
    printed: list[str]
    collected: list[tuple[str, bytes]]
    untimed: int = 0
    """Rows of a source that were dropped because they had no event time."""
    waiting: int = 0
    """Rows that wait for the next epoch."""
    late: int = 0
    """Records that windows have dropped because they came too late."""
    metrics: list[MetricReading] = []
    """Metrics of functions that have changed since the last report."""
    work: SubtaskWork = SubtaskWork()


class SubtaskFailure(msgspec.Struct, frozen=True, tag="failure"):
    """A subtask's run has ended with an error that ends the attempt."""

    subtask: SubtaskId
    epoch: int
    error: str
    args: list[str]
    log_tail: list[str]


class Acked(msgspec.Struct, frozen=True, tag="ack"):
    """Envelope of a checkpoint ack."""

    ack: CheckpointAck


class Declined(msgspec.Struct, frozen=True, tag="decline"):
    """Envelope of a checkpoint decline."""

    decline: CheckpointDecline


class SubtaskRows(msgspec.Struct, frozen=True, array_like=True):
    """How many rows a subtask has processed in its newest epoch, which may not have ended."""

    subtask: SubtaskId
    epoch: int
    rows: int


class Heartbeat(msgspec.Struct, frozen=True, tag="heartbeat"):
    """A TaskManager is alive, and this is how far it has come. The figures are only shown."""

    taskmanager: str
    restored: int = 0
    """Subtasks that have loaded their state."""
    rows: list[SubtaskRows] = []


class CheckpointsEnded(msgspec.Struct, frozen=True, tag="checkpoints_ended"):
    """The last checkpoints have ended, and no epoch follows whose header could say so."""

    completed: int | None
    aborted: list[int]


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """A TaskManager must end."""

    reason: str
    job_ended: bool = False
    """The job's local copies are not needed any more."""


class ListStates(msgspec.Struct, frozen=True, tag="list_states"):
    """Which keyed states do the subtasks of this TaskManager have?"""


class LiveState(msgspec.Struct, frozen=True):
    """A keyed state that a function has declared."""

    info: StateTableInfo
    ttl_ms: int = 0
    queryable: str | None = None
    """The name by which queries find it; None if it is not queryable."""


class LiveStates(msgspec.Struct, frozen=True, tag="live_states"):
    """The keyed states of a TaskManager, those of several subtasks once."""

    states: list[LiveState]


class ReadState(msgspec.Struct, frozen=True, tag="read_state"):
    """A query of live state: the values of keys, or the first entries."""

    subtask: SubtaskId
    epoch: int
    """At whose end the state is read."""
    operator: str
    state: str
    keys: bytes = b"[]"
    """A JSON array."""
    namespace: bytes | None = None
    """JSON."""
    scan: int = 0
    """Instead of keys: the largest number of entries."""
    max_bytes: int = 1 << 23


class StateValues(msgspec.Struct, frozen=True, tag="state_values"):
    """The answer to `ReadState`."""

    values: bytes | None
    """A JSON array, in the order of the keys; None: the state cannot be read at that epoch, or not any more."""
    more: bool = False
    """A scan has left entries out."""


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """The first message on every control connection: the sender and its attempt."""

    token: str
    attempt: int
    sender: str


class Ok(msgspec.Struct, frozen=True, tag="ok"):
    """Done."""


Message = (
    TaskHeader
    | Admitted
    | Refused
    | Finished
    | Register
    | Deploy
    | Deployed
    | SubtaskReport
    | SubtaskFailure
    | Acked
    | Declined
    | SavepointAck
    | SavepointDecline
    | SavepointProgress
    | Heartbeat
    | CheckpointsEnded
    | ListStates
    | LiveStates
    | ReadState
    | StateValues
    | Stop
    | Hello
    | Ok
)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(Message)


def encode(message: Any) -> bytes:
    """The bytes of a message."""
    return _encoder.encode(message)


def decode(data: bytes) -> Any:
    """The message in `data`; msgspec.ValidationError on anything else."""
    return _decoder.decode(data)
