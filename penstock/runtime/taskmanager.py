"""The TaskManager process: `python -m penstock.runtime.taskmanager`, configuration with the token on standard input.

Long-lived, one per executor core. It registers with the JobManager, is given its subtasks, and then serves Spark tasks:
a header, the epoch's rows as an Arrow stream, the answer, and the output as an Arrow stream. It ends with its executor,
with its JobManager, or when it is stopped, and leaves nothing that a later attempt could take for its own.
"""

import gc
import hmac
import logging
import os
import pickle
import shutil
import signal
import socket
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from penstock import compat, failpoint
from penstock.clock import SystemClock
from penstock.codec.socket_frames import shut_down
from penstock.errors import (
    ConnectionLostError,
    PenstockError,
    RpcError,
    StaleAttemptError,
    StateBackendError,
    StateLostError,
    SupersededTaskError,
)
from penstock.graph.job_graph import EdgePlan
from penstock.model.snapshot import CheckpointAck, CheckpointDecline, SavepointEvent
from penstock.runtime.exchange_rows import ArrowOutput
from penstock.runtime.operator_chain import EdgeOutput
from penstock.runtime.ownership import Kept, Run
from penstock.runtime.packed_rows import PackedOutput, is_packed
from penstock.runtime.process.batch_streams import receive_batches, send_batches
from penstock.runtime.process.messages import (
    Acked,
    Admitted,
    CheckpointsEnded,
    Declined,
    Deploy,
    Deployed,
    Finished,
    Heartbeat,
    Hello,
    ListStates,
    Ok,
    ReadState,
    Register,
    Stop,
    SubtaskFailure,
    SubtaskReport,
    TaskHeader,
)
from penstock.runtime.process.passed_environment import take_environment
from penstock.runtime.process.process_folder import make_folder, make_state_folder
from penstock.runtime.process.rpc import CALL_TIMEOUT_S, MessageReader, RpcClient, check_hello, receive, refusal, send
from penstock.runtime.process.strangers import FIRST_MESSAGE_BYTES, Strangers
from penstock.runtime.process.subtask_host import HostPlace, SubtaskHost
from penstock.runtime.process.subtask_log import current_log, redirect_output
from penstock.runtime.process.task_listener import TaskListener
from penstock.runtime.process.taskmanager_config import DeployedPlan, TaskManagerConfig
from penstock.runtime.process.thread_turns import ThreadTurns
from penstock.runtime.process.watchdog import ProcessWatch, exit_now
from penstock.runtime.snapshots.local_copies import LocalCopies
from penstock.runtime.sorted_rows import RowOrder, SortedRows
from penstock.runtime.stage_input import StageInput
from penstock.state.backend.backend_registry import register_backend
from penstock.storage.storage import Storage, open_storage

HEARTBEAT_S = 1.0
SILENCE_LIMIT_S = 30.0
WRITE_POLL_S = 1.0
LONGEST_PARENT = 40
"""Of the folder with the Unix socket, whose whole path has at most 107 bytes."""
GC_THRESHOLDS = (200_000, 20, 20)
"""Rows are many and short-lived: with Python's own thresholds half of the decoding time goes into collections."""


