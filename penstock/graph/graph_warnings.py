"""What a program should be warned of when its graph is built: operators without a uid, calls without effect."""

from collections.abc import Sequence

from penstock.graph.callables import is_wrapped
from penstock.graph.creation_site import site_line
from penstock.graph.stream_graph import Node, OperatorSpec, SourceSpec, StreamGraph
from penstock.graph.uids import explicit_uid
from penstock.model.operator_state import CheckpointedFunction

_KEPT_SOURCES = ("dataframe", "file", "kafka")
"""Kinds of sources whose position matters in a savepoint; collections and sequences are for first tries."""


def graph_warnings(graph: StreamGraph, nodes: Sequence[Node], *, batch: bool) -> tuple[str, ...]:
    """The warnings about these nodes of the program, in the order in which they are shown."""
    return (*_without_effect(graph, nodes), *(() if batch else _uid_warnings(nodes)))


def _without_effect(graph: StreamGraph, nodes: Sequence[Node]) -> list[str]:
    calls = dict(graph.without_effect)
    if any(node.slot_sharing_group is not None for node in nodes):
        calls["slot_sharing_group()"] = "Spark places the tasks"
    return [f"{call} has no effect: {reason}" for call, reason in calls.items()]


def _uid_warnings(nodes: Sequence[Node]) -> list[str]:
    found = []
    for node in nodes:
        place = f" ({site_line(node.created)})" if node.created else ""
        if explicit_uid(node) is not None:
            continue
        if isinstance(node.payload, OperatorSpec) and _keeps_state(node.payload):
            found.append(
                f"operator {node.name!r}{place} keeps state but has no uid; its derived one changes when operators "
                f"before it do, and its state is then not found on restore: add .uid(...)"
            )
        if isinstance(node.payload, SourceSpec) and node.payload.kind in _KEPT_SOURCES and node.takes_uid:
            found.append(
                f"source {node.name!r}{place} has no uid; its derived one depends on its name and on its place among "
                f"sources of that name, and after a change its position is not found on restore: add .uid(...)"
            )
    return found


def _keeps_state(spec: OperatorSpec) -> bool:
    if spec.kind in ("reduce", "broadcast", "async_wait") or isinstance(spec.function, CheckpointedFunction):
        return True
    return spec.is_keyed and not is_wrapped(spec.function)
