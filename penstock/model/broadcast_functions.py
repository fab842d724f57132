"""Functions on two streams, one of which every subtask gets in full, as in PyFlink."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.model.functions import Function, TimerService
from penstock.model.operator_state import BroadcastState, ReadOnlyBroadcastState
from penstock.model.state import State
from penstock.model.time import TimeDomain

if TYPE_CHECKING:
    from penstock.model.descriptors import MapStateDescriptor, StateDescriptor


class BroadcastClock(ABC):
    """The times that every context of a broadcast function knows."""

    @abstractmethod
    def timestamp(self) -> int | None:
        """The record's or timer's timestamp in milliseconds; None when it has none."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """The epoch's processing time: one value for a whole epoch."""

    @abstractmethod
    def current_watermark(self) -> int:
        """The current event-time watermark."""


class BroadcastProcessFunction(Function):
    """For a stream without a key beside a broadcast one."""

    class Context(BroadcastClock):
        """The broadcast side: broadcast state can be changed."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: "MapStateDescriptor") -> BroadcastState[Any, Any]:
            """A state that was named in `broadcast(...)`."""

    class ReadOnlyContext(BroadcastClock):
        """The other side: broadcast state can only be read."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: "MapStateDescriptor") -> ReadOnlyBroadcastState[Any, Any]:
            """A state that was named in `broadcast(...)`."""

    @abstractmethod
    def process_element(self, value: Any, ctx: "BroadcastProcessFunction.ReadOnlyContext") -> Any:
        """Records made of a record of the other side: an iterable or a generator; None for none."""

    @abstractmethod
    def process_broadcast_element(self, value: Any, ctx: "BroadcastProcessFunction.Context") -> Any:
        """Records made of a broadcast record, in every subtask: an iterable or a generator; None for none."""


class KeyedBroadcastProcessFunction(Function):
    """For a keyed stream beside a broadcast one: keyed state and timers on the keyed side."""

    class Context(BroadcastClock):
        """The broadcast side: broadcast state can be changed; there is no current key."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: "MapStateDescriptor") -> BroadcastState[Any, Any]:
            """A state that was named in `broadcast(...)`."""

        @abstractmethod
        def apply_to_keyed_state(
            self, state_descriptor: "StateDescriptor", function: Callable[[Any, State], None]
        ) -> None:
            """Call `function(key, state)` for every key of this subtask that has that keyed state."""

    class ReadOnlyContext(BroadcastClock):
        """The keyed side: broadcast state can only be read."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: "MapStateDescriptor") -> ReadOnlyBroadcastState[Any, Any]:
            """A state that was named in `broadcast(...)`."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Time and timers."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """The key of the record or timer."""

    class OnTimerContext(ReadOnlyContext):
        """What is known about a timer that fired."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """The clock by which it fired."""

    @abstractmethod
    def process_element(self, value: Any, ctx: "KeyedBroadcastProcessFunction.ReadOnlyContext") -> Any:
        """Records made of a record of the keyed side: an iterable or a generator; None for none."""

    @abstractmethod
    def process_broadcast_element(self, value: Any, ctx: "KeyedBroadcastProcessFunction.Context") -> Any:
        """Records made of a broadcast record, in every subtask: an iterable or a generator; None for none."""

    def on_timer(self, timestamp: int, ctx: "KeyedBroadcastProcessFunction.OnTimerContext") -> Any:
        """Records made when a timer fires: an iterable or a generator; None for none."""
        return None
