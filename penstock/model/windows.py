"""Windows: what `window` divides a stream into, and how each kind is stored as the namespace of its state.

A namespace is plain data: the start and end of a TimeWindow, the number of a CountWindow. The serializer of a window
assigner converts between the two; they have the names of PyFlink's.
"""

import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable
from io import BytesIO
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.model.time import MAX_WATERMARK
from penstock.model.type_information import TypeInformation, scalar, tuple_of

if TYPE_CHECKING:
    from penstock.model.window_assigners import MergingWindowAssigner

W = TypeVar("W")


class Window(ABC):
    """A group of elements. At some point every element of a window has arrived."""

    @abstractmethod
    def max_timestamp(self) -> int:
        """The last timestamp in milliseconds that an element of this window can have."""


class TimeWindow(Window):
    """The time from `start` (inclusive) to `end` (exclusive), in milliseconds."""

    __slots__ = ("end", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end

    def max_timestamp(self) -> int:
        """The last millisecond of the window."""
        return self.end - 1

    def intersects(self, other: "TimeWindow") -> bool:
        """Whether the windows overlap or touch."""
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: "TimeWindow") -> "TimeWindow":
        """The smallest window that contains both."""
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """The start of the window that contains a timestamp, of windows of one size with their starts shifted."""
        return timestamp - (timestamp - offset) % window_size

    @staticmethod
    def merge_windows(
        windows: Iterable["TimeWindow"], callback: "MergingWindowAssigner.MergeCallback[TimeWindow]"
    ) -> None:
        """Call `callback.merge` for each group of windows that overlap or touch."""
        groups: list[tuple[TimeWindow, list[TimeWindow]]] = []
        for window in sorted(set(windows)):
            if groups and groups[-1][0].intersects(window):
                covering, members = groups.pop()
                groups.append((covering.cover(window), [*members, window]))
            else:
                groups.append((window, [window]))
        for covering, members in groups:
            if len(members) > 1:
                callback.merge(members, covering)

    def __hash__(self) -> int:
        return hash((self.start, self.end))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TimeWindow) and (self.start, self.end) == (other.start, other.end)

    def __lt__(self, other: "TimeWindow") -> bool:
        return (self.start, self.end) < _bounds(other)

    def __le__(self, other: "TimeWindow") -> bool:
        return (self.start, self.end) <= _bounds(other)

    def __repr__(self) -> str:
        return f"TimeWindow(start={self.start}, end={self.end})"


def time_window(start: int, size: int) -> TimeWindow:
    """The window of a size. The last one of all ends with time: results of batch mode have its last timestamp."""
    return TimeWindow(start, min(start + size, MAX_WATERMARK))


def _bounds(window: object) -> tuple[int, int]:
    if not isinstance(window, TimeWindow):
        raise TypeError(f"Does not support comparison with non-TimeWindow {window!r}")
    return window.start, window.end


class CountWindow(Window):
    """A window of a number of elements. The windows of a key are numbered from 0."""

    __slots__ = ("id",)

    def __init__(self, id: int) -> None:
        self.id = id

    def max_timestamp(self) -> int:
        """The end of time."""
        return MAX_WATERMARK

    def __hash__(self) -> int:
        return hash(self.id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CountWindow) and self.id == other.id

    def __repr__(self) -> str:
        return f"CountWindow(id={self.id})"


class GlobalWindow(Window):
    """The one window of GlobalWindows, which contains every element."""

    __slots__ = ()

    @staticmethod
    def get() -> "GlobalWindow":
        """The window."""
        return GlobalWindow()

    def max_timestamp(self) -> int:
        """The end of time."""
        return MAX_WATERMARK

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GlobalWindow)

    def __repr__(self) -> str:
        return "GlobalWindow"


class WindowSerializer(ABC, Generic[W]):
    """How the windows of an assigner are stored."""

    namespace_type: TypeInformation
    """The type of `to_namespace`."""

    @abstractmethod
    def to_namespace(self, window: W) -> Any:
        """The window as plain data."""

    @abstractmethod
    def to_window(self, namespace: Any) -> W:
        """The window of a namespace."""

    @abstractmethod
    def serialize(self, element: W, stream: BytesIO) -> None:
        """Write a window to a stream."""

    @abstractmethod
    def deserialize(self, stream: BytesIO) -> W:
        """Read a window from a stream."""


_LONG = scalar("LONG")
_two_longs = struct.Struct(">qq")
_long = struct.Struct(">q")


class TimeWindowSerializer(WindowSerializer[TimeWindow]):
    """Stores a TimeWindow as its start and end."""

    namespace_type = tuple_of([_LONG, _LONG])

    def to_namespace(self, window: TimeWindow) -> tuple[int, int]:
        """Start and end."""
        return window.start, window.end

    def to_window(self, namespace: tuple[int, int]) -> TimeWindow:
        """The window with this start and end."""
        return TimeWindow(namespace[0], namespace[1])

    def serialize(self, element: TimeWindow, stream: BytesIO) -> None:
        """Write 16 bytes."""
        stream.write(_two_longs.pack(element.start, element.end))

    def deserialize(self, stream: BytesIO) -> TimeWindow:
        """Read 16 bytes."""
        return TimeWindow(*_two_longs.unpack(stream.read(_two_longs.size)))


class CountWindowSerializer(WindowSerializer[CountWindow]):
    """Stores a CountWindow as its number."""

    namespace_type = _LONG

    def to_namespace(self, window: CountWindow) -> int:
        """The number."""
        return window.id

    def to_window(self, namespace: int) -> CountWindow:
        """The window of this number."""
        return CountWindow(namespace)

    def serialize(self, element: CountWindow, stream: BytesIO) -> None:
        """Write 8 bytes."""
        stream.write(_long.pack(element.id))

    def deserialize(self, stream: BytesIO) -> CountWindow:
        """Read 8 bytes."""
        return CountWindow(_long.unpack(stream.read(_long.size))[0])


class GlobalWindowSerializer(WindowSerializer[GlobalWindow]):
    """Stores the GlobalWindow as 0."""

    namespace_type = _LONG

    def to_namespace(self, window: GlobalWindow) -> int:
        """Always 0."""
        return 0

    def to_window(self, namespace: int) -> GlobalWindow:
        """The window."""
        return GlobalWindow()

    def serialize(self, element: GlobalWindow, stream: BytesIO) -> None:
        """Write 8 bytes."""
        stream.write(_long.pack(0))

    def deserialize(self, stream: BytesIO) -> GlobalWindow:
        """Read 8 bytes."""
        stream.read(_long.size)
        return GlobalWindow()


class BytesSerializer(WindowSerializer[Any]):
    """Stores windows of a user's own class as the bytes that its serializer writes."""

    namespace_type = scalar("BINARY")

    def __init__(self, serializer: Any) -> None:
        self._serializer = serializer

    def to_namespace(self, window: Any) -> bytes:
        """The bytes that the serializer writes."""
        stream = BytesIO()
        self._serializer.serialize(window, stream)
        return stream.getvalue()

    def to_window(self, namespace: bytes) -> Any:
        """The window that the serializer reads."""
        return self._serializer.deserialize(BytesIO(namespace))

    def serialize(self, element: Any, stream: BytesIO) -> None:
        """As the serializer does."""
        self._serializer.serialize(element, stream)

    def deserialize(self, stream: BytesIO) -> Any:
        """As the serializer does."""
        return self._serializer.deserialize(stream)
