"""Runs a StatefulProcessor that was written for Spark's `transformWithState` as a function on a keyed stream.

As in Spark, `handleInputRows` is called once for each key and epoch with all of the key's rows, then
`handleExpiredTimer` for each timer that has expired. State variables are keyed state, so they are checkpointed,
rescaled, queried and migrated like any other.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessor, TimerValues

from penstock.errors import ArgumentError
from penstock.graph.callables import describe_given
from penstock.graph.function_checks import check_function, takes
from penstock.model.descriptors import ListStateDescriptor
from penstock.model.epoch_functions import EpochTime, KeyedEpochFunction
from penstock.model.functions import RuntimeContext
from penstock.model.operator_state import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from penstock.model.time import MAX_WATERMARK, MIN_WATERMARK, TimeDomain
from penstock.model.types import TAGGED, TypeInformation, Types
from penstock.spark.processor_handle import SparkProcessorHandle, TimeMode
from penstock.spark.processor_values import key_maker, row_maker, struct_reader

Form = Literal["rows", "pandas"]
TIME_DOMAINS: dict[TimeMode, TimeDomain | None] = {
    "None": None,
    "ProcessingTime": TimeDomain.PROCESSING_TIME,
    "EventTime": TimeDomain.EVENT_TIME,
}
INITIAL_LOADED = "_initial_state_loaded"
"""A union list state that has an element once the initial state is in keyed state."""
LOADED = True


@dataclass(frozen=True)
class ProcessorSettings:
    """How a processor is called."""

    form: Form = "rows"
    time_mode: TimeMode = "None"
    input_type: TypeInformation = TAGGED
    output_type: TypeInformation = TAGGED
    key_types: tuple[TypeInformation, ...] = (TAGGED,)
    time_zone: str = "UTC"
    """Of the timestamps in DataFrames."""
    initial_type: TypeInformation = TAGGED
    initial_rows: tuple[tuple[Any, Any], ...] = ()
    """(user's key, record)."""


class SparkProcessorFunction(KeyedEpochFunction, CheckpointedFunction):
    """Calls a StatefulProcessor."""

    record_method = "handleInputRows()"

    def __init__(self, processor: StatefulProcessor, settings: ProcessorSettings) -> None:
        if not isinstance(processor, StatefulProcessor):
            raise ArgumentError(
                f"a StatefulProcessor is required, not {describe_given(processor)}; give an instance of a subclass of "
                f"pyspark.sql.streaming.StatefulProcessor"
            )
        check_function(processor, "stateful_processor")
        self.processor = processor
        self.takes_times = takes(processor.handleInputRows, ("key", "rows", "timerValues"))
        """The examples in Spark's API reference leave the third argument out."""
        self.settings = settings
        self.has_initial_records = bool(settings.initial_rows)
        self.time_domain = TIME_DOMAINS[settings.time_mode]

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        if self.settings.initial_rows:
            store = context.get_operator_state_store()
            self._loaded = store.get_union_list_state(ListStateDescriptor(INITIAL_LOADED, Types.BOOLEAN()))

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        if self.settings.initial_rows and len(list(self._loaded.get())) > 1:
            self._loaded.update([LOADED])  # a restore gave each subtask the elements of all

    def open(self, runtime_context: RuntimeContext) -> None:
        settings = self.settings
        self._to_key = key_maker(settings.key_types)
        self._to_row = row_maker(settings.input_type)
        self._read = struct_reader(settings.output_type) if settings.output_type.names else _as_tuple
        self._handle = SparkProcessorHandle(runtime_context, self.timers, settings.time_mode)
        self.processor.init(self._handle)  # type: ignore[arg-type]  # it has the same methods
        self.discarded_states = frozenset(self._handle.discarded_states)

    def close(self) -> None:
        self.processor.close()

    def initial_records(self) -> Iterable[tuple[Any, Any]]:
        if not self.settings.initial_rows or any(self._loaded.get()):
            return ()
        return self._grouped_initial() if self._is_pandas else self.settings.initial_rows

    def _grouped_initial(self) -> Iterable[tuple[Any, Any]]:
        """All rows of a key together, for one DataFrame."""
        groups: dict[Any, list[Any]] = {}
        for key, record in self.settings.initial_rows:
            groups.setdefault(key, []).append(record)
        return groups.items()

    def load_initial(self, key: Any, record: Any, time: EpochTime) -> None:
        initial_type = self.settings.initial_type
        initial = self._frame(record, initial_type) if self._is_pandas else row_maker(initial_type)(record)
        self.processor.handleInitialState(self._to_key(key), initial, self._timer_values(time))

    def initial_loaded(self) -> None:
        self._loaded.add(LOADED)

    def process_records(self, key: Any, records: list[Any], time: EpochTime) -> Iterable[Any]:
        rows: Iterator[Any]
        if self._is_pandas:
            rows = iter([self._frame(records, self.settings.input_type)])
        else:
            rows = map(self._to_row, records)
        times = (self._timer_values(time),) if self.takes_times else ()
        return self._results(self.processor.handleInputRows(self._to_key(key), rows, *times))

    def on_timer(self, key: Any, timestamp: int, time: EpochTime) -> Iterable[Any]:
        info = ExpiredTimerInfo(timestamp)
        emitted = self.processor.handleExpiredTimer(self._to_key(key), self._timer_values(time), info)
        yield from self._results(emitted)
        self._handle.deleteTimer(timestamp)  # as in Spark, even if the processor has registered it again

    @property
    def _is_pandas(self) -> bool:
        return self.settings.form == "pandas"

    def _frame(self, records: list[Any], type_info: TypeInformation) -> Any:
        from penstock.spark.processor_frames import to_frame  # the form with rows does without pandas

        return to_frame(records, type_info, self.settings.time_zone)

    def _results(self, emitted: Iterable[Any] | None) -> Iterator[Any]:
        if emitted is None:
            return
        if not self._is_pandas:
            yield from map(self._read, emitted)
            return
        from penstock.spark.processor_frames import from_frame

        for frame in emitted:
            yield from from_frame(frame, self.settings.output_type, self.settings.time_zone)

    def _timer_values(self, time: EpochTime) -> TimerValues:
        """As in Spark, -1 for a clock that the time mode does not have, and 0 for a watermark that is not known yet."""
        mode = self.settings.time_mode
        if mode == "None":
            return TimerValues(-1, -1)
        if mode == "ProcessingTime":
            return TimerValues(time.processing_ms, -1)
        if time.watermark == MIN_WATERMARK:
            return TimerValues(time.processing_ms, 0)
        return TimerValues(time.processing_ms, min(time.watermark + 1, MAX_WATERMARK))  # Flink's are 1 ms lower


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, tuple) else value
