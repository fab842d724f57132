"""What an attempt shows of itself: rows of the epoch that runs, phases of its start."""

from typing import Any
from unittest.mock import MagicMock

from penstock.control.registry import PhaseRecord
from penstock.errors import JobFailedError
from penstock.jobmanager.attempt.attempt_progress import AttemptObserver, StartPhases
from penstock.jobmanager.attempt.epoch_tracker import AttemptState, EpochTracker
from penstock.jobmanager.attempt.taskmanagers import TaskManagers
from penstock.model.ids import StageId, SubtaskId, Version
from penstock.runtime.process.messages import Heartbeat, Hello, SubtaskRows
from penstock.testing import ManualClock
from tests.sim.job import Sinks, small_graph


def tracker(subtasks: list[SubtaskId]) -> EpochTracker:
    versions = {subtask: Version(1, 0, "n") for subtask in subtasks}
    coordinator: Any = MagicMock(newest_completed=None)
    coordinator.start.return_value = None
    coordinator.spool_after_ms.return_value = None
    coordinator.history.return_value = []
    graph = small_graph(2, Sinks())
    return EpochTracker(graph, AttemptState("job", 1, versions), coordinator, MagicMock(), ManualClock())


def test_only_rows_of_the_running_epoch_and_of_stages_that_read_a_source_count() -> None:
    first, second = SubtaskId(StageId("s0"), 0), SubtaskId(StageId("s0"), 1)
    later = SubtaskId(StageId("s9"), 0)
    ours = tracker([first, second])
    rows = [SubtaskRows(first, 1, 10), SubtaskRows(second, 1, 5), SubtaskRows(later, 1, 99)]
    assert ours.rows_so_far(rows) is None
    ours.begin()
    assert ours.rows_so_far(rows) == (1, 15)
    assert ours.rows_so_far([SubtaskRows(first, 0, 10), SubtaskRows(second, 1, 5)]) == (1, 5)
    ours.fail(JobFailedError("a TaskManager is lost"))
    assert ours.rows_so_far(rows) is None


def test_the_newest_heartbeat_of_each_taskmanager_counts() -> None:
    ours = TaskManagers("127.0.0.1", Hello("token", 1, "jobmanager"), ManualClock(), silence_limit_s=5.0)
    one, two = SubtaskId(StageId("s0"), 0), SubtaskId(StageId("s0"), 1)
    try:
        for name, subtask, rows in (("tm-1", one, 1), ("tm-2", two, 2), ("tm-1", one, 3)):
            ours._handle(name, Heartbeat(name, 1, [SubtaskRows(subtask, 7, rows)]))
        assert sorted(rows.rows for rows in ours.rows_so_far()) == [2, 3]
        assert ours.restored_count == 2
    finally:
        ours.close("the test is over", job_ended=True)


def test_phases_are_announced_once_and_know_how_far_they_are() -> None:
    changes: list[PhaseRecord | None] = []
    phases = StartPhases(AttemptObserver(changed=lambda: changes.append(phases.record())))
    done = 0
    phases.enter("starting TaskManagers", lambda: done, 2)
    done = 3  # one was started again
    assert phases.record() == PhaseRecord("starting TaskManagers", 2, 2)
    phases.enter("first epoch")
    phases.end()
    phases.end()
    assert changes == [PhaseRecord("starting TaskManagers", 0, 2), PhaseRecord("first epoch"), None]