class TaskManager:
    """Serves the tasks of one attempt until it is told to stop."""

    def __init__(self, config: TaskManagerConfig) -> None:
        self._config = config
        self._clock = SystemClock()
        self._hello = Hello(config.token, config.attempt, config.taskmanager)
        self._jobmanager = RpcClient(config.jobmanager, self._hello)
        self._storage = _open_storage(config)
        self._copies = LocalCopies(config.local, config.job_id, self._clock)
        self._inputs: dict[str, StageInput] = {}
        self._orders: dict[str, RowOrder] = {}
        self._host: SubtaskHost | None = None
        self._newest_host: SubtaskHost | None = None
        """Also while its subtasks load their state."""
        # The path of a Unix socket has at most 107 bytes, which a long temporary folder would use up.
        parent = tempfile.gettempdir()
        self._folder = make_folder("tm", Path(parent if len(parent) < LONGEST_PARENT else "/tmp"))
        self._state_folder: Path | None = None
        self._strangers = Strangers()
        self._turns = ThreadTurns()
        self._listener = TaskListener(str(self._folder), config.host, self._answer, self._clock)
        self._done = threading.Event()

    def serve(self) -> None:
        """Register, then answer until stopped."""
        self._listener.start()
        register = Register(
            self._config.taskmanager,
            os.getpid(),
            self._config.host,
            self._listener.unix_path,
            self._listener.tcp_port,
            self._config.executor,
        )
        self._jobmanager.call(register)
        self._start(self._send_heartbeats)
        self._done.wait()
        self._listener.close()
        self._close()

    def _start(self, target: Any, *arguments: Any) -> None:
        threading.Thread(target=target, args=arguments, daemon=True).start()

    def _close(self) -> None:
        if self._host is not None:
            self._host.close()
            for subtask in self._host.subtasks():
                for backend in subtask.backends.values():
                    with suppress(StateBackendError):  # its files are deleted anyway
                        backend.close()
        self._jobmanager.close()
        for folder in (self._folder, self._state_folder):
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)

    def _send_heartbeats(self) -> None:
        """Without an answer of the JobManager for too long, this attempt is over and the process ends."""
        name = self._config.taskmanager
        while not self._done.wait(HEARTBEAT_S):
            self._turns.note_heartbeat()
            self._listener.require_responsive()
            try:
                message = self._newest_host.heartbeat(name) if self._newest_host is not None else Heartbeat(name)
                self._jobmanager.call(message, SILENCE_LIMIT_S)
            except (RpcError, StaleAttemptError):
                if not self._done.is_set():
                    exit_now("the JobManager does not answer")

    def _answer(self, connection: socket.socket) -> None:
        """Serve one connection: of a Spark task, or of the JobManager."""
        with connection:
            try:
                message = self._identify(connection)
                if isinstance(message, TaskHeader):
                    self._serve_task(connection, message)
                else:
                    send(connection, Ok())
                    self._serve_jobmanager(connection)
            except PenstockError as error:
                with suppress(RpcError, OSError):
                    send(connection, refusal(error))
            except OSError:
                return  # the peer is gone; it asks again if it still needs the answer

    def _identify(self, connection: socket.socket) -> TaskHeader | Hello:
        """The first message, of a peer that knows the token."""
        self._strangers.add(connection)
        try:
            connection.settimeout(CALL_TIMEOUT_S)
            message: TaskHeader | Hello = receive(connection, FIRST_MESSAGE_BYTES)  # anything else is refused
            if isinstance(message, TaskHeader):
                self._check_token(message)
            else:
                check_hello(message, self._hello)
            connection.settimeout(None)
        finally:
            self._strangers.remove(connection)
        return message

    # ---- the JobManager's orders

    def _serve_jobmanager(self, connection: socket.socket) -> None:
        messages = MessageReader(connection)
        while not self._done.is_set():
            message = messages.receive()
            try:
                send(connection, self._handle(message))
            except PenstockError as error:
                send(connection, refusal(error))

    def _handle(self, message: Any) -> Any:
        if isinstance(message, Deploy):
            return self._deploy(message)
        if isinstance(message, ReadState | ListStates):
            if self._host is None:
                raise StateLostError("this TaskManager has not been given its subtasks")
            if isinstance(message, ListStates):
                return self._host.states()
            self._turns.note_query()
            return self._host.read(message)
        if isinstance(message, CheckpointsEnded):
            if self._host is not None:
                self._host.notify(message.completed, message.aborted)
            return Ok()
        if isinstance(message, Stop):
            if message.job_ended:
                self._copies.remove()
            self._done.set()
            return Ok()
        raise RpcError(f"a TaskManager does not take a {type(message).__name__}")

    def _deploy(self, message: Deploy) -> Deployed:
        """The plan is the user's program, from the process that knows the token: the one thing that is unpickled."""
        plan: DeployedPlan = pickle.loads(message.plan)
        self._inputs = {
            stage.id: StageInput(stage, plan.batch_rows, drop_untimed=plan.drop_untimed)
            for stage in plan.stages.values()
        }
        self._orders = {stage.id: RowOrder(stage) for stage in plan.stages.values()}

        def new_output(edge: EdgePlan) -> EdgeOutput:
            folder, reader = Path(self._state_folder or self._folder), plan.stages.get(edge.target)
            if reader is not None and is_packed(edge, reader):
                return PackedOutput(edge, reader, folder)
            return ArrowOutput(edge, reader.parallelism if reader is not None else 0, folder)

        for spec in plan.backends:
            register_backend(spec)
        if plan.backend.spec.on_disk:
            self._state_folder = make_state_folder(plan.backend.spec.local_dirs, os.getpid())
        place = HostPlace(
            self._config.job_id,
            self._config.attempt,
            new_output,
            plan.channels,
            plan.backend,
            str(self._state_folder or self._folder),
            self._config.limits,
            plan.max_spool_bytes,
            self._copies,
            job_parameters=plan.job_parameters,
        )
        self._newest_host = host = SubtaskHost(place, self._storage, self, self._clock)
        deployed = host.deploy(plan.stages, message)
        self._host = host
        gc.collect()
        gc.freeze()  # restored state is not garbage: no collection needs to look at it
        self._start(self._write_snapshots, host.write_next)
        self._start(self._write_snapshots, host.write_next_savepoint)
        return deployed

    def _write_snapshots(self, write_next: Callable[[float], bool]) -> None:
        while not self._done.is_set():
            try:
                write_next(WRITE_POLL_S)
            except PenstockError:  # the JobManager did not take the ack: the checkpoint will time out, the job goes on
                logging.getLogger("penstock.checkpoint").exception("a snapshot was written, but its ack did not arrive")

    # ---- a Spark task

    def _serve_task(self, connection: socket.socket, header: TaskHeader) -> None:
        if self._host is None:
            raise StateLostError("this TaskManager has not been given its subtasks")
        host = self._host
        admitted = host.admit(header)
        if isinstance(admitted, Run):
            admitted.interrupt = lambda: shut_down(connection)
            if admitted.cancelled.is_set():  # before there was anything to wake
                admitted.interrupt()
            admitted = self._execute(host, connection, header, admitted)
        else:
            send(connection, Admitted(run=False))
        send(connection, Finished(admitted.version))
        if header.edge is not None:
            with host.subtask(header.subtask).times.measured("handing"):
                _send_output(connection, header.edge, admitted)

    def _check_token(self, header: TaskHeader) -> None:
        is_known = hmac.compare_digest(header.token, self._config.token)
        if not is_known or header.epoch.attempt != self._config.attempt:
            raise StaleAttemptError(f"the task is of attempt {header.epoch.attempt}, this is {self._config.attempt}")

    def _execute(self, host: SubtaskHost, connection: socket.socket, header: TaskHeader, run: Run) -> Kept:
        current_log.set_subtask(header)
        try:
            stage = header.subtask.stage
            received = host.subtask(header.subtask).times.waiting_for(_request_rows(connection))
            rows = SortedRows(self._orders[stage], self._folder).sort(received)
            return host.execute(header, run, self._inputs[stage].items(rows))
        except (SupersededTaskError, StaleAttemptError, ConnectionLostError):
            raise  # only this task is over: Spark retries it
        except Exception as error:
            self._report_failure(header, error)
            raise
        finally:
            current_log.set_subtask(None)

    def _report_failure(self, header: TaskHeader, error: Exception) -> None:
        """Errors of the user's code and of our own end the attempt; the JobManager gets them directly."""
        known = error if isinstance(error, PenstockError) else RpcError("".join(traceback.format_exception(error)))
        refused = refusal(known)
        failure = SubtaskFailure(header.subtask, header.epoch.epoch, refused.error, refused.args, current_log.tail(20))
        self._jobmanager.call(failure)

    # ---- what the host sends to the JobManager

    def report(self, report: SubtaskReport) -> None:
        self._jobmanager.call(report)

    def ack(self, ack: CheckpointAck) -> None:
        self._jobmanager.call(Acked(ack))

    def decline(self, decline: CheckpointDecline) -> None:
        self._jobmanager.call(Declined(decline))

    def savepoint_event(self, event: SavepointEvent) -> None:
        self._jobmanager.call(event)


