"""The Python of the tests on Spark: a command that behaves like Python, whose processes are forks."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.waiting import wait_until
from tests.warm_python import warm_python

pytestmark = pytest.mark.process

TASKMANAGER = ("-m", "penstock.runtime.taskmanager", "ready")
"""Waits for its configuration on standard input; without one it ends."""


def test_a_fork_lives_as_long_as_its_command_and_what_is_not_known_is_left_to_python(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    with warm_python(tmp_path) as executable:
        wait_until(lambda: (tmp_path / "warm.sock").exists())
        (server,) = [child for child in psutil.Process().children() if "tests.warm_python" in child.cmdline()]
        with subprocess.Popen([executable, *TASKMANAGER], env=environment, stdin=subprocess.PIPE) as ending:
            wait_until(lambda: server.children())
            ending.communicate(b"")
        assert ending.returncode == 0
        wait_until(lambda: not server.children())
        with subprocess.Popen([executable, *TASKMANAGER], env=environment, stdin=subprocess.PIPE) as killed:
            wait_until(lambda: server.children())
            killed.kill()
        wait_until(lambda: not server.children())
        command = [executable, "-c", "import sys; print(sys.executable); sys.exit(7)"]
        real = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert (real.returncode, real.stdout.strip()) == (7, sys.executable)
