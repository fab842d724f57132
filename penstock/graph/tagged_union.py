"""A window join is a window over the union of both streams: each record travels with the number of its stream."""

from collections.abc import Iterable, Iterator
from typing import Any

from penstock.model.functions import Function, KeySelector, MapFunction, RuntimeContext
from penstock.model.join_functions import CoGroupFunction, FlatJoinFunction, JoinFunction
from penstock.model.window_functions import WindowFunction


class TagSide(MapFunction):
    """Marks the records of one of the two streams."""

    def __init__(self, side: int) -> None:
        self.side = side

    def map(self, value: Any) -> Any:
        """The number of the stream, 1 or 2, and the record."""
        return self.side, value


class SideKey(KeySelector):
    """The key of a marked record, computed by the selector of its stream."""

    def __init__(self, first: KeySelector, second: KeySelector) -> None:
        self.first = first
        self.second = second

    def get_key(self, value: Any) -> Any:
        """The key."""
        side, record = value
        return self.first.get_key(record) if side == 1 else self.second.get_key(record)


class FieldKey(KeySelector):
    """One field of a row as its key."""

    def __init__(self, field: str) -> None:
        self.field = field

    def get_key(self, value: Any) -> Any:
        """The field's value."""
        return value[self.field]


class SidesOfWindow(WindowFunction[Any, Any, Any, Any]):
    """Separates the records of a window by stream and calls the program's function with them."""

    def __init__(self, function: JoinFunction | FlatJoinFunction | CoGroupFunction) -> None:
        self.function: Function = function

    @property
    def inner_functions(self) -> list[Function]:
        """The program's function, which may have operator state."""
        return [self.function]

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the program's function."""
        self.function.open(runtime_context)

    def close(self) -> None:
        """Close the program's function."""
        self.function.close()

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Any:
        """The results for the records of both streams in a window."""
        sides: dict[int, list[Any]] = {1: [], 2: []}
        for side, record in inputs:
            sides[side].append(record)
        if isinstance(self.function, CoGroupFunction):
            return self.function.co_group(sides[1], sides[2])
        return self._pairs(sides[1], sides[2])

    def _pairs(self, firsts: list[Any], seconds: list[Any]) -> Iterator[Any]:
        function = self.function
        for first in firsts:
            for second in seconds:
                if isinstance(function, JoinFunction):
                    yield function.join(first, second)
                elif isinstance(function, FlatJoinFunction):
                    yield from function.join(first, second) or ()
