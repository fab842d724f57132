"""Tests of Ctrl-C while Penstock is imported."""

import signal
import subprocess
import sys

import pytest

PROGRAM = """
import signal, sys

class Interrupter:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupter())
import {first}
"""


def run(module: str, first: str) -> "subprocess.CompletedProcess[str]":
    program = PROGRAM.format(module=module, first=first)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("module", ["penstock.model.types", "penstock.graph.stream_graph"])
def test_an_interrupt_of_the_import_shows_no_traceback(module: str) -> None:
    done = run(module, "penstock.datastream")
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


def test_an_interrupt_of_another_import_is_shown_as_ever() -> None:
    done = run("colorsys", "penstock, colorsys")
    assert done.returncode == -signal.SIGINT
    assert done.stderr.rstrip().endswith("KeyboardInterrupt")
