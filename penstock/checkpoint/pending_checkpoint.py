"""A checkpoint or savepoint whose barrier was sent and that has not ended: which subtasks have written their part."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

from penstock.checkpoint.checkpoint_request import CheckpointRequest
from penstock.checkpoint.checkpoint_settings import WriterIdentity
from penstock.checkpoint.failures import FailureReason
from penstock.checkpoint.savepoint_request import SavepointRequest
from penstock.checkpoint.snapshot.manifest import FORMAT_VERSION, MAGIC
from penstock.errors import CheckpointError
from penstock.model.ids import SubtaskId, Version
from penstock.model.snapshot import CheckpointAck, Committable, Manifest, SavepointAck, SourcePosition

Ack = TypeVar("Ack", CheckpointAck, SavepointAck)
Request = TypeVar("Request")


@dataclass(frozen=True)
class EpochRecord:
    """An epoch that the JobManager has committed in memory (PROTOCOL R14)."""

    epoch: int
    now_ms: int
    versions: Mapping[SubtaskId, Version]
    committables: Sequence[Committable]
    source: SourcePosition | None
    """Needed if the epoch's barrier carried a checkpoint or savepoint."""
    watermarks: Mapping[str, int]
    max_timestamps: Mapping[str, int]
    max_parallelism: int
    final: bool = False


@dataclass
class PendingCheckpoint(Generic[Ack, Request]):
    """Collects the parts of one checkpoint or savepoint. Not thread safe: its owner's lock is around it."""

    checkpoint_id: int
    """A savepoint has the number of the checkpoint at whose barrier it is taken."""
    epoch: int
    subtasks: frozenset[SubtaskId]
    request: Request
    """Who waits for it; None for a periodic checkpoint."""
    started_ms: int
    deadline_s: float
    base: Manifest | None = None
    """The checkpoint that its subtasks build on; its files are kept until this one has ended (PROTOCOL R18)."""
    record: EpochRecord | None = None
    """Its epoch, once that is committed."""
    failure: tuple[FailureReason, str] | None = None
    """Why it cannot complete, whatever its subtasks report."""
    acks: dict[tuple[SubtaskId, Version], Ack] = field(default_factory=dict)
    declines: dict[tuple[SubtaskId, Version], tuple[FailureReason, str]] = field(default_factory=dict)
    written: dict[SubtaskId, float] = field(default_factory=dict)
    """How much of its part each subtask has written, from 0 to 1, where subtasks report that."""

    def acknowledge(self, ack: Ack) -> None:
        """Keep an ack. An epoch may run twice, so which ack counts is known only when the epoch is committed."""
        subtask = ack.snapshot.subtask
        if subtask in self.subtasks:
            self.acks.setdefault((subtask, ack.snapshot.version), ack)
            self.written[subtask] = 1.0

    def decline(self, subtask: SubtaskId, version: Version, reason: FailureReason, detail: str) -> None:
        """Keep a decline; like an ack it counts only for the committed version."""
        if subtask in self.subtasks:
            self.declines.setdefault((subtask, version), (reason, f"subtask {subtask}: {detail}"))

    def advance(self, subtask: SubtaskId, share: float) -> None:
        """Note how much of its part a subtask has written."""
        if subtask in self.subtasks:
            self.written[subtask] = max(share, self.written.get(subtask, 0.0))

    @property
    def progress(self) -> float:
        """How much of all parts is written, from 0 to 1."""
        return sum(self.written.values()) / len(self.subtasks)

    def counted(self) -> list[Ack] | None:
        """The acks of the committed versions in the order of the subtasks; None while one is missing."""
        acks = self.acknowledged()
        return acks if self.record is not None and len(acks) == len(self.subtasks) else None

    def why_failed(self) -> tuple[FailureReason, str] | None:
        """Why it cannot complete any more; None if it can."""
        if self.failure is not None or self.record is None:
            return self.failure
        for subtask in self._ordered():
            version = self.record.versions.get(subtask)
            if version is None:
                return FailureReason.NOT_RUNNING, f"epoch {self.epoch} was committed without subtask {subtask}"
            if (subtask, version) in self.declines:
                return self.declines[subtask, version]
        return None

    def acknowledged(self) -> list[Ack]:
        """The acks of the committed versions so far, in the order of the subtasks; none before the epoch is committed.

        PROTOCOL R17: an ack of a dropped run of the epoch never counts.
        """
        versions = self.record.versions if self.record is not None else {}
        keys = [(subtask, versions.get(subtask)) for subtask in self._ordered()]
        found = [self.acks.get((subtask, version)) for subtask, version in keys if version is not None]
        return [ack for ack in found if ack is not None]

    def build_manifest(
        self,
        identity: WriterIdentity,
        *,
        parent: int | None = None,
        committables: Sequence[Committable] = (),
        savepoint: str = "",
    ) -> Manifest:
        """The manifest, once the epoch is committed and all acks are there (PROTOCOL R20)."""
        record, acks = self.record, self.counted()
        assert record is not None and acks is not None, "a checkpoint is completed only after its epoch"
        if record.source is None:
            raise CheckpointError(f"epoch {record.epoch} was committed without the source position of its checkpoint")
        return Manifest(
            magic=MAGIC,
            format_version=FORMAT_VERSION,
            job_id=identity.job_id,
            checkpoint_id=self.checkpoint_id,
            attempt=identity.attempt,
            writer=identity.writer,
            epoch=record.epoch,
            now_ms=record.now_ms,
            parent=parent,
            max_parallelism=record.max_parallelism,
            watermarks=dict(record.watermarks),
            max_timestamps=dict(record.max_timestamps),
            subtasks=[ack.snapshot for ack in acks],
            sources=record.source,
            committables=list(committables),
            final=record.final,
            savepoint=savepoint,
        )

    def _ordered(self) -> list[SubtaskId]:
        return sorted(self.subtasks, key=lambda subtask: (subtask.stage, subtask.index))


