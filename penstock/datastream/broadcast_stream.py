"""A stream whose records go to every subtask, and its connection with another stream."""

from typing import TYPE_CHECKING, Any

from penstock.errors import ArgumentError, UsageError
from penstock.graph.callables import describe_given
from penstock.graph.function_checks import check_function
from penstock.graph.stream_graph import Node, OperatorSpec
from penstock.model.broadcast_functions import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from penstock.model.descriptors import MapStateDescriptor
from penstock.model.types import record_type

if TYPE_CHECKING:
    from penstock.datastream.data_stream import DataStream
    from penstock.datastream.environment import StreamExecutionEnvironment


class BroadcastStream:
    """A stream whose records go to every subtask. Made by `stream.broadcast(descriptor, ...)`, for `connect`."""

    def __init__(self, environment: "StreamExecutionEnvironment", node: Node, descriptors: tuple[Any, ...]) -> None:
        for descriptor in descriptors:
            if not isinstance(descriptor, MapStateDescriptor):
                raise ArgumentError(f"broadcast() takes MapStateDescriptors, not {descriptor!r}")
            if descriptor.ttl_config is not None and descriptor.ttl_config.is_enabled():
                raise UsageError(
                    f"broadcast state {descriptor.name!r} has a time to live, which only keyed state can have; remove "
                    f"enable_time_to_live, and remove old entries in process_broadcast_element"
                )
        names = [descriptor.name for descriptor in descriptors]
        if len(set(names)) != len(names):
            raise UsageError(f"two broadcast states have the same name: {names}; give each a name of its own")
        self._environment = environment
        self._node = node
        self._descriptors = descriptors


class BroadcastConnectedStream:
    """A stream, keyed or not, connected with a broadcast stream."""

    def __init__(self, stream: "DataStream", broadcast_stream: BroadcastStream) -> None:
        if broadcast_stream._environment is not stream._environment:
            raise UsageError("cannot connect a broadcast stream of another environment; make both streams in one")
        self._stream = stream
        self._broadcast = broadcast_stream

    def process(
        self, func: BroadcastProcessFunction | KeyedBroadcastProcessFunction, output_type: Any = None
    ) -> "DataStream":
        """The records that the function yields.

        A record goes to `process_element`, a broadcast record to `process_broadcast_element` in every subtask.
        """
        from penstock.datastream.data_stream import DataStream

        keyed = self._stream._node.kind == "key_by"
        expected = KeyedBroadcastProcessFunction if keyed else BroadcastProcessFunction
        if not isinstance(func, expected):
            stream = "a keyed stream" if keyed else "a stream without a key"
            raise ArgumentError(
                f"{expected.__name__} is required on {stream} connected with a broadcast one, not "
                f"{describe_given(func)}; give an instance of a subclass of {expected.__name__}"
            )
        kind = "keyed_broadcast" if keyed else "broadcast"
        check_function(func, kind)
        name = "Keyed-Co-Process-Broadcast" if keyed else "Co-Process-Broadcast"
        spec = OperatorSpec(kind, func, {"descriptors": self._broadcast._descriptors})
        inputs = [self._stream._node.id, self._broadcast._node.id]
        environment = self._stream._environment
        node = environment._graph.add("operator", name, inputs, spec, record_type(output_type))
        return DataStream(environment, node)
