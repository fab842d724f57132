"""The windows of a key that are merged, such as sessions, as keyed state.

The state maps each window to the namespace that holds its contents. A window that grows keeps that namespace, so
nothing is moved when a session is extended. Only entries of windows that change are written.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from penstock.errors import UsageError
from penstock.graph.window_operation import WindowOperation
from penstock.model.descriptors import MapStateDescriptor
from penstock.model.session_windows import (
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
)
from penstock.model.window_assigners import MergingWindowAssigner
from penstock.model.windows import WindowSerializer
from penstock.state.backend.keyed_backend import KeyedBackend

MERGING_WINDOW_SET = "merging-window-set"
_SESSIONS = frozenset({
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
})  # fmt: skip


@dataclass(frozen=True)
class Merge:
    """Windows that became one. All of them are namespaces."""

    window: Any
    replaced: list[Any]
    """The windows that are merged into it; it may be one of them."""
    contents: Any
    """Where the contents of the new window are."""
    moved: list[Any]
    """Where the contents are that are merged into `contents`."""


class MergingWindows:
    """The windows of the current key."""

    def __init__(self, operation: WindowOperation, serializer: WindowSerializer[Any], backend: KeyedBackend) -> None:
        namespace_type = serializer.namespace_type
        descriptor = MapStateDescriptor(MERGING_WINDOW_SET, namespace_type, namespace_type)
        self._state = backend.table(descriptor)
        self._serializer = serializer
        self._assigner: Any = operation.assigner
        self._are_sessions = type(operation.assigner) in _SESSIONS

    def contents_of(self, window: Any) -> Any:
        """Where the contents of a window are; None if there is no such window."""
        return self._state.get(window)

    def retire(self, window: Any) -> None:
        """Remove a window."""
        self._state.remove(window)

    def add(self, new: Any) -> tuple[Any, list[Merge]]:
        """Add a window. Returns the window that contains it now, and the merge that this took."""
        known = dict(self._state.items())
        if new in known:
            return new, []
        found = _overlapping(known, new) if self._are_sessions else self._asked(known, new)
        result, merges = new, []
        is_merged = False
        for window, group in found:
            if new in group:
                result, is_merged = window, True
            merge = self._merge(known, window, [member for member in group if member != new])
            if merge is not None:
                merges.append(merge)
        if not is_merged:
            self._state.put(new, new)
        return result, merges

    def _merge(self, known: dict[Any, Any], window: Any, replaced: list[Any]) -> Merge | None:
        """Put one window in the place of others; None if that changes nothing."""
        if replaced == [window]:
            return None
        unknown = [member for member in replaced if member not in known]
        if unknown or not replaced:
            raise UsageError(
                f"{type(self._assigner).__name__}.merge_windows() merged {unknown or window}; pass only windows to "
                f"callback.merge() that it was called with, and at least two of them"
            )
        places = [known[member] for member in replaced]
        for member in replaced:
            if member != window:
                self._state.remove(member)
        self._state.put(window, places[0])
        return Merge(window, replaced, places[0], places[1:])

    def _asked(self, known: Iterable[Any], new: Any) -> list[tuple[Any, list[Any]]]:
        """The merges that a user's own assigner asks for."""
        to_window, to_namespace = self._serializer.to_window, self._serializer.to_namespace
        groups = MergedGroups()
        self._assigner.merge_windows([to_window(namespace) for namespace in dict.fromkeys([*known, new])], groups)
        return [(to_namespace(result), list(map(to_namespace, members))) for result, members in groups.found]


class MergedGroups(MergingWindowAssigner.MergeCallback[Any]):
    """Collects the merges that `merge_windows` asks for."""

    def __init__(self) -> None:
        self.found: list[tuple[Any, list[Any]]] = []

    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        self.found.append((merge_result, list(dict.fromkeys(to_be_merged))))


def _overlapping(known: Iterable[tuple[int, int]], new: tuple[int, int]) -> list[tuple[Any, list[Any]]]:
    """Sessions: the windows that overlap or touch the new one become one with it. Others never touch each other."""
    start, end = new
    near = sorted(window for window in known if window[0] <= end and window[1] >= start)
    if not near:
        return []
    return [((min(start, near[0][0]), max(end, near[-1][1])), [*near, new])]
