"""Row C5: functions are notified of completed and aborted checkpoints."""

from typing import Any

from penstock.checkpoint.failures import FailureReason
from penstock.datastream import CheckpointedFunction, CheckpointListener, MapFunction
from penstock.datastream.functions import FunctionInitializationContext, FunctionSnapshotContext
from penstock.datastream.state import ListStateDescriptor
from penstock.testing import CHECKPOINT, CRASH, Harness

Init = FunctionInitializationContext
Snap = FunctionSnapshotContext


class Listener(MapFunction, CheckpointListener):
    def open(self, runtime_context: Any) -> None:
        self.ids: list[Any] = []

    def map(self, value: Any) -> Any:
        return list(self.ids)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.ids.append(checkpoint_id)
        NOTIFIED.append(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self.ids.append(-checkpoint_id)
        NOTIFIED.append(-checkpoint_id)


NOTIFIED: list[int] = []


def test_c5_functions_are_notified_of_a_completed_checkpoint_once_before_the_next_records() -> None:
    harness = Harness.non_keyed(Listener()).feed(["a", CHECKPOINT, "b"]).feed(["c", CHECKPOINT]).feed(["d"])
    assert harness.output == [[], [1], [1], [1, 2]]


def test_c5_functions_are_notified_of_an_aborted_checkpoint() -> None:
    harness = Harness.non_keyed(Listener()).feed(["a"])
    harness._attempt.coordinator.start(99, [], forced=True)
    harness._coordinator.abort_all(FailureReason.SHUTDOWN)
    assert harness.feed(["b", CHECKPOINT, "c"]).output == [[], [-1], [-1, 2]]


def test_c5_after_a_restore_only_later_checkpoints_are_told() -> None:
    harness = Harness.non_keyed(Listener()).feed(["a", CHECKPOINT, CRASH, "b", CHECKPOINT, "c"])
    assert harness.output == [[], [], [2]]


def test_c5_a_lost_task_tells_the_new_function_again() -> None:
    lost = iter([None, 1])
    harness = Harness.non_keyed(Listener(), lost_after=lambda tries: next(lost, None))
    assert harness.feed(["a", CHECKPOINT, "b"]).output == [[], [1]]
    assert harness.lost_tasks == 1


def test_c5_the_last_checkpoint_of_a_job_is_told_too() -> None:
    NOTIFIED.clear()
    Harness.non_keyed(Listener()).feed(["a", CHECKPOINT]).finish()
    assert NOTIFIED == [1, 2]


class CommitOnNotify(MapFunction, CheckpointedFunction, CheckpointListener):
    """What is open is in state until a checkpoint that covers it is complete; what is committed survives everything."""

    committed: list[Any]

    def __init__(self, committed: list[Any]) -> None:
        self.committed = committed

    def __reduce__(self) -> Any:
        return CommitOnNotify, (COMMITTED,)

    def initialize_state(self, context: Init) -> None:
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("open"))
        self.open_rows = list(self.state.get())
        if context.get_restored_checkpoint_id() is not None:
            self._commit(context.get_restored_checkpoint_id() or 0)

    def map(self, value: Any) -> Any:
        self.open_rows.append((None, value))
        return value

    def snapshot_state(self, context: Snap) -> None:
        if context.get_checkpoint_id() is not None:
            self.open_rows = [(n or context.get_checkpoint_id(), value) for n, value in self.open_rows]
        self.state.update(self.open_rows)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._commit(checkpoint_id)

    def _commit(self, checkpoint_id: int) -> None:
        for number, value in self.open_rows:
            if number is not None and number <= checkpoint_id and value not in COMMITTED:
                COMMITTED.append(value)
        self.open_rows = [(n, value) for n, value in self.open_rows if n is None or n > checkpoint_id]


COMMITTED: list[Any] = []


def test_c5_a_death_between_ack_and_notification_is_made_good_by_the_restore() -> None:
    COMMITTED.clear()
    harness = Harness.non_keyed(CommitOnNotify(COMMITTED)).feed(["a", "b", CHECKPOINT, CRASH])
    assert COMMITTED == ["a", "b"]
    harness.feed(["c"]).finish()
    assert COMMITTED == ["a", "b", "c"]
