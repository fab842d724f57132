"""The interfaces of functions that are called with the contents of a window, as in PyFlink."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from penstock.model.functions import Function, KeyedStateStore

IN = TypeVar("IN")
OUT = TypeVar("OUT")
KEY = TypeVar("KEY")
W = TypeVar("W")
CW = TypeVar("CW")


class WindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Evaluates a window of a keyed stream."""

    @abstractmethod
    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Any:
        """The results of a window that fires: an iterable or a generator, or None for no results."""


class AllWindowFunction(Function, Generic[IN, OUT, W]):
    """Evaluates a window of a stream without a key."""

    @abstractmethod
    def apply(self, window: W, inputs: Iterable[IN]) -> Any:
        """The results of a window that fires: an iterable or a generator, or None for no results."""


class ProcessWindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Evaluates a window of a keyed stream, with a context that has times and state."""

    class Context(ABC, Generic[CW]):
        """The window, the current times, and state."""

        @abstractmethod
        def window(self) -> CW:
            """The window that is evaluated."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """The processing time, which is constant within an epoch."""

        @abstractmethod
        def current_watermark(self) -> int:
            """The current event-time watermark."""

        @abstractmethod
        def window_state(self) -> KeyedStateStore:
            """State of this key and window. Clear it in `clear`."""

        @abstractmethod
        def global_state(self) -> KeyedStateStore:
            """State of this key, shared by all its windows."""

    @abstractmethod
    def process(self, key: KEY, context: "ProcessWindowFunction.Context[W]", elements: Iterable[IN]) -> Any:
        """The results of a window that fires: an iterable or a generator, or None for no results."""

    def clear(self, context: "ProcessWindowFunction.Context[W]") -> None:
        """Clear what `window_state` holds, when the window is removed."""
        return


class ProcessAllWindowFunction(Function, Generic[IN, OUT, W]):
    """Evaluates a window of a stream without a key, with a context that has times and state."""

    class Context(ABC, Generic[CW]):
        """The window, the current times, and state."""

        @abstractmethod
        def window(self) -> CW:
            """The window that is evaluated."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """The processing time, which is constant within an epoch."""

        @abstractmethod
        def current_watermark(self) -> int:
            """The current event-time watermark."""

        @abstractmethod
        def window_state(self) -> KeyedStateStore:
            """State of this window. Clear it in `clear`."""

        @abstractmethod
        def global_state(self) -> KeyedStateStore:
            """State that is shared by all windows."""

    @abstractmethod
    def process(self, context: "ProcessAllWindowFunction.Context[W]", elements: Iterable[IN]) -> Any:
        """The results of a window that fires: an iterable or a generator, or None for no results."""

    def clear(self, context: "ProcessAllWindowFunction.Context[W]") -> None:
        """Clear what `window_state` holds, when the window is removed."""
        return
