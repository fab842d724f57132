"""Jobs of the tests that lose a TaskManager and go on, and what their folders hold."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penstock.checkpoint.log.log_reader import read_log
from penstock.checkpoint.log.log_view import LogView
from penstock.common import Types
from penstock.datastream import JobClient, KeyedProcessFunction, RuntimeContext
from penstock.datastream.state import ValueStateDescriptor
from penstock.storage.local import LocalStorage
from tests.spark.jobs import Jobs
from tests.waiting import LIMIT_S, wait_until

RESTARTS = {
    "execution.checkpointing.interval": "400ms",
    "execution.checkpointing.num-retained": "3",
    "execution.checkpointing.data-inline-threshold": "0",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "3",
    "restart-strategy.fixed-delay.delay": "10ms",
    "penstock.epoch.interval": "100ms",
}


class Count(KeyedProcessFunction):
    """The value, and which one it is of its key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value.value, value.value % 7, count


COUNTED = "value bigint, key bigint, nth bigint"


def job_folder(jobs: Jobs) -> Path:
    return jobs.folder / "checkpoints" / jobs.record().job_id


def log_of(jobs: Jobs) -> LogView:
    return read_log(LocalStorage(job_folder(jobs)))


def await_checkpoints(jobs: Jobs, number: int) -> None:
    """Until that checkpoint of the job's current line is complete and its commits have ended."""
    wait_until(lambda: (jobs.record().last_checkpoint or 0) >= number)


def kill_taskmanager(jobs: Jobs) -> None:
    """SIGKILL to one of the job's TaskManagers."""
    pids = [process.pid for process in jobs.record().processes if process.role == "taskmanager"]
    os.kill(pids[-1], signal.SIGKILL)


def await_attempt(jobs: Jobs, number: int) -> None:
    wait_until(lambda: jobs.record().attempt >= number and jobs.record().status == "RUNNING")


def cancel(job: JobClient) -> None:
    job.cancel().result(LIMIT_S)


def check_counts(rows: list[dict[str, int]], size: int | None = None) -> None:
    """Every value from 0 on is there once, and each key's counter has counted it once."""
    assert sorted(row["value"] for row in rows) == list(range(len(rows) if size is None else size))
    for key in range(7):
        nth = sorted(row["nth"] for row in rows if row["key"] == key)
        assert nth == list(range(1, len(nth) + 1))
