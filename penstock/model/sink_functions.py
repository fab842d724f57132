"""Sinks that are called for each record, as in Flink. `penstock.model.sink` has those with transactions."""

from abc import ABC, abstractmethod
from typing import Any

from penstock.model.delivery import Delivery
from penstock.model.functions import Function


class SinkFunction(Function):
    """Writes each record to another system, at least once: after a failure, records since the last checkpoint repeat.

    With `CheckpointedFunction` it has operator state, for example a buffer of records that are not written yet.
    """

    @property
    def delivery(self) -> Delivery:
        """At least once. A function whose writes can be repeated without harm returns `Delivery.idempotent(…)`."""
        return Delivery.at_least_once(
            "invoke() is called again after a failure for records since the last checkpoint",
            "write to a sink with transactions (sink_to), or make the writes idempotent and say so in its `delivery`",
        )

    class Context(ABC):
        """The times of one record."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """The processing time, which is constant within an epoch."""

        @abstractmethod
        def current_watermark(self) -> int:
            """The current event-time watermark."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """The event time of the record, or None."""

    @abstractmethod
    def invoke(self, value: Any, context: "SinkFunction.Context") -> None:
        """Write one record."""

    def finish(self) -> None:
        """The input has ended: write what is still buffered. Not called when the job fails or is cancelled."""
        return
