"""The settings of one operator: name, uid, parallelism, chaining."""

import re
from typing import Any, TypeVar

from penstock.errors import UsageError
from penstock.graph.stream_graph import Node

_Self = TypeVar("_Self", bound="NodeSettings")


class NodeSettings:
    """The setters that streams and sinks share. Each returns the object itself."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def name(self: _Self, name: str) -> _Self:
        """Set the name under which the operator is shown."""
        self._node.name = _text(name, "name")
        return self

    def uid(self: _Self, uid: str) -> _Self:
        """Set the id under which snapshots store the operator's state, so that the program around it can change."""
        self._require_operator("uid")
        self._node.uid = _text(uid, "uid")
        return self

    def set_uid_hash(self: _Self, uid_hash: str) -> _Self:
        """Restore the state of an operator that had no uid, by its generated id or 32 hex digits."""
        self._require_operator("set_uid_hash")
        self._node.uid_hash = _text(uid_hash, "uid hash")
        return self

    def set_parallelism(self: _Self, parallelism: int) -> _Self:
        """Set the number of subtasks of the operator."""
        self._require_operator("set_parallelism")
        if isinstance(parallelism, bool) or not isinstance(parallelism, int) or parallelism < 1:
            raise UsageError(
                f"parallelism of {self._node.name!r} is {parallelism!r}; it must be a whole number, 1 or more"
            )
        if self._node.single and parallelism != 1:
            raise UsageError(f"{self._node.name!r} is not parallel; its parallelism must be 1, not {parallelism}")
        self._node.parallelism = parallelism
        return self

    def set_description(self: _Self, description: str) -> _Self:
        """Set a longer description of the operator."""
        self._node.description = description
        return self

    def disable_chaining(self: _Self) -> _Self:
        """Run the operator in a stage of its own."""
        self._node.chain_before = self._node.chain_after = False
        return self

    def slot_sharing_group(self: _Self, slot_sharing_group: Any) -> _Self:
        """Accepted, without effect: Spark places the tasks. The job prints a line that says so."""
        name = getattr(slot_sharing_group, "get_name", lambda: slot_sharing_group)()
        self._node.slot_sharing_group = _text(name, "slot sharing group")
        return self

    def _require_operator(self, method: str) -> None:
        if self._node.kind not in ("source", "operator", "sink"):
            raise UsageError(
                f"{method}() needs a source, an operator or a sink; {self._node.name!r} is none of them and has no "
                f"state of its own: call it on the stream that the operator returned"
            )


_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f]")


def _text(value: object, what: str) -> str:
    if not isinstance(value, str) or not value.strip() or _FORBIDDEN.search(value):
        raise UsageError(f"{what} {value!r} cannot be used; give text that is not empty and has no control characters")
    return value
