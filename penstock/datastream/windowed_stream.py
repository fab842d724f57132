"""`WindowedStream` and `AllWindowedStream`: a stream divided into windows, until a function makes a stream of it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.datastream.vectorised import add_window_aggregates
from penstock.errors import ArgumentError
from penstock.graph.callables import CallableReduce, as_function, describe_given
from penstock.graph.creation_site import creation_site, site_line
from penstock.graph.function_checks import check_function
from penstock.graph.stream_graph import OperatorSpec
from penstock.graph.window_operation import (
    KEYED_WINDOW,
    WINDOW_CONTENTS,
    SameKey,
    WindowOperation,
    check_operation,
    require_event_time,
)
from penstock.model.column_aggregates import ColumnAggregate
from penstock.model.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
)
from penstock.model.functions import AggregateFunction, ReduceFunction
from penstock.model.output_tag import OutputTag
from penstock.model.time import TimeSpan, milliseconds
from penstock.model.types import TypeInformation, Types, record_type
from penstock.model.window_assigners import CountSlidingWindowAssigner, CountTumblingWindowAssigner, WindowAssigner
from penstock.model.window_functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from penstock.model.window_triggers import Trigger

if TYPE_CHECKING:
    from penstock.datastream.data_stream import DataStream
    from penstock.datastream.environment import StreamExecutionEnvironment
    from penstock.datastream.keyed_stream import KeyedStream

_Self = TypeVar("_Self", bound="WindowSettings")


class WindowSettings:
    """What both kinds of windowed streams have in common. The setters return the object itself."""

    _apply: type
    """The function that `apply` takes."""
    _process: type
    """The function that `process` takes."""
    _suffix = ""
    _shown = "Window"

    def __init__(self, keyed_stream: "KeyedStream", window_assigner: WindowAssigner[Any, Any]) -> None:
        if not isinstance(window_assigner, WindowAssigner):
            raise ArgumentError(
                f"window() and window_all() take a WindowAssigner, not {describe_given(window_assigner)}; write "
                f"TumblingEventTimeWindows.of(Time.seconds(10)), for example"
            )
        self._keyed_stream = keyed_stream
        self._window_assigner = window_assigner
        self._window_trigger: Trigger[Any, Any] | None = None
        self._allowed_lateness_ms = 0
        self._late_data_output_tag: OutputTag | None = None
        self._name = type(window_assigner).__name__
        if window_assigner.is_event_time():
            require_event_time(self._graph, keyed_stream._node.id, self._name)
        self._graph.unfinished[self] = (
            f"{self._name!r} ({site_line(creation_site())}) divides a stream into windows, and nothing is done with "
            f"them; call .reduce(), .aggregate(), .agg(), .apply() or .process() on it"
        )

    @property
    def _graph(self) -> Any:
        return self._keyed_stream._environment._graph

    def get_execution_environment(self) -> "StreamExecutionEnvironment":
        """The environment that the stream belongs to."""
        return self._keyed_stream.get_execution_environment()

    def get_input_type(self) -> TypeInformation:
        """The type of the records."""
        return self._keyed_stream.get_type()

    def trigger(self: _Self, trigger: Trigger[Any, Any]) -> _Self:
        """Set when windows are evaluated, instead of the assigner's default trigger."""
        if not isinstance(trigger, Trigger):
            raise ArgumentError(
                f"trigger() of {self._name!r} takes a Trigger, not {describe_given(trigger)}; write "
                f"CountTrigger.of(10), for example"
            )
        self._window_trigger = trigger
        self._check(trigger)
        return self

    def allowed_lateness(self: _Self, time_ms: TimeSpan) -> _Self:
        """Set how late a record may be, in milliseconds after the watermark has passed the end of its window."""
        self._allowed_lateness_ms = milliseconds(time_ms)
        self._check(self._used_trigger())
        return self

    def side_output_late_data(self: _Self, output_tag: OutputTag) -> _Self:
        """Send records that are too late to a side output, instead of dropping them."""
        if not isinstance(output_tag, OutputTag):
            raise ArgumentError(
                f"side_output_late_data() of {self._name!r} takes an OutputTag, such as OutputTag('late'), not "
                f"{describe_given(output_tag)}"
            )
        self._late_data_output_tag = output_tag
        self._check(self._used_trigger())
        return self

    def reduce(
        self,
        reduce_function: Callable[[Any, Any], Any] | ReduceFunction,
        window_function: Any = None,
        output_type: Any = None,
    ) -> "DataStream":
        """The records of each window reduced to one, as they come; a window function gets the reduced record."""
        function = as_function(reduce_function, ReduceFunction, CallableReduce)
        check_function(function, "window_reduce")
        if window_function is None and output_type is None:
            output_type = self.get_input_type()
        contents = ReducingStateDescriptor(WINDOW_CONTENTS, function, self.get_input_type())  # type: ignore[arg-type]
        return self._result(contents, window_function, output_type, [function])

    def aggregate(
        self,
        aggregate_function: AggregateFunction,
        window_function: Any = None,
        accumulator_type: Any = None,
        output_type: Any = None,
    ) -> "DataStream":
        """The records of each window aggregated, as they come; a window function gets the result."""
        if not isinstance(aggregate_function, AggregateFunction):
            raise ArgumentError(
                f"aggregate() of {self._name!r} takes an AggregateFunction, not {describe_given(aggregate_function)}; "
                f"give an instance of a subclass"
            )
        check_function(aggregate_function, "window_aggregate")
        if isinstance(accumulator_type, list):
            accumulator_type = Types.ROW(accumulator_type)
        contents = AggregatingStateDescriptor(WINDOW_CONTENTS, aggregate_function, accumulator_type)
        return self._result(contents, window_function, output_type, [aggregate_function])

    def apply(self, window_function: Any, output_type: Any = None) -> "DataStream":
        """The results of a function that gets all records of a window."""
        self._require(window_function, (self._apply,), "apply")
        return self._result(self._list_of_records(), window_function, output_type, [])

    def process(self, process_window_function: Any, output_type: Any = None) -> "DataStream":
        """The results of a function that gets all records of a window, and a context with times and state."""
        self._require(process_window_function, (self._process,), "process")
        return self._result(self._list_of_records(), process_window_function, output_type, [])

    def _list_of_records(self) -> StateDescriptor:
        return ListStateDescriptor(WINDOW_CONTENTS, self.get_input_type())

    def _used_trigger(self) -> Trigger[Any, Any]:
        trigger = self._window_trigger
        if trigger is None:
            trigger = self._window_assigner.get_default_trigger(self.get_execution_environment())
        return trigger

    def _check(self, trigger: Trigger[Any, Any]) -> None:
        check_operation(self._operation(trigger, self._list_of_records(), None), self._name)

    def _operation(self, trigger: Trigger[Any, Any], contents: StateDescriptor, function: Any) -> WindowOperation:
        lateness_ms, tag = self._allowed_lateness_ms, self._late_data_output_tag
        return WindowOperation(self._window_assigner, trigger, contents, function, lateness_ms, tag)

    def _require(self, function: Any, kinds: tuple[type, ...], method: str) -> None:
        if not isinstance(function, kinds):
            names = " or ".join(kind.__name__ for kind in kinds)
            raise ArgumentError(
                f"{method}() of {self._name!r} takes a {names}, not {describe_given(function)}; give an instance of a "
                f"subclass of {names}"
            )
        kind = "window_apply" if isinstance(function, self._apply) else "window_process"
        check_function(function, kind + self._suffix)

    def _result(
        self, contents: StateDescriptor, window_function: Any, output_type: Any, functions: list[Any]
    ) -> "DataStream":
        from penstock.datastream.data_stream import DataStream

        if window_function is not None:
            self._require(window_function, (self._apply, self._process), "window_function")
            functions = [*functions, window_function]
        operation = self._operation(self._used_trigger(), contents, window_function)
        check_operation(operation, self._name)
        stream = self._keyed_stream
        spec = OperatorSpec(KEYED_WINDOW, operation)
        node = self._graph.add("operator", self._name, [stream._node.id], spec, record_type(output_type))
        names = ", ".join("function" if isinstance(f, CallableReduce) else type(f).__name__ for f in functions)
        node.description = f"{self._shown}({self._window_assigner!r}, {type(operation.trigger).__name__}, {names})"
        self._graph.unfinished.pop(self, None)
        return DataStream(stream._environment, node)


