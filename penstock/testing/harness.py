"""An in-process, deterministic engine for tests: the runtime and checkpoint code of a real job, without Spark.

    h = Harness.keyed(RunningTotal(), key=lambda r: r.customer)
    h.feed([order("ada", 2.0), CHECKPOINT, order("ada", 3.0), CRASH])
    assert h.output[-1] == ("ada", 5.0) and h.state("total", "ada") == 5.0

Records between two control items are one epoch (several with `seed=`). A crash loses every process: what comes back is
what the checkpoint storage holds, and the records behind it are replayed. An error of a function leaves `feed`; the
next call recovers as after a crash, so it meets the same record again. It is a test instrument, not an engine: one
thread, everything in memory, no exchange over a network.
"""

import uuid
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import msgspec

from penstock import failpoint
from penstock.checkpoint.checkpoint_settings import CheckpointSettings
from penstock.checkpoint.coordinator import CheckpointCoordinator
from penstock.checkpoint.log.entries import Status
from penstock.checkpoint.savepoint_request import SavepointRequest
from penstock.checkpoint.savepoints import SavepointPlace, Savepoints
from penstock.checkpoint.snapshot.manifest import load_manifest
from penstock.errors import (
    CheckpointCorruptError,
    CheckpointError,
    CheckpointMissingError,
    ConnectionLostError,
    StateLostError,
    UsageError,
)
from penstock.failpoint import InjectedCrash
from penstock.graph.creation_site import creation_site
from penstock.graph.execution_graph import assign_subtasks
from penstock.graph.job_graph import SIDE_OUTPUT, JobGraph
from penstock.jobmanager.attempt.attempt import Attempt, JobIdentity
from penstock.jobmanager.attempt.deploy_orders import deploy_orders
from penstock.jobmanager.attempt.epoch_tracker import AttemptState, EpochTracker
from penstock.jobmanager.attempt.recovery import RecoveryOptions, begin_attempt, note_damage, start_attempt
from penstock.jobmanager.attempt.sink_committer import GraphCommitter
from penstock.jobmanager.job_savepoints import JobSavepoints, published_stop
from penstock.model.execution import CheckpointingMode
from penstock.model.ids import StageId, SubtaskId, Version
from penstock.model.output_tag import OutputTag
from penstock.model.snapshot import CheckpointAck, CheckpointDecline, Manifest, SavepointEvent, SourcePosition
from penstock.runtime.ownership import Kept
from penstock.runtime.process.messages import EpochHeader, SubtaskReport, TaskHeader
from penstock.runtime.process.subtask_host import HostPlace, SubtaskHost
from penstock.runtime.snapshots.local_copies import LocalCopies
from penstock.runtime.task import Subtask
from penstock.state.backend.backend_registry import find_backend
from penstock.state.backend.backend_settings import BackendSettings
from penstock.testing.graphs import FUNCTION_UID, FunctionProgram, function_graph
from penstock.testing.harness_exchange import Exchange, ObjectOutput, StageFeed, cut
from penstock.testing.harness_folder import close_processes, fast_folder, remove_folder
from penstock.testing.harness_input import CHECKPOINT, CRASH, Advance, HarnessInput, Watermark
from penstock.testing.harness_options import JOB_ID, HarnessOptions, check_settings
from penstock.testing.restored_operator import with_restored_operator
from penstock.testing.state_reader import backends_of, find_state, list_keys, metrics_of


