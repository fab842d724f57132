"""The order in which an attempt begins (PROTOCOL section 5), and attempts of a job without checkpoints."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock import failpoint
from penstock.checkpoint.checkpoint_settings import CheckpointSettings
from penstock.checkpoint.log.log_reader import read_log
from penstock.errors import CheckpointMissingError
from penstock.failpoint import Failpoint, InjectedCrash
from penstock.jobmanager.attempt.attempt import Attempt, JobIdentity
from penstock.jobmanager.attempt.recovery import RecoveryOptions, StartOptions, begin_attempt, start_attempt
from penstock.model.snapshot import Committable
from penstock.storage.memory import MemoryStorage
from penstock.storage.storage import Storage
from penstock.testing import CHECKPOINT, Harness, MemorySink
from penstock.testing.clocks import ManualClock
from penstock.testing.graphs import FunctionProgram, function_graph
from penstock.testing.harness_options import JOB_ID
from tests.jobmanager.test_split_anew import Hook, Same

JOB = JobIdentity(JOB_ID, "job", "job.py")


class Watched(MemorySink):
    """Records what the log says when the sink is asked to commit or to abort."""

    def __init__(self, storage: Storage) -> None:
        super().__init__()
        self._storage = storage
        self.seen: list[tuple[str, int, bool]] = []

    def commit(self, committable: Committable) -> None:
        self._look("commit")
        super().commit(committable)

    def sweep(self, job_id: str, uid: str, keep: Sequence[Committable], attempt: int) -> None:
        self._look("sweep")
        super().sweep(job_id, uid, keep, attempt)

    def _look(self, what: str) -> None:
        view = read_log(self._storage)
        is_recorded = view.restore is not None and view.restore.checkpoint == 1
        self.seen.append((what, view.attempt, is_recorded))


def begin(**options: Any) -> Attempt:
    """An attempt of a job without checkpoints."""
    graph = function_graph(FunctionProgram(Same(), str))
    recovery = RecoveryOptions(CheckpointSettings(interval_ms=None), **options)
    return begin_attempt(JOB, graph, None, recovery, Hook(), ManualClock())


def test_the_claim_and_the_restore_entry_come_before_the_sinks_which_commit_before_they_abort() -> None:
    storage = MemoryStorage()
    sink = Watched(storage)
    harness = Harness.keyed(Same(), key=str, sink=sink, storage=storage)
    sink.seen.clear()
    failpoint.arm(Failpoint("C19.after", "raise"))  # checkpoint 1 is complete, and its output is not committed
    try:
        harness.feed([1, 2, CHECKPOINT])
    finally:
        failpoint.disarm()
    assert harness.crashes == 1
    assert sink.seen == [("commit", 2, True), ("sweep", 2, True)]


def test_sources_state_and_query_start_in_this_order_and_a_failed_step_ends_it() -> None:
    steps: list[str] = []

    def lose_state() -> None:
        raise CheckpointMissingError("shared/1")

    start_attempt(
        rewind_sources=lambda: steps.append("sources"),
        load_state=lambda: steps.append("state"),
        start_query=lambda: steps.append("query"),
    )
    assert steps == ["sources", "state", "query"]
    with pytest.raises(CheckpointMissingError):
        start_attempt(rewind_sources=lambda: None, load_state=lose_state, start_query=lambda: steps.append("too early"))
    assert "too early" not in steps


def test_c26_lies_between_the_state_and_the_query() -> None:
    steps: list[str] = []
    failpoint.arm(Failpoint("C26.before", "raise"))
    try:
        with pytest.raises(InjectedCrash):
            start_attempt(
                rewind_sources=lambda: steps.append("sources"),
                load_state=lambda: steps.append("state"),
                start_query=lambda: steps.append("query"),
            )
    finally:
        failpoint.disarm()
    assert steps == ["sources", "state"]


def test_a_job_without_checkpoints_starts_from_nothing_or_from_the_same_savepoint_again(tmp_path: Path) -> None:
    assert begin().manifest is None
    path = Harness.keyed(Same(), key=str).feed([1, CHECKPOINT]).savepoint(tmp_path)
    start = StartOptions(path)
    first = begin(start=start)
    second = begin(start=start, last_attempt=first.number)
    assert [first.number, second.number] == [1, 2] and first.token != second.token
    assert first.manifest is not None and first.manifest == second.manifest
    assert first.origin.snapshot is not None and first.origin.path == f"file://{path}"
    assert first.storage is None and not first.coordinator.can_recover
