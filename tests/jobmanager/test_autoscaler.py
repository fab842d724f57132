"""What the autoscaler measures of a running job, and what it does with a decision."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.control.driver_log import DriverLog
from penstock.control.registry import JobRecord, PhaseRecord, RescaleRecord
from penstock.errors import JobConflictError, JobFailedError
from penstock.jobmanager.autoscaler import Autoscaler, busy_share, start_autoscaler
from penstock.jobmanager.scaling_decision import ScalingBounds
from penstock.model.configuration import Configuration
from penstock.model.execution import JobStatus
from penstock.model.subtask_work import SubtaskFigures
from penstock.testing import ManualClock
from tests.records import A_ID, job_record

BOUNDS = ScalingBounds(least=1, most=4, target=0.7, margin=0.2, window_s=60, down_interval_s=120)


def subtasks(*busy: float, vertex: str = "s1", waiting: int = 0) -> list[SubtaskFigures]:
    return [
        SubtaskFigures(vertex, index, busy_ms_per_s=1000 * share, rows_waiting=waiting)
        for index, share in enumerate(busy)
    ]


@dataclass
class FakeJob:
    """A job that is rescaled at once, and whose figures a test sets."""

    log: DriverLog
    parallelism: int = 2
    changes: dict[str, Any] = field(default_factory=dict)
    requests: list[tuple[int, str]] = field(default_factory=list)
    refusal: Exception | None = None

    @property
    def graph(self) -> Any:
        stages = (SimpleNamespace(id="s1", parallelism=self.parallelism, uids=("a",)),)
        return SimpleNamespace(
            default_parallelism=self.parallelism, batch=False, max_parallelism=128, stages=stages, at_parallelism=None
        )

    def status(self) -> JobStatus:
        return JobStatus[self.record().status]

    def record(self) -> JobRecord:
        return job_record(**{"rows_per_s": 100.0, **self.changes})

    def request_rescale(self, parallelism: int, why: str = "requested") -> Callable[[], RescaleRecord]:
        if self.refusal is not None:
            raise self.refusal
        self.requests.append((parallelism, why))
        self.parallelism = parallelism
        return lambda: RescaleRecord(2, parallelism, 1, 0, 0, why)


@dataclass
class Run:
    """An autoscaler whose time a test lets pass."""

    folder: Path
    clock: ManualClock = field(default_factory=ManualClock)

    def __post_init__(self) -> None:
        self.job = FakeJob(DriverLog(self.folder, A_ID, self.clock))
        self.scaler = Autoscaler(self.job, BOUNDS, self.clock)

    def watch(self, seconds: int, **changes: Any) -> list[tuple[int, str]]:
        """The rescales within this time, while the job's record says this."""
        self.job.requests.clear()
        self.job.changes = changes
        for _ in range(0, seconds, 3):
            self.scaler.look()
            self.clock.advance(3_000)
        return list(self.job.requests)


def test_the_busiest_stage_counts_by_the_mean_of_its_subtasks() -> None:
    assert busy_share([*subtasks(0.2, 0.4), *subtasks(0.9, 0.5, vertex="s2")], 2) == pytest.approx(0.7)
    assert busy_share(subtasks(0.9, 0.9, 0.9), 2) == 0.0, "it keeps a parallelism of its own"
    assert busy_share([], 2) == 0.0


def test_a_busy_job_is_rescaled_once_and_the_log_says_why(tmp_path: Path) -> None:
    run = Run(tmp_path)
    assert run.watch(63, subtasks=subtasks(0.95, 0.95)) == [(3, "autoscaler: busy 95%, wanted 70%")]
    assert "autoscaler: from 2 to 3: busy 95%" in (tmp_path / "driver.log").read_text(encoding="utf-8")
    assert run.watch(57, subtasks=subtasks(0.95, 0.95, 0.95)) == []
    assert run.watch(9, subtasks=subtasks(0.95, 0.95, 0.95)) == [(4, "autoscaler: busy 95%, wanted 70%")]


def test_an_idle_job_goes_down_after_the_longer_interval(tmp_path: Path) -> None:
    run = Run(tmp_path)
    assert run.watch(117, subtasks=subtasks(0.1, 0.1)) == []
    assert [target for target, _ in run.watch(9, subtasks=subtasks(0.1, 0.1))] == [1]


@pytest.mark.parametrize(
    "lag", [{"has_backlog": True}, {"subtasks": subtasks(0.4, 0.4, waiting=7)}], ids=["files", "spool"]
)
def test_a_job_with_more_input_than_it_can_read_goes_up(tmp_path: Path, lag: dict[str, Any]) -> None:
    requests = Run(tmp_path).watch(70, **{"subtasks": subtasks(0.4, 0.4), **lag})
    assert requests == [(3, "autoscaler: busy 40%, wanted 70%, and the job lags")]


