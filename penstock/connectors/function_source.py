"""A SourceFunction that runs in a thread, and how far it has been read.

A position is the number of records read, the function's operator state after them, and whether the source has ended.
A function started at a position yields the records after it.
"""

import base64
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import cloudpickle
import pyarrow as pa

from penstock.codec.columns import encode_column
from penstock.errors import UsageError
from penstock.model.delivery import Delivery
from penstock.model.functions import KeyedStateStore
from penstock.model.operator_state import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    OperatorStateStore,
    RawState,
)
from penstock.model.snapshot import OperatorStateInfo
from penstock.model.source import Source
from penstock.model.source_functions import SourceFunction
from penstock.model.types import TAGGED, TypeInformation, parse_type
from penstock.state.operator.operator_file import VALUE_COLUMN
from penstock.state.operator.operator_states import OperatorStates

START: dict[str, Any] = {"records": 0, "state": {}, "ended": False}
CAPACITY = 10_000
"""How many records may wait to be read before the function is blocked in taking the lock."""


@dataclass(frozen=True)
class FunctionSource(Source):
    """A SourceFunction as plain data."""

    function: bytes
    record_type: TypeInformation = TAGGED
    delivery: Delivery = Delivery()
    bounded: bool = field(default=False, init=False)

    @staticmethod
    def of(function: SourceFunction, record_type: TypeInformation) -> "FunctionSource":
        """A source that runs a copy of this function."""
        delivery = Delivery.exactly_once()
        if not isinstance(function, CheckpointedFunction):
            delivery = Delivery.unknown(
                f"{type(function).__name__} has no position: after a failure it starts anew, and its records since the "
                f"last checkpoint are lost or come again",
                "make it a CheckpointedFunction and keep its position in operator state",
            )
        return FunctionSource(cloudpickle.dumps(function), record_type, delivery)


class SourceRun:
    """One run of a function from a position on. `close` ends it; the thread ends when the function returns."""

    def __init__(self, function: bytes, position: dict[str, Any]) -> None:
        self._function: SourceFunction = cloudpickle.loads(function)
        self._lock = CheckpointLock()
        self._states = OperatorStates("source", 0, None)
        self.position = position
        self._error: BaseException | None = None
        self._ended = bool(position["ended"])
        if isinstance(self._function, CheckpointedFunction):
            _restore(self._states, position["state"])
            self._function.initialize_state(_Initialization(self._states, is_restored=bool(position["records"])))
        if not self._ended:
            threading.Thread(target=self._run, name="penstock-source", daemon=True).start()

    def _run(self) -> None:
        try:
            self._function.run(_Collector(self._lock))
        except BaseException as error:  # raised by `take`
            self._error = error
        with self._lock.changed:
            self._ended = True
            self._lock.changed.notify_all()

    def take(self, wait_s: float, most: int | None = None) -> list[Any]:
        """The records since the last call; `position` is after them. Waits if there are none yet.

        `most` limits their number; if it did, the position can only be used to compare counts.
        """
        with self._lock.changed:
            self._lock.changed.wait_for(lambda: self._lock.records or self._ended, wait_s)
            self._lock.is_wanted = True
            self._lock.changed.wait_for(lambda: not self._lock.is_held)
            records = self._lock.records if most is None else self._lock.records[:most]
            self._lock.records = self._lock.records[len(records) :]
            if records or self._ended != self.position["ended"]:
                self.position = self._advanced(len(records))
            self._lock.is_wanted = False
            self._lock.changed.notify_all()
        if self._error is not None and not records:
            raise self._error
        return records

    def replay(self, count: int, wait_s: float) -> list[Any]:
        """Read this many records again, as they were read before."""
        records: list[Any] = []
        while len(records) < count:
            found = self.take(wait_s, count - len(records))
            if not found and self.position["ended"]:
                raise UsageError(
                    f"a source yielded {len(records)} records, but {count} the first time; a source with a position "
                    f"must yield the same records from the same position"
                )
            records += found
        return records

    def close(self) -> None:
        """Ask the function to end."""
        self._function.cancel()
        self._lock.close()

    def _advanced(self, count: int) -> dict[str, Any]:
        state: dict[str, Any] = {}
        if isinstance(self._function, CheckpointedFunction):
            self._function.snapshot_state(_Snapshot(self._states))
            state = _stored(self._states)
        ended = self._ended and not self._lock.records and self._error is None
        return {"records": self.position["records"] + count, "state": state, "ended": ended}


