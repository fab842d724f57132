"""One subtask: its operators, its state, and one epoch of work. Open this file first.

    begin → rows in, batch by batch → all barriers there (R8) → watermark, timers (R9) → pre-commit, seal (R12) → result

Nothing here knows Spark, sockets or processes: a TaskManager feeds it Arrow batches, the test harness plain objects.
Until `finish_epoch` everything an epoch changed can be undone by `roll_back`, which also makes the user's functions
anew (PROTOCOL R11).
"""

import os
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from penstock import failpoint
from penstock.clock import Clock, SystemClock
from penstock.codec.keys import KeyCodec
from penstock.errors import IncompatibleStateError, PenstockError, UnsupportedValueError, UserFunctionError
from penstock.graph.job_graph import EdgePlan, OperatorPlan, StageOutput, StagePlan
from penstock.model.ids import StageId, SubtaskId, Version
from penstock.model.key_groups import key_group_range
from penstock.model.row import row_class
from penstock.model.sink import SinkContext
from penstock.model.snapshot import BarrierFigures, Committable
from penstock.model.time import MAX_WATERMARK, MIN_WATERMARK, TimeDomain
from penstock.runtime.alignment import align, channel
from penstock.runtime.intake import Intake
from penstock.runtime.operators.batch import Batch, EdgeBatch
from penstock.runtime.operators.checkpointed_functions import initialize_function, snapshot_function, tell_function
from penstock.runtime.operators.function_context import OperatorContext, SubtaskInfo
from penstock.runtime.operators.operator_kinds import make_operator
from penstock.runtime.operators.record_operators import Operator, Timestamps
from penstock.runtime.operators.sink_operators import Collected, EpochSink, Printed, open_sink
from penstock.runtime.process.messages import Barrier, EpochHeader, SubtaskReport
from penstock.runtime.snapshots.spool import MAX_SPOOL_BYTES, Spool
from penstock.state.backend.backend_registry import make_backend
from penstock.state.backend.backend_settings import BackendSettings
from penstock.state.backend.keyed_backend import KeyedBackend
from penstock.state.operator.operator_states import OperatorStates

PACKAGE = str(Path(__file__).parent.parent) + os.sep
USER_ERRORS = (Exception, SystemExit)
"""A function that calls `exit` fails; it does not end the thread that would have to undo its epoch."""
OWN_WORDS = (IncompatibleStateError, UserFunctionError)
"""Errors that say all there is to say."""


class EdgeOutput(Protocol):
    """Takes what a subtask emits on one output edge, and gives it away at the end of the epoch."""

    def add(self, batch: Batch) -> None: ...
    def end(self, barrier: Barrier) -> Any: ...


@dataclass(frozen=True)
class SubtaskPlace:
    """Which subtask of which job this is."""

    job_id: str
    attempt: int
    stage: StagePlan
    index: int
    channels: dict[int, int] = field(default_factory=dict)
    """Input edge id -> number of upstream subtasks; edges from sources are not in it."""
    backend: BackendSettings = BackendSettings()
    folder: str = ""
    """Of this process, for what a backend or a spool keeps on disk."""
    max_spool_bytes: int = MAX_SPOOL_BYTES
    job_parameters: dict[str, str] = field(default_factory=dict)

    @property
    def id(self) -> SubtaskId:
        return SubtaskId(StageId(self.stage.id), self.index)

    @property
    def key_groups(self) -> tuple[int, int]:
        return key_group_range(self.stage.max_parallelism, self.stage.parallelism, self.index)


@dataclass
class EpochResult:
    """What an epoch did, before it has a version."""

    outputs: dict[int, Any]
    is_begun: bool = False
    """It has had rows."""
    rows_in: int = 0
    rows_out: int = 0
    untimed: int = 0
    """Rows of a source that were left out because they had no event time."""
    figures: BarrierFigures = BarrierFigures()
    committables: list[Committable] = field(default_factory=list)


