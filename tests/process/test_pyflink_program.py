"""A program written for PyFlink runs as it is, its functions in TaskManagers too."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

PROGRAM = """
from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor


class Total(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value, ctx: "KeyedProcessFunction.Context"):
        from pyflink.common import Row  # in the TaskManager
        total = (self.total.value() or 0) + value[1]
        self.total.update(total)
        yield Row(value[0], total)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
orders = env.from_collection([("ada", 2), ("bob", 5), ("ada", 3)], Types.TUPLE([Types.STRING(), Types.INT()]))
orders.print("in")
totals = orders.key_by(lambda order: order[0])
totals.process(Total(), Types.ROW([Types.STRING(), Types.LONG()])).print()
env.execute("totals")
"""


def test_a_program_of_pyflink_runs_unchanged(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, "-m", "penstock", "run", "--pyflink", "-Dspark.master=local[1]", "job.py"]
    run = subprocess.run(
        command, cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True, timeout=200, check=False
    )
    assert run.returncode == 0, run.stderr
    printed = run.stdout.splitlines()[1:-1]
    assert [line for line in printed if line.startswith("in> ")] == ["in> (ada,2)", "in> (bob,5)", "in> (ada,3)"]
    assert [line for line in printed if line.startswith("+I")] == ["+I[ada,2]", "+I[bob,5]", "+I[ada,5]"]
