"""Reading state from Parquet leaves no thread behind.

A thread of Arrow that releases a Python object while the interpreter shuts down aborts the process: commands that read
a savepoint ended with exit code 134 now and then, after correct output.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
import psutil
from penstock.cli.main import main

assert main(["state", "ls", "--no-rows", sys.argv[1]]) == 0  # imports may start threads
before = psutil.Process().num_threads()
for state, kind in (("value typed", "keyed"), ("union", "union")):
    assert main(["state", "show", sys.argv[1], "--operator", "function", "--state", state, "--kind", kind]) == 0
print("threads:", before, psutil.Process().num_threads())
"""
GOLDEN = Path(__file__).parents[1] / "golden" / "0.1.0" / "hashmap-canonical"


@pytest.mark.process
def test_reading_a_savepoint_starts_no_thread() -> None:
    (savepoint,) = GOLDEN.glob("savepoint-*")
    # Other allocators of Arrow have threads of their own.
    environment = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"}
    command = [sys.executable, "-c", PROGRAM, str(savepoint)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    *rows, last = ended.stdout.splitlines()
    _, before, after = last.split()
    assert len(rows) > 10
    assert after == before
