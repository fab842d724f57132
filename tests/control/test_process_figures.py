"""What the machine says of a process of a job."""

import os
import socket
import subprocess
import sys

import pytest

from penstock.clock import SystemClock
from penstock.control.process_figures import process_figures
from penstock.control.registry import ProcessRecord
from tests.records import NO_PID

HERE = socket.gethostname()


@pytest.mark.parametrize("host", [HERE, "127.0.0.1"])
def test_a_process_of_this_machine_has_memory_cpu_time_and_threads(host: str) -> None:
    found = process_figures(ProcessRecord(os.getpid(), host, "taskmanager"), SystemClock().now_ms())
    assert set(found) == {"Status.Process.Memory.Resident", "Status.Process.CPU.TimeMs", "Status.Process.Threads.Count"}
    assert int(found["Status.Process.Memory.Resident"]) > 1 << 20 and int(found["Status.Process.Threads.Count"]) >= 1


def test_nothing_is_said_of_a_process_that_is_elsewhere_gone_or_another_one() -> None:
    now_ms = SystemClock().now_ms()
    assert process_figures(ProcessRecord(os.getpid(), "elsewhere", "taskmanager"), now_ms) == {}
    assert process_figures(ProcessRecord(NO_PID, HERE, "taskmanager"), now_ms) == {}
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as younger:
        process = ProcessRecord(younger.pid, HERE, "taskmanager")
        assert process_figures(process, now_ms) != {}
        assert process_figures(process, now_ms - 60_000) == {}, "it has only got the number of the one in the record"
        younger.communicate(b"\n")
