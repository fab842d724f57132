"""What keyed operators emit in batch mode, collected over several keys: many keys have one record or none."""

from collections.abc import Callable

from penstock.runtime.operators.batch import Batch

HELD_RECORDS = 1000


class HeldOutput:
    """Holds back what each position emits until there is enough of it. `flush` at the end."""

    def __init__(self, pass_on: Callable[[int, Batch], None]) -> None:
        self._pass_on = pass_on
        self._held: dict[int, Batch] = {}

    def add(self, position: int, batch: Batch) -> None:
        """Add what a position has emitted."""
        held = self._held.setdefault(position, Batch([]))
        held.extend(batch)
        if len(held) >= HELD_RECORDS or held.side:
            self.flush(position)

    def flush(self, position: int) -> None:
        """Pass on the held records of a position."""
        held = self._held.pop(position, None)
        if held is not None:
            self._pass_on(position, held)

    def discard(self) -> None:
        """Discard the held records: the epoch starts again."""
        self._held.clear()