class Harness:
    """Runs a job graph in this process. `feed` it, look at `output` and `state`."""

    def __init__(self, graph: JobGraph, options: HarnessOptions | None = None) -> None:
        self.options = options or HarnessOptions()
        self.clock = self.options.clock
        self.storage = self.options.storage
        self._graph = graph
        self._program: FunctionProgram | None = None
        self._exchange = Exchange(graph)
        self._folder = fast_folder() / f"penstock-harness-{uuid.uuid4().hex}"
        """Made when a backend needs it, gone with the harness."""
        self._subtasks: list[Subtask] = []
        """Of the processes that run now."""
        weakref.finalize(self, remove_folder, self._subtasks, self._folder)
        self._input = HarnessInput(self.options.seed)
        self._outputs: list[tuple[int, list[tuple[str, Any]]]] = []
        self._running = False
        self._ended = False
        self._attempts = 0
        self._task_attempts = 0
        self._damaged: dict[int, CheckpointError] = {}
        self._job_savepoints = JobSavepoints(None)
        self.crashes = 0
        self.lost_tasks = 0
        self._survive(lambda: None)

    @classmethod
    def keyed(cls, function: Any, key: Callable[[Any], Any], **settings: Any) -> "Harness":
        """A harness around one function on a keyed stream.

        Args:
            function: What a keyed stream takes, or `CEP.function(…)`, or `spark_processor(…)`. With between=, a
                ProcessJoinFunction. With window=, what a windowed stream takes, or a JoinFunction, FlatJoinFunction or
                CoGroupFunction.
            key: The key of a record.
            settings: parallelism=, max_parallelism=, key_type=, timestamp= (a record's event time), sink=, sink_type=,
                backend=, broadcast= (descriptors of the states of a second stream, fed as `Broadcast(record)`),
                second_key= and second_timestamp= (of records of the second of two streams, fed as `Second(record)`; as
                those of the first if not given), record_type=, second_type= (of records that windows, joins, `reduce`
                and async calls keep; record_type= also of the columns that a BatchProcessFunction gets, output_type= of
                those it returns), side_outputs= (tags for `side_output`), window= (an assigner) with trigger=,
                allowed_lateness=, late_data= (a tag), window_function= and accumulator_type=, runtime_mode= (with BATCH
                everything is processed by `finish`), restore_from= (the path of a savepoint or checkpoint whose state
                the function starts with) and uid= (of its operator there, if several have state), seed=, clock=,
                storage=, limits=, local=, mode=, crashed=, retained=, allow_fallback=, warn=, job_parameters=.
        """
        return cls._around(function, {**settings, "key": key})

    @classmethod
    def non_keyed(cls, function: Any, **settings: Any) -> "Harness":
        """A harness around one function on a stream without a key, with the same settings but the key's.

        An AsyncFunctionDescriptor calls an AsyncFunction; `async_wait_ms=` is `penstock.async.wait`."""
        if "key" in settings:
            raise UsageError("non_keyed() takes no key=; use Harness.keyed(function, key=...)")
        return cls._around(function, settings)

    @classmethod
    def _around(cls, function: Any, settings: dict[str, Any]) -> "Harness":
        check_settings(settings, FunctionProgram)
        settings = with_restored_operator(settings)
        program = {name: settings.pop(name) for name in list(settings) if name in FunctionProgram.__dataclass_fields__}
        backend = settings.pop("backend", "hashmap")
        chosen = backend if isinstance(backend, BackendSettings) else BackendSettings(find_backend(backend)())
        around = FunctionProgram(function, **program, created=creation_site())
        harness = cls(function_graph(around), HarnessOptions(backend=chosen, **settings))
        harness._program = around
        return harness

    # ---- what a test does

    def feed(self, items: Iterable[Any]) -> "Harness":
        """Take records and control items, in order. Injected crashes are survived as real ones are."""
        if not isinstance(items, Iterable):
            raise UsageError(f"feed() takes a list of records and control items, not {items!r}; write feed([...])")
        self._input.extend(items)
        self._survive(self._consume)
        return self

    def finish(self) -> "Harness":
        """The input has ended: the last watermark, the last checkpoint, the functions' `close`."""
        self._survive(self._finish)
        return self

    def run_empty_epochs(self, count: int) -> "Harness":
        """Let epochs without records pass, as an idle job does for its timers."""
        for _ in range(count):
            self._survive(self._run_empty_epoch)
        return self

    def savepoint(self, target: str | Path, **options: Any) -> str:
        """Take a savepoint below a folder; its path. `format=`, `then=` (go_on, stop, cancel) and `drain=` as of a job.

        Raises CheckpointFailedError if there is none.
        """
        request = SavepointRequest(str(target), **options)
        self._survive(lambda: self._take_savepoint(request))
        return request.future.result(0)

    def crash(self) -> "Harness":
        """Lose every process, recover from the storage and replay what lies behind it."""
        self._lose_processes()
        self._survive(self._consume)
        return self

    def rescale(self, parallelism: int, max_parallelism: int | None = None) -> "Harness":
        """End every process and recover with another parallelism; what lies behind the checkpoint is replayed."""
        if self._program is None:
            raise UsageError("a harness around a job graph keeps its parallelism; make it with keyed() or non_keyed()")
        groups = max_parallelism or self._program.max_parallelism
        self._program = replace(self._program, parallelism=parallelism, max_parallelism=groups)
        self._graph = function_graph(self._program)
        self._exchange = Exchange(self._graph)
        self._running = False
        self._survive(self._consume)
        return self

    @property
    def output(self) -> list[Any]:
        """What the job emitted, on its current line: output that a crash undid is not in it."""
        return self._emitted("")

    def side_output(self, tag: OutputTag) -> list[Any]:
        """The records of a side output; the tag is one of `side_outputs=`, or the program reads it."""
        known = {o.config["tag"] for stage in self._graph.stages for o in stage.operators if o.kind == SIDE_OUTPUT}
        if tag.tag_id not in known:
            raise UsageError(f"nothing reads {tag}; name it in side_outputs=[{tag.tag_id}]")
        return self._emitted(tag.tag_id)

    def _emitted(self, tag_id: str) -> list[Any]:
        return [record for _, records in self._outputs for tag, record in records if tag == tag_id]

    @property
    def manifest(self) -> Manifest | None:
        """The newest completed checkpoint."""
        line = self._attempt.log.view().lineage
        return load_manifest(self.storage, line[-1]) if line else None

    @property
    def attempt(self) -> int:
        """The number of the attempt that runs."""
        return self._attempt.number

    def state(self, name: str, key: Any, uid: str | None = None, *, namespace: Any = None) -> Any:
        """The value of a state for a key, in a namespace if it has any: a value, a list, a dict, or None."""
        return find_state(backends_of(self._host, uid or self._uid), name, key, namespace)

    def keys(self, name: str, uid: str | None = None) -> list[Any]:
        """The keys that have a value, a list or entries in a state, in no particular order."""
        return [key for backend in backends_of(self._host, uid or self._uid) for key in list_keys(backend, name)]

    def operator_state(self, name: str, uid: str | None = None, *, broadcast: bool = False) -> list[Any]:
        """An operator state of every subtask, by index: lists, or dictionaries of broadcast state."""
        uid = uid or self._uid
        owned = sorted(self._host.subtasks(), key=lambda subtask: subtask.place.index)
        found = [subtask.operator_states[uid] for subtask in owned if uid in subtask.operator_states]
        return [states.content(name, broadcast=broadcast) for states in found]

    @property
    def _uid(self) -> str:
        """Of the function's operator."""
        return self._program.uid if self._program is not None else FUNCTION_UID

    # ---- attempts

    def _survive(self, step: Callable[[], None]) -> None:
        """Do a step; whenever it crashes, recover and go on from what is stored."""
        while True:
            try:
                if not self._running:
                    self._start()
                    self._running = True
                step()
                return
            except (InjectedCrash, StateLostError):
                self._lose_processes()
            except BaseException:
                self._running = False  # the attempt is over: the next step begins another
                raise

    def _lose_processes(self) -> None:
        self._running = False
        self.crashes += 1
        self.options.crashed()

    def _start(self) -> None:
        """A new attempt from whatever the storage holds (PROTOCOL section 5)."""
        failpoint.set_role("driver")
        identity = JobIdentity(JOB_ID, "harness", "harness")
        options = RecoveryOptions(
            CheckpointSettings(interval_ms=None, retained=self.options.retained, mode=self.options.mode),
            self.options.allow_fallback,
            reopen=True,
            warn=self.options.warn,
            damaged=self._damaged,
            start=self.options.start,
            last_attempt=self._attempts,
        )
        self._job_savepoints.detach()
        storage = None if self._graph.batch else self.storage
        self._attempt: Attempt = begin_attempt(identity, self._graph, storage, options, self, self.clock)
        # In batch mode it is one that does nothing.
        self._coordinator = cast(CheckpointCoordinator, self._attempt.coordinator)
        self._attempts = self._attempt.number
        manifest = self._attempt.manifest
        try:
            start_attempt(rewind_sources=self._rewind, load_state=self._deploy, start_query=lambda: None)
        except (CheckpointCorruptError, CheckpointMissingError) as error:
            note_damage(self._attempt, error, self._damaged)
            return self._start()  # PROTOCOL R24: from an older checkpoint, or refused
        self._ended = (manifest is not None and manifest.final) or published_stop(self._attempt.log) is not None
        if self._coordinator.needs_first_checkpoint:
            self._coordinator.first_checkpoint(SourcePosition(-1, None, ["source"]))

    def _rewind(self) -> None:
        """Replay the records after the restored position, without the output that the crash undid."""
        origin = self._attempt.origin
        is_own = origin.manifest is not None and origin.snapshot is None
        self._input.position = max(0, origin.manifest.sources.batch_id) if origin.manifest is not None and is_own else 0
        self._outputs = [item for item in self._outputs if item[0] <= origin.epoch]

    def _deploy(self) -> None:
        failpoint.before("C2")
        failpoint.set_role("tm")
        place = HostPlace(
            JOB_ID,
            self._attempt.number,
            ObjectOutput,
            self._graph.channel_counts,
            self.options.backend,
            str(self._folder),
            self.options.limits,
            copies=LocalCopies(self.options.local, JOB_ID, self.clock),
            job_parameters=self.options.job_parameters,
        )
        close_processes(self._subtasks)
        limits = self.options.limits
        in_manifest = limits is not None and limits.max_state_bytes is not None
        self._host = SubtaskHost(place, None if in_manifest else self.storage, self, self.clock)
        execution = assign_subtasks(self._graph, ["tm"])
        deploy = deploy_orders(execution, self._attempt.origin, b"")["tm"]
        try:
            deployed = self._host.deploy({stage.id: stage for stage in self._graph.stages}, deploy)
            self.restored = deployed.restored
        finally:
            self._subtasks.extend(self._host.subtasks())
        failpoint.set_role("driver")
        failpoint.after("C2")
        versions: dict[SubtaskId, Version] = dict(deployed.versions)
        state = AttemptState.of(JOB_ID, self._attempt.number, versions, self._attempt.manifest)
        is_held = self.options.mode is CheckpointingMode.EXACTLY_ONCE and not self._graph.batch
        committer = None if is_held else GraphCommitter.of(JOB_ID, self._graph, None)
        attempt = self._attempt
        self._savepoints = Savepoints(
            SavepointPlace(attempt.writer, in_manifest), self.clock, attempt.log, self._coordinator
        )
        self._book = EpochTracker(self._graph, state, self._coordinator, self._savepoints, self.clock, committer)
        self._book.restored(deployed)
        self._job_savepoints.attach(self._savepoints, self._attempt.log)

    def _take_savepoint(self, request: SavepointRequest) -> None:
        """After a crash a stop goes on by itself (PROTOCOL R30); any other savepoint has failed by then."""
        self._consume()
        if request.future.done() or self._ended:
            return
        if self._savepoints.due() is None:
            self._savepoints.request(request)
        self._epoch([], forced=False, savepoint=True)
        self._ended = self._savepoints.stopped is not None

    # ---- input

    def _consume(self) -> None:
        """Work through the items behind the position; control items before it have had their effect."""
        if self._graph.batch:
            return  # batch mode reads its input when all of it is there
        while not self._input.is_read:
            if self._ended:
                raise UsageError("the input has ended: nothing can be fed after finish()")
            self._work_off_spools()
            records, control = self._input.read()
            if records or control is CHECKPOINT or isinstance(control, (Watermark, Advance)):
                self._segment(records, control)
            if control is CRASH:
                self._input.pass_by()
                raise InjectedCrash("CRASH")
        self._work_off_spools()
        while not self._ended and self._book.timers_due():  # overdue since a restore, or by another timer
            self._run_empty_epoch()
            self._work_off_spools()

    def _work_off_spools(self) -> None:
        """PROTOCOL R13: while rows wait in the subtasks, epochs go on without new ones."""
        while not self._ended and self._book.waiting:
            self._run_empty_epoch()

    def _segment(self, records: list[Any], control: Any) -> None:
        if isinstance(control, Watermark):
            for source in self._graph.sources:
                self._book.set_source_watermark(source.id, control.timestamp)
        if isinstance(control, Advance):
            self._input.pass_by()
            self.clock.advance(control.milliseconds)
        self._epoch(records, forced=control is CHECKPOINT)

    def _finish(self) -> None:
        self._consume()
        failpoint.set_role("driver")
        if not self._ended:
            failpoint.before("C29")
            self._epoch(self._input.read_batch() if self._graph.batch else [], forced=True, final=True)
            failpoint.after("C29")
            self._ended = True
            completed, aborted = self._book.unannounced_checkpoints()
            self._host.notify(completed.checkpoint_id if completed is not None else None, aborted)
        if not self._graph.batch:
            self._coordinator.finish(Status("finished"), keep_checkpoints=True)
        self._host.close()

    def _run_empty_epoch(self) -> None:
        self._epoch([], forced=False)

    # ---- one epoch

    def _epoch(self, records: Sequence[Any], *, forced: bool, final: bool = False, savepoint: bool = False) -> None:
        header = self._book.begin(final=final, forced=forced, savepoint=savepoint)
        if not final and header.savepoint is None:
            header = msgspec.structs.replace(header, spool_after_ms=self.options.spool_after())
        kept = self._run_stages(header, records)
        if self._graph.batch and self._input.take_crash():
            raise InjectedCrash("CRASH")
        position = SourcePosition(self._input.position, None, ["source"])
        self._book.commit(header, position)
        if kept:
            self._outputs.append((header.epoch, kept))
        if header.checkpoint is not None:
            self._write_snapshots()
            failpoint.set_role("driver")
            for _ in range(2):  # a drain's checkpoint waits for its savepoint to be written
                self._coordinator.complete_ready()
                self._savepoints.advance()

    def _run_stages(self, header: EpochHeader, records: Sequence[Any]) -> list[tuple[str, Any]]:
        feed = self._exchange.feed(header, records)
        for stage in self._graph.stages:
            for index in range(stage.parallelism):
                subtask = SubtaskId(StageId(stage.id), index)
                feed.add(self._run_task(subtask, feed, 0).output)
        failpoint.set_role("driver")
        return feed.results()

    def _run_task(self, subtask: SubtaskId, feed: StageFeed, tries: int) -> Kept:
        """What a Spark task does in a real job: it brings the rows to the owner and waits for the end."""
        self._task_attempts += 1
        task = TaskHeader("", subtask, self._book.parents[subtask], "end", self._task_attempts, None, feed.header)
        failpoint.set_role("task")
        failpoint.before("C3")
        admitted = self._host.admit(task)
        failpoint.after("C3")
        failpoint.set_role("tm")
        items = cut(feed.items(subtask), self.options.lost_after(tries))
        try:
            kept = admitted if isinstance(admitted, Kept) else self._host.execute(task, admitted, items)
        except ConnectionLostError:
            self.lost_tasks += 1
            return self._run_task(subtask, feed, tries + 1)
        failpoint.set_role("task")
        failpoint.before("C11")
        failpoint.after("C11")
        return kept

    def _write_snapshots(self) -> None:
        failpoint.set_role("tm")
        while self._host.write_next() or self._host.write_next_savepoint():
            continue

    def metrics(self) -> dict[str, Any]:
        """Metrics of functions since the last crash, by name: counts, dicts of distributions, gauges by subtask."""
        return metrics_of(self._subtasks)

    # ---- called by the host and the coordinator

    def report(self, report: SubtaskReport) -> None:
        self._book.report(report)

    def ack(self, ack: CheckpointAck) -> None:
        self._coordinator.ack(ack)

    def decline(self, decline: CheckpointDecline) -> None:
        self._coordinator.decline(decline)

    def savepoint_event(self, event: SavepointEvent) -> None:
        self._savepoints.receive(event)

    def completed(self, checkpoint: int) -> None:
        """A checkpoint is complete."""

    def aborted(self, checkpoint: int, reason: str) -> None:
        """A checkpoint was given up."""
