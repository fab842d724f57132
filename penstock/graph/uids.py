"""Operator uids: explicit ones of the user, or derived ones that stay the same as long as the program does.

A derived uid comes from what the operator is (kind and name of its function; for a source the name it was made with),
from the uids of its inputs and, among operators equal in both, from their order. So an explicit uid shields everything
downstream of it from changes further upstream; `.name()` does not matter.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Sequence

from penstock.errors import UsageError
from penstock.graph.job_graph import SIDE_OUTPUT
from penstock.graph.pickling import function_name
from penstock.graph.stream_graph import KeyBy, Node, OperatorSpec, SinkSpec, SourceSpec

_HASH_DIGITS = 12
_NAMED_KINDS = ("source", "operator", "sink")


def assign_uids(nodes: Sequence[Node], *, generate: bool = True) -> dict[int, str]:
    """The uid of each source, operator and sink, by node id.

    Raises UsageError for a uid used twice and, unless `generate`, for a node without one.
    """
    tokens: dict[int, str] = {}
    uids: dict[int, str] = {}
    seen: Counter[str] = Counter()
    for node in nodes:
        identity = _identity(node, [tokens[input_id] for input_id in node.inputs])
        if node.kind not in _NAMED_KINDS:
            tokens[node.id] = identity
            continue
        explicit = explicit_uid(node)
        if explicit is None and not generate and not _needs_no_uid(node):
            raise UsageError(
                f"auto generated UIDs have been disabled but no UID or hash has been assigned to operator "
                f"{node.name!r}; call .uid(...) on it"
            )
        order = seen[identity]
        seen[identity] += 1
        uids[node.id] = tokens[node.id] = explicit or _derive(node, identity, order)
    _require_unique(nodes, uids)
    return uids


def explicit_uid(node: Node) -> str | None:
    """The uid or the uid hash that the program sets."""
    return node.uid or node.uid_hash


def _identity(node: Node, inputs: list[str]) -> str:
    return "\x1f".join([node.kind, _description(node), *inputs])


def _description(node: Node) -> str:
    payload = node.payload
    if isinstance(payload, OperatorSpec):
        if _is_side_output(node):
            return f"{payload.kind} {payload.config['tag']}"
        return f"{payload.kind} {function_name(payload.function)}"
    if isinstance(payload, SourceSpec):
        return f"{payload.kind} {node.given_name}"
    if isinstance(payload, SinkSpec):
        return f"{payload.kind} {type(payload.config).__name__ if payload.kind == 'sink' else ''}"
    if isinstance(payload, KeyBy):
        return payload.label
    return ""


def _needs_no_uid(node: Node) -> bool:
    """Return whether the program cannot give it one: a part of another operator, without state."""
    return _is_side_output(node) or (node.kind == "operator" and not node.takes_uid)


def _is_side_output(node: Node) -> bool:
    return isinstance(node.payload, OperatorSpec) and node.payload.kind == SIDE_OUTPUT


def _derive(node: Node, identity: str, order: int) -> str:
    digest = hashlib.sha256(f"{identity}\x1f{order}".encode()).hexdigest()[:_HASH_DIGITS]
    label = re.sub(r"[^a-z0-9]+", "-", _description(node).lower()).strip("-")
    return f"{label or node.kind}-{digest}"


def _require_unique(nodes: Sequence[Node], uids: dict[int, str]) -> None:
    owners: dict[str, Node] = {}
    for node in nodes:
        uid = uids.get(node.id)
        if uid is None:
            continue
        if uid in owners:
            places = "".join(f"\n  created at {found.created}" for found in (owners[uid], node) if found.created)
            raise UsageError(
                f'Hash collision on user-specified ID "{uid}". Most likely cause is a non-unique ID. '
                f"Operators {owners[uid].name!r} and {node.name!r} both have it; give one of them another uid{places}"
            )
        owners[uid] = node
