"""A TaskManager as Spark tasks meet it, over real connections and in this process."""

import gc
import pickle
import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.codec.keys import KeyCodec
from penstock.codec.row_codec import RowCodec
from penstock.common import Types
from penstock.datastream import KeyedProcessFunction
from penstock.errors import ConnectionLostError, StaleAttemptError, SupersededTaskError, UserFunctionError
from penstock.model.descriptors import ValueStateDescriptor
from penstock.model.functions import RuntimeContext
from penstock.model.ids import Version
from penstock.model.types import TAGGED
from penstock.model.units import MIB
from penstock.runtime import taskmanager
from penstock.runtime.exchange_rows import BARRIER, BARRIER_EDGE, EDGE, encode_barrier
from penstock.runtime.process.batch_streams import receive_batches, send_batches
from penstock.runtime.process.messages import (
    Admitted,
    Deploy,
    EpochHeader,
    Finished,
    Hello,
    Register,
    Stop,
    SubtaskFailure,
    SubtaskReport,
    TaskHeader,
)
from penstock.runtime.process.rpc import RpcClient, RpcServer, connect, raise_refusal, receive, send
from penstock.runtime.process.strangers import MOST_STRANGERS
from penstock.runtime.process.taskmanager_config import DeployedPlan, TaskManagerConfig
from penstock.runtime.taskmanager import TaskManager
from tests.runtime.subtasks import SUBTASK, driver_barrier, epoch_header, keyed_stage
from tests.waiting import LIMIT_S, wait_until

TOKEN = "secret"
HOST = "127.0.0.1"
HELLO = Hello(TOKEN, 1, "jobmanager")
STAGE_OUTPUT = 1
"""The edge on which the function's output leaves."""


class CountKeys(KeyedProcessFunction):
    def open(self, ctx: RuntimeContext) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, record: Any, ctx: Any) -> Any:
        if record[1] == "poison":
            raise ValueError("poisoned")
        self.count.update((self.count.value() or 0) + 1)
        yield record[0], self.count.value()


class JobManagerStub:
    """The other end of the control connection: records what the TaskManager sends."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.server = RpcServer(HOST, HELLO, self._handle, lambda sender: None)

    def _handle(self, sender: str, message: Any) -> None:
        self.messages.append(message)

    def received(self, kind: type) -> list[Any]:
        return [message for message in self.messages if isinstance(message, kind)]


class Cluster:
    """A TaskManager that owns the one subtask of a job."""

    def __init__(self, folder: Path) -> None:
        self.jobmanager = JobManagerStub()
        config = TaskManagerConfig(
            "tm-0", "0" * 32, 1, TOKEN, self.jobmanager.server.address, HOST, None, str(folder / "tm.log"), [], "", []
        )
        self._thread = threading.Thread(target=TaskManager(config).serve, daemon=True)
        self._thread.start()
        (self.register,) = wait_until(lambda: self.jobmanager.received(Register), pause_s=0.001)
        self._control = RpcClient((HOST, self.register.tcp_port), HELLO)
        stage = keyed_stage(CountKeys())
        plan = pickle.dumps(DeployedPlan({stage.id: stage}, {}, 10_000))
        deployed = self._control.call(Deploy(plan, [SUBTASK], [[]], None, 0, 0))
        self.parent: Version = deployed.versions[0][1]
        self._tasks: list[Task] = []

    def close(self) -> None:
        for task in self._tasks:
            task.die()
        self._control.call(Stop("the test is over"))
        self._thread.join(10)
        assert not self._thread.is_alive()
        self._control.close()
        self.jobmanager.server.close()

    def task(self, header: EpochHeader, attempt: int = 1, consumer: str = "1", token: str = TOKEN) -> "Task":
        """A task that has requested the epoch."""
        wanted = TaskHeader(token, SUBTASK, self.parent, consumer, attempt, STAGE_OUTPUT, header)
        self._tasks.append(Task(connect(self.register.unix_path), wanted))
        return self._tasks[-1]


class Task:
    """A Spark task's end of a connection."""

    def __init__(self, connection: socket.socket, header: TaskHeader) -> None:
        self._connection = connection
        self._header = header
        send(connection, header)

    def admitted(self) -> bool:
        """Whether the TaskManager asks for the rows."""
        answer = receive(self._connection)
        raise_refusal(answer)
        assert isinstance(answer, Admitted)
        return answer.run

    def send(self, records: Sequence[Any]) -> None:
        send_batches(self._connection, rows(self._header.epoch, records))

    def output(self) -> tuple[Version, list[pa.RecordBatch]]:
        """The version, and what the stage emitted."""
        finished = receive(self._connection)
        raise_refusal(finished)
        assert isinstance(finished, Finished)
        batches = list(receive_batches(self._connection))
        self._connection.close()
        return finished.version, batches

    def die(self) -> None:
        self._connection.close()


