"""Walks through a new user's first hour with real processes: `python scripts/first_hour.py [--starts 5] [--keep DIR]`.

It installs the wheel into an empty environment, runs the README's program, interrupts it, resumes it, kills it, takes a
savepoint, starts a changed program from it, makes ten mistakes, and runs the demo. Each step prints its seconds, the
CPU seconds of all its processes, and what came of it. The exit code is 1 if a step went wrong, or if the first row, the
answer of a command that only looks or the end of the demo came too late; so run it on a quiet machine.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.processes import TreeSampler  # noqa: E402
from bench.venvs import Venv, ensure_venv  # noqa: E402
from tests.docs.pages import blocks_of, files_of  # noqa: E402

FIRST_ROW_S = 12.0
RECORDING_START, RECORDING_S = 2, 20.0
"""The second start records the archive of classes with which later ones are faster, and is slower for it."""
COMMAND_S = 0.5
COMMAND_RUNS = 3
DEMO_S = 60.0
LIMIT_S = 300.0
POLL_S = 0.05
SAMPLE_S = 0.5
README = ROOT / "README.md"
PROGRAM = files_of("README.md")["totals.py"]
ORDERS = next(block.text for block in blocks_of(README) if block.language == "json")
CHANGED = PROGRAM.replace("yield order.customer, total", "yield order.customer.upper(), total")


@dataclass(frozen=True)
class Mistake:
    """A command that must fail with this exit code and a message with this text, and without frames of Penstock."""

    arguments: tuple[str, ...]
    exit_code: int
    text: str


MISTAKES = {
    "no such file": Mistake(("run", "nowhere.py"), 3, "nowhere.py"),
    "a flag with a typo": Mistake(("run", "--resme", "totals.py"), 2, "--resume"),
    "no such savepoint": Mistake(("run", "-s", "nowhere", "totals.py"), 3, "nowhere"),
    "no such job": Mistake(("status", "nobody"), 3, "nobody"),
    "an unknown option": Mistake(("run", "-Dexecution.checkpointing.intervall=5s", "totals.py"), 2, ".interval'"),
    "a syntax error": Mistake(("run", "mistake1.py"), 2, "mistake1.py"),
    "process_element without ctx": Mistake(("run", "mistake2.py"), 2, "mistake2.py:7"),
    "map with a class": Mistake(("run", "mistake3.py"), 2, "Double()"),
    "an empty collection": Mistake(("run", "mistake4.py"), 2, "mistake4.py:4"),
    "a function that fails": Mistake(("run", "mistake5.py"), 1, "ZeroDivisionError"),
}
HEAD = """from penstock.common import Types
from penstock.datastream import KeyedProcessFunction, MapFunction, StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
"""
MISTAKEN_PROGRAMS = {
    "mistake1.py": "env = (\n",
    "mistake2.py": HEAD
    + "class Count(KeyedProcessFunction):\n    def process_element(self, value):\n        yield value\n"
    + "env.from_collection([1, 2], Types.LONG()).key_by(lambda v: v).process(Count()).print()\nenv.execute()\n",
    "mistake3.py": HEAD
    + "class Double(MapFunction):\n    def map(self, value):\n        return 2 * value\n"
    + "env.from_collection([1, 2], Types.LONG()).map(Double).print()\nenv.execute()\n",
    "mistake4.py": HEAD + "env.from_collection([]).print()\nenv.execute()\n",
    "mistake5.py": HEAD
    + "env.from_collection([1, 0], Types.LONG()).map(lambda v: 1 // v, Types.LONG()).print()\nenv.execute()\n",
}


class StepFailedError(Exception):
    """A step did not do what it should."""


@dataclass
class Walk:
    """The folder in which the user works, and the environment with Penstock in it."""

    folder: Path
    python: Path
    failed: int = 0

    @property
    def penstock(self) -> str:
        return str(self.python.parent / "penstock")

    @property
    def environment(self) -> dict[str, str]:
        inherited = {name: os.environ[name] for name in ("HOME", "JAVA_HOME", "LANG", "TERM") if name in os.environ}
        path = os.pathsep.join([str(self.python.parent), os.environ.get("PATH", "")])
        return {**inherited, "PATH": path, "XDG_STATE_HOME": str(self.folder / "state"), "PYTHONUNBUFFERED": "1"}

    def step(self, name: str, work: "Callable[[Step], str]") -> None:
        """Do one step and print its line."""
        step = Step(self)
        try:
            remark = work(step)
        except StepFailedError as error:
            self.failed += 1
            remark = f"FAILED: {error}"
        print(f"{name:<34} {step.seconds:7.1f} s {step.sampler.cpu_s():7.1f} CPU s   {remark}", flush=True)


class Step:
    """One step: how long it takes, and the CPU time of the processes that it watches."""

    def __init__(self, walk: Walk) -> None:
        self.walk = walk
        self.sampler = TreeSampler()
        self._started_s = time.monotonic()
        self._sampled_s = 0.0
        self._ended_s: float | None = None

    @property
    def seconds(self) -> float:
        return (self._ended_s or time.monotonic()) - self._started_s

    def done(self) -> None:
        """What follows does not count."""
        self._ended_s = time.monotonic()

    def run(self, *command: str) -> "subprocess.CompletedProcess[str]":
        """Run a command to its end."""
        process = subprocess.Popen(
            command,
            cwd=self.walk.folder,
            env=self.walk.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with sampled(self, process.pid):
            try:
                out, err = process.communicate(timeout=LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                out, err = process.communicate()
                raise StepFailedError(f"{command} did not end within {LIMIT_S:.0f} s; {out}{err}") from None
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def wait(self, job: "Job", condition: Callable[[], object], what: str) -> None:
        """Wait until something has happened while a job runs."""
        limit_s = time.monotonic() + LIMIT_S
        while not condition():
            self.sample(job.process.pid)
            if time.monotonic() > limit_s:
                raise StepFailedError(f"{what} did not come within {LIMIT_S:.0f} s; {job.tail()}")
            time.sleep(POLL_S)

    def sample(self, pid: int) -> None:
        """Look at the processes, now and then."""
        now_s = time.monotonic()
        if now_s - self._sampled_s > SAMPLE_S:
            self._sampled_s = now_s
            self.sampler.sample([pid])


@contextmanager
def sampled(step: Step, pid: int) -> Iterator[None]:
    """Watch the CPU time of a process, and of those below it, while the caller waits."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(SAMPLE_S / 5):
            step.sampler.sample([pid])

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


