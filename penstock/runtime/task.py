"""One subtask and one epoch of its work. Open this file first.

    begin → rows in, batch by batch → all barriers there (R8) → watermark, timers (R9) → pre-commit, seal (R12) → result

`Subtask.run` is that line, step by step. Records travel through the operators in `operator_chain`, rows come in through
`intake`, barriers are matched in `alignment`; who may run an epoch at all is decided in `ownership`.

Nothing here knows Spark, sockets or processes: a TaskManager feeds it Arrow batches, the test harness plain objects.
Until `finish_epoch` everything an epoch changed can be undone by `roll_back`, which also replaces the user's functions
by new objects (PROTOCOL R11).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from penstock import failpoint
from penstock.clock import Clock, SystemClock
from penstock.codec.keys import KeyCodec
from penstock.errors import StateAccessError
from penstock.graph.job_graph import EdgePlan, OperatorPlan, partition_key
from penstock.model.ids import Version
from penstock.model.snapshot import BarrierFigures, Committable
from penstock.model.subtask_work import SubtaskWork
from penstock.model.time import IDLE_WATERMARK, MIN_WATERMARK, TimeDomain
from penstock.runtime.alignment import align
from penstock.runtime.exchange_rows import newest_by_partition
from penstock.runtime.intake import Intake
from penstock.runtime.operator_chain import EdgeOutput, OperatorChain
from penstock.runtime.operators.batch import EdgeBatch
from penstock.runtime.operators.function_context import SubtaskInfo
from penstock.runtime.process.messages import (
    Barrier,
    EpochHeader,
    LiveState,
    ReadState,
    StateValues,
    SubtaskReport,
    SubtaskRows,
)
from penstock.runtime.snapshots.spool import Spool
from penstock.runtime.sorted_keys import SortedKeys
from penstock.runtime.state_reads import ReadGate, declared_states, read_state
from penstock.runtime.subtask_place import SubtaskPlace
from penstock.runtime.work_times import WorkTimes
from penstock.state.backend.backend_place import BackendPlace
from penstock.state.backend.keyed_backend import KeyedBackend
from penstock.state.heap.hashmap_spec import HashMapSpec
from penstock.state.operator.operator_states import OperatorStates


@dataclass
class EpochResult:
    """What an epoch did, before it has a version."""

    outputs: dict[int, Any] = field(default_factory=dict)
    """By edge id."""
    has_rows: bool = False
    rows_in: int = 0
    rows_out: int = 0
    untimed: int = 0
    """Rows of a source that were dropped because they had no event time."""
    late: int = 0
    """Records that windows have dropped because they came too late."""
    inputs: dict[int, int] = field(default_factory=dict)
    """Rows by input edge, also those that all subtasks get."""
    processed_bytes: int = 0
    figures: BarrierFigures = BarrierFigures()
    committables: list[Committable] = field(default_factory=list)


class EpochState(Protocol):
    """What an epoch changes and `roll_back` undoes: backends, operator states, sinks, the spool."""

    def begin_epoch(self) -> None: ...
    def roll_back(self) -> None: ...


class Subtask:
    """Operators, state and sinks of one subtask. One epoch at a time, any thread."""

    def __init__(
        self, place: SubtaskPlace, new_output: Callable[[EdgePlan], EdgeOutput], clock: Clock | None = None
    ) -> None:
        self.place = place
        self.stage = place.stage
        self._clock = clock or SystemClock()
        self.watermark = MIN_WATERMARK
        self.max_timestamps: dict[str, int] = {}
        """The greatest timestamp that each watermark generator of this stage has seen."""
        self.figures = BarrierFigures()
        """Of the last finished epoch."""
        self.restored_checkpoint: int | None = None
        """The checkpoint that functions see as the one they were restored from."""
        self.info = SubtaskInfo(
            self.stage.name,
            place.index,
            self.stage.parallelism,
            self.stage.max_parallelism,
            place.attempt,
            job_parameters=place.job_parameters,
        )
        self.backends = {plan.uid: self._backend(plan) for plan in self.stage.operators if plan.keyed}
        self.operator_states = {plan.uid: self._states(plan) for plan in self.stage.operators if plan.kind != "sink"}
        self.spool = Spool(self.stage, Path(place.folder), place.max_spool_bytes)
        self._intake = Intake(self.spool, self._clock, self._process)
        self.times = WorkTimes(self._clock)
        self._chain = OperatorChain(place, self.info, self.backends, self.operator_states, new_output, self.times)
        self._sorted = SortedKeys(self._chain, self.backends) if self.stage.batch and self.stage.keyed else None
        """In batch mode: the records of one key after the other."""
        self._result = EpochResult()
        self._epoch = 0
        """Of `_result`."""
        self._reached = MIN_WATERMARK
        """What `watermark` becomes when the running epoch finishes."""
        self._seen: dict[str, int] = {}
        """What `max_timestamps` becomes when the running epoch finishes."""
        self._begun: list[EpochState] = []
        """What the running epoch may have changed, and `roll_back` undoes."""
        self.reads = ReadGate()
        self._finished = 0
        """The last finished epoch."""

    def _backend(self, plan: OperatorPlan) -> KeyedBackend:
        place = self.place
        codec, groups = KeyCodec(plan.key_types), self.stage.max_parallelism
        spec = HashMapSpec() if self.stage.batch else place.backend.spec  # batch mode holds one key at a time
        return spec.open(
            BackendPlace(plan.uid, codec, groups, place.key_groups, Path(place.folder), place.backend.incremental)
        )

    def _states(self, plan: OperatorPlan) -> OperatorStates:
        return OperatorStates(plan.uid, self.place.index, self.place.key_groups if plan.keyed else None)

    def open(self) -> None:
        """Make functions and sinks and let them fetch their state. After the state was restored."""
        self._chain.open(self.watermark, self.max_timestamps, self.restored_checkpoint)

    def open_functions(self) -> None:
        """Make the functions without the sinks, which would begin to write."""
        self._chain.open_functions(self.watermark, self.max_timestamps, self.restored_checkpoint)

    def close(self) -> None:
        """Close functions and sinks; nothing becomes durable by it. Queries do not read a state that is closed next."""
        self.reads.close()
        self._chain.close()

    def abandon(self) -> None:
        """The process is lost: end the threads of operators, without a call of the user's code."""
        self._chain.abandon()

    # ---- one epoch

    def run(
        self, header: EpochHeader, items: Iterable[EdgeBatch | Barrier], cancelled: Callable[[], bool]
    ) -> EpochResult:
        """Process the epoch's input to its end. Leaves the state changed; `finish_epoch` or `roll_back` must follow."""
        started_s, delay_ms = self._clock.monotonic_s(), max(0, self._clock.now_ms() - header.now_ms)
        self._begin(header)
        self.info.is_cancelled = cancelled
        self.notify(header.completed, header.aborted)
        barriers = self._intake.run(header, items, cancelled)
        if self._sorted is not None:
            self._sorted.end_key()
        failpoint.before("C6")
        watermarks = align(self.stage, self.place.channels, header, barriers)
        failpoint.after("C6")
        alignment_ms = round(1000 * (self._clock.monotonic_s() - started_s))
        self._result.figures = BarrierFigures(delay_ms, alignment_ms, self._result.processed_bytes)
        waits = self.spool.rows > 0 or any(barrier.waiting for barrier in barriers)
        if self.spool.rows:  # PROTOCOL R13: event time waits for the rows that wait
            watermarks = dict.fromkeys(watermarks, MIN_WATERMARK)
        lowest = min(watermarks.values())
        self._reached = self.watermark if lowest == IDLE_WATERMARK else max(self.watermark, lowest)
        self._chain.advance(header, watermarks, waits=waits)
        with self.times.measured("sealing"):
            self._chain.snapshot_functions(header)
        with self.times.measured("state"):
            for backend in self.backends.values():
                backend.ttl.sweep(self.place.backend.ttl_sweep)
        if header.checkpoint is not None or header.commit_epoch or header.final:
            with self.times.measured("sealing"):
                self._result.committables = self._chain.pre_commit(header.epoch)
        self._result.outputs = self._chain.end_outputs(header, watermarks, waits=waits)
        self._result.rows_out = self._chain.rows_out
        self._result.late = self._chain.late_records
        return self._result

    def _begin(self, header: EpochHeader) -> None:
        self.times.begin()
        self.info.now_ms = header.now_ms
        self.info.ends_time = header.ends_time
        self._result = EpochResult()
        self._epoch = header.epoch  # after its result: see `rows_so_far`
        self._seen = dict(self.max_timestamps)
        self._reached = self.watermark
        for backend in self.backends.values():
            backend.ttl.clock.now_ms = header.now_ms
        self._begun = []
        parts: list[EpochState] = [*self.backends.values(), *self.operator_states.values()]
        with self.reads.moving(before=self._finished, current=None):
            for part in (*parts, *self._chain.sinks, self.spool):
                part.begin_epoch()
                self._begun.append(part)
        self._chain.begin_epoch(header.epoch)
        if self._sorted is not None:
            self._sorted.begin_epoch()

    def _process(self, item: EdgeBatch) -> None:
        """Process rows of one input edge."""
        result = self._result
        name = "C5" if result.has_rows else "C4"
        result.has_rows = True
        failpoint.before(name)
        if self.place.index == 0 or self.stage.inputs[item.edge].partitioning != "broadcast":
            result.rows_in += item.rows  # what all subtasks get is counted once
            result.untimed += item.dropped
        result.inputs[item.edge] = result.inputs.get(item.edge, 0) + item.rows
        result.processed_bytes += item.columns.nbytes if item.columns is not None else 0
        self._track_source_time(item)
        if self._sorted is not None and self.stage.inputs[item.edge].partitioning != "broadcast":
            self._sorted.process(-1 - item.edge, item.batch)
        else:
            self._chain.emit(-1 - item.edge, item.batch)
        failpoint.after(name)

    def _track_source_time(self, item: EdgeBatch) -> None:
        for generator in self.stage.watermark_generators:
            if generator.position == -1 - item.edge and generator.by_partition:
                for partition, newest in newest_by_partition(item.columns):
                    self._see(partition_key(generator.uid, partition), newest)
            elif generator.position == -1 - item.edge:
                newest_time = item.batch.newest_timestamp()
                if newest_time is not None:
                    self._see(generator.uid, newest_time)

    def _see(self, key: str, timestamp: int) -> None:
        self._seen[key] = max(self._seen.get(key, MIN_WATERMARK), timestamp)

    def finish_epoch(self) -> None:
        """The epoch has its version: what it changed can no longer be undone."""
        with self.times.measured("state"):
            with self.reads.moving(before=self._finished, current=self._epoch):
                for backend in self.backends.values():
                    backend.finish_epoch()
            self._finished = self._epoch
            for states in self.operator_states.values():
                states.finish_epoch()
            self.spool.finish_epoch()
        self._chain.finish_epoch()
        self.info.metrics.finish_epoch()
        self.max_timestamps = {**self._seen, **self._chain.max_timestamps}
        self.watermark = self._reached
        self.figures = self._result.figures

    def roll_back(self) -> None:
        """Undo the running epoch; the functions are new objects afterwards (PROTOCOL R11)."""
        with self.reads.moving(before=None, current=self._finished):
            for part in self._begun:
                part.roll_back()
        self._begun.clear()
        self.info.metrics.roll_back()
        self._result = EpochResult()
        self._chain.discard_functions()
        self.open()

    # ---- beside epochs

    def restored(self, epoch: int) -> None:
        """The state is loaded, and is that of the end of this epoch."""
        with self.reads.moving(before=None, current=epoch):
            self._finished = epoch

    def states(self) -> list[LiveState]:
        """The keyed states that functions have declared; from any thread."""
        return declared_states(list(self.backends.values()))

    def read(self, request: ReadState) -> StateValues:
        """The answer to a query of live state; from any thread, also while an epoch runs."""
        backend = self.backends.get(request.operator)
        if backend is None or self.stage.batch:
            raise StateAccessError(f"there is no operator {request.operator!r} with keyed state that can be queried")
        now_ms = max(self._clock.now_ms(), backend.ttl.clock.now_ms)
        return read_state(backend, self.reads, request, now_ms)

    def rows_so_far(self) -> SubtaskRows:
        """The rows that the newest epoch has processed; from any thread, also while the epoch runs."""
        epoch = self._epoch  # first: an epoch that begins now is never shown with the rows of the one before
        return SubtaskRows(self.place.id, epoch, self._result.rows_in)

    def notify(self, completed: int | None, aborted: list[int]) -> None:
        """Notify the functions of ended checkpoints. On the epochs' thread, or when no epoch follows."""
        self._chain.notify(completed, aborted)

    def report(self, version: Version, result: EpochResult) -> SubtaskReport:
        """What the JobManager must know of a finished epoch."""
        return SubtaskReport(
            subtask=self.place.id,
            epoch=version.epoch,
            version=version,
            rows_in=result.rows_in,
            rows_out=result.rows_out,
            watermark=self.watermark,
            committables=result.committables,
            max_timestamps=dict(self.max_timestamps),
            next_event_timer=self.next_timer(TimeDomain.EVENT_TIME),
            next_processing_timer=self.next_timer(TimeDomain.PROCESSING_TIME),
            printed=self._chain.printed,
            collected=self._chain.collected,
            untimed=result.untimed,
            waiting=self.spool.rows,
            late=result.late,
            metrics=self.info.metrics.changes(),
            work=self._work(result),
        )

    def _work(self, result: EpochResult) -> SubtaskWork:
        inputs = [result.inputs.get(edge, 0) for edge in range(len(self.stage.inputs))]
        return SubtaskWork(self.times.began_ms, *self.times.microseconds(), inputs, self._chain.operator_rows)

    def next_timer(self, domain: TimeDomain) -> int | None:
        """When the next timer of this subtask is due; in processing time also the next TTL sweep."""
        due = [self._chain.next_timer(domain)]
        if domain is TimeDomain.PROCESSING_TIME:
            due += [backend.ttl.next_sweep_ms(self.place.backend.ttl_sweep) for backend in self.backends.values()]
        return min((timestamp for timestamp in due if timestamp is not None), default=None)
