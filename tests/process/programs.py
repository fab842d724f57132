"""Programs and processes of the tests: the README's program and a longer one like it, and ways to start them."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.docs.pages import blocks_of, files_of
from tests.waiting import LIMIT_S, wait_until

ROOT = Path(__file__).resolve().parent.parent.parent
FUNCTION = """
from penstock.common import Types
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.state import ValueStateDescriptor


class RunningTotal(KeyedProcessFunction):
    def open(self, ctx):
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.DOUBLE()))

    def process_element(self, order, ctx):
        total = (self.total.value() or 0.0) + order.amount
        self.total.update(total)
        yield order.customer, total
"""
STREAM = """
env = StreamExecutionEnvironment.get_execution_environment()
env.enable_checkpointing(5_000)

orders = env.from_dataframe(
    env.spark.readStream.schema("customer string, amount double, at timestamp").json("orders/"),
    event_time="at", max_out_of_orderness="5 seconds",
).uid("orders")
(
    orders.key_by("customer")
    .process(RunningTotal(), output_type="customer string, total double")
    .uid("running-total")
    .print()
)
"""
README = ROOT / "README.md"
SMALLEST = files_of("README.md")["totals.py"]
"""The README's own program, its input and what it prints at parallelism 2."""
SMALLEST_INPUT = next(block.text for block in blocks_of(README) if block.language == "json")
SMALLEST_OUTPUT = next(block.text for block in blocks_of(README) if block.language == "output").splitlines()
ORDERS = [("ada", 2.0), ("bob", 1.5), ("ada", 3.0), ("cyd", 4.0)]
TOTALS = ["ada 2.0", "ada 5.0", "bob 1.5", "cyd 4.0"]


def write_orders(folder: Path) -> None:
    """The orders in the folder that the program reads."""
    (folder / "orders").mkdir()
    rows = [
        {"customer": customer, "amount": amount, "at": f"2026-01-01T00:00:0{second}Z"}
        for second, (customer, amount) in enumerate(ORDERS)
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "orders" / "1.json").write_text(text, encoding="utf-8")


def totals_in(lines: list[str]) -> list[str]:
    """`subtask> Row(customer='ada', total=2.0)` as `ada 2.0`, sorted; other lines are left out."""
    values = [line.split("> ", 1)[1] for line in lines if "> " in line]
    return sorted(value.removeprefix("Row(customer='").removesuffix(")").replace("', total=", " ") for value in values)


def said_in(text: str) -> list[str]:
    """The lines on standard error, but for what is said of checkpoints on a machine that is too busy for them."""
    return [line for line in text.splitlines() if not line.startswith("warning: the last 3 checkpoints took ")]


def environment(folder: Path) -> dict[str, str]:
    """With all state of the jobs below `folder`, and commands of this Python first."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    own = {"XDG_STATE_HOME": str(folder / "state"), "PATH": path, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    return {**os.environ, **own, "SPARK_LOCAL_DIRS": str(folder / "spark"), "PYSPARK_PYTHON": sys.executable}


@dataclass(frozen=True)
class FirstOutput:
    """When a program printed its first line, and how many cores other processes used until then."""

    seconds: float
    foreign_cores: float

    def __str__(self) -> str:
        return f"first output after {self.seconds:.1f} s while other processes used {self.foreign_cores:.1f} cores"


@dataclass
class Started:
    """A process that runs a program, with its output in files."""

    process: "subprocess.Popen[bytes]"
    folder: Path
    started_s: float
    busy_s: float
    """Of the machine, at the start."""

    @staticmethod
    def of(command: list[str], folder: Path) -> "Started":
        started_s, busy_s = time.monotonic(), machine_busy_s()
        with (folder / "out.txt").open("wb") as out, (folder / "err.txt").open("wb") as err:
            process = subprocess.Popen(
                command, cwd=folder, env=environment(folder), stdout=out, stderr=err, start_new_session=True
            )
        return Started(process, folder, started_s, busy_s)

    @property
    def out(self) -> str:
        return (self.folder / "out.txt").read_text(encoding="utf-8")

    @property
    def err(self) -> str:
        return (self.folder / "err.txt").read_text(encoding="utf-8")

    def await_totals(self, count: int) -> FirstOutput:
        """The time of the first line of output, once there are `count` of them."""
        first: FirstOutput | None = None

        def enough() -> bool:
            nonlocal first
            assert self.process.poll() is None, f"it has ended: {self.err}"
            found = len(totals_in(self.out.splitlines()))
            if found and first is None:
                seconds = time.monotonic() - self.started_s
                foreign_s = machine_busy_s() - self.busy_s - tree_cpu_s(self.process.pid)
                first = FirstOutput(seconds, max(0.0, foreign_s / seconds))
            return found >= count

        wait_until(enough)
        assert first is not None
        return first

    def interrupt(self) -> int:
        """Ctrl-C, as a terminal sends it to the whole group; the exit code."""
        os.killpg(self.process.pid, signal.SIGINT)
        return self.process.wait(LIMIT_S)


def machine_busy_s() -> float:
    """CPU seconds that all cores together have worked since the machine started."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq + times.steal)


def tree_cpu_s(pid: int) -> float:
    """CPU seconds of a process and of all that are below it now."""
    root = psutil.Process(pid)
    used = 0.0
    for process in [root, *root.children(recursive=True)]:
        with suppress(psutil.Error):  # it ended in between
            times = process.cpu_times()
            used += times.user + times.system
    return used
