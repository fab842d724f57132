"""Two streams for one function: `stream.connect(other)`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.errors import ArgumentError, TypeMismatchError, UsageError
from penstock.graph.callables import describe_given
from penstock.graph.function_checks import check_function
from penstock.graph.stream_graph import KeyBy, OperatorSpec
from penstock.model.co_functions import CoFlatMapFunction, CoMapFunction, CoProcessFunction, KeyedCoProcessFunction
from penstock.model.functions import Function, KeySelector
from penstock.model.types import record_type

if TYPE_CHECKING:
    from penstock.datastream.data_stream import DataStream


class ConnectedStreams:
    """Two streams whose records go to one function, each to its own method. If both are keyed, they share state."""

    def __init__(self, stream1: "DataStream", stream2: "DataStream") -> None:
        if stream1._environment is not stream2._environment:
            raise UsageError("cannot connect a stream of another environment; make both streams in one")
        self.stream1 = stream1
        self.stream2 = stream2
        if self._is_keyed_stream():
            _require_one_key_type(stream1, stream2)

    def key_by(
        self,
        key_selector1: str | Callable[[Any], Any] | KeySelector,
        key_selector2: str | Callable[[Any], Any] | KeySelector,
        key_type: Any = None,
    ) -> "ConnectedStreams":
        """Both streams partitioned by key: records with equal keys share the same state.

        A key is a column, or a function of the record as in PyFlink; `key_type` is the type that the functions return.
        """
        types = [None if isinstance(given, str) else key_type for given in (key_selector1, key_selector2)]
        return ConnectedStreams(
            self.stream1._values().key_by(key_selector1, types[0]),
            self.stream2._values().key_by(key_selector2, types[1]),
        )

    def map(self, func: CoMapFunction, output_type: Any = None) -> "DataStream":
        """The results of `func.map1` and `func.map2`, one for each record; None is no result."""
        if not isinstance(func, CoMapFunction):
            raise ArgumentError(f"The input function must be a CoMapFunction, not {describe_given(func)}")
        return self._operator("co_map", "Co-Map", func, output_type)

    def flat_map(self, func: CoFlatMapFunction, output_type: Any = None) -> "DataStream":
        """The records that `func.flat_map1` and `func.flat_map2` yield: any number for each record."""
        if not isinstance(func, CoFlatMapFunction):
            raise ArgumentError(f"The input must be a CoFlatMapFunction, not {describe_given(func)}")
        return self._operator("co_flat_map", "Co-Flat Map", func, output_type)

    def process(self, func: CoProcessFunction | KeyedCoProcessFunction, output_type: Any = None) -> "DataStream":
        """The records that `func.process_element1` and `func.process_element2` yield.

        A KeyedCoProcessFunction has state and timers, and needs two keyed streams.
        """
        if not isinstance(func, (CoProcessFunction, KeyedCoProcessFunction)):
            raise ArgumentError(
                f"The input must be a CoProcessFunction or KeyedCoProcessFunction, not {describe_given(func)}"
            )
        if isinstance(func, KeyedCoProcessFunction) and not self._is_keyed_stream():
            unkeyed = [s.get_type().text for s in (self.stream1, self.stream2) if _key_by(s) is None]
            which = "neither stream has one" if len(unkeyed) == 2 else f"the stream of {unkeyed[0]} has none"
            raise UsageError(
                f"{type(func).__name__} is a KeyedCoProcessFunction, which needs the same key on both streams, but "
                f"{which}; write first.key_by(...).connect(second.key_by(...)), or "
                f"first.connect(second).key_by(..., ...)"
            )
        name = "Keyed Co-Process" if self._is_keyed_stream() else "Co-Process"
        return self._operator("co_process", name, func, output_type)

    def _operator(self, kind: str, name: str, func: Function, output_type: Any) -> "DataStream":
        from penstock.datastream.data_stream import DataStream

        check_function(func, "keyed_co_process" if isinstance(func, KeyedCoProcessFunction) else kind)
        spec = OperatorSpec(f"keyed_{kind}" if self._is_keyed_stream() else kind, func)
        inputs = [self.stream1._node.id, self.stream2._node.id]
        environment = self.stream1._environment
        node = environment._graph.add("operator", name, inputs, spec, record_type(output_type))
        return DataStream(environment, node)

    def _is_keyed_stream(self) -> bool:
        return _key_by(self.stream1) is not None and _key_by(self.stream2) is not None


def _key_by(stream: "DataStream") -> KeyBy | None:
    payload = stream._node.payload
    return payload if isinstance(payload, KeyBy) else None


def _require_one_key_type(stream1: "DataStream", stream2: "DataStream") -> None:
    first, second = _key_by(stream1), _key_by(stream2)
    assert first is not None and second is not None
    if first.key_types != second.key_types:
        of_first, of_second = (", ".join(each.text for each in key_by.key_types) for key_by in (first, second))
        raise TypeMismatchError(
            f"the keys of two connected streams must be of one type: key_by({first.label}) has {of_first}, "
            f"key_by({second.label}) has {of_second}; declare key_type= of the functions, or change a column's type"
        )
