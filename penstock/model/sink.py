"""The interface of sinks: a writer in each subtask, and a committer in the JobManager (PROTOCOL R28).

A transaction is named after job, attempt, sink, subtask and a nonce. The writer's position at the end of an epoch is
part of the subtask's version: `roll_back` returns to it. `pre_commit` makes everything written so far durable and
describes it as plain data, which the checkpoint's manifest stores. `commit` may be called from any process, any
number of times.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from penstock.model.delivery import Delivery
from penstock.model.ids import SubtaskId
from penstock.model.snapshot import Committable
from penstock.model.types import TypeInformation


class StagingArea(Protocol):
    """Where a writer can leave files for the commit: the job's checkpoint folder. Files are written once."""

    @property
    def uri(self) -> str: ...
    def put_new(self, path: str, data: bytes) -> None: ...


@dataclass(frozen=True)
class SinkContext:
    """The identity of a writer, and where it can leave files."""

    job_id: str
    attempt: int
    sink_uid: str
    subtask: SubtaskId
    record_type: TypeInformation
    staging: StagingArea | None = None
    """None if the job has no checkpoint folder."""


class DeliveryGuarantee(Enum):
    """How often a sink shows a record after a failure."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
    NONE = 2

    @property
    def delivery(self) -> Delivery:
        """What a sink with this guarantee answers in the guarantee report."""
        remedy = "choose DeliveryGuarantee.EXACTLY_ONCE for the sink"
        if self is DeliveryGuarantee.AT_LEAST_ONCE:
            return Delivery.at_least_once("it writes records again after a failure, as it was asked to", remedy)
        if self is DeliveryGuarantee.NONE:
            return Delivery.unknown("it may lose or repeat records in a failure, as it was asked to", remedy)
        return Delivery.exactly_once()


class SinkWriter(ABC):
    """The writer of one subtask. One thread uses it; `close` ends it without making anything durable."""

    @abstractmethod
    def begin_epoch(self) -> None:
        """Remember the position to which `roll_back` returns."""

    @abstractmethod
    def write(self, records: Sequence[Any]) -> None:
        """Write records of the current epoch."""

    @abstractmethod
    def roll_back(self) -> None:
        """Discard what was written since `begin_epoch`."""

    @abstractmethod
    def pre_commit(self) -> list[tuple[str, dict[str, str | int]]]:
        """Make all written rows durable: (transaction name, description) pairs. Later rows start new transactions."""

    @abstractmethod
    def close(self) -> None:
        """Close files and connections."""


@runtime_checkable
class ColumnWriter(Protocol):
    """A SinkWriter that also takes rows as Arrow columns, as vectorised operators emit them."""

    def write_columns(self, rows: pa.RecordBatch) -> None:
        """Write rows of the current epoch, instead of `write`: the fields of the records, by name."""


class Sink(ABC):
    """The user's description of a sink: plain data, pickled to the TaskManagers and opened there."""

    @property
    def allows_fallback(self) -> bool:
        """Whether a recovery may restore a state from before output that is committed, whose rows then come again.

        True only if that is harmless: writing a row again changes nothing, committed output is withdrawn, or the sink
        only promises each row at least once.
        """
        return False

    @property
    def delivery(self) -> Delivery:
        """What the sink promises if its transactions are committed with checkpoints: exactly once.

        A sink that writes in another way says so here; `penstock info` and the start of a job report it.
        """
        return Delivery.exactly_once()

    def check(self, record_type: TypeInformation) -> None:  # noqa: B027 - most sinks have nothing to check
        """Raise if the sink cannot work: the other system does not answer, refuses us, or has no such table or topic.

        Called in the JobManager before a job starts, so that a mistake is found before anything is written. It changes
        nothing. A retryable error does not stop a job that is resumed: its commits wait for the other system.
        """

    @abstractmethod
    def open(self, context: SinkContext) -> SinkWriter:
        """A writer for one subtask."""

    @abstractmethod
    def commit(self, committable: Committable) -> None:
        """Make a pre-committed transaction visible. Calling it again changes nothing.

        Raises SinkTransactionLostError if it is neither pending nor known to be committed.
        """

    def commit_all(self, committables: Sequence[Committable]) -> None:
        """Make transactions of one checkpoint visible that belong together, as `commit` does for each."""
        for committable in committables:
            self.commit(committable)

    @abstractmethod
    def sweep(self, job_id: str, sink_uid: str, keep: Sequence[Committable], before_attempt: int) -> None:
        """Abort transactions of this job and sink that are older than `before_attempt` and not in `keep`."""
