"""The operators and sinks of one subtask, and how records and watermarks travel through them.

A batch enters at an input position (below 0). Every operator that reads the position processes it; what the operator
emits goes on from its own position to further operators, to sinks and to output edges. `graph.job_graph` explains
positions.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from penstock.codec.record_rows import to_rows
from penstock.errors import StateAccessError, UnsupportedValueError
from penstock.graph.job_graph import COLUMN_KINDS, SIDE_OUTPUT, EdgePlan, OperatorPlan, StageOutput, StagePlan
from penstock.model.output_tag import TagUse
from penstock.model.sink import SinkContext
from penstock.model.snapshot import Committable
from penstock.model.subtask_work import PassedRows
from penstock.model.time import IDLE_WATERMARK, MIN_WATERMARK, TimeDomain
from penstock.runtime.alignment import channel, generated_watermark
from penstock.runtime.operators.batch import Batch
from penstock.runtime.operators.checkpointed_functions import (
    initialize_functions,
    notify_functions,
    snapshot_functions,
)
from penstock.runtime.operators.function_context import OperatorContext, SubtaskInfo
from penstock.runtime.operators.held_output import HeldOutput
from penstock.runtime.operators.operator_kinds import make_operator
from penstock.runtime.operators.record_operators import Operator, Timestamps
from penstock.runtime.operators.side_outputs import PASS_ON, split_tagged
from penstock.runtime.operators.sink_operators import (
    Collected,
    EpochSink,
    Printed,
    open_sink,
    write_batch,
)
from penstock.runtime.process.messages import Barrier, EpochHeader
from penstock.runtime.subtask_place import SubtaskPlace
from penstock.runtime.user_errors import (
    SELF_EXPLANATORY_ERRORS,
    UNKNOWN,
    USER_ERRORS,
    call_user_code,
    probable_cause,
    record_facts,
    user_error,
)
from penstock.runtime.work_times import WorkTimes
from penstock.state.backend.keyed_backend import KeyedBackend
from penstock.state.operator.operator_states import OperatorStates


class EdgeOutput(Protocol):
    """Takes what a subtask emits on one output edge, and hands it over at the end of the epoch."""

    def add(self, batch: Batch) -> None: ...
    def end(self, barrier: Barrier) -> Any: ...


class OperatorChain:
    """Operators and sinks between the inputs and the outputs of one subtask. One epoch at a time."""

    def __init__(
        self,
        place: SubtaskPlace,
        info: SubtaskInfo,
        backends: Mapping[str, KeyedBackend],
        operator_states: Mapping[str, OperatorStates],
        new_output: Callable[[EdgePlan], EdgeOutput],
        times: WorkTimes,
    ) -> None:
        self._times = times
        self._place = place
        self._stage = place.stage
        self._info = info
        self._backends = backends
        self._operator_states = operator_states
        self._new_output = new_output
        self._readers = _readers(self._stage)
        self._row_positions = _row_positions(self._stage, self._readers)
        self._own_time = _own_time(self._stage)
        self._may_tag = {p for p, plan in enumerate(self._stage.operators) if plan.kind not in PASS_ON}
        """Positions whose records may be tagged for side outputs."""
        self._side = {p for p, plan in enumerate(self._stage.operators) if plan.kind == SIDE_OUTPUT}
        self._operators: dict[int, Operator] = {}
        self._sinks: dict[int, EpochSink] = {}
        self._outputs: dict[int, list[tuple[int, EdgeOutput]]] = {}
        self._watermarks: dict[int, int] = {}
        """Of every operator after the last finished epoch of this attempt."""
        self._held = HeldOutput(self.emit) if self._stage.batch and self._stage.keyed else None
        """What keyed operators have emitted in batch mode."""
        self._holding: set[int] = set()
        """Positions behind which records of the epoch are still to come: an operator has held them back."""
        self._epoch = 0
        self._processed: dict[int, int] = {}
        """How many records each operator and sink has processed in the running epoch."""
        self._emitted: dict[int, int] = {}
        """How many records each operator has emitted in it."""
        self.rows_out = 0
        """Rows that the running epoch has written to sinks and output edges."""

    # ---- functions and sinks

    def open(self, watermark: int, max_timestamps: Mapping[str, int], restored_checkpoint: int | None) -> None:
        """Make functions and sinks and let them fetch their state. After the state was restored."""
        self.open_functions(watermark, max_timestamps, restored_checkpoint)
        for position, plan in enumerate(self._stage.operators):
            if plan.kind == "sink" and position not in self._sinks:
                place = self._place
                context = SinkContext(place.job_id, place.attempt, plan.uid, place.id, plan.input_type, place.storage)
                self._sinks[position] = open_sink(plan, context, self._stage.parallelism)

    def open_functions(
        self, watermark: int, max_timestamps: Mapping[str, int], restored_checkpoint: int | None
    ) -> None:
        """Make the functions without the sinks, which would begin to write."""
        for position, plan in enumerate(self._stage.operators):
            if plan.kind == "sink":
                continue
            make = partial(self._new_operator, position, watermark, max_timestamps)
            operator: Operator = self._call(plan, "when it was made", make)
            step = partial(initialize_functions, operator.functions, operator.context, restored_checkpoint)
            self._call(plan, "in initialize_state()", step)
            self._call(plan, "in open()", operator.open)
            self._operators[position] = operator

    def _new_operator(self, position: int, watermark: int, max_timestamps: Mapping[str, int]) -> Operator:
        plan = self._stage.operators[position]
        context = OperatorContext(plan, self._info, self._backends.get(plan.uid), self._operator_states[plan.uid])
        operator = make_operator(plan, context)
        # Behind a generator, or requests in flight, it is not the input's, and not known after a restore.
        unknown = MIN_WATERMARK if position in self._own_time else watermark
        operator.watermark = self._watermarks.get(position, unknown)
        if isinstance(operator, Timestamps):
            operator.max_timestamp = max_timestamps.get(plan.uid, MIN_WATERMARK)
        return operator

    def discard_functions(self) -> None:
        """Close the functions of a run that is undone, and forget them; the sinks stay open."""
        for operator in self._operators.values():
            with suppress(Exception):  # it is thrown away with whatever state it is in
                operator.close()
        self._operators.clear()

    def abandon(self) -> None:
        """End the threads of operators, without a call of the user's code."""
        for operator in self._operators.values():
            operator.abandon()

    def close(self) -> None:
        """Close functions and sinks; nothing becomes durable by it."""
        for position, operator in self._operators.items():
            self._call(self._stage.operators[position], "in close()", operator.close)
        self._operators.clear()
        for sink in self._sinks.values():
            sink.close()
        self._sinks.clear()

    @property
    def sinks(self) -> list[EpochSink]:
        """All sinks, in the order of the plan."""
        return list(self._sinks.values())

    def notify(self, completed: int | None, aborted: list[int]) -> None:
        """Notify the functions of the newest completed checkpoint and of aborted ones."""
        if completed is not None or aborted:
            for operator in self._operators.values():
                step = partial(notify_functions, operator.functions, completed, aborted)
                self._call(operator.plan, "when it was notified of a checkpoint,", step)

    # ---- records

    def begin_epoch(self, epoch: int) -> None:
        """Start with new outputs and counters."""
        self._epoch = epoch
        self._processed.clear()
        self._emitted.clear()
        for operator in self._operators.values():
            operator.late_records = 0
        self.rows_out = 0
        if self._held is not None:
            self._held.discard()
        self._outputs = {}
        for edge in self._stage.outputs:
            assert isinstance(edge.source, StageOutput)
            self._outputs.setdefault(edge.source.position, []).append((edge.id, self._new_output(edge)))

    def emit(self, position: int, batch: Batch) -> None:
        """Pass on what a position produced to every output, operator and sink that reads it."""
        if TagUse.exists and position in self._may_tag:
            batch = split_tagged(batch)
        batch = self._as_rows(position, batch)
        self._emitted[position] = self._emitted.get(position, 0) + len(batch)
        for _, output in self._outputs.get(position, ()):
            self.rows_out += len(batch)
            self._convert(position, batch, partial(output.add, batch))
        readers = self._readers.get(position, ())
        if not readers or not (len(batch) or batch.side):
            return
        for reader in readers:
            if not len(batch) and reader not in self._side:
                continue
            sink = self._sinks.get(reader)
            if sink is not None:
                self.rows_out += len(batch)
                self._processed[reader] = self._processed.get(reader, 0) + len(batch)
                self._write(sink, reader, position, batch)
                continue
            emitted = self._process(reader, position, batch)
            if emitted is not None:
                self._pass_on(reader, emitted)

    def _pass_on(self, position: int, emitted: Batch) -> None:
        if self._held is not None and self._stage.operators[position].keyed:
            self._held.add(position, emitted)
        else:
            self.emit(position, emitted)

    def keyed_operators(self) -> list[tuple[int, Operator]]:
        """The operators that run under the current key, with their positions, in order."""
        return [(position, operator) for position, operator in self._operators.items() if operator.plan.keyed]

    def fire_timers(self, position: int, watermark: int, now_ms: int) -> None:
        """Advance both clocks of one operator, and pass on what its timers emit (batch mode)."""
        emitted = self._advance(self._operators[position], watermark, now_ms)
        if emitted is not None:
            self._pass_on(position, emitted)

    def _process(self, position: int, origin: int, batch: Batch) -> Batch | None:
        operator = self._operators[position]
        before = self._processed.get(position, 0)
        if batch.has_keys and operator.plan.uid in self._backends and operator.plan.kind not in COLUMN_KINDS:
            with self._times.measured("state"):
                self._backends[operator.plan.uid].expect(batch.keys or ())
        try:
            emitted = operator.process_from(origin, batch)
        except SELF_EXPLANATORY_ERRORS:
            raise
        except USER_ERRORS as error:
            where = f"{operator.place_in(batch, before)} of epoch {self._epoch} in subtask {self._place.id}"
            raise user_error(operator.plan, where, error, _facts_of(operator, batch)) from error
        self._processed[position] = before + len(batch)
        if operator.plan.keyed:
            self._backends[operator.plan.uid].ttl.after_records(len(batch))
        return emitted

    def _write(self, sink: EpochSink, reader: int, position: int, batch: Batch) -> None:
        """Write records to a sink. A value that it cannot write is an error of the operator that made it."""
        plan = self._stage.operators[reader]
        try:
            write_batch(sink, batch)
        except UnsupportedValueError as error:
            where = f"in its output to {plan.name!r} of subtask {self._place.id}"
            producer = self._producer(position) or plan
            raise user_error(producer, where, error, probable_cause(producer, batch.records)) from error
        except Exception as error:
            raise user_error(plan, f"in its sink of subtask {self._place.id}", error) from error

    def _as_rows(self, position: int, batch: Batch) -> Batch:
        """Records of a declared row type as rows, so that the next function can say `record.field`."""
        plan = self._producer(position)
        if plan is None or not plan.output_type.names or position not in self._row_positions:
            return batch
        if batch.columns is not None:
            return batch  # its records are rows
        rows = self._convert(position, batch, partial(to_rows, batch.records, plan.output_type))
        return Batch(rows, batch.timestamps, None, batch.side)

    def _convert(self, position: int, batch: Batch, step: Callable[[], Any]) -> Any:
        """Convert what an operator emitted. A value that does not fit is an error of the operator."""
        plan, where = self._producer(position), f"in its output of subtask {self._place.id}"
        try:
            return step()
        except SELF_EXPLANATORY_ERRORS:
            raise
        except UnsupportedValueError as error:
            raise user_error(plan, where, error, probable_cause(plan, batch.records)) from error
        except USER_ERRORS as error:
            raise user_error(plan, where, error) from error

    def _producer(self, position: int) -> OperatorPlan | None:
        return self._stage.operators[position] if position >= 0 else None

    def _call(self, plan: OperatorPlan | None, where: str, step: Callable[[], Any]) -> Any:
        return call_user_code(plan, f"{where} of subtask {self._place.id}", step)

    # ---- the end of an epoch

    def advance(self, header: EpochHeader, watermarks: dict[int, int], *, waits: bool) -> None:
        """Advance both clocks of every operator, in order; timers that are due fire and their output flows on.

        `watermarks` has those of the inputs, by position; those of the operators are added to it. `waits`: rows of the
        epoch are left for later ones, here or upstream.
        """
        self._holding.clear()
        for position, plan in enumerate(self._stage.operators):
            if plan.kind == "sink":
                continue
            if self._held is not None:
                self._held.flush(position)
            operator = self._operators[position]
            lowest = min(watermarks[source] for source in plan.inputs)
            is_idle = lowest == IDLE_WATERMARK  # all inputs are
            reached = operator.watermark if is_idle else max(operator.watermark, lowest)
            emitted = self._advance(operator, reached, header.now_ms)
            watermarks[position] = IDLE_WATERMARK if is_idle else operator.output_watermark
            if operator.is_holding or not self._holding.isdisjoint(plan.inputs):
                self._holding.add(position)
            if isinstance(operator, Timestamps):
                is_behind = waits or position in self._holding
                watermarks[position] = _generated_watermark(header, plan.uid, waits=is_behind)
            if emitted is not None:
                self.emit(position, emitted)

    def _advance(self, operator: Operator, watermark: int, now_ms: int) -> Batch | None:
        try:
            return operator.advance(watermark, now_ms)
        except SELF_EXPLANATORY_ERRORS:
            raise
        except USER_ERRORS as error:
            where = f"in {operator.timer_method} in epoch {self._epoch} of subtask {self._place.id}"
            raise user_error(operator.plan, where, error, record_facts(key=_current_key(operator))) from error

    def snapshot_functions(self, header: EpochHeader) -> None:
        """Call `snapshot_state` of every function that has it."""
        for operator in self._operators.values():
            step = partial(snapshot_functions, operator.functions, operator.context, header)
            self._call(operator.plan, f"in snapshot_state() in epoch {header.epoch}", step)
            operator.snapshot()

    def pre_commit(self, epoch: int) -> list[Committable]:
        """End the transactions of all sinks; the JobManager commits them."""
        return [committable for sink in self._sinks.values() for committable in sink.pre_commit(epoch)]

    def end_outputs(self, header: EpochHeader, watermarks: Mapping[int, int], *, waits: bool) -> dict[int, Any]:
        """The epoch's output by edge id, each followed by a barrier."""
        outputs: dict[int, Any] = {}
        for position, edges in self._outputs.items():
            for edge_id, output in edges:
                name = channel(edge_id, self._place.id)
                is_behind = waits or position in self._holding
                barrier = Barrier(header.epoch, header.checkpoint, name, watermarks[position], is_behind)
                outputs[edge_id] = output.end(barrier)
        return outputs

    def finish_epoch(self) -> None:
        """The epoch has its version: functions that are made again start with its watermarks."""
        self._watermarks = {position: operator.watermark for position, operator in self._operators.items()}

    @property
    def max_timestamps(self) -> dict[str, int]:
        """The greatest timestamp that each generator of this stage has assigned, by its uid."""
        operators = self._operators.values()
        return {o.plan.uid: o.max_timestamp for o in operators if isinstance(o, Timestamps)}

    @property
    def late_records(self) -> int:
        """Records that windows have dropped in this epoch."""
        return sum(operator.late_records for operator in self._operators.values())

    @property
    def operator_rows(self) -> list[PassedRows]:
        """Records in and out of each operator in this epoch, by position."""
        positions = range(len(self._stage.operators))
        return [PassedRows(self._processed.get(p, 0), self._emitted.get(p, 0)) for p in positions]

    @property
    def printed(self) -> list[str]:
        """Lines of `print` sinks in this epoch."""
        return [line for sink in self._sinks.values() if isinstance(sink, Printed) for line in sink.lines]

    @property
    def collected(self) -> list[tuple[str, bytes]]:
        """(sink uid, encoded records) of collect sinks in this epoch."""
        found = [sink for sink in self._sinks.values() if isinstance(sink, Collected)]
        return [(sink.uid, data) for sink in found for data in sink.payloads]

    def next_timer(self, domain: TimeDomain) -> int | None:
        """When the next timer of any operator is due."""
        found = [operator.next_timer(domain) for operator in self._operators.values()]
        return min((timestamp for timestamp in found if timestamp is not None), default=None)


