"""Where a case of the matrix plays: one job in a folder, its starts, its moments, and the final judgement."""

import random
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from penstock.checkpoint.log.entries import Record, decode_record
from penstock.checkpoint.log.log_reader import read_log
from penstock.checkpoint.log.log_view import LogView
from penstock.checkpoint.snapshot.manifest import load_manifest, state_files, verify_file
from penstock.control.registry import JobRecord
from penstock.storage.local import LocalStorage
from tests.faults.events import Expected, batch_result
from tests.faults.failpoints import read_hits
from tests.faults.jobs import JobProcess, Place, is_alive
from tests.faults.kills import outliving
from tests.faults.matrix.cells import Cell
from tests.faults.outcome import compare, read_output, read_printed, read_state, strays
from tests.waiting import wait_until

LIMIT_S = 900.0
"""Long enough for a machine that others keep busy."""
TOLERANT = (("execution.checkpointing.tolerable-failed-checkpoints", "1000"),)


@dataclass
class Scene:
    """What a case works with. Everything it starts is ended with the scene."""

    place: Place
    cell: Cell
    expected: Expected
    chance: random.Random
    jobs: list[JobProcess] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """What a case has found so far, where the rest of it is still worth running."""
    mounts: ExitStack = field(default_factory=ExitStack)
    """Disks of its own, which go when its processes have ended."""
    cancelled: bool = False
    """The job was cancelled: its output must be that of its last checkpoint, and not everything."""
    foreign: set[str] = field(default_factory=set)
    """Files that were put into the job's folder and must still be there."""

    @property
    def log(self) -> Path:
        """Of the failpoints."""
        return self.place.folder / "failpoints.log"

    @property
    def storage(self) -> LocalStorage:
        return LocalStorage(self.place.job_folder)

    def configure(self, *settings: tuple[str, str]) -> None:
        """Add settings, or replace them, for the starts to come."""
        self.place = replace(self.place, settings=tuple({**dict(self.place.settings), **dict(settings)}.items()))

    def start(self, *flags: str, failpoint: str = "", **environment: str) -> JobProcess:
        """A new driver of the job."""
        points = {"PENSTOCK_FAILPOINT": failpoint, "PENSTOCK_FAILPOINT_LOG": str(self.log)}
        self.jobs.append(JobProcess(self.place, *flags, **points, **environment))
        return self.jobs[-1]

    def finish(self, job: JobProcess) -> None:
        """Wait for the good end of the job."""
        exit_code = self.await_exit(job)
        assert exit_code == 0, f"the job ended with {exit_code}:\n{job.log_tail()}"

    def await_exit(self, job: JobProcess, timeout_s: float = LIMIT_S) -> int:
        """The exit code. The job's processes are noted meanwhile, so that those it leaves behind are known."""

        def ended() -> bool:
            job.family()
            return job.exit_code is not None

        wait_until(ended, timeout_s=timeout_s, pause_s=0.2)
        return job.wait(0)

    def await_checkpoints(self, job: JobProcess, count: int, timeout_s: float = LIMIT_S) -> None:
        """Until so many more checkpoints are complete."""
        first = self.completed(job)
        wait_until(lambda: self.completed(job) >= first + count, timeout_s=timeout_s, pause_s=0.1)

    def await_epoch(self, job: JobProcess, epoch: int) -> JobRecord:
        """The record of a job that runs and has come so far."""
        wait_until(lambda: job.running_record(LIMIT_S).epoch >= epoch, timeout_s=LIMIT_S, pause_s=0.1)
        return job.running_record()

    def completed(self, job: JobProcess) -> int:
        """The number of the newest completed checkpoint; -1 for none."""
        assert job.exit_code is None, f"the driver ended with {job.exit_code}:\n{job.log_tail()}"
        if not self.place.registry.list() or not (self.place.checkpoints).exists():
            return -1
        line = self.view().lineage
        return line[-1].checkpoint if line else -1

    def view(self) -> LogView:
        """What the job log says now."""
        return read_log(self.storage)

    def entries(self) -> Iterator[Record]:
        """The entries that are in the log now, oldest first."""
        for path in self.storage.list("log/"):
            if "~" not in path:
                yield decode_record(self.storage.read(path), path)

    def hit(self, armed: str) -> str:
        """The failpoint's own word that it was hit."""
        assert armed in read_hits(self.log), f"{armed} was not hit"
        return f"{armed.partition(':')[0]} passed"

    def kill(self, process: psutil.Process, number: signal.Signals = signal.SIGKILL) -> str:
        """Send a signal that ends the process, and see it gone."""
        assert is_alive(process), f"{process} is gone already"
        process.send_signal(number)
        if any(process.pid == job.pid for job in self.jobs):
            next(job for job in self.jobs if job.pid == process.pid).wait(30)
        assert not outliving([process]), f"{process} is still there"
        return f"{number.name} to {process.pid}, gone"

    def crash(self, job: JobProcess) -> str:
        """kill -9 of the driver; whatever it has started must end with it."""
        family = job.family()
        said = self.kill(psutil.Process(job.pid))
        assert not (left := outliving(family)), f"they outlive their driver: {left}"
        return f"driver {said}"

    def close(self) -> None:
        for job in self.jobs:
            job.close()
        self.mounts.close()

    # ---- judgement

    def judge(self) -> list[str]:
        """What is wrong with the state, the output, the files and the processes at the end; nothing if all is exact."""
        wrong = [*self.wrong]
        wrong += [f"{line} outlives the job" for job in self.jobs for line in outliving(job.family())]
        rows = list(read_printed(self.place.printed) if self.place.sink == "print" else read_output(self.place.output))
        verdict = compare(self._expected(), read_state(self.place.job_folder), rows)
        if not verdict.exact:
            wrong.append(f"{verdict.lost} lost, {verdict.doubled} doubled, {verdict.wrong}")
        wrong += self.broken_retained()
        if not self.cancelled:
            left = strays(self.place.job_folder, self.place.output, int(self.cell["retained"]))
            wrong += [f"{name} is needed by nobody" for name in left if name not in self.foreign]
        wrong += [f"{name} is not ours and was deleted" for name in self.foreign if not self._is_there(name)]
        return wrong

    def _expected(self) -> Expected:
        """Of a cancelled job: what its last checkpoint has seen. Otherwise everything."""
        if not self.cancelled:
            return self.expected
        seen = {number for ids in read_state(self.place.job_folder)["ids"].values() for number in ids}
        assert seen, "the job was cancelled before it had any state"
        return batch_result(self.place.events, seen)

    def broken_retained(self) -> list[str]:
        """PROTOCOL I-3: every file of every completed checkpoint that the log retains is there and verifies."""
        storage, broken = self.storage, []
        for complete in self.view().retained:
            manifest = load_manifest(storage, complete)
            for file in state_files(manifest):
                try:
                    verify_file(storage, file)
                except Exception as error:
                    broken.append(f"checkpoint {complete.checkpoint}: {error}")
        return broken

    def _is_there(self, name: str) -> bool:
        return (self.place.job_folder / name).exists()
