"""Functions that process a batch of rows with one call, as Arrow columns."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock.model.descriptors import ValueStateDescriptor
from penstock.model.functions import Function, RuntimeContext
from penstock.model.key_slots import KeySlots
from penstock.model.row_groups import Numbers


class BatchValueState(ABC):
    """A value state of many keys. Values are in the order of the distinct keys of a batch."""

    @abstractmethod
    def get_many(self, keys: KeySlots) -> pa.Array:
        """The value of each distinct key, null where there is none."""

    @abstractmethod
    def get_numpy(self, keys: KeySlots, default: Any) -> Any:
        """The value of each distinct key as a numpy array, `default` where there is none.

        For rows and tuples `default` has one entry per field, and the result is a tuple of arrays.
        """

    @abstractmethod
    def put_many(self, keys: KeySlots, values: Any, where: Numbers | None = None) -> None:
        """Replace the value of each distinct key; null removes it.

        Args:
            keys: The keys.
            values: An Arrow or numpy array; for rows and tuples also a sequence of them, one for each field.
            where: Only the keys for which this is true. Without it, all of them.
        """

    @abstractmethod
    def clear_many(self, keys: KeySlots, where: Numbers | None = None) -> None:
        """Remove the value of each distinct key, or of those for which `where` is true."""


class BatchRuntimeContext(RuntimeContext):
    """What a BatchProcessFunction gets in `open`. It has value states only."""

    @abstractmethod
    def get_state(self, state_descriptor: ValueStateDescriptor) -> BatchValueState:  # type: ignore[override]
        """The handle of a value state, of any key."""


class BatchProcessFunction(Function):
    """Processes the rows of a keyed stream batch by batch, without a Python object for each row.

    The state is the same as that of a KeyedProcessFunction with the same descriptors: a job may change from one to the
    other. How rows are divided into batches is arbitrary, so results must not depend on it.
    """

    class Context(ABC):
        """The times of a batch."""

        @property
        @abstractmethod
        def timestamps(self) -> pa.Array | None:
            """The event timestamp of each row in milliseconds; None in jobs without event time."""

        @abstractmethod
        def current_watermark(self) -> int:
            """The current event-time watermark."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """The processing time, which is constant within an epoch."""

        @abstractmethod
        def set_source_rows(self, rows: Sequence[int] | Numbers) -> None:
            """Set for each row of the result from which row of the batch it comes, and so has its event timestamp.

            Needed with event time if the result has another number of rows than the batch. Otherwise each row of the
            result comes from the row in the same place.
            """

    def open(self, runtime_context: BatchRuntimeContext) -> None:  # type: ignore[override]
        """Get state handles and acquire resources."""
        return

    @abstractmethod
    def process_batch(self, batch: pa.RecordBatch, keys: KeySlots, ctx: "BatchProcessFunction.Context") -> Any:
        """The results for the rows of a batch, a `pyarrow.RecordBatch` with the columns of `output_type`, or None."""