class Job:
    """`penstock run` in the foreground of a terminal, with its output in a file."""

    def __init__(self, walk: Walk, *arguments: str) -> None:
        self.output = walk.folder / f"output-{time.monotonic_ns()}.txt"
        with self.output.open("wb") as file:
            self.process = subprocess.Popen(
                [walk.penstock, "run", "-p", "2", *arguments],
                cwd=walk.folder,
                env=walk.environment,
                stdout=file,
                stderr=file,
                start_new_session=True,  # its own process group, as in a terminal
            )

    def rows(self) -> list[str]:
        """The rows that it has printed."""
        return re.findall(r"^\d+> (.*)$", self.text(), re.M)

    def text(self) -> str:
        return self.output.read_text(encoding="utf-8", errors="replace")

    def tail(self) -> str:
        lines = self.text().splitlines()
        return lines[-1] if lines else "it printed nothing"

    def await_row(self, step: Step, row: str) -> None:
        """Wait for a row; the job must not end before."""

        def there() -> bool:
            if self.process.poll() is not None:
                raise StepFailedError(f"the job has ended with {self.process.returncode}: {self.tail()}")
            return row in self.rows()

        step.wait(self, there, row)

    def end(self, step: Step, number: int) -> int:
        """Send a signal to the process group; the exit code."""
        os.killpg(self.process.pid, number)
        step.wait(self, lambda: self.process.poll() is not None, "the end")
        return self.process.returncode

    def kill(self) -> None:
        """Leave nothing behind, whatever has happened."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 if every step went well and the first row came in time."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--starts", type=int, default=5, help="how often the first row is measured (default 5)")
    parser.add_argument("--keep", type=Path, help="work in this folder and keep it")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it is ignored, also by what is started
    with tempfile.TemporaryDirectory(prefix="penstock-hour-") as temporary:
        root = (options.keep or Path(temporary)).resolve()
        (root / "work" / "orders").mkdir(parents=True)
        walk = Walk(root / "work", root / "venvs" / "user" / "bin" / "python")
        os.environ.setdefault("UV_SYSTEM_CERTS", "1")  # otherwise uv does not trust the certificates of the machine
        take_the_walk(walk, root, options.starts)
    print("all steps passed" if not walk.failed else f"{walk.failed} steps failed")
    return int(walk.failed > 0)


def take_the_walk(walk: Walk, root: Path, starts: int) -> None:
    """All steps in order."""
    walk.step("build the wheel", lambda step: build(step, root))
    walk.step("install it", lambda step: install(step, root))
    for name, text in {"totals.py": PROGRAM, "changed.py": CHANGED, **MISTAKEN_PROGRAMS}.items():
        (walk.folder / name).write_text(text, encoding="utf-8")
    (walk.folder / "orders" / "1.json").write_text(ORDERS, encoding="utf-8")
    for argument in ("--help", "--version", "list"):
        walk.step(f"penstock {argument}", partial(answers, arguments=(argument,)))
    jobs: list[Job] = []
    try:
        for number in range(1, starts + 1):
            limit_s = RECORDING_S if number == RECORDING_START else FIRST_ROW_S
            walk.step(f"first row, {number} of {starts}", partial(first_row, jobs=jobs, limit_s=limit_s))
            walk.step("  cancel", lambda step: clear(step, jobs))
        walk.step("Ctrl-C during the start", lambda step: interrupt_start(step, jobs))
        walk.step("first row, after it", partial(first_row, jobs=jobs, limit_s=FIRST_ROW_S))
        walk.step("penstock status", partial(answers, arguments=("status", "totals")))
        walk.step("Ctrl-C", lambda step: interrupt(step, jobs))
        walk.step("resume: the next row", lambda step: resume(step, jobs, 2, "Row(customer='ada', total=9.0)"))
        walk.step("kill -9", lambda step: kill(step, jobs))
        walk.step("resume: the next row", lambda step: resume(step, jobs, 3, "Row(customer='ada', total=13.0)"))
        walk.step("penstock stop, with a savepoint", lambda step: stop(step, jobs))
        walk.step("penstock state ls", lambda step: answers(step, ("state", "ls", savepoint(walk))))
        walk.step("penstock state show", show)
        walk.step("restore --check, changed program", check)
        walk.step("run -s: the next row", lambda step: restore(step, jobs))
        for name, mistake in MISTAKES.items():
            walk.step(f"mistake: {name}", partial(make, mistake=mistake))
        walk.step("penstock demo", demo)
        walk.step("nothing is left running", leave)
    finally:
        for job in jobs:
            job.kill()


def build(step: Step, root: Path) -> str:
    done = step.run(
        sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(root / "dist"), str(ROOT)
    )
    require(done.returncode == 0, done.stderr)
    return next((root / "dist").glob("*.whl")).name


def install(step: Step, root: Path) -> str:
    (wheel,) = (root / "dist").glob("*.whl")
    with sampled(step, os.getpid()):
        ensure_venv(Venv("user", (str(wheel),)), root / "venvs")
    return "into an empty environment"


def answers(step: Step, arguments: Sequence[str], expected: str = "") -> str:
    """A command that only looks. Another process may delay it once, so the quickest of a few runs counts."""
    runs = []
    for _ in range(COMMAND_RUNS):
        started_s = time.monotonic()
        done = step.run(step.walk.penstock, *arguments)
        runs.append(time.monotonic() - started_s)
        require(done.returncode == 0 and expected in done.stdout, done.stdout + done.stderr)
    seconds = f"{min(runs):.2f} s, the quickest of {COMMAND_RUNS}"
    require(min(runs) <= COMMAND_S, f"{seconds}: more than {COMMAND_S} s")
    return seconds


def first_row(step: Step, jobs: list[Job], limit_s: float) -> str:
    jobs.append(Job(step.walk, "totals.py"))
    step.wait(jobs[-1], lambda: jobs[-1].rows() or jobs[-1].process.poll() is not None, "the first row")
    step.done()
    jobs[-1].await_row(step, "Row(customer='ada', total=5.0)")
    require(step.seconds <= limit_s, f"more than {limit_s:.0f} s")
    return jobs[-1].rows()[0]


def clear(step: Step, jobs: list[Job]) -> str:
    """Make room for another first start: the job is cancelled and gone."""
    done = step.run(step.walk.penstock, "cancel", "totals")
    require(done.returncode == 0, done.stderr)
    step.wait(jobs[-1], lambda: not in_folder(step.walk.folder), "the end of its processes")
    return "gone, with its processes"


def in_folder(folder: Path) -> list[int]:
    """The processes that work in a folder. Spark's JVM may outlive the job by some seconds."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.cwd() == str(folder):
                found.append(process.pid)
    return found