class CheckpointLock:
    """The lock between a source and its reader. The source's thread may take it repeatedly; the reader has priority."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.records: list[Any] = []
        self.is_wanted = False
        self._holder: int | None = None
        self._depth = 0
        self._is_closed = False

    @property
    def is_held(self) -> bool:
        """Whether the source holds it: it is between a record and its position."""
        return self._depth > 0

    def __enter__(self) -> "CheckpointLock":
        me = threading.get_ident()
        with self.changed:
            if self._holder != me:
                self.changed.wait_for(self._is_free)
                self._holder = me
            self._depth += 1
        return self

    def _is_free(self) -> bool:
        return self._is_closed or not (self.is_held or self.is_wanted or len(self.records) >= CAPACITY)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self.changed:
            self._depth -= 1
            if self._depth == 0:
                self._holder = None
                self.changed.notify_all()

    def close(self) -> None:
        """Release a waiting source, so that it sees that it was cancelled."""
        with self.changed:
            self._is_closed = True
            self.changed.notify_all()


class _Collector(SourceFunction.SourceContext):
    def __init__(self, lock: CheckpointLock) -> None:
        self._lock = lock

    def collect(self, element: Any) -> None:
        with self._lock:
            self._lock.records.append(element)

    def get_checkpoint_lock(self) -> CheckpointLock:
        return self._lock


NO_STATE = "a source has list state only; use get_operator_state_store().get_list_state(...)"


class _Initialization(FunctionInitializationContext):
    def __init__(self, states: OperatorStates, *, is_restored: bool) -> None:
        self._states = states
        self._is_restored = is_restored

    def is_restored(self) -> bool:
        return self._is_restored

    def get_restored_checkpoint_id(self) -> int | None:
        return None

    def get_operator_state_store(self) -> OperatorStateStore:
        return self._states

    def get_keyed_state_store(self) -> KeyedStateStore:
        raise UsageError(NO_STATE)

    def get_raw_state(self) -> RawState:
        raise UsageError(NO_STATE)


class _Snapshot(FunctionSnapshotContext):
    def __init__(self, states: OperatorStates) -> None:
        self._states = states

    def get_checkpoint_id(self) -> int | None:
        return None

    def get_checkpoint_timestamp(self) -> int:
        return 0

    def get_operator_state_store(self) -> OperatorStateStore:
        return self._states

    def get_keyed_state_store(self) -> KeyedStateStore:
        raise UsageError(NO_STATE)

    def get_raw_state(self) -> RawState:
        raise UsageError(NO_STATE)


def _stored(states: OperatorStates) -> dict[str, Any]:
    """The list states as JSON values."""
    stored: dict[str, Any] = {}
    for info, _ in states.declared():
        if info.mode == "broadcast":
            raise UsageError(NO_STATE)
        column = encode_column(states.content(info.name), parse_type(info.value_type))
        sink = pa.BufferOutputStream()
        batch = pa.RecordBatch.from_arrays([column], names=[VALUE_COLUMN])
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        stored[info.name] = [info.mode, info.value_type, base64.b64encode(sink.getvalue()).decode("ascii")]
    return stored


def _restore(states: OperatorStates, stored: dict[str, Sequence[str]]) -> None:
    for name, (mode, value_type, data) in stored.items():
        with pa.ipc.open_stream(base64.b64decode(data)) as reader:
            rows = reader.read_all()
        states.restore(OperatorStateInfo("source", name, mode, value_type, None, rows.num_rows), rows)
