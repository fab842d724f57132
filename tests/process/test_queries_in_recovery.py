"""Queries of a job whose TaskManagers and drivers are killed, and which is rescaled, meanwhile.

Each input file adds 1 to every key, and an epoch has whole files. So at the end of an epoch all keys have the same
value; within one, and where only some TaskManagers have finished one, they do not. A failure takes the job back to its
last checkpoint, and that is the only way in which a value may become smaller.
"""

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from penstock.control.registry import JobRecord, Registry
from penstock.errors import JobNotFoundError, NotReachableError, PenstockError, QueryRetryError
from penstock.query import connect
from tests.docs.pages import files_of
from tests.process.programs import Started, environment
from tests.waiting import LIMIT_S, wait_until

pytestmark = [pytest.mark.process, pytest.mark.full, pytest.mark.timeout(1_200)]

KEYS = [f"k{number}" for number in range(40)]
RETRIES = {"NOT_READY", "EPOCH_ENDS"}
SETTINGS = {
    "penstock.epoch.interval": "200 ms",
    "execution.checkpointing.interval": "2 s",
    "execution.checkpointing.dir": "checkpoints",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "20",
    "restart-strategy.fixed-delay.delay": "10 ms",
}


@dataclass
class Asked:
    """What one client got, in order."""

    values: list[list[float | None]] = field(default_factory=list)
    retries: list[str] = field(default_factory=list)
    """Codes of the answers that ask for another try."""
    silences: int = 0
    """Questions to a driver that was gone, or that did not serve yet."""
    errors: list[PenstockError] = field(default_factory=list)
    """Any other answer."""

    @property
    def drops(self) -> int:
        """How often a value was smaller than one before it."""
        seen = [one[0] or 0.0 for one in self.values]
        return sum(later < earlier for earlier, later in zip(seen, seen[1:], strict=False))


