"""What a window operator does, as the program describes it, with checks before it runs."""

from dataclasses import dataclass
from typing import Any

from penstock.errors import ArgumentError, UsageError
from penstock.graph.stream_graph import StreamGraph
from penstock.model.descriptors import AggregatingStateDescriptor, ReducingStateDescriptor, StateDescriptor
from penstock.model.functions import KeySelector
from penstock.model.output_tag import OutputTag
from penstock.model.window_assigners import MergingWindowAssigner, WindowAssigner
from penstock.model.window_functions import ProcessAllWindowFunction, ProcessWindowFunction
from penstock.model.window_triggers import Trigger
from penstock.model.windows import BytesSerializer, WindowSerializer

KEYED_WINDOW = "keyed_window"
"""The kind of the operator. `window_all` has a key too: the same one for all records."""
WINDOW_CONTENTS = "window-contents"
"""The name of the state that holds the elements of a window, or their aggregate."""


@dataclass(frozen=True)
class WindowOperation:
    """The function of an operator of kind `keyed_window`."""

    assigner: WindowAssigner[Any, Any]
    trigger: Trigger[Any, Any]
    contents: StateDescriptor
    """A reducing, an aggregating or a list state."""
    function: Any = None
    """Called with the contents of a window that fires; if None, the contents are the result."""
    allowed_lateness_ms: int = 0
    late_tag: OutputTag | None = None
    """The side output of late records; None: they are dropped and counted."""

    @property
    def merges(self) -> bool:
        """Whether windows are merged, as sessions are."""
        return isinstance(self.assigner, MergingWindowAssigner)

    @property
    def combine(self) -> Any:
        """The program's function that reduces or aggregates records; None if all of them are kept."""
        if isinstance(self.contents, ReducingStateDescriptor):
            return self.contents.get_reduce_function()
        return self.contents.get_agg_function() if isinstance(self.contents, AggregatingStateDescriptor) else None

    @property
    def functions(self) -> list[Any]:
        """The program's functions: what reduces or aggregates, and what evaluates a window."""
        return [function for function in (self.combine, self.function) if function is not None]

    @property
    def with_context(self) -> bool:
        """Whether the function gets a context with times and state."""
        return isinstance(self.function, ProcessWindowFunction | ProcessAllWindowFunction)


class SameKey(KeySelector):
    """The key of `window_all`: all records have the same one."""

    def get_key(self, value: Any) -> int:
        """Always 0."""
        return 0


def serializer_of(assigner: WindowAssigner[Any, Any]) -> WindowSerializer[Any]:
    """How the windows of an assigner are stored."""
    serializer = assigner.get_window_serializer()
    if isinstance(serializer, WindowSerializer):
        return serializer
    if callable(getattr(serializer, "serialize", None)) and callable(getattr(serializer, "deserialize", None)):
        return BytesSerializer(serializer)
    raise ArgumentError(
        f"{type(assigner).__name__}.get_window_serializer() returned {serializer!r}; return TimeWindowSerializer(), or "
        f"an object with serialize(window, stream) and deserialize(stream)"
    )


def check_operation(operation: WindowOperation, name: str) -> None:
    """Raise for settings that cannot work together."""
    assigner, trigger = operation.assigner, operation.trigger
    if operation.merges and not trigger.can_merge():
        raise ArgumentError(
            f"A merging window assigner cannot be used with a trigger that does not support merging: {name!r} has "
            f"{type(assigner).__name__} and {type(trigger).__name__}; use another trigger, or give it can_merge() and "
            f"on_merge()"
        )
    if not assigner.is_event_time():
        for setting, value in (
            ("allowed_lateness", operation.allowed_lateness_ms),
            ("side_output_late_data", operation.late_tag),
        ):
            if value:
                raise UsageError(
                    f"{setting}() of {name!r} has no meaning: nothing is late for {type(assigner).__name__}, which "
                    f"does not use event time; remove it, or use event-time windows such as TumblingEventTimeWindows"
                )
    serializer_of(assigner)


def require_event_time(graph: StreamGraph, node_id: int, name: str) -> None:
    """Raise if no record that reaches a node can have a timestamp."""
    if graph.has_event_time(node_id):
        return
    raise UsageError(
        f"{name!r} divides the stream by event time, but its records have no timestamps; write "
        f".assign_timestamps_and_watermarks(WatermarkStrategy...) or from_dataframe(..., event_time=...) before it, "
        f"or use processing-time windows"
    )
