"""`get_side_output`: checks what the program asks for."""

from penstock.errors import ArgumentError, TypeMismatchError, UsageError
from penstock.graph.job_graph import SIDE_OUTPUT
from penstock.graph.stream_graph import Node, OperatorSpec, StreamGraph
from penstock.model.output_tag import OutputTag


def side_output(graph: StreamGraph, producer: Node, tag: OutputTag) -> OperatorSpec:
    """The operator for one side output of an operator; an error if the operator cannot have one."""
    if not isinstance(tag, OutputTag):
        raise ArgumentError(f"get_side_output() takes an OutputTag, not {tag!r}; write OutputTag('late')")
    if not isinstance(producer.payload, OperatorSpec) or producer.payload.kind == SIDE_OUTPUT:
        raise UsageError(
            f"get_side_output() needs the stream of an operator, which {producer.name!r} is not; call it on the stream "
            f"that process() or another operator returned, before key_by(), union() or rebalance()"
        )
    for node in graph.nodes:
        if producer.id in node.inputs and node.payload == _spec(tag) and node.output_type != tag.type_info:
            raise TypeMismatchError(
                f"A side output with a matching id was already requested with a different type. {tag.tag_id!r} of "
                f"{producer.name!r} has records of type {node.output_type.text} and of type {tag.type_info.text}; give "
                f"the two tags different ids, or use one tag"
            )
    return _spec(tag)


def _spec(tag: OutputTag) -> OperatorSpec:
    return OperatorSpec(SIDE_OUTPUT, None, {"tag": tag.tag_id})
