"""Real jobs with their checkpoints in the JobManager or in S3, which lose a TaskManager (features J1, J4)."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.common import Types
from penstock.control.submission import Submission, submitted
from penstock.datastream import (
    CloseableIterator,
    FsStateBackend,
    JobManagerCheckpointStorage,
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from penstock.datastream.state import ValueStateDescriptor
from penstock.errors import UsageError
from penstock.storage import open_storage
from tests.spark.jobs import Jobs
from tests.storage.s3_server import BUCKET, ENVIRONMENT, s3_server
from tests.waiting import wait_until

SETTINGS = {
    "execution.checkpointing.interval": "200ms",
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "3",
    "restart-strategy.fixed-delay.delay": "10ms",
}


class Count(KeyedProcessFunction):
    """Counts the records of a key; the state is too large for the manifest."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.noise = runtime_context.get_state(ValueStateDescriptor("noise", Types.STRING()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        self.noise.update(os.urandom(32 * 1024).hex())
        yield value.name, self.count.value()


def run_and_lose_a_taskmanager(jobs: Jobs, env: StreamExecutionEnvironment) -> None:
    """Three records, a checkpoint, the death of a TaskManager, three more: each is counted once."""
    names = ("ada", "bob", "cyd")
    jobs.write_json("1.json", [{"name": name} for name in names])
    stream = env.from_dataframe(jobs.json_stream("name string")).key_by("name")
    counts = stream.process(Count(), output_type="name string, count bigint").uid("count")
    collected = counts.execute_and_collect("counts")
    assert isinstance(collected, CloseableIterator)
    with collected:
        assert sorted(next(collected) for _ in names) == [(name, 1) for name in names]
        wait_until(lambda: (jobs.record().last_checkpoint or 0) >= 1)
        victim = next(process for process in jobs.record().processes if process.role == "taskmanager")
        os.kill(victim.pid, signal.SIGKILL)
        jobs.write_json("2.json", [{"name": name} for name in names])
        assert sorted(next(collected) for _ in names) == [(name, 2) for name in names]
        wait_until(lambda: jobs.record().attempt >= 2)


def test_j1_checkpoints_in_the_jobmanager_outlive_a_taskmanager(jobs: Jobs) -> None:
    env = jobs.environment(2, SETTINGS)
    env._configuration.remove_config("execution.checkpointing.dir")
    env.get_checkpoint_config().set_checkpoint_storage(JobManagerCheckpointStorage())
    run_and_lose_a_taskmanager(jobs, env)
    assert jobs.record().checkpoint_dir is None
    assert sorted(path.name for path in jobs.folder.iterdir()) == ["in", "registry"]


def test_j1_a_job_in_the_jobmanager_cannot_be_resumed(jobs: Jobs) -> None:
    env = jobs.environment(1, SETTINGS)
    env._configuration.remove_config("execution.checkpointing.dir")
    env.get_checkpoint_config().set_checkpoint_storage(JobManagerCheckpointStorage())
    env.from_collection([1]).print()
    with submitted(Submission(jobs.folder / "job.py", resume=True)):
        with pytest.raises(UsageError, match="there is no job log on disk"):
            env.execute("resumed")


def test_j4_checkpoints_in_s3_outlive_a_taskmanager(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    with s3_server() as endpoint:
        for key, value in {**ENVIRONMENT, "AWS_ENDPOINT_URL": endpoint}.items():
            monkeypatch.setenv(key, value)
            monkeypatch.setitem(jobs.spark.sparkContext.environment, key, value)  # of Spark's Python processes
        address = f"s3://{BUCKET}/jobs"
        run_and_lose_a_taskmanager(jobs, jobs.environment(2, SETTINGS).set_state_backend(FsStateBackend(address)))
        assert jobs.record().checkpoint_dir == address
        assert open_storage(address).folders() == [jobs.record().job_id]
        files = open_storage(f"{address}/{jobs.record().job_id}").list("")
        assert [path for path in files if path.startswith("shared/")]
    assert not (jobs.folder / "checkpoints").exists()
