"""What a job costs that has nothing to do: `python -m bench.idle [--watched] [--seconds 60]`.

No new data, no timer due, checkpoints every 10 s. `--watched`: meanwhile a client reads its events, as its page does,
and scrapes `/metrics` every 5 s. Prints the CPU time of all its processes together, without the client, as a part of
one core; the exit code is 1 if that is not below the limit.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psutil

from bench.errors import RoundFailedError
from bench.figures import limit_line
from bench.programs.watcher import watch
from penstock.control.registry import JobRecord, Registry

LIMIT_PERCENT = 10.0
START_LIMIT_S = 300.0
POLL_S = 0.5
PROGRAM = """
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

env = StreamExecutionEnvironment.get_execution_environment()
env.enable_checkpointing(10_000)
orders = env.from_dataframe(env.spark.readStream.schema("customer string, amount double").json("orders/"))
totals = orders.key_by("customer").process(RunningTotal(), output_type="customer string, total double")
totals.uid("running-total").print()
env.execute("idle")
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print one line; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.idle")
    parser.add_argument("--seconds", type=float, default=60.0, help="length of the measurement")
    parser.add_argument("--settle", type=float, default=20.0, help="seconds between the first epoch and it")
    parser.add_argument("--watched", action="store_true", help="with a client that reads its events and metrics")
    options = parser.parse_args(arguments)
    percent = measure(options.seconds, options.settle, is_watched=options.watched)
    print(to_line(percent, options.seconds, "idle job, watched" if options.watched else "idle job"), flush=True)
    return 0 if sum(percent.values()) < LIMIT_PERCENT else 1


def to_line(percent: dict[str, float], seconds: float, name: str = "idle job") -> str:
    """The figures for people.

    >>> to_line({"driver": 1.25, "jvm": 3.5}, 60)
    'idle job: 4.8 % of one core over 60 s (driver 1.2 %, jvm 3.5 %) (limit: below 10 %): kept'
    """
    parts = ", ".join(f"{role} {value:.1f} %" for role, value in sorted(percent.items()))
    used = sum(percent.values())
    text = f"{name}: {used:.1f} % of one core over {seconds:.0f} s ({parts})"
    return limit_line(text, f"below {LIMIT_PERCENT:.0f} %", is_within=used < LIMIT_PERCENT)


def measure(seconds: float, settle_s: float, *, is_watched: bool = False) -> dict[str, float]:
    """CPU time by role, in percent of one core, of a job that has nothing to do."""
    with tempfile.TemporaryDirectory(prefix="penstock-idle-") as name, ThreadPoolExecutor(1) as threads:
        folder = Path(name)
        (folder / "job.py").write_text(PROGRAM, encoding="utf-8")
        (folder / "orders").mkdir()
        order = json.dumps({"customer": "ada", "amount": 1.0})
        (folder / "orders" / "1.json").write_text(order + "\n", encoding="utf-8")
        with _running(folder) as driver:
            record = _await_first_checkpoint(driver, folder)
            watching = threads.submit(watch, record) if is_watched else None
            time.sleep(settle_s)
            before, started_s = _cpu_s(driver, record), time.monotonic()
            time.sleep(seconds)
            after, wall_s = _cpu_s(driver, record), time.monotonic() - started_s
            if watching is not None and watching.done():
                raise RoundFailedError("the client has ended before the job")
        if watching is not None:
            watching.result()
    used: dict[str, float] = {}
    for process, (role, cpu_s) in after.items():
        _, earlier_s = before.get(process, (role, 0.0))
        used[role] = used.get(role, 0.0) + 100 * (cpu_s - earlier_s) / wall_s
    return used


@contextmanager
def _running(folder: Path) -> "Iterator[subprocess.Popen[bytes]]":
    environment = {**os.environ, "XDG_STATE_HOME": str(folder)}
    with (folder / "log.txt").open("wb") as log:
        command = [sys.executable, "job.py"]
        driver = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        yield driver
    finally:
        os.killpg(driver.pid, signal.SIGINT)
        try:
            driver.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()


def _await_first_checkpoint(driver: "subprocess.Popen[bytes]", folder: Path) -> JobRecord:
    registry = Registry(folder / "penstock" / "registry")
    limit_s = time.monotonic() + START_LIMIT_S
    while time.monotonic() < limit_s and driver.poll() is None:
        for record in registry.list():
            if record.epoch > 0 and record.last_checkpoint:
                return record
        time.sleep(POLL_S)
    raise RoundFailedError(f"the job does not run: {(folder / 'log.txt').read_text(encoding='utf-8')}")


def _cpu_s(driver: "subprocess.Popen[bytes]", record: JobRecord) -> dict[psutil.Process, tuple[str, float]]:
    """Role and CPU seconds of every process of the job; TaskManagers may no longer be below the driver."""
    root = psutil.Process(driver.pid)
    taskmanagers = [process.pid for process in record.processes if process.role == "taskmanager"]
    found = {
        process.pid: process for process in [root, *root.children(recursive=True), *map(psutil.Process, taskmanagers)]
    }
    used = {}
    for process in found.values():
        try:
            times = process.cpu_times()
            used[process] = (_role(process, driver.pid, taskmanagers), times.user + times.system)
        except psutil.Error:
            continue  # a worker of Spark's that has ended
    return used


def _role(process: psutil.Process, driver: int, taskmanagers: list[int]) -> str:
    if process.pid == driver:
        return "driver"
    if process.pid in taskmanagers:
        return "taskmanagers"
    return "jvm" if "java" in process.name() else "workers"


if __name__ == "__main__":
    sys.exit(main())
