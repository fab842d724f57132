"""One process of the simulated job: a driver with its TaskManager, from its claim to its end.

It is the code of a real job, put together as `SparkAttempt` does: recovery, the subtasks' host, the epoch tracker and
the coordinator. What Spark, sockets and threads do there is done here by actors that a seed schedules.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from penstock import failpoint
from penstock.checkpoint.checkpoint_settings import WriterIdentity
from penstock.checkpoint.coordinator import CheckpointCoordinator
from penstock.checkpoint.failures import FailureReason
from penstock.checkpoint.file_names import source_file_path
from penstock.checkpoint.log.entries import Resumed, Status
from penstock.checkpoint.savepoint_request import SavepointRequest
from penstock.checkpoint.savepoints import SavepointPlace, Savepoints
from penstock.errors import (
    CheckpointError,
    ConnectionLostError,
    JobFailedError,
    PenstockError,
    StateLostError,
    StorageError,
)
from penstock.graph.execution_graph import assign_subtasks
from penstock.jobmanager.attempt.attempt import JobIdentity, Origin
from penstock.jobmanager.attempt.deploy_orders import deploy_orders
from penstock.jobmanager.attempt.epoch_tracker import AttemptState, EpochTracker
from penstock.jobmanager.attempt.recovery import RecoveryOptions, begin_attempt, start_attempt
from penstock.jobmanager.job_savepoints import stop_request
from penstock.model.ids import JobId, StageId, SubtaskId
from penstock.model.snapshot import (
    CheckpointAck,
    CheckpointDecline,
    Manifest,
    SavepointEvent,
    SourcePosition,
    StateFile,
)
from penstock.runtime.operators.batch import EdgeBatch
from penstock.runtime.ownership import Kept
from penstock.runtime.process.messages import Barrier, EpochHeader, SubtaskReport, TaskHeader
from penstock.runtime.process.subtask_host import HostPlace, SubtaskHost
from penstock.testing.harness_exchange import Exchange, ObjectOutput, StageFeed
from tests.checkpoint.checker import require
from tests.sim.baton import Actor

if TYPE_CHECKING:
    from tests.sim.simulation import Simulation

JOB = JobIdentity("0" * 32, "simulated", "simulated")
FINAL_TRIES = 5
MAX_LOSSES = 3
"""Of one task; Spark gives up after the fourth."""


class Process:
    """One attempt. Its first actor runs epochs; it starts those that complete checkpoints and write state."""

    def __init__(self, world: "Simulation", number: int, parallelism: int) -> None:
        self.name = f"p{number}"
        self._world = world
        self._graph = world.job.graph(parallelism)
        self._exchange = Exchange(self._graph)
        self.actors = [Actor(self, "epochs", self._run_epochs)]
        self.attempt = 0
        self.is_over = False
        """The attempt has ended; actors that are left see it and stop."""
        self.is_deaf_until = 0
        """Until this step no write of it is answered."""
        self.has_finished = False
        self.has_lost_state = False
        """The TaskManager has gone, and the driver goes on."""
        self.epochs = 0
        self.told: list[int] = []
        self._position = 0
        self._ended = False
        self._tasks = 0
        self._has_mail = False
        self._asked: SavepointRequest | None = None

    # ---- the beginning

    def _begin(self) -> None:
        """A new attempt from whatever the storage holds (PROTOCOL section 5)."""
        world = self._world
        options = RecoveryOptions(world.profile.settings, reopen=True, wait=world.wait)
        begun = begin_attempt(JOB, self._graph, world.ledger.storage, options, self, world.clock)
        self.attempt, manifest = begun.number, begun.manifest
        assert isinstance(begun.coordinator, CheckpointCoordinator)
        self._coordinator = begun.coordinator
        self._log = begun.log
        self._ended = manifest is not None and manifest.final
        self._check_output(manifest)
        if self._ended:
            return  # PROTOCOL R31: only the status is missing
        try:
            start_attempt(
                rewind_sources=lambda: self._rewind(manifest),
                load_state=lambda: self._deploy(begun.origin),
                start_query=lambda: None,
            )
        except CheckpointError:
            begun.log.check_fenced()  # PROTOCOL R4: before a file is called missing
            raise
        if manifest is None:
            self._coordinator.first_checkpoint(self._source(self._coordinator.next_id))
        self._find_stop()

    def _find_stop(self) -> None:
        """PROTOCOL R30: a stop in the log has ended, or goes on before anything else happens."""
        view = self._log.view()
        if view.stopping is None:
            return
        path = view.savepoint.path if view.savepoint is not None else ""
        is_there = view.savepoint is not None and self._world.shelf.holds(path, view.savepoint.sha256)
        if is_there and view.savepoint is not None and view.savepoint.checkpoint == view.stopping.checkpoint:
            self._start_again(path)
        else:
            self._world.outcome.faults["stop taken over"] += 1
            self._asked = stop_request(view.stopping)
            self._savepoints.request(self._asked)

    def _start_again(self, path: str) -> None:
        """The job has stopped with this savepoint, and somebody lets it go on from there."""
        at = self._world.shelf.position(path)
        require(at == self._position, f"R30: the job has stopped at {self._position}, its savepoint is at {at}")
        self._world.outcome.faults["stopped"] += 1
        self._log.append(Resumed("it is started again"))

    def _rewind(self, manifest: Manifest | None) -> None:
        if manifest is not None and manifest.sources.batch_id > 0:
            self._position = manifest.sources.batch_id

    def _deploy(self, origin: Origin) -> None:
        world = self._world
        failpoint.before("C2")
        shelf = world.shelf.open
        place = HostPlace(JOB.job_id, self.attempt, ObjectOutput, self._graph.channel_counts, open_storage=shelf)
        self._host = SubtaskHost(place, world.ledger.storage, self, world.clock)
        deploy = deploy_orders(assign_subtasks(self._graph, ["tm"]), origin, b"")["tm"]
        deployed = self._host.deploy({stage.id: stage for stage in self._graph.stages}, deploy)
        failpoint.after("C2")
        versions = dict(deployed.versions)
        state = AttemptState.of(JOB.job_id, self.attempt, versions, origin.manifest)
        identity = WriterIdentity(JobId(JOB.job_id), self.attempt, "simulated")
        timeout_ms = world.profile.settings.timeout_ms
        here = SavepointPlace(identity, timeout_ms=timeout_ms, open_storage=shelf)
        self._savepoints = Savepoints(here, world.clock, self._log, self._coordinator)
        self._book = EpochTracker(self._graph, state, self._coordinator, self._savepoints, world.clock)
        self._book.restored(deployed)
        self._check_state()

    # ---- the actors

    def _run_epochs(self, actor: Actor) -> None:
        world = self._world
        self._begin()
        if self._ended:
            self._append_finished()
            return
        self._start("completer", self._complete)
        for number in range(world.profile.writers):
            self._start(f"writer{number}", self._write)
        while self._position < len(world.job.records):
            self._await_stop(actor)
            # PROTOCOL R13: while rows wait in the subtasks, no new ones are read.
            self._epoch(0 if self._book.waiting or self._is_stop_wanted() else world.row_count())
            world.pass_time()
            actor.rest()
        while self._book.waiting or self._is_stop_wanted() or self._savepoints.is_stopping:
            self._await_stop(actor)
            self._epoch(0)
        self._finish(actor)

    def _is_stop_wanted(self) -> bool:
        request = self._savepoints.due()
        return request is not None and request.is_stop

    def _await_stop(self, actor: Actor) -> None:
        """PROTOCOL R30: no epoch starts behind the barrier of a stop. A job that has stopped is started again."""
        while self._savepoints.is_stopping:
            stopped = self._savepoints.stopped
            if self._book.failure is not None:
                raise self._book.failure
            if stopped is not None and stopped.future.done():
                self._start_again(stopped.future.result(0))
                raise JobFailedError("the job has stopped")
            self._world.pass_time()
            self._world.idle(actor, lambda: self._has_left() or self._book.failure is not None)

    def _has_left(self) -> bool:
        return self._savepoints.stopped is not None or not self._savepoints.is_stopping

    def _start(self, role: str, work: Any) -> None:
        self.actors.append(Actor(self, role, work))

    def _complete(self, actor: Actor) -> None:
        """The one thread of PROTOCOL R21."""
        while not self.is_over:
            try:
                self._coordinator.complete_ready()
                self._savepoints.advance()
            except PenstockError as error:
                self._book.fail(error)
                raise
            self._settle_savepoint()
            self._has_mail = False
            self._world.idle(actor, lambda: self._has_mail or self.is_over)

    def _write(self, actor: Actor) -> None:
        """A background writer of the TaskManager; it may go on after its driver has gone."""
        while not self.is_over:
            if not self._host.write_next() and not self._host.write_next_savepoint():
                self._world.idle(actor, lambda: self._has_work() or self.is_over, 1_000_000)
            actor.rest()

    def _has_work(self) -> bool:
        return bool(self._host._writes or self._host._savepoints)

    def _ask_for_savepoint(self) -> None:
        """Somebody wants one now, unless one is under way."""
        request = self._world.requested_savepoint()
        if request is not None and self._asked is None and self._log.view().stopping is None:
            self._asked = request
            self._savepoints.request(request)

    def _settle_savepoint(self) -> None:
        """A savepoint that exists is what it says; one that failed has changed nothing."""
        if self._asked is not None and self._asked.future.done():
            path = self._asked.future.result(0) if self._asked.future.exception(0) is None else None
            self._asked = None
            self._world.outcome.faults["failed savepoint"] += path is None
            self._world.outcome.savepoints += path is not None
            if path is not None and self.attempt == self._world.ledger.owner:
                self._world.shelf.check(path, self._world.ledger, self._world.job)

    def _finish(self, actor: Actor) -> None:
        """PROTOCOL R31: an empty epoch with the MAX watermark until its checkpoint is complete, then the status."""
        self._final_checkpoint(actor)
        completed, aborted = self._book.unannounced_checkpoints()
        self._host.notify(completed.checkpoint_id if completed is not None else None, aborted)
        self._await_settled(actor)
        self._append_finished()
        self._host.close()

    def _append_finished(self) -> None:
        self._coordinator.finish(Status("finished"), keep_checkpoints=True)
        counts = self.attempt in self._world.ledger.ended_by
        require(counts, f"I-10: attempt {self.attempt} calls the job finished, the log does not")
        self.has_finished = True

    def _final_checkpoint(self, actor: Actor) -> None:
        for _ in range(FINAL_TRIES):
            failpoint.before("C29")
            header = self._epoch(0, final=True)
            failpoint.after("C29")
            self._await_settled(actor)
            newest = self._coordinator.newest_completed
            if newest is not None and newest.checkpoint_id >= (header.checkpoint or 0):
                self._ended = True
                return
        raise JobFailedError("the final checkpoint failed too often")

    def _await_settled(self, actor: Actor) -> None:
        while not self._coordinator.is_settled:
            if self._book.failure is not None:
                raise self._book.failure
            self._world.pass_time()
            self._world.idle(actor, lambda: self._coordinator.is_settled or self._book.failure is not None)

    # ---- one epoch

    def _epoch(self, row_count: int, *, final: bool = False) -> EpochHeader:
        world = self._world
        records = world.job.records[self._position : self._position + row_count]
        position = self._position + len(records)
        for source in self._graph.sources:
            self._book.set_source_watermark(source.id, world.job.watermarks[position])
        self._ask_for_savepoint()
        is_due = not final and not self._book.waiting
        if self._log.view().stopping is not None:
            require(not records and not final and self._is_stop_wanted(), "R30: an epoch behind the barrier of a stop")
        header = self._book.begin(final=final, forced=world.is_forced(), savepoint=is_due)
        is_told = self._log.view().stopping is not None or not self._savepoints.is_stopping
        require(is_told, "R30: the barrier of a stop that the log does not tell of")
        if not final and header.savepoint is None:
            header = msgspec.structs.replace(header, spool_after_ms=world.spool_after_ms())
        self._run_stages(header, records)
        self._position = position
        self._book.commit(header, self._source_or_none(header.checkpoint))
        self.epochs += 1
        self._check_state(ended=final)
        return header

    def _source_or_none(self, checkpoint: int | None) -> SourcePosition | None:
        """None also if it cannot be stored: then the checkpoint fails, and the epoch does not."""
        if checkpoint is None:
            return None
        try:
            return self._source(checkpoint)
        except StorageError as error:
            self._world.outcome.faults["lost position"] += 1
            self._coordinator.abort(checkpoint, FailureReason.IO, str(error))
            return None

    def _source(self, checkpoint: int) -> SourcePosition:
        """The position, in the manifest or in a file of its own (PROTOCOL R19)."""
        position, uids = self._position or -1, [source.uid for source in self._graph.sources]
        if self._world.random.random() < 0.7:
            return SourcePosition(position, None, uids)
        data = json.dumps(position).encode()
        path = source_file_path(self.attempt, checkpoint)
        self._world.ledger.storage.put_new(path, data)
        return SourcePosition(position, StateFile(path, len(data), hashlib.sha256(data).hexdigest(), None), uids)

    def _run_stages(self, header: EpochHeader, records: Sequence[Any]) -> None:
        feed = self._exchange.feed(header, records)
        for stage in self._graph.stages:
            subtasks = [SubtaskId(StageId(stage.id), index) for index in range(stage.parallelism)]
            order = self._world.random.sample(subtasks, len(subtasks))
            kept = {subtask: self._run_task(subtask, feed, 0) for subtask in order}
            for subtask in subtasks:
                feed.add(kept[subtask].output)

    def _run_task(self, subtask: SubtaskId, feed: StageFeed, tries: int) -> Kept:
        """What a Spark task does: it brings the rows to the owner and waits for the end."""
        self._tasks += 1
        task = TaskHeader("", subtask, self._book.parents[subtask], "end", self._tasks, None, feed.header)
        if self.has_lost_state:
            raise StateLostError("the TaskManager has gone")
        failpoint.before("C3")
        admitted = self._host.admit(task)
        failpoint.after("C3")
        if isinstance(admitted, Kept):
            return admitted
        try:
            kept = self._host.execute(task, admitted, _cut(feed.items(subtask), self._world.lost_after(tries)))
        except ConnectionLostError:
            self._world.outcome.faults["lost task"] += 1
            return self._run_task(subtask, feed, tries + 1)
        failpoint.before("C11")
        failpoint.after("C11")
        if self._world.lost_after(tries) is not None:  # the task is lost after its end: another one asks again
            again = self._run_task(subtask, feed, tries + 1)
            require(again is kept, f"I-7: subtask {subtask} has another output the second time")
        return kept

    # ---- what the host and the coordinator tell

    def report(self, report: SubtaskReport) -> None:
        self._book.report(report)

    def ack(self, ack: CheckpointAck) -> None:
        self._world.send(lambda: self._take(lambda: self._coordinator.ack(ack)))

    def decline(self, decline: CheckpointDecline) -> None:
        self._world.outcome.faults["decline"] += 1
        self._world.send(lambda: self._take(lambda: self._coordinator.decline(decline)))

    def savepoint_event(self, event: SavepointEvent) -> None:
        self._world.send(lambda: self._take(lambda: self._savepoints.receive(event)))

    def _take(self, letter: Callable[[], None]) -> None:
        letter()
        self._has_mail = True

    def completed(self, checkpoint: int) -> None:
        """I-10, and I-5: the checkpoint counts, and its output is there."""
        manifest = self._world.ledger.told(self.attempt, checkpoint)
        self._check_output(manifest)
        self.told.append(checkpoint)

    def aborted(self, checkpoint: int, reason: str) -> None:
        """A checkpoint of this attempt will never exist."""
        found = self._world.ledger.completed.get(checkpoint)
        require(found is None or found.attempt != self.attempt, f"complete checkpoint {checkpoint} is aborted")
        kind = "aborted"
        if reason.startswith(FailureReason.SUBSUMED.value):
            kind = "subsumed"
        elif "are still being written" in reason:
            kind = "too early"  # MAX_WAITING_WRITES: writers that are slow decline, with or without faults
        self._world.outcome.faults[f"{kind} checkpoint"] += 1

    # ---- checks

    def _check_state(self, *, ended: bool = False) -> None:
        """I-1: the state is the fold of the input up to the position."""
        job = self._world.job
        if self._book.waiting:
            counted = job.counted(self._host) + self._book.waiting
            require(job.has_buckets or counted == self._position, f"I10: {counted} rows at {self._position}")
            self._world.outcome.faults["rows in flight"] += 1
            return
        wrong = list(job.wrong_state(self._host, job.truth(self._position, ended=ended or self._ended)))
        require(not wrong, f"I-1: at position {self._position}: {'; '.join(wrong)}")

    def _check_output(self, manifest: Manifest | None) -> None:
        """I-5: exactly the output of the last checkpoint is committed, unless a newer one is complete already."""
        ledger, job = self._world.ledger, self._world.job
        if manifest is None or ledger.newest is None or ledger.newest.checkpoint_id != manifest.checkpoint_id:
            return
        truth = job.truth(max(manifest.sources.batch_id, 0), ended=manifest.final)
        in_flight = any(snapshot.spool for snapshot in manifest.subtasks)
        wrong = list(job.wrong_output(truth, in_flight=in_flight))
        require(not wrong, f"I-5: after checkpoint {manifest.checkpoint_id}: {'; '.join(wrong)}")


def _cut(items: Iterable[EdgeBatch | Barrier], limit: int | None) -> Iterator[EdgeBatch | Barrier]:
    """The first items, and then the end of the connection."""
    for number, item in enumerate(items):
        if number == limit:
            raise ConnectionLostError("the task is lost")
        yield item
