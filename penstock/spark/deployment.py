"""Starts the TaskManagers: one Spark job whose tasks each start a process on their executor.

The process is a plain child in the process group of PySpark's daemon: it outlives the worker that started it, and gets
the hang-up signal when the executor ends. It also watches the executor's pid.
"""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import psutil
from py4j.protocol import Py4JJavaError
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock import failpoint
from penstock.errors import TaskManagerLostError
from penstock.model.ids import new_nonce
from penstock.model.snapshot import InlineLimits
from penstock.runtime.process.taskmanager_config import TaskManagerConfig
from penstock.runtime.process.watchdog import identity
from penstock.runtime.snapshots.local_copies import LocalBackup
from penstock.spark.pipe import ignore_interrupts


@dataclass(frozen=True)
class TaskManagerTemplate:
    """The configuration that all TaskManagers of an attempt share."""

    job_id: str
    attempt: int
    token: str
    jobmanager: tuple[str, int]
    storage: str | None
    log_dir: str
    sys_path: tuple[str, ...]
    driver: tuple[int, float] | None
    """The driver's process, if it is on the same machine."""
    limits: InlineLimits = InlineLimits()
    local: LocalBackup = LocalBackup()


def slot_count(session: SparkSession) -> int:
    """How many tasks can run at once, which is how many TaskManagers are useful."""
    return int(session.sparkContext.defaultParallelism)


def start_taskmanagers(session: SparkSession, template: TaskManagerTemplate, count: int) -> list[int]:
    """Start `count` TaskManagers, one per executor core, and return their pids. They register by themselves.

    Raises TaskManagerLostError if Spark's job for it fails: an executor or a Python worker may have died.
    """
    failpoint.before("C2")
    context = session.sparkContext
    rdd = context.parallelize(range(count), count).barrier()  # a barrier stage: every task has a slot of its own
    try:
        pids: list[int] = rdd.mapPartitions(_Starter(template)).collect()
    except (Py4JJavaError, PySparkException) as error:
        raise TaskManagerLostError(f"Spark could not start {count} TaskManagers: {error}") from error
    failpoint.after("C2")
    return pids


@dataclass(frozen=True)
class _Starter:
    template: TaskManagerTemplate

    def __call__(self, _: Iterable[int]) -> Iterator[int]:
        # The tasks need not wait for each other, which takes a second in Spark: one that is run again starts another
        # TaskManager, and one that gets no subtask ends with the attempt.
        context = TaskContext.get()
        assert context is not None
        ignore_interrupts()  # a TaskManager inherits this
        yield start_process(self.template, context.partitionId(), executor_processes())


def executor_processes() -> list[tuple[int, float]]:
    """The executor's JVM that this Python worker belongs to; empty if there is none."""
    for parent in psutil.Process().parents():
        if "java" in parent.name():
            return [identity(parent.pid)]
    return []


def start_process(template: TaskManagerTemplate, index: int, watch: list[tuple[int, float]]) -> int:
    """Start one TaskManager; it reads its configuration, with the token, from standard input."""
    name = f"tm-{template.attempt}-{index}-{new_nonce()}"
    log_path = os.path.join(template.log_dir, f"taskmanager-{template.attempt}-{index}.log")
    config = TaskManagerConfig(
        taskmanager=name,
        job_id=template.job_id,
        attempt=template.attempt,
        token=template.token,
        jobmanager=template.jobmanager,
        host=template.jobmanager[0] if template.driver is not None else _own_address(template.jobmanager),
        storage=template.storage,
        log_path=log_path,
        sys_path=list(template.sys_path),
        executor=str(watch[0][0]) if watch else "",
        watch=watch + ([template.driver] if template.driver is not None else []),
        limits=template.limits,
        local=template.local,
    )
    Path(template.log_dir).mkdir(parents=True, exist_ok=True, mode=0o700)
    paths = list(dict.fromkeys([*template.sys_path, *sys.path]))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with open(log_path, "ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "penstock.runtime.taskmanager", name],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=environment,
        )
    assert process.stdin is not None
    with process.stdin as pipe:
        pipe.write(msgspec.json.encode(config))
    threading.Thread(target=process.wait, daemon=True).start()  # reap it when it ends
    return process.pid


def _own_address(jobmanager: tuple[str, int]) -> str:
    """The address of this machine as the JobManager sees it."""
    with socket.create_connection(jobmanager, 10) as connection:
        return str(connection.getsockname()[0])
