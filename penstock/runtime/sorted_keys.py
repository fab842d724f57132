"""One key after the other: how the keyed operators of a subtask run in batch mode.

The input is sorted by key. After the last record of a key its timers fire, those of event time first, and its state is
dropped, so that a subtask holds the state of one key. The watermark is at its minimum while records are processed and
at its maximum while timers fire. Timers that are registered then are ignored, because they might never end, unless the
function says that they do.
"""

from collections.abc import Iterator, Mapping

from penstock.model.time import MAX_WATERMARK, MIN_WATERMARK
from penstock.runtime.operator_chain import OperatorChain
from penstock.runtime.operators.batch import Batch
from penstock.runtime.operators.record_operators import Operator
from penstock.state.backend.keyed_backend import KeyedBackend
from penstock.state.heap.hashmap_backend import HashMapBackend

NO_KEY = object()
TIMERS_END = "timers_end"
"""An attribute of functions whose timers register others only finitely often."""
WITHOUT_TIMERS = frozenset(
    {"keyed_batch", "keyed_map", "keyed_flat_map", "keyed_filter", "keyed_co_map", "keyed_co_flat_map", "final_reduce"}
)
"""Kinds of operators that need no pause between two keys: it takes time where keys are many."""


class SortedKeys:
    """Runs sorted records through the keyed operators of one subtask."""

    def __init__(self, chain: OperatorChain, backends: Mapping[str, KeyedBackend]) -> None:
        self._chain = chain
        self._backends = {uid: b for uid, b in backends.items() if isinstance(b, HashMapBackend)}
        assert len(self._backends) == len(backends), "batch mode has a backend of its own"
        self._operators: list[tuple[int, Operator]] = []
        self._key: object = NO_KEY
        self._stops_at_keys = True

    def begin_epoch(self) -> None:
        """Start with the first key. After the functions were opened."""
        self._key = NO_KEY
        self._operators = self._chain.keyed_operators()
        self._stops_at_keys = any(_acts_at_end(operator) for _, operator in self._operators)

    def process(self, position: int, batch: Batch) -> None:
        """Process records of an input, which follow those of the batch before in the order of keys."""
        if not batch.keys:
            return
        if self._stops_at_keys:
            for key, part in by_key(batch):
                if key != self._key:
                    self.end_key()
                    self._key = key
                self._chain.emit(position, part)
        else:  # nothing happens between two keys but that the state of the first is dropped
            self._chain.emit(position, batch)
            for backend in self._backends.values():
                backend.drop_keys(batch.keys[-1])

    def end_key(self) -> None:
        """The current key, if there is one, has no more records. Also called at the end of the input."""
        for position, operator in self._operators:
            backend = self._backends[operator.plan.uid]
            self._chain.fire_timers(position, MIN_WATERMARK, MIN_WATERMARK)  # windows write what they have collected
            backend.accept_timers(accepted=getattr(operator.function, TIMERS_END, False))
            for now_ms in (MIN_WATERMARK, MAX_WATERMARK):  # first the timers of event time, then all
                self._chain.fire_timers(position, MAX_WATERMARK, now_ms)
            backend.accept_timers(accepted=True)
            operator.watermark = MIN_WATERMARK
            backend.drop_keys()


def by_key(batch: Batch) -> Iterator[tuple[object, Batch]]:
    """The parts of a sorted batch that have one key each."""
    keys = batch.keys or []
    start, count = 0, len(keys)
    for index in range(1, count + 1):
        if index == count or keys[index] != keys[start]:
            yield keys[start], batch.slice(start, index)
            start = index


def _acts_at_end(operator: Operator) -> bool:
    """Whether something may happen at the end of a key, other than that its state is dropped."""
    if operator.timers is not None:
        return operator.timers.fires
    return operator.plan.kind not in WITHOUT_TIMERS
