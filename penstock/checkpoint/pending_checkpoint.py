"""A checkpoint that has started and not ended: who has acknowledged it, and for which version (PROTOCOL R17)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.checkpoint.checkpoint_request import CheckpointRequest
from penstock.checkpoint.failures import FailureReason
from penstock.model.ids import SubtaskId, Version
from penstock.model.snapshot import CheckpointAck, CheckpointDecline, Committable, Manifest, SourcePosition


@dataclass(frozen=True)
class EpochRecord:
    """An epoch as the JobManager committed it in memory (PROTOCOL R14)."""

    epoch: int
    now_ms: int
    versions: Mapping[SubtaskId, Version]
    committables: Sequence[Committable]
    source: SourcePosition | None
    """Needed if the epoch's barrier carried a checkpoint."""
    watermarks: Mapping[str, int]
    max_timestamps: Mapping[str, int]
    max_parallelism: int
    final: bool = False


@dataclass
class PendingCheckpoint:
    """Acks of one checkpoint. Not thread safe: the coordinator's lock is around it."""

    checkpoint_id: int
    epoch: int
    subtasks: frozenset[SubtaskId]
    base: Manifest | None
    """The checkpoint that its subtasks may build on; its files are kept until this one has ended (PROTOCOL R18)."""
    started_ms: int
    deadline_s: float
    record: EpochRecord | None = None
    request: CheckpointRequest | None = None
    """Who asked for it; None: it was due."""
    is_completing: bool = False
    is_held: bool = False
    """It completes only once the savepoint at its barrier is written: until then it can be taken back."""
    acks: dict[tuple[SubtaskId, Version], CheckpointAck] = field(default_factory=dict)
    declines: dict[tuple[SubtaskId, Version], CheckpointDecline] = field(default_factory=dict)

    def acknowledge(self, ack: CheckpointAck) -> None:
        """Keep an ack. One epoch may run twice, so which ack counts is known only when the epoch is committed."""
        snapshot = ack.snapshot
        if snapshot.subtask in self.subtasks:
            self.acks.setdefault((snapshot.subtask, snapshot.version), ack)

    def decline(self, decline: CheckpointDecline) -> None:
        """Keep a decline; like an ack it counts only for the committed version."""
        if decline.subtask in self.subtasks:
            self.declines.setdefault((decline.subtask, decline.version), decline)

    def counted(self) -> list[CheckpointAck] | None:
        """The acks of the committed versions in the order of the subtasks; None while one is missing."""
        if self.record is None:
            return None
        # PROTOCOL R17: an ack of a dropped run of the epoch never counts.
        keys = [(subtask, self.record.versions.get(subtask)) for subtask in self._ordered()]
        found = [self.acks.get((subtask, version)) for subtask, version in keys if version is not None]
        acks = [ack for ack in found if ack is not None]
        return acks if len(acks) == len(self.subtasks) else None

    def declined(self) -> tuple[FailureReason, str] | None:
        """Why the checkpoint cannot complete any more; None if it can."""
        if self.record is None:
            return None
        for subtask in self._ordered():
            version = self.record.versions.get(subtask)
            if version is None:
                detail = f"epoch {self.epoch} was committed without subtask {subtask}"
                return FailureReason.NOT_RUNNING, detail
            decline = self.declines.get((subtask, version))
            if decline is not None:
                reason = FailureReason.ASYNC if decline.asynchronous else FailureReason.DECLINED
                return reason, f"subtask {subtask}: {decline.reason}"
        return None

    @property
    def usable_base(self) -> Manifest | None:
        """What its subtasks are told to build on: nothing, where the checkpoint was asked for as a full one."""
        return None if self.request is not None and self.request.full else self.base

    def acknowledged(self) -> int:
        """How many subtasks have sent an ack that counts."""
        versions = self.record.versions if self.record is not None else {}
        return sum((subtask, versions.get(subtask)) in self.acks for subtask in self.subtasks)

    def _ordered(self) -> list[SubtaskId]:
        return sorted(self.subtasks, key=lambda subtask: (subtask.stage, subtask.index))