def interrupt_start(step: Step, jobs: list[Job]) -> str:
    """Before there is a job, an interrupt ends the program without a word."""
    jobs.append(Job(step.walk, "totals.py"))
    step.wait(jobs[-1], lambda: "starting Spark" in jobs[-1].text(), "the start")
    exit_code = jobs[-1].end(step, signal.SIGINT)
    require(exit_code == 130, f"the exit code is {exit_code}")
    require("Traceback" not in jobs[-1].text(), "a traceback")
    step.wait(jobs[-1], lambda: not in_folder(step.walk.folder), "the end of its processes")
    return f"exit code {exit_code}: {jobs[-1].tail()}"


def interrupt(step: Step, jobs: list[Job]) -> str:
    exit_code = jobs[-1].end(step, signal.SIGINT)
    require(exit_code == 130, f"the exit code is {exit_code}")
    require("Traceback" not in jobs[-1].text(), "a traceback")
    require("--resume" in jobs[-1].tail(), f"the last line does not say how to resume: {jobs[-1].tail()}")
    return f"exit code {exit_code}: {jobs[-1].tail()}"


def resume(step: Step, jobs: list[Job], file: int, expected: str) -> str:
    order = {"customer": "ada", "amount": 4.0}
    (step.walk.folder / "orders" / f"{file}.json").write_text(json.dumps(order) + "\n", encoding="utf-8")
    jobs.append(Job(step.walk, "--resume", "totals.py"))
    jobs[-1].await_row(step, expected)
    return expected


