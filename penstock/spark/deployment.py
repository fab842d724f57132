"""Starts the TaskManagers: from the driver in local mode, else by one Spark job whose tasks each start a process.

A process that a task starts is a plain child in the process group of PySpark's daemon: it outlives the worker that
started it, and gets the hang-up signal when the executor ends. In both cases it watches the pid of the executor's JVM.
"""

import os
import shutil
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

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
from penstock.runtime.process.log_parts import LogLimits, taskmanager_log
from penstock.runtime.process.passed_environment import is_secret
from penstock.runtime.process.taskmanager_config import TaskManagerConfig
from penstock.runtime.process.taskmanager_start import end_ready_taskmanagers, start_here, start_in_worker
from penstock.runtime.process.watchdog import identity
from penstock.runtime.snapshots.local_copies import LocalBackup
from penstock.spark.pipe import ignore_interrupts
from penstock.spark.session import is_local


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
    log_limits: LogLimits = LogLimits()
    pyflink: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    """Secrets of the driver's environment that the TaskManagers need, if they run on its machine."""


def slot_count(session: SparkSession) -> int:
    """How many tasks can run at once, which is how many TaskManagers are useful."""
    return int(session.sparkContext.defaultParallelism)


def start_taskmanagers(session: SparkSession, template: TaskManagerTemplate, count: int) -> list[int]:
    """Start `count` TaskManagers, one per executor core, and return their pids. They register by themselves.

    Raises TaskManagerLostError if Spark's job for it fails: an executor or a Python worker may have died.
    """
    failpoint.before("C2")
    start = _start_here if can_start_here(session) else _start_on_executors
    pids = start(session, template, count)
    failpoint.after("C2")
    return pids


def can_start_here(session: SparkSession) -> bool:
    """Whether the driver can start TaskManagers as Spark's Python workers would: in local mode, with one Python."""
    context = session.sparkContext
    if not is_local(context.master or "") or context.getConf().contains("spark.executor.pyspark.memory"):
        return False
    python = shutil.which(context.pythonExec)
    return python is not None and os.path.abspath(python) == os.path.abspath(sys.executable)


def _start_here(session: SparkSession, template: TaskManagerTemplate, count: int) -> list[int]:
    """Start them from the driver. That takes no Spark job and none of Spark's Python workers."""
    context = session.sparkContext
    jvm: Any = context._jvm
    watch = [identity(int(jvm.java.lang.ProcessHandle.current().pid()))]
    variables = {name: value for name, value in context.environment.items() if name != "PYTHONHASHSEED"}
    granted = dict(template.environment)
    withheld = sorted(name for name in os.environ if is_secret(name) and name not in granted)
    pids = []
    for index in range(count):
        config = configuration_of(template, index, watch)
        config = msgspec.structs.replace(config, environment=granted, withheld=withheld)
        pids.append(start_here(config, variables))
    end_ready_taskmanagers()
    return pids


def _start_on_executors(session: SparkSession, template: TaskManagerTemplate, count: int) -> list[int]:
    """Start them by a Spark job."""
    rdd = session.sparkContext.parallelize(range(count), count).barrier()  # every task has a slot of its own
    try:
        pids: list[int] = rdd.mapPartitions(_Starter(template)).collect()
    except (Py4JJavaError, PySparkException) as error:
        raise TaskManagerLostError(f"Spark could not start {count} TaskManagers: {innermost(str(error))}") from error
    return pids


def innermost(text: str) -> str:
    """The line of Spark's text that names the innermost error; the text of a Java error ends with its frames.

    >>> innermost(": java.Outer: aborted\\njava.Inner: no Python\\n\\tat x\\n\\nDriver stacktrace:\\n\\tat y")
    'java.Inner: no Python'
    """
    lines = [line for line in text.splitlines() if line and not line[0].isspace() and line != "Driver stacktrace:"]
    return lines[-1] if lines else text.strip()


@dataclass(frozen=True)
class _Starter:
    template: TaskManagerTemplate

    def __call__(self, _: Iterable[int]) -> Iterator[int]:
        # The tasks need not wait for each other, which takes a second in Spark: one that is run again starts another
        # TaskManager, and one that gets no subtask ends with the attempt.
        context = TaskContext.get()
        assert context is not None
        ignore_interrupts()  # a TaskManager inherits this
        yield start_in_worker(configuration_of(self.template, context.partitionId(), executor_processes()))


def executor_processes() -> list[tuple[int, float]]:
    """The executor's JVM that this Python worker belongs to; empty if there is none."""
    for parent in psutil.Process().parents():
        if "java" in parent.name():
            return [identity(parent.pid)]
    return []


def configuration_of(template: TaskManagerTemplate, index: int, watch: list[tuple[int, float]]) -> TaskManagerConfig:
    """What one TaskManager is started with. It ends with the processes in `watch`; the first is its executor."""
    name = f"tm-{template.attempt}-{index}-{new_nonce()}"
    log_path = os.path.join(template.log_dir, taskmanager_log(template.attempt, index))
    return TaskManagerConfig(
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
        log_limits=template.log_limits,
        pyflink=template.pyflink,
    )


def _own_address(jobmanager: tuple[str, int]) -> str:
    """The address of this machine as the JobManager sees it."""
    with socket.create_connection(jobmanager, 10) as connection:
        return str(connection.getsockname()[0])
