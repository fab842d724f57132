"""A job on Spark from its start over failures to its end: statuses, attempts, output, and what is left of it."""

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from penstock.common import Types
from penstock.control.submission import Submission, submitted
from penstock.datastream import KeyedProcessFunction, MapFunction, RuntimeContext
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.state import ValueStateDescriptor
from penstock.errors import StorageError, UsageError, UserFunctionError
from penstock.jobmanager.attempt import subtask_deployment
from penstock.spark import deployment
from penstock.storage import LocalStorage
from tests.spark.jobs import Jobs, read_json
from tests.waiting import LIMIT_S, wait_until

CHK = "execution.checkpointing."
RESTARTS = {
    "restart-strategy.type": "exponential-delay",
    "restart-strategy.exponential-delay.initial-backoff": "10 ms",
    "restart-strategy.exponential-delay.max-backoff": "20 ms",
}


class FailsOnce(MapFunction):
    """Fails in its first attempt; then adds the attempt and two job parameters to each value."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.attempt = runtime_context.get_attempt_number()
        self.unit = runtime_context.get_job_parameter("unit", "m")
        self.scale = runtime_context.get_job_parameter("scale", "1")

    def map(self, value: Any) -> Any:
        if self.attempt == 0:
            raise ValueError("the first attempt fails")
        return value, self.attempt, self.unit, self.scale


@pytest.mark.smoke
def test_p7_p8_a_job_that_fails_once_restarts_and_its_functions_know(jobs: Jobs) -> None:
    env = jobs.environment(1, {"execution.checkpointing.interval": "1h", **RESTARTS})
    env.get_config().set_global_job_parameters({"unit": "km"})
    columns = "value bigint, attempt int, unit string, scale string"
    stream = env.from_collection([1, 2], Types.LONG()).map(FailsOnce(), columns)
    assert sorted(map(tuple, stream.execute_and_collect("fails once"))) == [(1, 1, "km", "1"), (2, 1, "km", "1")]
    wait_until(lambda: jobs.record().status == "FINISHED")
    record = jobs.record()
    statuses = [change.status for change in record.transitions]
    assert statuses == ["INITIALIZING", "RUNNING", "FAILING", "RESTARTING", "RUNNING", "FINISHED"]
    (failure,) = record.failures
    assert (failure.attempt, failure.error) == (1, "UserFunctionError")
    assert "the first attempt fails" in failure.message
    assert jobs.registry.read_checkpoints(record.job_id)[-1].status == "completed"


def test_p4_an_error_of_spark_at_the_start_of_an_attempt_is_a_failure_like_any_other(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, calls = deployment.start_taskmanagers, []

    def lost_once(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 1:
            raise RuntimeError("an executor was lost")
        return start(*arguments)

    monkeypatch.setattr(subtask_deployment, "start_taskmanagers", lost_once)
    env = jobs.environment(1, {"execution.checkpointing.interval": "1h", **RESTARTS})
    assert sorted(env.from_collection([1, 2], Types.LONG()).execute_and_collect("lost once")) == [1, 2]
    failure = jobs.record().failures[0]
    assert failure.error == "JobFailedError" and failure.root_cause == "RuntimeError: an executor was lost"


def has_rows(jobs: Jobs, count: int) -> bool:
    return jobs.record().rows == count


def test_l9_k13_checkpoints_go_on_when_one_of_two_sources_has_ended(jobs: Jobs) -> None:
    env = jobs.environment(2, {"execution.checkpointing.interval": "1h"})
    ended = env.from_collection([(n,) for n in range(5)], "n bigint")
    both = ended.union(env.from_dataframe(jobs.json_stream("n bigint")))
    both.sink_to(FileSink.for_row_format(str(jobs.folder / "out"), "json").build())
    job = env.execute_async("one has ended")
    wait_until(partial(has_rows, jobs, 5))
    numbers = [job.trigger_checkpoint().result(LIMIT_S)]
    for rows, number in ((6, 10), (7, 11)):
        jobs.write_json(f"{number}.json", [{"n": number}])
        wait_until(partial(has_rows, jobs, rows))
        numbers.append(job.trigger_checkpoint().result(LIMIT_S))
    assert numbers == sorted(set(numbers))
    assert sorted(row["n"] for row in read_json(jobs.folder / "out")) == [0, 1, 2, 3, 4, 10, 11]
    job.cancel().result(LIMIT_S)


@pytest.mark.parametrize("tolerated", [0, 2])
def test_k7_a_storage_that_takes_no_checkpoints_restarts_the_job_after_the_tolerated_failures(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch, tolerated: int
) -> None:
    put, is_read_only = LocalStorage.put_new, threading.Event()

    def put_new(self: LocalStorage, path: str, data: bytes) -> None:
        if is_read_only.is_set() and path.startswith("chk-"):
            raise StorageError(f"cannot write {path!r}: it is read-only")
        put(self, path, data)

    monkeypatch.setattr(LocalStorage, "put_new", put_new)
    settings = {CHK + "interval": "100 ms", CHK + "tolerable-failed-checkpoints": str(tolerated)}
    env = jobs.environment(1, {**settings, **RESTARTS})
    env.from_dataframe(jobs.json_stream("n bigint")).print()
    job = env.execute_async("read-only")
    jobs.write_json("1.json", [{"n": 1}])
    wait_until(lambda: (jobs.record().last_checkpoint or 0) >= 1)
    is_read_only.set()
    jobs.write_json("2.json", [{"n": 2}])
    wait_until(lambda: bool(jobs.record().failures))
    is_read_only.clear()
    found = jobs.registry.read_checkpoints(jobs.record().job_id)
    failures = [stats.failure or "" for stats in found]
    failed = [text for text in failures if text.startswith("Failure to finalize checkpoint. cannot write")]
    assert len(failed) == tolerated + 1
    assert jobs.record().failures[0].message == (
        f"Exceeded checkpoint tolerable failure threshold. The latest checkpoint failed due to {failed[-1]}"
    )
    last = max(stats.checkpoint_id for stats in found)
    wait_until(lambda: (jobs.record().last_checkpoint or 0) > last)
    assert jobs.record().attempt == 2
    job.cancel().result(LIMIT_S)


def chk_folders(jobs: Jobs) -> list[str]:
    """What is left in the folder of the one job, apart from its log."""
    (folder,) = [path for path in (jobs.folder / "checkpoints").iterdir() if len(path.name) == 32]
    found = [path for path in folder.rglob("*") if path.is_file() and path.parent.name != "log"]
    return sorted({path.relative_to(folder).parts[0] for path in found})


class Always(MapFunction):
    def map(self, value: Any) -> Any:
        raise ValueError("always")


def test_k8_a_failed_job_whose_checkpoints_went_with_it_cannot_be_resumed_and_says_so(jobs: Jobs) -> None:
    retention = {"execution.checkpointing.externalized-checkpoint-retention": "NO_EXTERNALIZED_CHECKPOINTS"}
    env = jobs.environment(1, {"execution.checkpointing.interval": "1h", **retention})
    env.from_collection([1], Types.LONG()).map(Always(), Types.LONG()).print()
    with pytest.raises(UserFunctionError):
        env.execute("gone")
    assert chk_folders(jobs) == []
    env.from_collection([1], Types.LONG()).map(Always(), Types.LONG()).print()
    with (
        submitted(Submission(Path("gone.py"), resume=True)),
        pytest.raises(UsageError, match="checkpoints were deleted with it.*RETAIN_ON_CANCELLATION"),
    ):
        env.execute("gone")


def test_k8_a_failed_job_keeps_its_checkpoints_if_nobody_has_chosen(jobs: Jobs) -> None:
    env = jobs.environment(1, {"execution.checkpointing.interval": "1h"})
    env.from_collection([1], Types.LONG()).map(Always(), Types.LONG()).print()
    with pytest.raises(UserFunctionError):
        env.execute("kept")
    assert chk_folders(jobs) == ["chk-0"]


def test_k8_k13_a_finished_job_has_committed_everything_and_leaves_its_log(jobs: Jobs) -> None:
    env = jobs.environment(2, {"execution.checkpointing.interval": "1h"})
    numbers = env.from_collection([(n,) for n in range(100)], "n bigint")
    numbers.sink_to(FileSink.for_row_format(str(jobs.folder / "out"), "json").build())
    env.execute("bounded")
    assert sorted(row["n"] for row in read_json(jobs.folder / "out")) == list(range(100))
    assert chk_folders(jobs) == []


class Count(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        yield value.id, value.name, self.count.value()


def test_l6_m6_at_least_once_releases_each_epoch_and_loses_nothing(jobs: Jobs) -> None:
    """Output comes without a checkpoint; after the death of a TaskManager it comes again, and counts go on exactly."""
    settings = {"execution.checkpointing.interval": "1h", "execution.checkpointing.mode": "AT_LEAST_ONCE"}
    env = jobs.environment(2, {**settings, **RESTARTS})
    events = env.from_dataframe(jobs.json_stream("id bigint, name string")).key_by("name")
    counted = events.process(Count(), "id bigint, name string, count bigint").uid("count")
    counted.sink_to(FileSink.for_row_format(str(jobs.folder / "out"), "json").build()).uid("out")
    job = env.execute_async("at least once")

    def feed(name: str, ids: range) -> None:
        jobs.write_json(name, [{"id": number, "name": "ab"[number % 2]} for number in ids])

    def seen() -> Counter[int]:
        return Counter(row["id"] for row in read_json(jobs.folder / "out"))

    feed("1.json", range(10))
    wait_until(lambda: set(seen()) == set(range(10)))
    number = job.trigger_checkpoint().result(LIMIT_S)
    assert number >= 1 and jobs.record().last_checkpoint in (None, number - 1, number)
    feed("2.json", range(10, 20))
    wait_until(lambda: set(seen()) == set(range(20)))
    victim = next(process for process in jobs.record().processes if process.role == "taskmanager")
    os.kill(victim.pid, signal.SIGKILL)
    wait_until(lambda: jobs.record().attempt == 2 and jobs.record().status == "RUNNING")
    feed("3.json", range(20, 30))
    wait_until(lambda: set(seen()) == set(range(30)))
    wait_until(lambda: min(seen()[number] for number in range(10, 20)) == 2)  # they lay behind the checkpoint
    assert max(seen()[number] for number in range(10)) == 1
    rows = read_json(jobs.folder / "out")
    assert {row["count"] for row in rows if row["name"] == "a"} == set(
        range(1, 16)
    )  # no count is skipped or goes on too far
    assert job.trigger_checkpoint(full=True).result(LIMIT_S) > number
    job.cancel().result(LIMIT_S)
    assert [change.status for change in jobs.record().transitions][-2:] == ["CANCELLING", "CANCELED"]
    assert chk_folders(jobs) == []