class Subtask:
    """Operators, keyed state and sinks of one subtask. One epoch at a time, any thread."""

    def __init__(
        self, place: SubtaskPlace, new_output: Callable[[EdgePlan], EdgeOutput], clock: Clock | None = None
    ) -> None:
        self.place = place
        self._clock = clock or SystemClock()
        self.stage = place.stage
        self.watermark = MIN_WATERMARK
        self.max_timestamps: dict[str, int] = {}
        self.info = SubtaskInfo(
            self.stage.name,
            place.index,
            self.stage.parallelism,
            self.stage.max_parallelism,
            place.attempt,
            job_parameters=place.job_parameters,
        )
        self._new_output = new_output
        self.backends = {plan.uid: self._backend(plan) for plan in self.stage.operators if plan.keyed}
        self.operator_states = {plan.uid: self._states(plan) for plan in self.stage.operators if plan.kind != "sink"}
        self.spool = Spool(self.stage, Path(place.folder), place.max_spool_bytes)
        self._intake = Intake(self.spool, self._clock, self._take)
        self.restored_checkpoint: int | None = None
        """What the functions are told they were restored from."""
        self._consumers = _consumers(self.stage)
        self._rows_wanted = _rows_wanted(self.stage, self._consumers)
        self._own_time = _own_time(self.stage)
        self._watermarks: dict[int, int] = {}
        """Of every operator after the last finished epoch of this attempt."""
        self._operators: dict[int, Operator] = {}
        self._sinks: dict[int, EpochSink] = {}
        self._outputs: dict[int, list[tuple[int, EdgeOutput]]] = {}
        self._result = EpochResult({})
        self.figures = BarrierFigures()
        """Of the last finished epoch."""
        self._reached = MIN_WATERMARK
        self._waits = False
        """Rows of the epoch are left, here or before here."""
        self._seen: dict[str, int] = {}
        self._epoch = 0
        self._taken: dict[int, int] = {}
        """How many records each operator has had in the running epoch."""
        self._taken_bytes = 0
        self._begun: list[KeyedBackend | OperatorStates | EpochSink | Spool] = []
        """What the running epoch may have changed, so what `roll_back` takes back."""

    def _backend(self, plan: OperatorPlan) -> KeyedBackend:
        codec = KeyCodec(plan.key_types)
        place = self.place
        return make_backend(
            place.backend, plan.uid, codec, self.stage.max_parallelism, place.key_groups, Path(place.folder)
        )

    def _states(self, plan: OperatorPlan) -> OperatorStates:
        return OperatorStates(plan.uid, self.place.index, self.place.key_groups if plan.keyed else None)

    def open(self) -> None:
        """Make functions and sinks and let them fetch their state. After the state was restored."""
        self.open_functions()
        for position, plan in enumerate(self.stage.operators):
            if plan.kind == "sink" and position not in self._sinks:
                context = SinkContext(self.place.job_id, self.place.attempt, plan.uid, self.place.id, plan.input_type)
                self._sinks[position] = open_sink(plan, context)

    def open_functions(self) -> None:
        """Make the functions, without the sinks, which would begin to write."""
        for position, plan in enumerate(self.stage.operators):
            if plan.kind == "sink":
                continue
            operator: Operator = self._guard(plan, "when it was made", partial(self._new_operator, position))
            step = partial(initialize_function, operator.function, operator.context, self.restored_checkpoint)
            self._guard(plan, "in initialize_state()", step)
            self._guard(plan, "in open()", operator.open)
            self._operators[position] = operator

    def _new_operator(self, position: int) -> Operator:
        plan = self.stage.operators[position]
        context = OperatorContext(plan, self.info, self.backends.get(plan.uid), self.operator_states[plan.uid])
        operator = make_operator(plan, context)
        # After a restore what a generator of this stage had reached is not known: its watermark is not the input's.
        unknown = MIN_WATERMARK if position in self._own_time else self.watermark
        operator.watermark = self._watermarks.get(position, unknown)
        if isinstance(operator, Timestamps):
            operator.max_timestamp = self.max_timestamps.get(plan.uid, MIN_WATERMARK)
        return operator

    def close(self) -> None:
        """Let functions and sinks go; nothing becomes durable by it."""
        for position, operator in self._operators.items():
            self._guard(self.stage.operators[position], "in close()", operator.close)
        self._operators.clear()
        for sink in self._sinks.values():
            sink.close()
        self._sinks.clear()

    # ---- one epoch

    def run(
        self, header: EpochHeader, items: Iterable[EdgeBatch | Barrier], cancelled: Callable[[], bool]
    ) -> EpochResult:
        """Take the epoch's input to its end. Leaves the state changed; `finish_epoch` or `roll_back` must follow."""
        started_s, delay_ms = self._clock.monotonic_s(), max(0, self._clock.now_ms() - header.now_ms)
        self._begin(header)
        self.tell(header.completed, header.aborted)
        barriers = self._intake.run(header, items, cancelled)
        failpoint.before("C6")
        watermarks = align(self.stage, self.place.channels, header, barriers)
        failpoint.after("C6")
        alignment_ms = round(1000 * (self._clock.monotonic_s() - started_s))
        self._result.figures = BarrierFigures(delay_ms, alignment_ms, self._taken_bytes)
        self._waits = self.spool.rows > 0 or any(barrier.waiting for barrier in barriers)
        if self.spool.rows:  # PROTOCOL R13: event time waits for the rows that wait
            watermarks = dict.fromkeys(watermarks, MIN_WATERMARK)
        self._advance(header, watermarks)
        for operator in self._operators.values():
            step = partial(snapshot_function, operator.function, operator.context, header)
            self._guard(operator.plan, f"in snapshot_state() in epoch {header.epoch}", step)
        for backend in self.backends.values():
            backend.ttl.sweep(self.place.backend.ttl_sweep)
        if header.checkpoint is not None or header.commit_epoch or header.final:
            for sink in self._sinks.values():
                self._result.committables.extend(sink.pre_commit(header.epoch))
        self._end_outputs(header, watermarks)
        return self._result

    def finish_epoch(self) -> None:
        """The epoch has its version: what it changed can no longer be undone."""
        for backend in self.backends.values():
            backend.finish_epoch()
        for states in self.operator_states.values():
            states.finish_epoch()
        self.spool.finish_epoch()
        for operator in self._operators.values():
            if isinstance(operator, Timestamps):
                self._seen[operator.plan.uid] = operator.max_timestamp
        self.max_timestamps = dict(self._seen)
        self.watermark = self._reached
        self._watermarks = {position: operator.watermark for position, operator in self._operators.items()}
        self.figures = self._result.figures

    def roll_back(self) -> None:
        """As if the running epoch had not begun; the functions are new objects (PROTOCOL R11)."""
        for part in self._begun:
            part.roll_back()
        self._begun.clear()
        for operator in self._operators.values():
            with suppress(Exception):  # it is thrown away with whatever state it is in
                operator.close()
        self._operators.clear()
        self.open()

    def _begin(self, header: EpochHeader) -> None:
        self.info.now_ms = header.now_ms
        self._epoch = header.epoch
        self._seen = dict(self.max_timestamps)
        self._result = EpochResult({})
        self._taken.clear()
        self._taken_bytes = 0
        self._reached = self.watermark
        self._begun = []
        parts: list[KeyedBackend | OperatorStates | EpochSink | Spool] = [
            *self.backends.values(),
            *self.operator_states.values(),
            *self._sinks.values(),
            self.spool,
        ]
        for backend in self.backends.values():
            backend.ttl.clock.now_ms = header.now_ms
        for part in parts:
            part.begin_epoch()
            self._begun.append(part)
        self._outputs = {}
        for edge in self.stage.outputs:
            assert isinstance(edge.source, StageOutput)
            self._outputs.setdefault(edge.source.position, []).append((edge.id, self._new_output(edge)))

    def tell(self, completed: int | None, aborted: list[int]) -> None:
        """Let the functions know how checkpoints ended. On the epochs' thread, or when no epoch follows."""
        if completed is not None or aborted:
            for operator in self._operators.values():
                step = partial(tell_function, operator.function, completed, aborted)
                self._guard(operator.plan, "when it was told how a checkpoint ended,", step)

    def _take(self, item: EdgeBatch) -> None:
        """Work on rows of one input edge."""
        name = "C5" if self._result.is_begun else "C4"
        self._result.is_begun = True
        failpoint.before(name)
        if self.place.index == 0 or self.stage.inputs[item.edge].partitioning != "broadcast":
            self._result.rows_in += item.rows  # what all subtasks get is counted once
            self._result.untimed += item.dropped
        self._taken_bytes += item.columns.nbytes if item.columns is not None else 0
        self._track_source_time(item)
        self._emit(-1 - item.edge, item.batch)
        failpoint.after(name)

    def _track_source_time(self, item: EdgeBatch) -> None:
        for generator in self.stage.watermark_generators:
            if generator.position == -1 - item.edge and item.batch.timestamps:
                newest = max((t for t in item.batch.timestamps if t is not None), default=MIN_WATERMARK)
                known = self._seen.get(generator.uid, MIN_WATERMARK)
                self._seen[generator.uid] = max(known, newest)

    def _emit(self, position: int, batch: Batch) -> None:
        """Hand what a position produced to everything that reads it."""
        batch = self._named(position, batch)
        for _, output in self._outputs.get(position, ()):
            self._result.rows_out += len(batch)
            self._guard(self._producer(position), "in its output", partial(output.add, batch))
        consumers = self._consumers.get(position, ())
        if not consumers or not batch.records:
            return
        for consumer in consumers:
            sink = self._sinks.get(consumer)
            if sink is not None:
                self._result.rows_out += len(batch)
                self._write(sink, consumer, position, batch.records)
                continue
            emitted = self._process(consumer, position, batch)
            if emitted is not None:
                self._emit(consumer, emitted)

    def _write(self, sink: EpochSink, consumer: int, position: int, records: list[Any]) -> None:
        """Give records to a sink. A value that it cannot write is an error of the operator that made it."""
        plan = self.stage.operators[consumer]
        try:
            sink.write(records)
        except UnsupportedValueError as error:
            where = f"in its output to {plan.name!r} of subtask {self.place.id}"
            raise user_error(self._producer(position) or plan, where, error) from error
        except Exception as error:
            raise user_error(plan, f"in its sink of subtask {self.place.id}", error) from error

    def _named(self, position: int, batch: Batch) -> Batch:
        """Records of a declared row type as rows, so that the next function can say `record.field`."""
        plan = self._producer(position)
        if plan is None or not plan.output_type.names or position not in self._rows_wanted:
            return batch
        cls = row_class(plan.output_type.names)
        make = cls.make
        records = self._guard(
            plan, "in its output", lambda: [r if r.__class__ is cls else make(r) for r in batch.records]
        )
        return Batch(records, batch.timestamps)

    def _process(self, position: int, origin: int, batch: Batch) -> Batch | None:
        operator = self._operators[position]
        before = self._taken.get(position, 0)
        if batch.keys is not None and operator.plan.uid in self.backends:
            self.backends[operator.plan.uid].expect(batch.keys)
        try:
            emitted = operator.process_from(origin, batch)
        except OWN_WORDS:
            raise
        except USER_ERRORS as error:
            where = f"record {before + operator.position + 1} of epoch {self._epoch} in subtask {self.place.id}"
            raise user_error(operator.plan, where, error) from error
        self._taken[position] = before + len(batch)
        if operator.plan.keyed:
            self.backends[operator.plan.uid].ttl.after_records(len(batch))
        return emitted

    def _producer(self, position: int) -> OperatorPlan | None:
        return self.stage.operators[position] if position >= 0 else None

    def _guard(self, plan: OperatorPlan | None, where: str, step: Callable[[], Any]) -> Any:
        """Run a piece of the user's code; what it raises carries the operator's name."""
        try:
            return step()
        except OWN_WORDS:
            raise
        except USER_ERRORS as error:
            raise user_error(plan, f"{where} of subtask {self.place.id}", error) from error

    # ---- the end of an epoch

    def _advance(self, header: EpochHeader, watermarks: dict[int, int]) -> None:
        """Move the clocks of every operator in order; timers that are due fire and their output flows on."""
        for position, plan in enumerate(self.stage.operators):
            if plan.kind == "sink":
                continue
            operator = self._operators[position]
            reached = max(operator.watermark, min(watermarks[source] for source in plan.inputs))
            emitted = self._guard(
                plan, f"in on_timer() in epoch {header.epoch}", partial(operator.advance, reached, header.now_ms)
            )
            watermarks[position] = reached
            if isinstance(operator, Timestamps):
                watermarks[position] = self._made_watermark(header, plan.uid)
            if emitted is not None:
                self._emit(position, emitted)
        inputs = [watermarks[-1 - index] for index in range(len(self.stage.inputs))]
        self._reached = max(self.watermark, min(inputs))

    def _made_watermark(self, header: EpochHeader, uid: str) -> int:
        """Of a generator in the middle of the job: it has not seen the rows that wait before it (PROTOCOL R13)."""
        if self._waits:
            return MIN_WATERMARK
        return MAX_WATERMARK if header.ends_time else header.watermarks.get(uid, MIN_WATERMARK)

    def _end_outputs(self, header: EpochHeader, watermarks: dict[int, int]) -> None:
        for position, outputs in self._outputs.items():
            for edge_id, output in outputs:
                name = channel(edge_id, self.place.id)
                barrier = Barrier(header.epoch, header.checkpoint, name, watermarks[position], self._waits)
                self._result.outputs[edge_id] = output.end(barrier)

    def report(self, version: Version, result: EpochResult) -> SubtaskReport:
        """What the JobManager must know of a finished epoch."""
        printed = [line for sink in self._sinks.values() if isinstance(sink, Printed) for line in sink.lines]
        collected = [sink for sink in self._sinks.values() if isinstance(sink, Collected)]
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
            printed=printed,
            collected=[(sink.uid, data) for sink in collected for data in sink.payloads],
            untimed=result.untimed,
            waiting=self.spool.rows,
        )

    def next_timer(self, domain: TimeDomain) -> int | None:
        """When the next timer of this subtask is due; processing time also wants an epoch for the next TTL sweep."""
        services = [o.timers for o in self._operators.values() if o.timers is not None]
        pending = [service.next_timestamp(domain) for service in services]
        if domain is TimeDomain.PROCESSING_TIME:
            pending += [backend.ttl.next_sweep_ms(self.place.backend.ttl_sweep) for backend in self.backends.values()]
        return min((timestamp for timestamp in pending if timestamp is not None), default=None)