def rows(header: EpochHeader, records: Sequence[Any]) -> list[pa.RecordBatch]:
    """Records and the driver's barrier, as Spark sends them."""
    keys = KeyCodec((TAGGED,))
    count = len(records)
    columns = [
        pa.array([0] * count + [BARRIER_EDGE], pa.int32()),
        pa.array([None] * count + [encode_barrier(driver_barrier(header))], pa.binary()),
        pa.concat_arrays([*RowCodec(TAGGED).encode(records), pa.nulls(1, pa.binary())]),
        pa.concat_arrays(
            [*keys.encode([keys.to_state_key(record[0]) for record in records]), pa.nulls(1, pa.binary())]
        ),
    ]
    return [pa.RecordBatch.from_arrays(columns, [EDGE, BARRIER, "i0_0", "k0_0"])]


def records_of(batches: Sequence[pa.RecordBatch]) -> list[Any]:
    codec = RowCodec(TAGGED)
    return [record for batch in batches for record in codec.decode_batch([batch.column("c0")])]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    ends: list[str] = []
    monkeypatch.setattr(taskmanager, "exit_now", ends.append)  # it would end the tests
    monkeypatch.setattr(gc, "freeze", lambda: None)
    made = Cluster(tmp_path)
    yield made
    made.close()
    assert ends == []


RECORDS = [("a", 1), ("b", 2), ("a", 3)]


def test_a_task_brings_rows_and_takes_the_output_and_a_later_one_gets_the_same_bytes(cluster: Cluster) -> None:
    header = epoch_header()
    task = cluster.task(header)
    assert task.admitted()
    task.send(RECORDS)
    version, batches = task.output()
    assert records_of(batches) == [("a", 1), ("b", 1), ("a", 2)]
    for attempt, consumer in ((2, "1"), (1, "2")):
        again = cluster.task(header, attempt, consumer)
        assert not again.admitted()  # its rows are not needed
        same, replayed = again.output()
        assert same == version
        assert [b.serialize().to_pybytes() for b in replayed] == [b.serialize().to_pybytes() for b in batches]
    (report,) = cluster.jobmanager.received(SubtaskReport)
    assert report.version == version and report.rows_in == 3


@pytest.mark.parametrize("stale", ["token", "attempt"])
def test_a_task_of_another_attempt_is_refused(cluster: Cluster, stale: str) -> None:
    header = epoch_header() if stale == "token" else EpochHeader("0" * 32, 2, 1, 0)
    task = cluster.task(header, token="other" if stale == "token" else TOKEN)
    with pytest.raises(StaleAttemptError):
        task.admitted()


@pytest.mark.parametrize(
    "nonsense",
    [b"\xff\xff\xff\xff", b"\xff\xff\xff\xff" + b"\0" * 100, b"\0\0\0\x10half", b"GET / HTTP/1.1\r\n\r\n", b""],
)
def test_f25_nonsense_on_a_socket_is_not_answered_and_the_next_task_is_served(
    cluster: Cluster, nonsense: bytes
) -> None:
    """Lengths of 4 GiB, half a message, HTTP, nothing at all; on the TaskManager's socket and on the JobManager's."""
    with socket.create_connection((HOST, cluster.register.tcp_port)) as silent:
        for address in ((HOST, cluster.register.tcp_port), cluster.jobmanager.server.address):
            with socket.create_connection(address, LIMIT_S) as connection, suppress(ConnectionError):
                connection.sendall(nonsense)
                if len(nonsense) < 10:  # it waits for the rest
                    connection.shutdown(socket.SHUT_WR)
                while connection.recv(1 << 16):  # a refusal at most, and then the end
                    continue
        task = cluster.task(epoch_header())
        assert task.admitted()
        task.send(RECORDS)
        assert records_of(task.output()[1]) == [("a", 1), ("b", 1), ("a", 2)]
        silent.sendall(nonsense)