class QueriedJob:
    """A job over all its drivers, and its input."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.registry = Registry(folder / "state" / "penstock" / "registry")
        self.asked = Asked()
        self.files = 0
        program = files_of("docs/how-to/query-live-state.md")["totals.py"]
        (folder / "totals.py").write_text(program.replace("env.enable_checkpointing(5_000)\n", ""), encoding="utf-8")
        (folder / "orders").mkdir()

    def start(self, *flags: str) -> None:
        settings = [part for key, value in SETTINGS.items() for part in ("-D", f"{key}={value}")]
        self.driver = Started.of(["penstock", "run", "--resume", *flags, *settings, "totals.py"], self.folder)

    def record(self) -> JobRecord:
        assert self.driver.process.poll() is None, self.driver.err
        (found,) = wait_until(self.registry.list)
        return found

    def add_file(self) -> None:
        rows = [json.dumps({"customer": key, "amount": 1.0}) + "\n" for key in KEYS]
        hidden = self.folder / "orders" / f".n{self.files}.json"
        hidden.write_text("".join(rows), encoding="utf-8")
        hidden.rename(self.folder / "orders" / f"n{self.files}.json")
        self.files += 1

    def add_files(self, count: int) -> None:
        """One after the other, each once its predecessor was seen in an answer."""
        for _ in range(count):
            self.add_file()
            self.wait_for_answer(float(self.files))

    def wait_for_answer(self, value: float) -> None:
        start = len(self.asked.values)
        wait_until(lambda: [one for one in self.asked.values[start:] if one == [value] * len(KEYS)])

    def strike(self, strike: Callable[[], None]) -> None:
        """Do it while a file is processed; until the job answers again, with that file."""
        self.add_file()
        strike()
        self.add_file()
        self.wait_for_answer(float(self.files))

    def kill_taskmanager(self) -> None:
        record = self.record()
        pids = [process.pid for process in record.processes if process.role == "taskmanager"]
        os.kill(pids[-1], signal.SIGKILL)
        wait_until(lambda: self.record().attempt > record.attempt)

    def kill_driver(self) -> None:
        self.driver.process.send_signal(signal.SIGKILL)
        self.driver.process.wait(LIMIT_S)
        self.start()

    def rescale(self, parallelism: int) -> "subprocess.Popen[bytes]":
        command = ["penstock", "rescale", "totals", "-p", str(parallelism)]
        log = (self.folder / "rescale.txt").open("ab")
        with log:
            return subprocess.Popen(
                command, cwd=self.folder, env=environment(self.folder), stdout=log, stderr=subprocess.STDOUT
            )

    def rescale_to(self, parallelism: int) -> None:
        assert self.rescale(parallelism).wait(LIMIT_S) == 0, (self.folder / "rescale.txt").read_text(encoding="utf-8")
        assert self.record().parallelism == parallelism

    def kill_driver_in_rescale(self, parallelism: int) -> None:
        """When the attempt at the old parallelism is ending, or the first one at the new is beginning."""
        record = self.record()
        log = Path(record.log_dir) / "driver.log"
        begun = f"the job is rescaled from {record.parallelism} to {parallelism}"
        command = self.rescale(parallelism)
        wait_until(lambda: begun in log.read_text(encoding="utf-8"), pause_s=0.005)
        self.kill_driver()
        command.wait(LIMIT_S)

    @contextmanager
    def queried(self) -> Iterator[None]:
        """A client asks without pause in this block."""
        done = threading.Event()
        reader = threading.Thread(target=self._ask_until, args=(done,))
        reader.start()
        try:
            yield
        finally:
            done.set()
            reader.join(LIMIT_S)

    def _ask_until(self, done: threading.Event) -> None:
        while not done.is_set():
            try:
                with connect("totals", registry_dir=self.registry.folder, retry_s=0) as client:
                    while not done.is_set():
                        try:
                            self.asked.values.append(client.read("totals", KEYS).values)
                        except QueryRetryError as error:
                            self.asked.retries.append(error.code)
                            done.wait(0.02)
            except (NotReachableError, JobNotFoundError):
                self.asked.silences += 1
                done.wait(0.1)
            except PenstockError as error:
                self.asked.errors.append(error)
                done.wait(0.1)

    def close(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.driver.process.pid, signal.SIGKILL)
        self.driver.process.wait(LIMIT_S)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[QueriedJob]:
    found = QueriedJob(tmp_path)
    found.add_file()
    found.start("-p", "2")
    try:
        wait_until(lambda: found.record().rest)
        with found.queried():
            found.wait_for_answer(1.0)
            yield found
    finally:
        found.close()


def test_i15_r4_no_answer_is_of_an_epoch_that_was_taken_back_whatever_dies_and_while_the_job_is_rescaled(
    job: QueriedJob,
) -> None:
    asked = job.asked
    at_start = asked.silences
    job.add_files(3)
    for parallelism in (3, 1, 2):
        known = len(asked.retries)
        job.strike(lambda parallelism=parallelism: job.rescale_to(parallelism))  # type: ignore[misc]
        assert len(asked.retries) > known, "queries met the pause"
    assert asked.drops == 0, "a rescale takes nothing back"
    assert asked.silences == at_start, "the server stays"
    for _ in range(3):
        job.add_files(2)
        job.strike(job.kill_driver)
        job.add_files(2)
        job.strike(job.kill_taskmanager)
    job.strike(lambda: job.kill_driver_in_rescale(4))
    job.add_files(2)
    assert asked.errors == []
    assert asked.silences > at_start and set(asked.retries) <= RETRIES
    assert [values for values in asked.values if len(set(values)) != 1] == []
    assert {values[0] for values in asked.values} <= {None, *map(float, range(job.files + 1))}
    assert asked.drops <= 7, "only a failure may take the job back to a checkpoint"
    with connect("totals", registry_dir=job.registry.folder) as client:
        wait_until(
            lambda: client.read("totals", KEYS, consistency="checkpointed").values == [float(job.files)] * len(KEYS)
        )
