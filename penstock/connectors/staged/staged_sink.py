"""The base of sinks for systems whose transactions do not outlive a process: databases, Kafka, table formats.

Rows wait as files with the checkpoint that covers them. When it is complete, the JobManager publishes the rows of all
subtasks in one transaction of the other system, together with a marker. The marker is a number that grows with every
checkpoint of the job. A commit that is repeated, by a later attempt or by a driver that was suspended, finds a marker
that is as high as its own and does nothing (PROTOCOL R21, R28).
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.connectors.staged.staged_files import StagedRows
from penstock.connectors.staged.staged_writer import ColumnEncoder, StagedEncoder, StagedWriter
from penstock.errors import FencedError
from penstock.model.sink import Sink, SinkContext, SinkWriter
from penstock.model.snapshot import Committable

EPOCH_BITS = 32
EPOCH_MASK = (1 << EPOCH_BITS) - 1


@dataclass(frozen=True)
class StagedOutput:
    """The rows of one sink and checkpoint, from all subtasks."""

    job_id: str
    """The job that wrote them. Another job that starts from its checkpoint may publish them."""
    sink_uid: str
    """The uid under which the sink wrote them. The program may have another uid for it now (`set_uid_hash`)."""
    attempt: int
    epoch: int
    parts: tuple[StagedRows, ...]
    """In the order of subtasks; those of one subtask in the order in which they were written."""
    is_own: bool = False
    """Whether nothing newer of the owner can be published, by all that the job's log says."""

    @property
    def owner(self) -> str:
        """Whose marker this is: job and sink."""
        return f"{self.job_id}/{self.sink_uid}"

    @property
    def marker(self) -> int:
        """A number that grows with every checkpoint of the owner, over restarts too. Publish only above the stored one.

        A newer attempt has higher markers than every older one, even if it was restored from an older checkpoint.
        """
        return (self.attempt << EPOCH_BITS) + self.epoch

    def is_covered_by(self, stored: int) -> bool:
        """Return whether the rows are published, by the marker that the other system has stored (-1: none).

        Raises FencedError if the job's own rows meet a higher marker. Its log may not know the checkpoint that stored
        it: a checkpoint folder that is put back from a backup counts attempts and epochs again from an older number.
        """
        if self.is_own and stored > self.marker:
            raise FencedError(
                f"output of attempt {stored >> EPOCH_BITS}, epoch {stored & EPOCH_MASK} of sink {self.sink_uid!r} is "
                f"published, and this driver is at attempt {self.attempt}, epoch {self.epoch}: it publishes nothing. "
                f"Either another driver runs the job, or the checkpoint folder is an older copy; to continue from the "
                f"copy, start a new job from its newest checkpoint (penstock run -s), and what the job has published "
                f"since then comes again"
            )
        return self.marker <= stored

    @property
    def row_count(self) -> int:
        """How many rows there are."""
        return sum(part.row_count for part in self.parts)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows. Raises SinkTransactionLostError if a file is gone."""
        for part in self.parts:
            yield from part.batches()


class StagedSink(Sink):
    """A sink that publishes staged rows. Plain data, as every Sink."""

    @property
    def keeps_marker(self) -> bool:
        """Whether `publish` itself detects that it has already happened. Then rows are deleted after a commit."""
        return True

    @abstractmethod
    def publish(self, output: StagedOutput) -> None:
        """Make the rows visible, all at once, and store `output.marker` for `output.owner` in the same transaction.

        Does nothing if the output is covered by the stored marker. Called in the JobManager, perhaps by two processes
        at once: the other system must let only one of them store the marker. If the reply of a commit is lost, this
        raises, and the next call reads the marker.
        """

    def encoder(self, context: SinkContext) -> StagedEncoder:
        """How the records of a subtask become columns. The default has the columns of the record type."""
        return ColumnEncoder(context.record_type)

    def open(self, context: SinkContext) -> SinkWriter:
        return StagedWriter(self.encoder(context), context)

    def commit(self, committable: Committable) -> None:
        self.commit_all([committable])

    def commit_all(self, committables: Sequence[Committable]) -> None:
        for output in staged_outputs(committables):
            self.publish(output)

    def sweep(self, job_id: str, sink_uid: str, keep: Sequence[Committable], before_attempt: int) -> None:
        """Nothing to do: the other system holds no open transactions, and the JobManager deletes staged files."""


def staged_outputs(committables: Sequence[Committable], own: tuple[str, int] | None = None) -> list[StagedOutput]:
    """The rows of committables, by the attempt that wrote them, oldest first.

    `own` is the job that commits, and the first of its attempts whose output must be its newest, if they are known.
    """
    groups: dict[tuple[int, str, str], list[Committable]] = {}
    for committable in committables:
        data = committable.data
        key = (int(data["attempt"]), str(data["job"]), str(data.get("sink", committable.sink_uid)))
        groups.setdefault(key, []).append(committable)
    return [
        StagedOutput(
            job_id,
            sink_uid,
            attempt,
            max(c.epoch for c in group),
            _in_order(group),
            is_own=own is not None and job_id == own[0] and attempt >= own[1],
        )
        for (attempt, job_id, sink_uid), group in sorted(groups.items())
    ]


def _in_order(group: Sequence[Committable]) -> tuple[StagedRows, ...]:
    ordered = sorted(enumerate(group), key=lambda item: (str(item[1].subtask.stage), item[1].subtask.index, item[0]))
    return tuple(StagedRows(committable) for _, committable in ordered)