def test_f25_strangers_take_neither_threads_nor_memory(cluster: Cluster) -> None:
    """Each says that 60 MiB will follow; the TaskManager and the JobManager keep a limited number of them waiting."""
    too_long, waiting = struct.pack(">I", 60 * MIB), struct.pack(">I", 100)
    before = threading.active_count()
    addresses = ((HOST, cluster.register.tcp_port), cluster.jobmanager.server.address)
    for attempt, address in enumerate(addresses, 1):
        with socket.create_connection(address, LIMIT_S) as long, suppress(ConnectionError):
            long.sendall(too_long)
            while long.recv(1 << 16):  # a refusal at most, and then the end
                continue
        with ExitStack() as stack:
            strangers = [stack.enter_context(socket.create_connection(address, LIMIT_S)) for _ in range(300)]
            for stranger in strangers:
                stranger.sendall(waiting)
            first, last = strangers[0], strangers[-1]
            with suppress(ConnectionError):
                while first.recv(1 << 16):
                    continue
            wait_until(lambda: threading.active_count() <= before + MOST_STRANGERS)
            last.settimeout(0.0)
            with pytest.raises(BlockingIOError):  # it is still waited for
                last.recv(1)
            task = cluster.task(epoch_header(), attempt)
            assert task.admitted()
            task.die()


def test_a_task_that_dies_in_the_middle_leaves_nothing_behind(cluster: Cluster) -> None:
    header = epoch_header()
    first = cluster.task(header, attempt=1)
    assert first.admitted()
    first.die()
    second = cluster.task(header, attempt=2)
    assert second.admitted()
    second.send(RECORDS)
    assert records_of(second.output()[1]) == [("a", 1), ("b", 1), ("a", 2)]
    assert not cluster.jobmanager.received(SubtaskFailure)


def test_a_newer_attempt_takes_over_from_one_that_hangs(cluster: Cluster) -> None:
    header = epoch_header()
    hanging = cluster.task(header, attempt=1)
    assert hanging.admitted()
    second = cluster.task(header, attempt=2)
    assert second.admitted()
    second.send(RECORDS)
    assert records_of(second.output()[1]) == [("a", 1), ("b", 1), ("a", 2)]
    with pytest.raises((SupersededTaskError, ConnectionLostError)):
        hanging.output()
    late = cluster.task(header, attempt=1)
    with pytest.raises(SupersededTaskError):
        late.admitted()


def test_another_consumer_waits_for_the_run_and_takes_it_over_when_it_is_lost(cluster: Cluster) -> None:
    header = epoch_header()
    running = cluster.task(header, consumer="1")
    assert running.admitted()
    waiting = cluster.task(header, consumer="2")
    running.die()
    assert waiting.admitted()
    waiting.send(RECORDS)
    assert records_of(waiting.output()[1]) == [("a", 1), ("b", 1), ("a", 2)]


def test_an_error_of_the_function_reaches_the_job_manager_in_its_own_words(cluster: Cluster) -> None:
    task = cluster.task(epoch_header())
    assert task.admitted()
    with suppress(ConnectionLostError):  # the TaskManager may be done with the task before the end mark is sent
        task.send([("a", 1), ("a", "poison")])
    with pytest.raises(UserFunctionError, match="record 2 of epoch 1 in subtask s0/0"):
        task.output()
    (failure,) = cluster.jobmanager.received(SubtaskFailure)
    assert failure.error == "UserFunctionError" and "ValueError: poisoned" in failure.args[2]
