"""The autoscaler with a job of the harness under a load that steps up and down, on simulated time."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from penstock.common import Types
from penstock.control.driver_log import DriverLog
from penstock.control.registry import JobRecord, RescaleRecord
from penstock.datastream import KeyedProcessFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.graph.job_graph import JobGraph
from penstock.jobmanager.autoscaler import Autoscaler
from penstock.jobmanager.scaling_decision import ScalingBounds
from penstock.model.execution import JobStatus
from penstock.model.subtask_work import SubtaskFigures
from penstock.testing import CHECKPOINT, CRASH, Harness, ManualClock
from tests.records import A_ID, job_record

BOUNDS = ScalingBounds(least=1, most=4, target=0.7, margin=0.2, window_s=60, down_interval_s=120)
EPOCH_S = 3
ROWS_PER_SUBTASK = 12
"""So many of an epoch can one subtask process."""
KEYS = 20


class Count(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: int, ctx: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value % KEYS, count


@dataclass
class HarnessJob:
    """A job whose subtasks process so many rows of an epoch each; what they cannot process waits."""

    log: DriverLog
    harness: Harness
    parallelism: int = 1
    arrived: int = 0
    processed: int = 0
    last_epoch_rows: int = 0
    steps: list[tuple[float, int]] = field(default_factory=list)
    """When, and to which parallelism."""

    def run_epoch(self, rows: int) -> None:
        self.arrived += rows
        taken = min(self.arrived - self.processed, ROWS_PER_SUBTASK * self.parallelism)
        self.harness.feed([*range(self.processed, self.processed + taken), CHECKPOINT])
        self.processed += taken
        self.last_epoch_rows = taken

    @property
    def graph(self) -> JobGraph:
        return replace(self.harness._graph, default_parallelism=self.parallelism)

    def status(self) -> JobStatus:
        return JobStatus.RUNNING

    def record(self) -> JobRecord:
        (stage,) = self.graph.stages
        busy = 1000 * self.last_epoch_rows / (ROWS_PER_SUBTASK * self.parallelism)
        return job_record(
            subtasks=[SubtaskFigures(stage.id, index, busy_ms_per_s=busy) for index in range(stage.parallelism)],
            rows_per_s=self.last_epoch_rows / EPOCH_S,
            has_backlog=self.arrived > self.processed,
        )

    def request_rescale(self, parallelism: int, why: str = "requested") -> Callable[[], RescaleRecord]:
        before, self.parallelism = self.parallelism, parallelism
        self.harness.rescale(parallelism)
        self.steps.append((self.harness.clock.monotonic_s(), parallelism))
        return lambda: RescaleRecord(before, parallelism, 1, 0, 0, why)


def test_e9_a_load_step_up_and_down_is_followed_without_flapping_and_exactly(tmp_path: Path) -> None:
    clock = ManualClock()
    harness = Harness.keyed(Count(), key=lambda value: value % KEYS, key_type=Types.INT(), clock=clock)
    job = HarnessJob(DriverLog(tmp_path, A_ID, clock), harness)
    scaler = Autoscaler(job, BOUNDS, clock)
    start_s = clock.monotonic_s()

    def run(seconds: int, rows: int) -> list[int]:
        """The steps within this time, at so many rows an epoch."""
        known = len(job.steps)
        for _ in range(0, seconds, EPOCH_S):
            job.run_epoch(rows)
            clock.advance(1000 * EPOCH_S)
            scaler.look()
        return [parallelism for _, parallelism in job.steps[known:]]

    assert run(300, 8) == []
    up = run(600, 32)
    assert up in ([2, 3, 4], [2, 4], [4], [3, 4], [2, 3]) and job.processed == job.arrived
    harness.feed([CRASH])
    assert run(300, 32) == [], "what follows the load stays"
    down = run(900, 8)
    assert down == sorted(down, reverse=True) and down[-1] == 1
    assert run(600, 8) == []
    moments = [start_s, *(at_s for at_s, _ in job.steps)]
    assert min(later - earlier for earlier, later in zip(moments, moments[1:], strict=False)) >= BOUNDS.window_s
    counts = Counter(key for key, _ in harness.output)
    assert sum(counts.values()) == job.processed == job.arrived
    for key, count in counts.items():
        assert [number for other, number in harness.output if other == key] == [*range(1, count + 1)]
    log = (tmp_path / "driver.log").read_text(encoding="utf-8")
    assert log.count("autoscaler: from") == len(job.steps)
