"""A function that changes operator state when it starts: a lost task takes that back too (PROTOCOL R11)."""

from typing import Any

import pytest

from penstock.common import Types
from penstock.datastream import CheckpointedFunction, MapFunction
from penstock.datastream.functions import FunctionInitializationContext as Init
from penstock.datastream.functions import FunctionSnapshotContext as Snap
from penstock.datastream.state import ListStateDescriptor
from penstock.testing import CHECKPOINT, Harness

LONGS = ListStateDescriptor("kept", Types.LONG())


class Emptied(MapFunction, CheckpointedFunction):
    """Takes its state out of the list when it starts, and puts it back at the end of each epoch."""

    def initialize_state(self, context: Init) -> None:
        self.saved = context.get_operator_state_store().get_list_state(LONGS)
        if not context.is_restored():
            self.saved.add(-1)
        self.seen = list(self.saved.get())
        self.saved.clear()

    def map(self, value: int) -> int:
        self.seen.append(value)
        return value

    def snapshot_state(self, context: Snap) -> None:
        self.saved.add_all(self.seen)
        self.seen = []


class Started(Emptied):
    """Puts something into its list when there is none, and never touches it again."""

    def initialize_state(self, context: Init) -> None:
        self.saved = context.get_operator_state_store().get_list_state(LONGS)
        self.seen = []
        if not context.is_restored():
            self.saved.add(-1)


@pytest.mark.parametrize("function", [Emptied, Started])
def test_what_initialize_state_did_to_a_state_is_taken_back_with_a_lost_task(function: Any) -> None:
    harness = Harness.non_keyed(function(), lost_after=lambda tries: 0 if tries < 2 else None)
    harness.feed([1, CHECKPOINT])
    assert harness.operator_state("kept") == [[-1, 1]]
    harness.feed([2, CHECKPOINT])
    assert harness.operator_state("kept") == [[-1, 1, 2]]
    again = Harness.non_keyed(function(), storage=harness.storage, lost_after=lambda tries: 0 if tries < 2 else None)
    again.run_empty_epochs(1)
    assert again.operator_state("kept") == [[-1, 1, 2]]
    assert (harness.lost_tasks, again.lost_tasks) == (4, 2)