class WindowedStream(WindowSettings):
    """A keyed stream divided into windows. `keyed_stream.window(assigner)` makes it."""

    _apply = WindowFunction
    _process = ProcessWindowFunction

    def agg(self, **aggregates: ColumnAggregate) -> "DataStream":
        """The key, the bounds and the aggregates of each window. Computed on columns.

        `orders.key_by("customer").window(TumblingEventTimeWindows.of(Time.minutes(1))).agg(total=agg.sum("amount"))`
        """
        result = add_window_aggregates(self._keyed_stream, self, aggregates)
        self._graph.unfinished.pop(self, None)
        return result


class AllWindowedStream(WindowSettings):
    """A stream divided into windows without a key. `stream.window_all(assigner)` makes it."""

    _apply = AllWindowFunction
    _process = ProcessAllWindowFunction
    _suffix = "_all"
    _shown = "AllWindow"

    def __init__(self, data_stream: "DataStream", window_assigner: WindowAssigner[Any, Any]) -> None:
        super().__init__(data_stream.key_by(SameKey(), Types.BYTE()), window_assigner)

    def _result(
        self, contents: StateDescriptor, window_function: Any, output_type: Any, functions: list[Any]
    ) -> "DataStream":
        return super()._result(contents, window_function, output_type, functions).force_non_parallel()


def count_windows(size: int, slide: int) -> WindowAssigner[Any, Any]:
    """The assigner of `count_window`."""
    return CountTumblingWindowAssigner(size) if slide == 0 else CountSlidingWindowAssigner(size, slide)
