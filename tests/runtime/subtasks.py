"""What the tests of the runtime share: stages, headers, and a host whose JobManager is a list."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.graph.job_graph import StagePlan
from penstock.model.ids import StageId, SubtaskId, Version
from penstock.model.key_groups import key_group_of, subtask_of
from penstock.model.snapshot import CheckpointAck, CheckpointDecline, SavepointEvent, SubtaskSnapshot
from penstock.runtime.alignment import DRIVER, source_key
from penstock.runtime.operators.batch import Batch, EdgeBatch
from penstock.runtime.ownership import Kept, Run
from penstock.runtime.process.messages import Barrier, Deploy, EpochHeader, SubtaskReport, TaskHeader
from penstock.runtime.process.subtask_host import HostPlace, SubtaskHost
from penstock.storage.memory import MemoryStorage
from penstock.storage.storage import Storage
from penstock.testing import ManualClock
from penstock.testing.graphs import FunctionProgram, function_graph
from penstock.testing.harness_exchange import ObjectOutput

JOB = "0" * 32
SUBTASK = SubtaskId(StageId("s0"), 0)
MAX_PARALLELISM = 8


def epoch_header(epoch: int = 1, checkpoint: int | None = None, base: int | None = None, **more: Any) -> EpochHeader:
    """The header of an epoch of attempt 1."""
    return EpochHeader(JOB, 1, epoch, 1_000 + epoch, checkpoint, base, **more)


def driver_barrier(header: EpochHeader) -> Barrier:
    """The one barrier of a stage that reads a source."""
    return Barrier(header.epoch, header.checkpoint, DRIVER, 0)


def keyed_stage(function: Any, key: Callable[[Any], Any] = lambda record: record[0], **program: Any) -> StagePlan:
    """A stage with one function on a keyed stream."""
    (stage,) = function_graph(FunctionProgram(function, key, max_parallelism=MAX_PARALLELISM, **program)).stages
    return stage


@dataclass
class Recorder:
    """A JobManager that records what it receives."""

    reports: list[SubtaskReport] = field(default_factory=list)
    acks: list[CheckpointAck] = field(default_factory=list)
    declines: list[CheckpointDecline] = field(default_factory=list)
    savepoint_events: list[SavepointEvent] = field(default_factory=list)

    def report(self, report: SubtaskReport) -> None:
        self.reports.append(report)

    def ack(self, ack: CheckpointAck) -> None:
        self.acks.append(ack)

    def decline(self, decline: CheckpointDecline) -> None:
        self.declines.append(decline)

    def savepoint_event(self, event: SavepointEvent) -> None:
        self.savepoint_events.append(event)


class Tasks:
    """The subtasks of one keyed stage in a host, and the tasks that run them."""

    def __init__(
        self,
        stage: StagePlan,
        storage: Storage | None = None,
        restore: Sequence[Sequence[SubtaskSnapshot]] = (),
        checkpoint: int | None = None,
        **place: Any,
    ) -> None:
        self.stage = stage
        self.told = Recorder()
        self.storage = storage or MemoryStorage()
        self.host = SubtaskHost(HostPlace(JOB, 1, ObjectOutput, {}, **place), self.storage, self.told, ManualClock())
        self.ids = [SubtaskId(StageId(stage.id), index) for index in range(stage.parallelism)]
        plans = [list(snapshots) for snapshots in restore] or [[] for _ in self.ids]
        deploy = Deploy(b"", self.ids, plans, checkpoint, 0, MAX_PARALLELISM)
        self.versions: dict[SubtaskId, Version] = dict(self.host.deploy({stage.id: stage}, deploy).versions)
        self.epoch = 0

    def task(
        self, header: EpochHeader, subtask: SubtaskId = SUBTASK, attempt: int = 0, consumer: str = "end"
    ) -> TaskHeader:
        """A task that requests this epoch."""
        return TaskHeader("token", subtask, self.versions[subtask], consumer, attempt, None, header)

    def run(
        self,
        records: Sequence[Any] = (),
        checkpoint: int | None = None,
        base: int | None = None,
        watermark: int | None = None,
    ) -> list[Any]:
        """One epoch of all subtasks, and its snapshots; what they emit."""
        self.epoch += 1
        header = self.header(self.epoch, checkpoint, base, watermark)
        emitted: list[Any] = []
        for subtask in self.ids:
            kept = self.execute(self.task(header, subtask), self.items(header, records, subtask))
            self.versions[subtask] = kept.version
            emitted += records_of(kept)
        while self.host.write_next():
            continue
        return emitted

    @staticmethod
    def header(
        epoch: int, checkpoint: int | None = None, base: int | None = None, watermark: int | None = None
    ) -> EpochHeader:
        """The header of an epoch."""
        watermarks = {} if watermark is None else {source_key(0): watermark}
        return epoch_header(epoch, checkpoint, base, watermarks=watermarks)

    def execute(self, task: TaskHeader, items: Iterable[EdgeBatch | Barrier]) -> Kept:
        """Run a task that is admitted to run."""
        run = self.host.admit(task)
        assert isinstance(run, Run)
        return self.host.execute(task, run, items)

    def items(self, header: EpochHeader, records: Sequence[Any], subtask: SubtaskId) -> list[EdgeBatch | Barrier]:
        """The rows of a subtask, and the barrier."""
        codec = self.host.subtask(subtask).backends["function"].key_codec
        keys = [codec.to_state_key(record[0]) for record in records]
        groups = [key_group_of(codec.hash(key), MAX_PARALLELISM) for key in keys]
        own = [
            n for n, g in enumerate(groups) if subtask_of(g, MAX_PARALLELISM, self.stage.parallelism) == subtask.index
        ]
        batch = Batch([records[n] for n in own], None, [keys[n] for n in own])
        return [EdgeBatch(0, batch, len(batch)), driver_barrier(header)]

    def snapshots(self, checkpoint: int) -> list[SubtaskSnapshot]:
        """What the subtasks have acknowledged."""
        return [ack.snapshot for ack in self.told.acks if ack.checkpoint_id == checkpoint]


def records_of(kept: Kept) -> list[Any]:
    """The records on all output edges."""
    return [record for batches, _ in kept.output.values() for batch in batches for record in batch.records]