def user_error(plan: OperatorPlan | None, where: str, error: BaseException) -> UserFunctionError:
    """The user's own traceback, without our frames above and below it; of our own errors only what they say."""
    report = traceback.TracebackException.from_exception(error)
    frames = list(report.stack)
    own = [frame for frame in frames if not frame.filename.startswith(PACKAGE)]
    if own:
        report.stack = traceback.StackSummary.from_list(own)
    text = str(error) if isinstance(error, PenstockError) and not own else "".join(report.format(chain=True))
    return UserFunctionError(plan.name if plan else "key_by", where, text)


def _consumers(stage: StagePlan) -> dict[int, list[int]]:
    """Position -> the operators that read it."""
    consumers: dict[int, list[int]] = {}
    for index, plan in enumerate(stage.operators):
        for position in plan.inputs:
            consumers.setdefault(position, []).append(index)
    return consumers


def _own_time(stage: StagePlan) -> set[int]:
    """Positions of operators whose watermarks are made in this stage."""
    made: set[int] = set()
    for index, plan in enumerate(stage.operators):
        if any(
            position in made or stage.operators[position].kind == "timestamps"
            for position in plan.inputs
            if position >= 0
        ):
            made.add(index)
    return made


def _rows_wanted(stage: StagePlan, consumers: dict[int, list[int]]) -> set[int]:
    """Positions whose records are seen by a function or a person, not only by a codec."""
    read = {
        position
        for position, readers in consumers.items()
        if any(stage.operators[r].config.get("sink") != "sink" for r in readers)
    }
    selected = {
        edge.source.position
        for edge in stage.outputs
        if isinstance(edge.source, StageOutput) and edge.key_selector is not None
    }
    return read | selected
