"""Joins by window: `first.join(second)` and `first.co_group(second)`, after Flink's Java API."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.errors import ArgumentError, TypeMismatchError, UsageError
from penstock.graph.callables import CallableJoin, CallableKeySelector, as_function, describe_given
from penstock.graph.creation_site import creation_site, site_line
from penstock.graph.function_checks import check_function
from penstock.graph.tagged_union import FieldKey, SideKey, SidesOfWindow, TagSide
from penstock.model.functions import Function, KeySelector
from penstock.model.join_functions import CoGroupFunction, FlatJoinFunction, JoinFunction
from penstock.model.time import TimeSpan
from penstock.model.type_information import TypeInformation
from penstock.model.types import TAGGED, Types, resolve_type
from penstock.model.window_assigners import WindowAssigner
from penstock.model.window_triggers import Trigger

if TYPE_CHECKING:
    from penstock.datastream.data_stream import DataStream
    from penstock.datastream.windowed_stream import WindowedStream

_Self = TypeVar("_Self", bound="TwoStreamWindows")
KeyOf = str | Callable[[Any], Any] | KeySelector


class TwoStreamWindows:
    """Two streams, their keys and their windows. The setters return the object itself, in Flink's order."""

    _call = ""
    """The method that made it."""

    def __init__(self, first: "DataStream", second: "DataStream") -> None:
        from penstock.datastream.data_stream import DataStream

        if not isinstance(second, DataStream) or second._environment is not first._environment:
            raise ArgumentError(f"{self._call}() takes a stream of the same environment, not {second!r}")
        self._streams = first._values(), second._values()
        self._selectors: list[KeySelector] = []
        self._key_types: list[Any] = []
        self._field_types: list[TypeInformation | None] = []
        """Of keys that are fields, if the type of the records is declared."""
        self._windows: WindowedStream | None = None
        self._graph.unfinished[self] = (
            f"{self._call}() ({site_line(creation_site())}) does nothing yet; write first.{self._call}(second)"
            f".where(key).equal_to(key).window(assigner).apply(function)"
        )

    @property
    def _graph(self) -> Any:
        return self._streams[0]._environment._graph

    def where(self: _Self, key_selector: KeyOf, key_type: Any = None) -> _Self:
        """Set the key of the first stream: a field, or a function of the record."""
        return self._add_key(key_selector, key_type, "where", 0)

    def equal_to(self: _Self, key_selector: KeyOf, key_type: Any = None) -> _Self:
        """Set the key of the second stream: a field, or a function of the record."""
        return self._add_key(key_selector, key_type, "equal_to", 1)

    def _add_key(self: _Self, key_selector: KeyOf, key_type: Any, method: str, index: int) -> _Self:
        if len(self._selectors) != index:
            raise UsageError(f"call {method}() once, {'first' if index == 0 else 'after where()'}")
        field_type = None
        if isinstance(key_selector, str):
            selector: Any = FieldKey(key_selector)
            record_type = self._streams[index].get_type()
            field_type = record_type.field(key_selector) if record_type.names is not None else None
        else:
            selector = as_function(key_selector, KeySelector, CallableKeySelector)
        self._field_types.append(field_type)
        check_function(selector, "key_by")
        self._selectors.append(selector)
        self._key_types.append(key_type)
        return self

    def window(self: _Self, window_assigner: WindowAssigner[Any, Any]) -> _Self:
        """Set the windows in which records of both streams meet."""
        if len(self._selectors) < 2:
            raise UsageError(f"window() of {self._call}() comes after where(key) and equal_to(key)")
        key_type = self._key_type()
        sides = [
            stream._operator("map", f"{name} of {self._call}", TagSide(number), self._union_type())
            for number, name, stream in zip((1, 2), ("First", "Second"), self._streams, strict=True)
        ]
        for side in sides:
            side._node.takes_uid = False
        keyed = sides[0].union(sides[1]).key_by(SideKey(*self._selectors), key_type)
        self._windows = keyed.window(window_assigner)
        self._graph.unfinished.pop(self._windows, None)  # the message of this object says more
        return self

    def _key_type(self) -> TypeInformation | None:
        """The declared type of the key; an error if keys of the two streams can never be equal."""
        types = [None if key_type is None else resolve_type(key_type) for key_type in self._key_types]
        first, second = (declared or field for declared, field in zip(types, self._field_types, strict=True))
        is_declared = None not in types
        if first and second and (first != second if is_declared else _are_never_equal(first, second)):
            raise TypeMismatchError(
                f"The key types for the two inputs are not equal: where() has {first.text}, equal_to() has "
                f"{second.text}"
            )
        return next((found for found in types if found is not None), None)

    def trigger(self: _Self, trigger: Trigger[Any, Any]) -> _Self:
        """Set when windows are evaluated, instead of the assigner's default trigger."""
        self._windowed("trigger").trigger(trigger)
        return self

    def allowed_lateness(self: _Self, time_ms: TimeSpan) -> _Self:
        """Set how long a record may come after the watermark has passed the end of its window."""
        self._windowed("allowed_lateness").allowed_lateness(time_ms)
        return self

    def _windowed(self, method: str) -> "WindowedStream":
        if self._windows is None:
            raise UsageError(f"{method}() of {self._call}() comes after window(assigner)")
        return self._windows

    def _union_type(self) -> TypeInformation:
        types = [stream.get_type() for stream in self._streams]
        return Types.TUPLE([Types.INT(), Types.PICKLED_BYTE_ARRAY()]) if any(t.uses_pickle for t in types) else TAGGED

    def _result(self, function: Function, output_type: Any, name: str) -> "DataStream":
        windows = self._windowed("apply")
        stream = windows.apply(SidesOfWindow(function), output_type)  # type: ignore[arg-type]
        self._graph.unfinished.pop(self, None)
        return stream.name(name)


_INTEGERS, _FLOATS = frozenset({"BYTE", "SHORT", "INT", "LONG", "BIG_INT"}), frozenset({"FLOAT", "DOUBLE"})
_DECIMALS = frozenset({"DECIMAL", "BIG_DEC"})


def _are_never_equal(first: TypeInformation, second: TypeInformation) -> bool:
    """Whether no value of one type is the same key as a value of the other: 1, 1.0 and "1" are three keys."""
    if first.kind != "arrow" or second.kind != "arrow" or first.name == second.name:
        return False
    return not any({first.name, second.name} <= alike for alike in (_INTEGERS, _FLOATS, _DECIMALS))


class JoinedStreams(TwoStreamWindows):
    """A window join: every pair of records of the two streams with one key in one window."""

    _call = "join"

    def apply(
        self, function: Callable[[Any, Any], Any] | JoinFunction | FlatJoinFunction, output_type: Any = None
    ) -> "DataStream":
        """The results of the function for each pair."""
        joins = (
            function if isinstance(function, FlatJoinFunction) else as_function(function, JoinFunction, CallableJoin)
        )
        check_function(joins, "flat_join" if isinstance(joins, FlatJoinFunction) else "join")
        return self._result(joins, output_type, "Join")


class CoGroupedStreams(TwoStreamWindows):
    """For each key and window the records of both streams, even if only one of them has any."""

    _call = "co_group"

    def apply(self, function: CoGroupFunction, output_type: Any = None) -> "DataStream":
        """The results of the function for each key and window."""
        if not isinstance(function, CoGroupFunction):
            raise ArgumentError(
                f"apply() of co_group() takes a CoGroupFunction, not {describe_given(function)}; give an instance of a "
                f"subclass"
            )
        check_function(function, "co_group")
        return self._result(function, output_type, "CoGroup")
