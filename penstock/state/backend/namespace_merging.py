"""Merging the namespaces of a key, as overlapping session windows need it."""

from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable

from penstock.model.state import ListState, MergingState
from penstock.state.backend.keyed_backend import KeyedBackend


@runtime_checkable
class MergesAccumulators(Protocol):
    """An aggregating state, which stores something other than what it returns."""

    def accumulator(self) -> Any:
        """The stored accumulator; None if nothing was added."""

    def merge(self, accumulator: Any) -> None:
        """Merge an accumulator into the stored one."""


def merge_namespaces(backend: KeyedBackend, state: MergingState[Any, Any], target: Any, sources: Iterable[Any]) -> None:
    """Move what a state of the current key holds in `sources` to `target`, and make `target` the current namespace.

    List elements are appended to those of the target, values are reduced and accumulators merged, in the order of the
    sources. The sources are empty afterwards.
    """
    moved = []
    for source in sources:
        if source != target:
            backend.set_current_namespace(source)
            content = _content(state)
            if content is not None:
                moved.append(content)
                state.clear()
    backend.set_current_namespace(target)
    for content in moved:
        _add(state, content)


def _content(state: MergingState[Any, Any]) -> Any:
    if isinstance(state, MergesAccumulators):
        return state.accumulator()
    return list(state.get()) or None if isinstance(state, ListState) else state.get()


def _add(state: MergingState[Any, Any], content: Any) -> None:
    if isinstance(state, MergesAccumulators):
        state.merge(content)
    elif isinstance(state, ListState):
        state.add_all(content)
    else:
        state.add(content)
