"""Functions on a stream connected with a broadcast stream, as in PyFlink."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.model.functions import Function, TimerService
from penstock.model.operator_state import BroadcastState, ReadOnlyBroadcastState
from penstock.model.state import State
from penstock.model.time import TimeDomain

if TYPE_CHECKING:
    from penstock.model.descriptors import MapStateDescriptor, StateDescriptor


class BaseBroadcastProcessFunction(Function):
    """What the functions on a stream that is connected with a broadcast stream have in common."""

    class BaseContext(ABC):
        """The times that every context of a broadcast function has."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """The timestamp of the record or timer in milliseconds, or None."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """The processing time, which is constant within an epoch."""

        @abstractmethod
        def current_watermark(self) -> int:
            """The current event-time watermark."""

    class Context(BaseContext):
        """For broadcast records: broadcast state can be changed."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: "MapStateDescriptor") -> BroadcastState[Any, Any]:
            """A broadcast state whose descriptor was given to `broadcast(...)`."""

    class ReadOnlyContext(BaseContext):
        """For other records: broadcast state can only be read."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: "MapStateDescriptor") -> ReadOnlyBroadcastState[Any, Any]:
            """A broadcast state whose descriptor was given to `broadcast(...)`."""


class BroadcastProcessFunction(BaseBroadcastProcessFunction):
    """For a stream without a key, connected with a broadcast stream."""

    class Context(BaseBroadcastProcessFunction.Context):
        """For broadcast records: broadcast state can be changed."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext):
        """For other records: broadcast state can only be read."""

    @abstractmethod
    def process_element(self, value: Any, ctx: "BroadcastProcessFunction.ReadOnlyContext") -> Any:
        """The results for a record: an iterable or a generator, or None for no records."""

    @abstractmethod
    def process_broadcast_element(self, value: Any, ctx: "BroadcastProcessFunction.Context") -> Any:
        """The results for a broadcast record, in every subtask: an iterable or a generator, or None for no records."""


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction):
    """For a keyed stream, connected with a broadcast stream. Records of the keyed stream have state and timers."""

    class Context(BaseBroadcastProcessFunction.Context):
        """For broadcast records: broadcast state can be changed; there is no current key."""

        @abstractmethod
        def apply_to_keyed_state(
            self, state_descriptor: "StateDescriptor", function: Callable[[Any, State], None]
        ) -> None:
            """Call `function(key, state)` for every key of this subtask that has this keyed state."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext):
        """For records of the keyed stream: broadcast state can only be read."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """The current time and timers."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """The key of the record or timer."""

    class OnTimerContext(ReadOnlyContext):
        """The key and the timestamp of a timer that fired."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Whether it fired in event time or in processing time."""

    @abstractmethod
    def process_element(self, value: Any, ctx: "KeyedBroadcastProcessFunction.ReadOnlyContext") -> Any:
        """The results for a record of the keyed stream: an iterable or a generator, or None for no records."""

    @abstractmethod
    def process_broadcast_element(self, value: Any, ctx: "KeyedBroadcastProcessFunction.Context") -> Any:
        """The results for a broadcast record, in every subtask: an iterable or a generator, or None for no records."""

    def on_timer(self, timestamp: int, ctx: "KeyedBroadcastProcessFunction.OnTimerContext") -> Any:
        """The results for a timer that fires: an iterable or a generator, or None for no records."""
        return None
