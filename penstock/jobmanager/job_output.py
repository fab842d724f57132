"""Output that ends in the JobManager: printed lines, and records collected into the program.

Printed lines are shown when their epoch commits. Collected records are handed out when the checkpoint that covers
their epoch is complete, so that a restart neither loses nor repeats one; without checkpoints, when the epoch commits.
"""

import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

from penstock.control.interrupts import INTERRUPTS
from penstock.control.terminal import print_rows
from penstock.errors import PenstockError
from penstock.graph.job_graph import JobGraph
from penstock.jobmanager.attempt.epoch_tracker import EpochSummary
from penstock.model.types import TypeInformation
from penstock.runtime.operators.sink_operators import decode_records


class CollectedRecords:
    """The records of one collect sink, between the job's thread and the program's."""

    def __init__(self, record_type: TypeInformation) -> None:
        self._type = record_type
        self._waiting: list[tuple[int, bytes]] = []
        self._released = -1
        """The last epoch that is final."""
        self._ready: deque[bytes] = deque()
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self._ended = False
        self._is_being_read = False
        """The reader has records that it may not have come to yet."""

    def add(self, epoch: int, data: bytes) -> None:
        """Add records of a committed epoch; they are ready at once if its checkpoint is complete already."""
        with self._changed:
            self._waiting.append((epoch, data))
            self._hand_out()

    def release(self, epoch: int) -> None:
        """Everything up to this epoch is final."""
        with self._changed:
            self._released = max(self._released, epoch)
            self._hand_out()

    def _hand_out(self) -> None:
        self._ready.extend(data for number, data in self._waiting if number <= self._released)
        self._waiting = [item for item in self._waiting if item[0] > self._released]
        self._changed.notify_all()

    def roll_back(self, epoch: int) -> None:
        """Everything up to this epoch is final; epochs after it run again, in rare cases also released ones."""
        with self._changed:
            self._released = epoch
            self._hand_out()
            self._waiting.clear()

    def end(self, error: BaseException | None) -> None:
        """No more records will come."""
        with self._changed:
            self._ended, self._error = True, error
            self._changed.notify_all()

    def wait_until_taken(self, timeout_s: float) -> bool:
        """Whether the program has taken all records that are ready, within the time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._ready and not self._is_being_read, timeout_s)

    def __iter__(self) -> Iterator[Any]:
        while True:
            with self._changed:
                self._is_being_read = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._ready or self._ended)
                if not self._ready:
                    if isinstance(self._error, PenstockError):
                        raise self._error.with_traceback(None) from None  # as `Job.wait` does
                    if self._error is not None:
                        raise INTERRUPTS.deliver(self._error)
                    return
                data = self._ready.popleft()
                self._is_being_read = True
            yield from decode_records(data, self._type)


class JobOutput:
    """All printed and collected output of a job."""

    def __init__(self, collected: dict[str, CollectedRecords], *, checkpointing: bool) -> None:
        self.collected = collected
        self._checkpointing = checkpointing

    def committed(self, summary: EpochSummary) -> None:
        """An epoch has been committed."""
        for uid, data in summary.collected:  # first: printing may fail
            self.collected[uid].add(summary.epoch, data)
        if not self._checkpointing:
            self.release(summary.epoch)
        print_rows(summary.printed)

    def release(self, epoch: int) -> None:
        """A checkpoint of this epoch is complete."""
        for records in self.collected.values():
            records.release(epoch)

    def wait_until_taken(self, timeout_s: float) -> None:
        """Give the program time to take the records that are ready: no later attempt hands them out again."""
        for records in self.collected.values():
            records.wait_until_taken(timeout_s)

    def roll_back(self, epoch: int) -> None:
        """A new attempt begins after this epoch: what came before is final, the rest comes again."""
        for records in self.collected.values():
            records.roll_back(epoch)

    def end(self, error: BaseException | None) -> None:
        """The job has ended."""
        for records in self.collected.values():
            records.end(error)


def collect_sinks(graph: JobGraph) -> dict[str, CollectedRecords]:
    """The records of every collect sink of a job, by its uid."""
    return {sink.uid: CollectedRecords(sink.record_type) for sink in graph.sinks if sink.spec.kind == "collect"}
