"""A job with one sink, reduced to the calls that a sink gets. Its processes can die between any two of them."""

from collections.abc import Callable, Sequence

import msgspec

from penstock.connectors.staged.staged_files import FOLDER
from penstock.connectors.staged.staged_sink import StagedSink
from penstock.failpoint import InjectedCrash
from penstock.graph.pickling import dumps, loads
from penstock.jobmanager.attempt.sink_committer import GraphCommitter
from penstock.model.ids import StageId, SubtaskId
from penstock.model.sink import Sink, SinkContext, SinkWriter
from penstock.model.snapshot import Committable, commit_groups
from penstock.storage.memory import MemoryStorage
from penstock.testing.conformance_sink.sink_system import SinkSystem

Rows = Sequence[tuple[int, int]]
Input = Sequence[Sequence[Rows]]
"""For each epoch and subtask its rows. Every second epoch ends with a checkpoint."""


class SinkJob:
    """The writers and the driver of one attempt, and the newest completed checkpoint, which survives them."""

    def __init__(self, system: SinkSystem, *, job_id: str = "job", sink_uid: str = "out", subtask_count: int = 1):
        self.system = system
        self.job_id = job_id
        self.sink_uid = sink_uid
        self.subtask_count = subtask_count
        self.staging = MemoryStorage()
        self.attempt = 0
        self.epoch = 0
        self.completed: list[Committable] = []
        self.next_epoch = 0
        """The source position of the completed checkpoint."""
        self.names: list[str] = []
        """Of all transactions."""
        self.committer: GraphCommitter
        self.writers: list[SinkWriter] = []
        self._dead: list[SinkWriter] = []
        """Kept, so that no finalizer does what a dead process cannot."""

    # ---- attempts

    def start(self) -> "SinkJob":
        """A new attempt in new processes, which recovers from the completed checkpoint."""
        for writer in self.writers:
            self.system.kill(writer)
        self._dead += self.writers
        self.writers = []
        self.attempt += 1
        self.epoch = self.next_epoch
        self.committer = self.driver()
        self.commit(self.completed)
        self.committer.sweep(self.completed, self.attempt)
        self.writers = [self._sink().open(self._context(index)) for index in range(self.subtask_count)]
        return self

    def driver(self) -> GraphCommitter:
        """Another process that commits."""
        return GraphCommitter(self.job_id, {self.sink_uid: self._sink()}, self.staging)

    def stop(self) -> None:
        """End all processes; then nothing may be left of what was not committed."""
        self.close()
        self.start()
        self.close()
        staged = [path for path in self.staging.files if path.startswith(FOLDER) and path not in self._needed_files()]
        assert not staged, f"staged rows are left: {staged}"
        found = list(self.system.leftovers())
        assert not found, f"transactions are left that nobody will commit: {found}"

    def _needed_files(self) -> set[str]:
        """Staged rows of the newest checkpoint, if they may be asked for again (`StagedSink.keeps_marker`)."""
        sink = self._sink()
        if not isinstance(sink, StagedSink) or sink.keeps_marker:
            return set()
        return {str(committable.data.get("file")) for committable in self.completed}

    def close(self) -> None:
        """End the writers in order."""
        for writer in self.writers:
            writer.close()
        self.writers = []

    # ---- epochs

    def write(self, *rows: Rows) -> None:
        """One epoch; each argument has the rows of one subtask."""
        self.epoch += 1
        for writer in self.writers:
            writer.begin_epoch()
        self.add(*rows)

    def add(self, *rows: Rows) -> None:
        """Further rows of the running epoch."""
        for writer, part in zip(self.writers, rows, strict=False):
            self._write(writer, part)

    def roll_back(self) -> None:
        """Drop the running epoch; it runs again."""
        for writer in self.writers:
            writer.roll_back()

    def pre_commit(self) -> list[Committable]:
        """The transactions of all subtasks, as a manifest stores them."""
        return [found for index in range(len(self.writers)) for found in self._pre_commit(index)]

    def complete(self, committables: list[Committable]) -> None:
        """The checkpoint's entry is in the job log."""
        self.completed, self.next_epoch = committables, self.epoch

    def commit(self, committables: Sequence[Committable]) -> None:
        """Commit as the JobManager does."""
        for group in commit_groups(committables):
            self.committer.commit(group)

    def checkpoint(self, *rows: Rows) -> list[Committable]:
        """An epoch with a completed and committed checkpoint; its transactions."""
        self.write(*rows)
        found = self.pre_commit()
        self.complete(found)
        self.commit(found)
        self.committer.sweep(found, self.attempt)
        return found

    def run(self, epochs: Input, step: Callable[[], None] = lambda: None) -> None:
        """Process the input from the source position to its end. `step` is called after each call to the sink."""
        for index in range(self.next_epoch, len(epochs)):
            self.epoch = index + 1
            for writer, part in zip(self.writers, epochs[index], strict=True):
                writer.begin_epoch()
                step()
                self._write(writer, part)
                step()
            if self.epoch % 2 == 0:
                self._checkpoint_in_steps(step)

    # ---- parts

    def _checkpoint_in_steps(self, step: Callable[[], None]) -> None:
        found: list[Committable] = []
        for index in range(len(self.writers)):
            found += self._pre_commit(index)
            step()
        self.complete(found)
        step()
        for group in commit_groups(found):
            self.committer.commit(group)
            step()
        self.committer.sweep(found, self.attempt)
        step()

    def _write(self, writer: SinkWriter, rows: Rows) -> None:
        writer.write([self.system.record(*row) for row in rows])

    def _pre_commit(self, index: int) -> list[Committable]:
        found = [
            Committable(self.sink_uid, self._context(index).subtask, self.epoch, name, data)
            for name, data in self.writers[index].pre_commit()
        ]
        self.names += [committable.transaction for committable in found]
        return msgspec.json.decode(msgspec.json.encode(found), type=list[Committable])

    def _context(self, index: int) -> SinkContext:
        subtask = SubtaskId(StageId("s1"), index)
        return SinkContext(self.job_id, self.attempt, self.sink_uid, subtask, self.system.record_type, self.staging)

    def _sink(self) -> Sink:
        """The sink as another process gets it."""
        sink: Sink = loads(dumps(self.system.sink(), self.sink_uid))
        return sink


class CrashAt:
    """Crashes the job at its n-th step."""

    def __init__(self, step: int) -> None:
        self.was_hit = False
        self._left = step

    def __call__(self) -> None:
        self._left -= 1
        if self._left == 0:
            self.was_hit = True
            raise InjectedCrash
