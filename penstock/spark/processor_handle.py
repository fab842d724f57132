"""What a Spark stateful processor gets in `init`: the methods of pyspark's StatefulProcessorHandle on keyed state."""

from collections.abc import Iterator
from typing import Any, Literal

from penstock.errors import StateAccessError, UsageError
from penstock.model.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.model.functions import RuntimeContext, TimerService
from penstock.model.state import MapState
from penstock.model.time import Time
from penstock.model.types import TypeInformation, Types, resolve_type
from penstock.spark.processor_states import SparkListState, SparkMapState, SparkValueState

TimeMode = Literal["None", "ProcessingTime", "EventTime"]
EXPIRY_TIMES = "_expiry_times"
"""A state with the times of each key's timers, because `listTimers` asks for those of one key."""
PENDING = True


class SparkProcessorHandle:
    """State variables and timers of one processor in one subtask."""

    def __init__(self, context: RuntimeContext, timers: TimerService, time_mode: TimeMode) -> None:
        self._context = context
        self._timers = timers
        self._time_mode = time_mode
        self.discarded_states: set[str] = set()
        self._expiry_times: MapState[int, bool] | None = None
        if time_mode != "None":
            descriptor = MapStateDescriptor(EXPIRY_TIMES, Types.LONG(), Types.BOOLEAN())
            self._expiry_times = context.get_map_state(descriptor)

    def getValueState(self, stateName: str, schema: Any, ttlDurationMs: int | None = None) -> SparkValueState:
        """A state of one tuple per key."""
        value_type = _struct(schema, stateName)
        descriptor = ValueStateDescriptor(stateName, value_type)
        self._let_expire(descriptor, ttlDurationMs)
        return SparkValueState(self._context.get_state(descriptor), value_type)

    def getListState(self, stateName: str, schema: Any, ttlDurationMs: int | None = None) -> SparkListState:
        """A state of a list of tuples per key."""
        element_type = _struct(schema, stateName)
        descriptor = ListStateDescriptor(stateName, element_type)
        self._let_expire(descriptor, ttlDurationMs)
        return SparkListState(stateName, self._context.get_list_state(descriptor), element_type)

    def getMapState(
        self, stateName: str, userKeySchema: Any, valueSchema: Any, ttlDurationMs: int | None = None
    ) -> SparkMapState:
        """A state of a dictionary from tuples to tuples per key."""
        value_type = _struct(valueSchema, stateName)
        descriptor = MapStateDescriptor(stateName, _struct(userKeySchema, stateName), value_type)
        self._let_expire(descriptor, ttlDurationMs)
        return SparkMapState(self._context.get_map_state(descriptor), descriptor.map_key_type, value_type)

    def registerTimer(self, expiryTimestampMs: int) -> None:
        """Call `handleExpiredTimer` for the current key once the time has come."""
        self._require_timers("registerTimer").put(expiryTimestampMs, PENDING)
        if self._time_mode == "EventTime":
            self._timers.register_event_time_timer(expiryTimestampMs)
        else:
            self._timers.register_processing_time_timer(expiryTimestampMs)

    def deleteTimer(self, expiryTimestampMs: int) -> None:
        """Delete a timer of the current key, if there is one."""
        self._require_timers("deleteTimer").remove(expiryTimestampMs)
        if self._time_mode == "EventTime":
            self._timers.delete_event_time_timer(expiryTimestampMs)
        else:
            self._timers.delete_processing_time_timer(expiryTimestampMs)

    def listTimers(self) -> Iterator[int]:
        """When the timers of the current key expire, in order."""
        return iter(sorted(self._require_timers("listTimers").keys()))

    def deleteIfExists(self, stateName: str) -> None:
        """Delete all entries of a state that an earlier version of the processor had."""
        self.discarded_states.add(stateName)

    def _require_timers(self, method: str) -> MapState[int, bool]:
        if self._expiry_times is None:
            raise StateAccessError(
                f"{method}() needs a clock; call transform_with_state with time_mode='ProcessingTime' or 'EventTime'"
            )
        return self._expiry_times

    def _let_expire(self, descriptor: StateDescriptor, ttl_ms: int | None) -> None:
        if ttl_ms is None:
            return
        if self._time_mode != "ProcessingTime":
            raise UsageError(
                f"state {descriptor.name!r} has a time to live, which as in Spark needs time_mode='ProcessingTime'; it "
                f"is {self._time_mode!r}"
            )
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(ttl_ms)).build())


def _struct(schema: Any, name: str) -> TypeInformation:
    found = resolve_type(schema)
    if found.names is None:
        raise UsageError(
            f"the schema of state {name!r} is {found.text}; Spark's state variables are structs: write 'value {schema}'"
        )
    return found
