"""A job whose input does not end: what happens while nothing arrives."""

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.sql import SparkSession

from penstock.common import Types
from penstock.datastream import CloseableIterator, KeyedProcessFunction, TimeDomain
from penstock.spark import deployment
from tests.faults.jobs import is_alive
from tests.spark.jobs import Jobs
from tests.waiting import LIMIT_S, wait_until

DELAY_MS = 300


class Later(KeyedProcessFunction):
    """Says so a while after the record."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        timers = ctx.timer_service()
        timers.register_processing_time_timer(timers.current_processing_time() + DELAY_MS)
        timers.register_event_time_timer(0)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield ctx.get_current_key(), ctx.time_domain() is TimeDomain.PROCESSING_TIME


@pytest.fixture(scope="module")
def idle(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Jobs, list[Any]]]:
    """A job that has got two records and then nothing more, and what it gave."""
    jobs = Jobs(spark, tmp_path_factory.mktemp("idle"))
    jobs.write_json("1.json", [{"name": "ada"}, {"name": "bob"}])
    stream = jobs.environment().from_dataframe(jobs.json_stream("name string"))
    records = stream.key_by("name").process(Later(), output_type="name string, is_processing_time boolean").uid("later")
    collected = records.execute_and_collect("idle")
    assert isinstance(collected, CloseableIterator)
    with collected:
        yield jobs, [next(collected), next(collected)]
        processes = taskmanagers_of(jobs)
    assert jobs.record().status == "CANCELED"
    wait_until(lambda: not any(is_alive(process) for process in processes))


def taskmanagers_of(jobs: Jobs) -> list[psutil.Process]:
    pids = [process.pid for process in jobs.record().processes if process.role == "taskmanager"]
    return [psutil.Process(pid) for pid in pids]


def test_processing_time_timers_fire_in_empty_epochs(idle: tuple[Jobs, list[Any]]) -> None:
    jobs, records = idle
    assert sorted(records) == [("ada", True), ("bob", True)]
    wait_until(lambda: jobs.record().epoch >= 2)  # the record is written once a second
    assert (jobs.record().status, jobs.record().rows) == ("RUNNING", 2)


def test_an_interrupt_of_the_terminal_does_not_reach_the_taskmanagers(idle: tuple[Jobs, list[Any]]) -> None:
    """In local mode the driver starts them itself, each in a session of its own."""
    jobs, _ = idle
    pids = [process.pid for process in taskmanagers_of(jobs)]
    assert len(pids) == 2
    assert all(os.getsid(pid) == pid for pid in pids)


def test_on_executors_taskmanagers_are_in_the_process_group_of_spark_s_daemon(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So they get its hang-up when the executor ends, and nothing is left behind."""
    monkeypatch.setattr(deployment, "can_start_here", lambda session: False)
    env = jobs.environment(2)
    env.from_dataframe(jobs.json_stream("name string")).map(lambda row: row.name, Types.STRING()).print()
    job = env.execute_async("on executors")
    wait_until(lambda: len(taskmanagers_of(jobs)) == 2)
    pids = [process.pid for process in taskmanagers_of(jobs)]
    (group,) = {os.getpgid(pid) for pid in pids}
    assert jobs.spark.sparkContext.parallelize([0], 1).map(lambda _: os.getpgrp()).collect() == [group]
    assert {os.getsid(pid) for pid in pids} == {os.getsid(group)}
    job.cancel().result(LIMIT_S)


def test_the_registry_says_which_process_owns_which_subtask(idle: tuple[Jobs, list[Any]]) -> None:
    jobs, _ = idle
    processes = jobs.record().processes
    assert [(process.role, process.pid) for process in processes[:1]] == [("driver", os.getpid())]
    assert sorted(subtask for process in processes for subtask in process.subtasks) == ["s0/0", "s0/1"]
    assert all(Path(jobs.record().log_dir, f"taskmanager-1-{n}.log").exists() for n in range(2))


class Stuck(KeyedProcessFunction):
    """Does not come back from a record for a long time."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        print("stuck", flush=True)
        threading.Event().wait(600)


def test_a_job_is_cancelled_in_the_middle_of_an_epoch(jobs: Jobs) -> None:
    jobs.write_json("1.json", [{"name": "ada"}])
    env = jobs.environment(1, {"execution.checkpointing.interval": "1s"})
    stream = env.from_dataframe(jobs.json_stream("name string")).key_by("name")
    stream.process(Stuck(), output_type="name string").uid("stuck").print()
    job = env.execute_async("stuck")
    log = Path(jobs.record().log_dir, "taskmanager-1-0.log")
    wait_until(lambda: log.exists() and "stuck" in log.read_text(encoding="utf-8"))
    processes = taskmanagers_of(jobs)
    job.cancel().result(LIMIT_S)
    assert jobs.record().status == "CANCELED"
    wait_until(lambda: not any(is_alive(process) for process in processes))


def test_the_epoch_interval_holds_for_bounded_input_too(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    epochs = jobs.folder / "epochs.jsonl"
    monkeypatch.setenv("PENSTOCK_EPOCH_LOG", str(epochs))
    env = jobs.environment(1, {"penstock.epoch.interval": "2 s", "penstock.epoch.max-rows": "2"})
    env.from_collection(list(range(6)), Types.LONG()).map(lambda n: n, Types.LONG()).print()
    env.execute("paced")
    lines = [json.loads(line) for line in epochs.read_text(encoding="utf-8").splitlines()]
    starts = [line["started_ms"] for line in lines if line["rows"]]
    assert len(starts) == 3
    # The pace is kept from one start to the next; what comes between a start and its record may vary.
    assert starts[-1] - jobs.record().started_ms >= 4_000