def _open_storage(config: TaskManagerConfig) -> Storage | None:
    if config.storage is None or config.limits.max_state_bytes is not None:
        return None
    return open_storage(config.storage)


def _request_rows(connection: socket.socket) -> Iterator[pa.RecordBatch]:
    """Ask for the rows, and take them. Inside the run, so that a task which is gone by now ends it properly."""
    send(connection, Admitted(run=True))
    yield from receive_batches(connection)


def _send_output(connection: socket.socket, edge: int, kept: Kept) -> None:
    batches = kept.output.get(edge)
    if batches is None:
        raise RpcError(f"no output was kept for edge {edge}")
    send_batches(connection, batches)


def main() -> None:
    """Read the configuration from standard input and serve."""
    failpoint.set_role("tm")
    given = sys.stdin.buffer.read()
    if not given:
        return  # it was made ready, and is not needed
    config = msgspec.json.decode(given, type=TaskManagerConfig)
    take_environment(config.environment, config.withheld)
    redirect_output(config.log_path, config.job_id, config.attempt, config.log_limits)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt of the terminal is the driver's to handle
    for number in (signal.SIGHUP, signal.SIGTERM):  # the executor ends
        signal.signal(number, lambda received, _: exit_now(signal.Signals(received).name))
    sys.path[:] = list(dict.fromkeys(config.sys_path + sys.path))
    if config.pyflink:
        compat.install()
    gc.set_threshold(*GC_THRESHOLDS)
    ProcessWatch(config.watch).start()
    logging.getLogger("penstock.taskmanager").info("TaskManager %s started", config.taskmanager)
    TaskManager(config).serve()


if __name__ == "__main__":
    main()