def kill(step: Step, jobs: list[Job]) -> str:
    jobs[-1].process.kill()
    jobs[-1].process.wait()
    return "the driver; the rest ends by itself"


def stop(step: Step, jobs: list[Job]) -> str:
    done = step.run(step.walk.penstock, "stop", "totals", "-p", "savepoints")
    require(done.returncode == 0, done.stderr)
    step.wait(jobs[-1], lambda: jobs[-1].process.poll() is not None, "the end")
    return done.stdout.splitlines()[-1].split("/")[-1]


def show(step: Step) -> str:
    where = savepoint(step.walk)
    return answers(step, ("state", "show", where, "--operator", "running-total", "--state", "total"), "13.0")


def check(step: Step) -> str:
    done = step.run(step.walk.penstock, "restore", "--check", "changed.py", savepoint(step.walk))
    require(done.returncode == 0, done.stdout + done.stderr)
    return done.stdout.splitlines()[-1]


def restore(step: Step, jobs: list[Job]) -> str:
    order = {"customer": "ada", "amount": 1.0}
    (step.walk.folder / "orders" / "4.json").write_text(json.dumps(order) + "\n", encoding="utf-8")
    jobs.append(Job(step.walk, "-s", savepoint(step.walk), "changed.py"))
    expected = "Row(customer='ADA', total=14.0)"
    jobs[-1].await_row(step, expected)
    step.done()
    jobs[-1].end(step, signal.SIGINT)
    return expected


def demo(step: Step) -> str:
    done = step.run(step.walk.penstock, "demo")
    require(done.returncode == 0, done.stdout + done.stderr)
    found = next((line for line in done.stdout.splitlines() if ", 0 lost, 0 counted twice" in line), None)
    require(found, f"it does not say that nothing was lost: {done.stdout}")
    require(step.seconds <= DEMO_S, f"more than {DEMO_S:.0f} s")
    return str(found)


def leave(step: Step) -> str:
    limit_s = time.monotonic() + LIMIT_S
    while found := in_folder(step.walk.folder):
        require(time.monotonic() < limit_s, f"the processes {found}")
        time.sleep(POLL_S)
    return "no process of any job"


def savepoint(walk: Walk) -> str:
    found = list((walk.folder / "savepoints").glob("savepoint-*"))
    require(len(found) == 1, f"{len(found)} savepoints instead of one")
    return str(found[0].relative_to(walk.folder))


def make(step: Step, mistake: Mistake) -> str:
    done = step.run(step.walk.penstock, *mistake.arguments)
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    own = [line for line in lines if line.startswith("  File") and "site-packages" in line]
    require(not own, f"frames that are not the user's: {own}")
    require(done.returncode == mistake.exit_code, f"exit code {done.returncode}: {done.stderr}")
    require(mistake.text in done.stderr, f"no word of {mistake.text}: {done.stderr}")
    message = next((line for line in lines if line.startswith("error: ")), lines[-1] if lines else "no message")
    return f"exit code {done.returncode}: {message}"


def require(condition: object, message: str) -> None:
    if not condition:
        raise StepFailedError(message.strip())


if __name__ == "__main__":
    sys.exit(main())