Pending: TypeAlias = PendingCheckpoint[CheckpointAck, CheckpointRequest | None]
PendingSavepoint: TypeAlias = PendingCheckpoint[SavepointAck, SavepointRequest]


class PendingCheckpoints:
    """The checkpoints of an attempt that are pending, and the output that the next one commits. Not thread safe."""

    def __init__(self) -> None:
        self._pending: dict[int, Pending] = {}
        self._held: set[int] = set()
        self._committables: dict[int, Sequence[Committable]] = {}
        """Of each committed epoch that no completed checkpoint covers."""
        self._publishing: int | None = None

    def __len__(self) -> int:
        return len(self._pending)

    def __iter__(self) -> Iterator[Pending]:
        return iter(list(self._pending.values()))

    def add(self, pending: Pending) -> None:
        """A checkpoint has started."""
        self._pending[pending.checkpoint_id] = pending

    def find(self, checkpoint_id: int) -> Pending | None:
        """The pending checkpoint with this number; None if it has ended."""
        return self._pending.get(checkpoint_id)

    def epoch_committed(self, record: EpochRecord) -> None:
        """An epoch is committed, and with it the versions whose acks count."""
        if record.committables:
            self._committables[record.epoch] = tuple(record.committables)
        for pending in self._pending.values():
            if pending.epoch == record.epoch:
                pending.record = record

    def committables(self, after: int, up_to: int) -> list[Committable]:
        """The output of the epochs in (`after`, `up_to`], in their order (PROTOCOL R20)."""
        epochs = [epoch for epoch in sorted(self._committables) if after < epoch <= up_to]
        return [committable for epoch in epochs for committable in self._committables[epoch]]

    def hold(self, checkpoint_id: int) -> None:
        """Do not take this checkpoint before `release`."""
        self._held.add(checkpoint_id)

    def release(self, checkpoint_id: int) -> None:
        """Take this checkpoint once it is ready."""
        self._held.discard(checkpoint_id)

    def take_ready(self) -> Pending | None:
        """The oldest checkpoint whose epoch is committed (PROTOCOL R20) and whose acks are all there."""
        for number in sorted(self._pending):
            pending = self._pending[number]
            if number not in self._held and pending.why_failed() is None and pending.counted() is not None:
                self._publishing = number
                return pending
        return None

    def abortable(self) -> list[int]:
        """All but the one that was taken, which may exist already."""
        return [number for number in self._pending if number != self._publishing]

    def remove(self, numbers: Iterable[int]) -> list[Pending]:
        """Those of these checkpoints that were pending, and are not any more."""
        return [self._pending.pop(number) for number in list(numbers) if number in self._pending]

    def published(self, pending: Pending) -> list[int]:
        """The checkpoint exists. Returns the older ones, which will never exist."""
        del self._pending[pending.checkpoint_id]
        self._committables = {epoch: found for epoch, found in self._committables.items() if epoch > pending.epoch}
        return [number for number in self._pending if number < pending.checkpoint_id]