def test_a_watermark_that_falls_behind_is_lag_only_in_a_job_that_works(tmp_path: Path) -> None:
    for busy, rate, wanted in ((0.6, 100.0, [3]), (0.3, 100.0, []), (0.6, 0.0, [])):
        run = Run(tmp_path)
        run.job.changes = {}
        for _ in range(24):
            now_ms = run.clock.now_ms()
            run.job.changes = {
                "subtasks": subtasks(busy, busy),
                "watermark": 1_000,
                "updated_ms": now_ms,
                "rows_per_s": rate,
            }
            run.scaler.look()
            run.clock.advance(3_000)
        assert [target for target, _ in run.job.requests] == wanted


def test_a_restart_is_no_time_to_measure(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.watch(57, subtasks=subtasks(0.95, 0.95))
    assert run.watch(3, subtasks=subtasks(0.95, 0.95), phase=PhaseRecord("restoring")) == []
    assert run.watch(57, subtasks=subtasks(0.95, 0.95)) == []
    assert len(run.watch(12, subtasks=subtasks(0.95, 0.95))) == 1


def test_a_rescale_that_is_refused_is_logged_and_tried_again_a_window_later(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.job.refusal = JobConflictError("the job is being rescaled to 4")
    run.watch(100, subtasks=subtasks(0.95, 0.95))
    log = (tmp_path / "driver.log").read_text(encoding="utf-8")
    assert log.count("WARN") == log.count("is being rescaled to 4") == 1
    run.job.refusal = None
    assert len(run.watch(60, subtasks=subtasks(0.95, 0.95))) == 1


def test_a_step_up_that_was_refused_does_not_count_as_one_that_did_not_help(tmp_path: Path) -> None:
    run = Run(tmp_path)
    lagging = {"subtasks": subtasks(0.95, 0.95), "has_backlog": True}
    run.job.refusal = JobConflictError("the checkpoint before it has failed")
    assert run.watch(70, **lagging) == []
    run.job.refusal = None
    assert [target for target, _ in run.watch(70, **lagging)] == [3]


def test_a_parallelism_that_the_job_could_not_start_at_is_left_alone_and_longer_each_time(tmp_path: Path) -> None:
    run = Run(tmp_path)
    busy = {"subtasks": subtasks(0.95, 0.95)}
    run.job.refusal = JobFailedError("the job goes back to parallelism 2")
    tried = []
    for minute in range(12):
        before = log_of(tmp_path).count("goes back")
        run.watch(60, **busy)
        tried += [minute] * (log_of(tmp_path).count("goes back") - before)
    assert tried == [1, 3, 7], "the interval before a step down is two minutes"
    run.job.refusal = None
    assert [target for target, _ in run.watch(600, **busy)][:1] == [3]


def test_a_step_the_other_way_is_not_held_back_by_one_that_failed(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.job.refusal = JobFailedError("the job goes back to parallelism 2")
    run.watch(120, subtasks=subtasks(0.95, 0.95))
    run.job.refusal = None
    assert [target for target, _ in run.watch(75, subtasks=subtasks(0.1, 0.1))] == [1]


def test_a_look_that_fails_is_logged_once_and_does_not_end_it(tmp_path: Path) -> None:
    run, looks = Run(tmp_path), iter(range(6))
    record = run.job.record

    def fail() -> JobRecord:
        raise ZeroDivisionError("a bug")

    def pause(_: float) -> None:
        look = next(looks)
        run.job.record = fail if look in (0, 1, 3) else record  # type: ignore[method-assign]
        run.job.changes = {"status": "FINISHED" if look == 5 else "RUNNING"}

    run.job.status = lambda: JobStatus[run.job.changes.get("status", "RUNNING")]  # type: ignore[method-assign]
    run.scaler.run(pause)
    assert list(looks) == []
    log = log_of(tmp_path)
    assert log.count("autoscaler: it could not look at the job") == 2
    assert "ZeroDivisionError: a bug" in log and "Traceback" in log


def log_of(folder: Path) -> str:
    return (folder / "driver.log").read_text(encoding="utf-8") if (folder / "driver.log").exists() else ""


def test_it_ends_with_the_job(tmp_path: Path) -> None:
    run = Run(tmp_path)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        run.job.changes = {"status": "FINISHED" if len(pauses) == 3 else "RUNNING"}

    run.scaler.run(pause)
    assert pauses == [3.0, 3.0, 3.0]


def test_a_job_without_checkpoints_is_told_that_nothing_happens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = FakeJob(DriverLog(tmp_path, A_ID))
    start_autoscaler(job, Configuration(), None)
    assert capsys.readouterr().err == ""
    start_autoscaler(job, Configuration.from_dict({"penstock.autoscale": "true"}), None)
    assert "penstock.autoscale has no effect" in capsys.readouterr().err
