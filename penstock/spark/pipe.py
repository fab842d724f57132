"""The Spark task: a pipe from Spark's rows to the TaskManager that owns the subtask, and back.

Runs in PySpark's Python workers, which are short-lived; it keeps nothing between calls.
"""

import os
import signal
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
from pyspark import TaskContext

from penstock import failpoint
from penstock.errors import ConnectionLostError, RpcError
from penstock.model.ids import StageId, SubtaskId, Version
from penstock.runtime.process.batch_streams import receive_batches, send_batches
from penstock.runtime.process.messages import EpochHeader, Finished, TaskHeader
from penstock.runtime.process.rpc import connect, raise_refusal, receive, send

SUBTASK = "__subtask"
"""The column by which rows are partitioned."""
RESULT_DDL = "stage string, subtask int, version string"
RESULT_SCHEMA = pa.schema([("stage", pa.string()), ("subtask", pa.int32()), ("version", pa.string())])


@dataclass(frozen=True)
class OwnerAddress:
    """Where a TaskManager listens: a Unix socket on its own machine, TCP from elsewhere."""

    host: str
    unix_path: str
    tcp_port: int


@dataclass(frozen=True)
class Pipe:
    """The function that `mapInArrow` calls for every partition of a stage in one epoch."""

    token: str
    stage: str
    header: EpochHeader
    parents: tuple[Version, ...]
    owners: tuple[OwnerAddress, ...]
    consumer: str
    edge: int | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        failpoint.set_role("task")
        ignore_interrupts()
        context = TaskContext.get()
        assert context is not None
        index, batches = _subtask_of(batches)
        subtask = SubtaskId(StageId(self.stage), index)
        header = TaskHeader(
            self.token, subtask, self.parents[index], self.consumer, context.taskAttemptId(), self.edge, self.header
        )
        with connect_owner(self.owners[index]) as connection:
            failpoint.before("C3")
            send(connection, header)
            failpoint.after("C3")
            finished = _exchange(connection, batches)
            if self.edge is None:
                yield _result(subtask, finished.version)
            else:
                yield from receive_batches(connection)
        failpoint.before("C11")
        failpoint.after("C11")


def ignore_interrupts() -> None:
    """A Ctrl-C reaches every process of a terminal. The driver handles it, and needs its tasks for a last checkpoint.

    It stays ignored: an idle worker would end, and the next task that gets it would fail.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def connect_owner(owner: OwnerAddress) -> socket.socket:
    """A connection to the TaskManager: by its Unix socket on the same machine, otherwise by TCP."""
    if os.path.exists(owner.unix_path):
        connection = connect(owner.unix_path)
    else:
        connection = connect((owner.host, owner.tcp_port))
    connection.settimeout(None)
    return connection


def _subtask_of(batches: Iterator[pa.RecordBatch]) -> tuple[int, Iterator[pa.RecordBatch]]:
    """The subtask that a partition's rows are for, and the rows.

    It is in a column of the rows, and there is always at least a barrier. The index of Spark's task is another number:
    after a union it counts the partitions of the other side too.
    """
    for first in batches:
        if first.num_rows:
            return first.column(SUBTASK)[0].as_py(), chain([first], batches)
    raise RpcError("a partition without rows: its barrier is missing")


def _exchange(connection: socket.socket, batches: Iterator[pa.RecordBatch]) -> Finished:
    admitted = receive(connection)
    raise_refusal(admitted)
    if admitted.run:
        try:
            send_batches(connection, batches)
        except ConnectionLostError:
            raise_refusal(_refusal_before_close(connection))
            raise
    finished = receive(connection)
    raise_refusal(finished)
    if not isinstance(finished, Finished):
        raise RpcError(f"expected the end of the epoch, got {type(finished).__name__}")
    return finished


def _refusal_before_close(connection: socket.socket) -> object:
    """The message that the TaskManager sent before it closed the connection, if any."""
    try:
        return receive(connection)
    except RpcError:
        return None


def _result(subtask: SubtaskId, version: Version) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {"stage": [subtask.stage], "subtask": [subtask.index], "version": [str(version)]}, schema=RESULT_SCHEMA
    )
