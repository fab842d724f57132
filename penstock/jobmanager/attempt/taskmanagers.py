"""The TaskManagers of one attempt: registration, deployment, their messages, and the loss of one."""

import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from penstock.clock import Clock
from penstock.errors import PenstockError, RpcError, TaskManagerLostError
from penstock.model.snapshot import (
    CheckpointAck,
    CheckpointDecline,
    SavepointAck,
    SavepointDecline,
    SavepointEvent,
    SavepointProgress,
)
from penstock.runtime.process.messages import (
    Acked,
    CheckpointsEnded,
    Declined,
    Deploy,
    Deployed,
    Heartbeat,
    Hello,
    Register,
    Stop,
    SubtaskFailure,
    SubtaskReport,
    SubtaskRows,
)
from penstock.runtime.process.rpc import RpcClient, RpcServer, error_of
from penstock.runtime.snapshots.local_copies import RestoreFigures

REGISTER_TIMEOUT_S = 60.0
DEPLOY_TIMEOUT_S = 600.0
NOTIFY_TIMEOUT_S = 60.0
CHECK_S = 1.0


@dataclass(frozen=True)
class AttemptEvents:
    """Receives the TaskManagers' messages."""

    report: Callable[[SubtaskReport], None]
    ack: Callable[[CheckpointAck], None]
    decline: Callable[[CheckpointDecline], None]
    fail: Callable[[PenstockError], None]
    savepoint_event: Callable[[SavepointEvent], None]


class TaskManagers:
    """The JobManager's end of the connections. `close` ends every TaskManager of the attempt."""

    def __init__(self, host: str, hello: Hello, clock: Clock, silence_limit_s: float) -> None:
        """A TaskManager that sends no heartbeat for `silence_limit_s` is lost."""
        self._hello = hello
        self._clock = clock
        self._silence_limit_s = silence_limit_s
        self._events: AttemptEvents | None = None
        self._registered: dict[str, Register] = {}
        self._clients: dict[str, RpcClient] = {}
        self._seen: dict[str, float] = {}
        self._heartbeats: dict[str, Heartbeat] = {}
        self._lost_early: list[tuple[str, str]] = []
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._server = RpcServer(host, hello, self._handle, self._disconnected)
        self.address = self._server.address

    def listen(self, events: AttemptEvents) -> None:
        """Pass on messages from now on, and watch heartbeats. A TaskManager that was lost before is reported now."""
        with self._changed:
            self._events = events
        for name, why in self._lost_early:
            self._lost(name, why)
        threading.Thread(target=self._watch, name="heartbeats", daemon=True).start()

    def wait_for_registration(self, count: int) -> list[Register]:
        """The TaskManagers, sorted by name, once `count` have registered."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._registered) >= count, REGISTER_TIMEOUT_S)
            if len(self._registered) < count:
                raise TaskManagerLostError(
                    f"{len(self._registered)} of {count} TaskManagers registered within {REGISTER_TIMEOUT_S:.0f} s; "
                    f"their logs say why (`penstock logs`)"
                )
            return [self._registered[name] for name in sorted(self._registered)]

    def deploy(self, orders: Mapping[str, Deploy]) -> Deployed:
        """Give each TaskManager its subtasks; return what all of them have restored."""
        restored, figures = Deployed([], [], []), RestoreFigures()
        results: list[Any] = []
        threads = [
            threading.Thread(target=self._deploy_one, args=(name, order, results)) for name, order in orders.items()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEPLOY_TIMEOUT_S)
        for result in results:
            if isinstance(result, PenstockError):
                raise result
            restored.versions.extend(result.versions)
            restored.next_timers.extend(result.next_timers)
            restored.waiting.extend(result.waiting)
            figures += result.restored
        if len(results) != len(orders):
            raise TaskManagerLostError(
                f"only {len(results)} of {len(orders)} TaskManagers restored their state in time"
            )
        return msgspec.structs.replace(restored, restored=figures)

    def _deploy_one(self, name: str, order: Deploy, results: list[Any]) -> None:
        register = self._registered[name]
        try:
            client = RpcClient((register.host, register.tcp_port), self._hello)
            self._clients[name] = client
            answer = client.call(order, DEPLOY_TIMEOUT_S)
            results.append(answer if isinstance(answer, Deployed) else RpcError(f"unexpected answer {answer!r}"))
        except PenstockError as error:
            results.append(error)

    def notify(self, message: CheckpointsEnded) -> None:
        """Notify all functions of the last checkpoints."""
        for client in self._clients.values():
            client.call(message, NOTIFY_TIMEOUT_S)

    # ---- how far they have come

    @property
    def registered_count(self) -> int:
        """How many have registered."""
        return len(self._registered)

    @property
    def restored_count(self) -> int:
        """How many subtasks have loaded their state, as of the last heartbeats."""
        return sum(heartbeat.restored for heartbeat in list(self._heartbeats.values()))

    def rows_so_far(self) -> list[SubtaskRows]:
        """The rows of each subtask's newest epoch, as of the last heartbeats."""
        return [rows for heartbeat in list(self._heartbeats.values()) for rows in heartbeat.rows]

    # ---- messages

    def _handle(self, sender: str, message: Any) -> Any:
        self._seen[sender] = self._clock.monotonic_s()
        if isinstance(message, Heartbeat):
            self._heartbeats[sender] = message
            return None
        if isinstance(message, Register):
            with self._changed:
                self._registered[message.taskmanager] = message
                self._changed.notify_all()
            return None
        if self._events is None:
            raise RpcError("the attempt has not begun")
        if isinstance(message, SubtaskReport):
            self._events.report(message)
        elif isinstance(message, Acked):
            self._events.ack(message.ack)
        elif isinstance(message, Declined):
            self._events.decline(message.decline)
        elif isinstance(message, SavepointAck | SavepointDecline | SavepointProgress):
            self._events.savepoint_event(message)
        elif isinstance(message, SubtaskFailure):
            error = error_of(message.error, message.args)
            if message.log_tail:
                error.__notes__ = ["last lines of the TaskManager's log:", *message.log_tail]
            self._events.fail(error)
        else:
            raise RpcError(f"a JobManager does not take a {type(message).__name__}")
        return None

    def _disconnected(self, sender: str) -> None:
        self._lost(sender, "its connection has ended")

    def _lost(self, name: str, why: str) -> None:
        with self._changed:
            if self._events is None:
                self._lost_early.append((name, why))
                return
        if not self._closing.is_set():
            self._events.fail(TaskManagerLostError(f"TaskManager {name} is lost: {why}"))

    def _watch(self) -> None:
        while not self._closing.wait(CHECK_S):
            now = self._clock.monotonic_s()
            for name, seen in list(self._seen.items()):
                if now - seen > self._silence_limit_s:
                    self._lost(name, f"no heartbeat for {now - seen:.0f} s")

    def close(self, reason: str, *, job_ended: bool) -> None:
        """Stop every TaskManager and close the endpoint; those that do not answer end by themselves."""
        self._closing.set()
        for client in self._clients.values():
            try:
                client.call(Stop(reason, job_ended), 5.0)
            except PenstockError:
                continue  # it has ended already, or its watchdog ends it
            finally:
                client.close()
        self._server.close()
        for register in self._registered.values():
            # A killed TaskManager could not remove its folder. On another machine this path does not exist.
            shutil.rmtree(Path(register.unix_path).parent, ignore_errors=True)
