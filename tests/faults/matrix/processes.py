"""Processes that die, hang or run out of memory, and sockets that talk nonsense: F01 to F05, F24, F25."""

import resource
import signal
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress

import psutil

from tests.faults.jobs import JobProcess, is_alive
from tests.faults.matrix.case import MatrixCase
from tests.faults.matrix.scene import LIMIT_S, Scene
from tests.faults.matrix.tools import limited
from tests.waiting import Stopwatch, wait_until

GIGANTIC = struct.pack(">I", 0xFFFFFFFF)
SOCKET_LIMIT_S = 5.0


def driver_killed(scene: Scene) -> Sequence[str]:
    first = scene.start()
    scene.await_epoch(first, scene.chance.randint(3, 7))
    said = scene.crash(first)
    scene.finish(scene.start())
    return [said]


def driver_killed_at_the_commit_point(scene: Scene) -> Sequence[str]:
    place = scene.chance.choice(["C18.after", "C19.before", "C19.after", "C21.before"])
    armed = f"{place}:kill:role=driver:hit=3"
    assert scene.await_exit(scene.start(failpoint=armed)) == -signal.SIGKILL
    scene.finish(scene.start())
    return [scene.hit(armed)]


def executor_killed(scene: Scene) -> Sequence[str]:
    scene.configure(("spark.master", "local-cluster[2,1,1024]"))
    job = scene.start()
    before = scene.await_epoch(job, 4)
    executors = [process for process in job.family() if "CoarseGrainedExecutorBackend" in _command(process)]
    assert len(executors) == 2, f"{len(executors)} executors"
    said = scene.kill(scene.chance.choice(executors))
    _await_attempt(job, before.attempt)
    scene.finish(job)
    return [f"executor {said}"]


def worker_killed(scene: Scene) -> Sequence[str]:
    job = scene.start()
    scene.await_epoch(job, 3)
    said = [scene.kill(wait_until(job.workers)[0]), scene.kill(wait_until(job.workers)[0], signal.SIGSEGV)]
    scene.finish(job)
    return [f"worker {line}" for line in said]


def taskmanager_killed(scene: Scene) -> Sequence[str]:
    job = scene.start()
    before = scene.await_epoch(job, 3)
    said = scene.kill(scene.chance.choice(job.taskmanagers()))
    _await_attempt(job, before.attempt)
    scene.finish(job)
    return [f"TaskManager {said}, new attempt"]


def taskmanager_stopped(scene: Scene) -> Sequence[str]:
    job = scene.start()
    before = scene.await_epoch(job, 3)
    victim = scene.chance.choice(job.taskmanagers())
    victim.send_signal(signal.SIGSTOP)
    watch = Stopwatch()
    _await_attempt(job, before.attempt)
    silence_s = watch.seconds()
    assert "no heartbeat" in job.said(), job.log_tail()
    with suppress(psutil.NoSuchProcess):
        victim.send_signal(signal.SIGCONT)
    wait_until(lambda: not is_alive(victim))  # it belongs to an attempt that is over
    scene.finish(job)
    return [f"TaskManager {victim.pid} stopped, missed after {silence_s:.0f} s, ended when it woke up"]


def crashes_in_recovery(scene: Scene) -> Sequence[str]:
    armed = [
        "C20.before:kill:role=driver:hit=6",
        "C24.after:kill:role=driver:hit=1",
        "C26.before:kill:role=driver:hit=1",
    ]
    for point in armed:
        assert scene.await_exit(scene.start(failpoint=point)) == -signal.SIGKILL
    restored = scene.view().lineage[-1]
    assert restored.checkpoint > 0, "there was nothing to recover"
    restore = "C25.after:kill:role=tm:hit=1"
    last = scene.start(failpoint=restore)
    scene.finish(last)
    return [", ".join(map(scene.hit, [*armed, restore]))]


def memory_used_up(scene: Scene) -> Sequence[str]:
    job = scene.start()
    before = scene.await_epoch(job, 3)
    victim = scene.chance.choice(job.taskmanagers())
    with limited(victim, resource.RLIMIT_AS, victim.memory_info().vms // 4):
        _await_attempt(job, before.attempt)
    scene.finish(job)
    return [f"RLIMIT_AS of TaskManager {victim.pid}, new attempt"]


def nonsense_on_sockets(scene: Scene) -> Sequence[str]:
    job = scene.start()
    scene.await_epoch(job, 3)
    listeners = [
        (process, port) for process in [psutil.Process(job.pid), *job.taskmanagers()] for port in _ports(process)
    ]
    assert len(listeners) > 1, "no sockets to talk to"
    silent = [_connect(port) for _, port in listeners]  # half-open: they say nothing until the end
    before = {process.pid: process.memory_info().rss for process, _ in listeners}
    for _, port in listeners:
        for nonsense in (GIGANTIC, GIGANTIC + b"\0" * 100, b"\0\0\0\x10half", b"GET / HTTP/1.1\r\n\r\n"):
            _expect_end(port, nonsense)
    grown = {pid: psutil.Process(pid).memory_info().rss - before[pid] for pid in before if psutil.pid_exists(pid)}
    assert max(grown.values(), default=0) < 500 * 1024 * 1024, f"memory has grown by {grown}"
    record = job.running_record()
    scene.finish(job)
    for connection in silent:
        connection.close()
    assert record.attempt == 1, "nonsense from outside has ended an attempt"
    return [f"{len(listeners)} sockets got lengths of 4 GiB, half messages and HTTP"]


def _await_attempt(job: JobProcess, before: int) -> None:
    """Until the job runs a newer attempt."""
    wait_until(lambda: job.running_record(LIMIT_S).attempt > before, timeout_s=LIMIT_S, pause_s=0.1)


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


def _ports(process: psutil.Process) -> list[int]:
    return [c.laddr.port for c in process.net_connections("tcp") if c.status == psutil.CONN_LISTEN]


def _connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), SOCKET_LIMIT_S)


def _expect_end(port: int, nonsense: bytes) -> None:
    """The other side answers with a refusal or just closes, within the time."""
    with _connect(port) as connection:
        try:
            connection.sendall(nonsense)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass
        except OSError as error:  # it has closed the connection already
            assert not isinstance(error, TimeoutError), f"port {port} waits for more after {nonsense!r}"


CASES = (
    MatrixCase(("F01 driver killed at any time",), "process", driver_killed),
    MatrixCase(("F01 driver killed around the commit point",), "process", driver_killed_at_the_commit_point),
    MatrixCase(("F02 executor killed",), "process", executor_killed, {"parallelism": "2"}),
    MatrixCase(("F03 Python worker killed", "F03 Python worker segfaults"), "process", worker_killed),
    MatrixCase(("F04 TaskManager killed",), "process", taskmanager_killed),
    MatrixCase(("F04 TaskManager hangs",), "process", taskmanager_stopped),
    MatrixCase(("F05 crashes in recovery, four in a row",), "process", crashes_in_recovery, {"sink": "file"}),
    MatrixCase(("F24 memory of a TaskManager used up",), "process", memory_used_up),
    MatrixCase(("F25 nonsense on every socket",), "process", nonsense_on_sockets),
)