def _facts_of(operator: Operator, batch: Batch) -> str:
    """The record that is being processed, and its key if the operator has one."""
    if not 0 <= operator.position < len(batch):
        return ""
    key = UNKNOWN
    if operator.plan.keyed and batch.keys is not None:
        key = operator.context.backend().key_codec.to_user_key(batch.keys[operator.position])
    return record_facts(batch.records[operator.position], key)


def _current_key(operator: Operator) -> Any:
    """The current key as the user knows it; UNKNOWN if there is none."""
    try:
        backend = operator.context.backend()
        return backend.key_codec.to_user_key(backend.keys.key)
    except StateAccessError:
        return UNKNOWN


def _generated_watermark(header: EpochHeader, uid: str, *, waits: bool) -> int:
    """Of a generator in the middle of the job: it has not seen the rows that wait before it (PROTOCOL R13)."""
    return MIN_WATERMARK if waits else generated_watermark(header, uid)


def _readers(stage: StagePlan) -> dict[int, list[int]]:
    """Position -> the operators and sinks that read it."""
    readers: dict[int, list[int]] = {}
    for index, plan in enumerate(stage.operators):
        for position in plan.inputs:
            readers.setdefault(position, []).append(index)
    return readers


def _own_time(stage: StagePlan) -> set[int]:
    """Positions of operators whose watermarks are generated or held back in this stage."""
    found: set[int] = set()
    for index, plan in enumerate(stage.operators):
        if any(
            position in found or stage.operators[position].kind in ("timestamps", "async_wait")
            for position in plan.inputs
            if position >= 0
        ):
            found.add(index)
    return found


def _row_positions(stage: StagePlan, readers: Mapping[int, list[int]]) -> set[int]:
    """Positions whose records are seen by a function or a person, not only by a codec."""
    read = {
        position
        for position, indexes in readers.items()
        if any(stage.operators[index].config.get("sink") != "sink" for index in indexes)
    }
    selected = {
        edge.source.position
        for edge in stage.outputs
        if isinstance(edge.source, StageOutput) and edge.key_selector is not None
    }
    return read | selected
