"""A job as real processes: `penstock run --resume` in a folder of its own, its record, and its processes."""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil

from penstock.control.registry import JobRecord, Registry
from penstock.storage import open_storage
from tests.waiting import LIMIT_S, wait_until

PROGRAM = Path(__file__).with_name("program.py")
ROOT = Path(__file__).resolve().parent.parent.parent
PENSTOCK = (sys.executable, "-m", "penstock")
DAEMON, TASKMANAGER = "pyspark.daemon", "penstock.runtime.taskmanager"


@dataclass(frozen=True)
class Place:
    """The folder in which one job lives, over all its drivers."""

    folder: Path
    events: Path
    checkpoint_ms: int = 1_000
    batch_rows: int = 10_000
    parallelism: int | None = 2
    """None: the command does not say."""
    sink: str = "file"
    settings: tuple[tuple[str, str], ...] = ()
    """Added to those that every job here has, or in their place."""
    resumes: bool = True
    """Drivers go on with the job that is there."""
    has_standby: bool = False
    """The driver is started with `--ha`."""
    stands_by: bool = False
    """What is started is a standby."""
    remote: str = ""
    """The address of another storage, for checkpoints and output."""

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def job_folder(self) -> Path:
        """The checkpoint folder of the job; the newest, if a start died before its job was in the log."""
        return self.checkpoints / self.registry.list()[-1].job_id

    @property
    def output(self) -> Path:
        return self.folder / "out"

    @property
    def printed(self) -> Path:
        """Standard output of all drivers, where the sink prints."""
        return self.folder / "printed.log"

    @property
    def ha(self) -> Path:
        """What a driver and its standbys have in common: here below the checkpoints."""
        return self.checkpoints / "ha"

    @property
    def registry(self) -> Registry:
        return Registry(self.folder / "registry")

    def fetch(self) -> None:
        """Copy what the job has left at the other storage to where it would be here."""
        for folder in (self.checkpoints, self.output) if self.remote else ():
            storage = open_storage(f"{self.remote}/{folder.name}")
            for path in storage.list(""):
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(storage.read(path))

    def command(self) -> list[str]:
        """The same for the first start and for every later one."""
        settings = {
            "spark.master": "local[2,4]",
            "penstock.registry.dir": self.registry.folder,
            "execution.checkpointing.dir": f"{self.remote}/checkpoints" if self.remote else self.checkpoints,
            "penstock.epoch.max-files": 1,
            "penstock.checkpoint.retain-finished": "true",
            "penstock.batch.rows": self.batch_rows,
            **dict(self.settings),
        }
        if self.stands_by:
            return [*PENSTOCK, "standby", "--ha", str(self.ha)]
        flags = [f"-D{name}={value}" for name, value in settings.items()]
        flags += ["--ha", str(self.ha)] if self.has_standby else []
        start = ["--resume"] if self.resumes else []
        start += ["-p", str(self.parallelism)] if self.parallelism is not None else []
        return [*PENSTOCK, "run", *start, *flags, *self.program()]

    def program(self) -> list[str]:
        """The program and its arguments."""
        output = f"{self.remote}/out" if self.remote else self.output
        return [str(PROGRAM), str(self.events), str(output), str(self.checkpoint_ms), self.sink]

    def guarantee_report(self) -> str:
        """What `penstock info` says of the program, before it has run."""
        flags = [f"-D{name}={value}" for name, value in self.settings]
        command = [*PENSTOCK, "info", *flags, *self.program()]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


class JobProcess:
    """One driver process of a job. `with` ends it and everything below it."""

    def __init__(self, place: Place, *flags: str, **environment: str) -> None:
        self.place = place
        place.folder.mkdir(parents=True, exist_ok=True)
        command = place.command()
        at = command.index("standby" if place.stands_by else "run") + 1
        command[at:at] = flags
        own = {"PYTHONPATH": str(ROOT), "SPARK_LOCAL_DIRS": str(place.folder / "spark"), "PYTHONUNBUFFERED": "1"}
        self._log = place.folder / f"driver-{len(list(place.folder.glob('driver-*.log'))):02}.log"
        with open(self._log, "xb") as log, open(place.printed if place.sink == "print" else self._log, "ab") as out:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
                cwd=place.folder,
                env={**os.environ, **own, **environment},
            )
        self._family: dict[int, psutil.Process] = {}

    def __enter__(self) -> "JobProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the driver and whatever it has left behind."""
        family = self.family()
        self.kill()
        for process in family:
            if is_alive(process):
                process.kill()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while the driver runs."""
        return self._process.poll()

    def wait(self, timeout_s: float) -> int:
        """The exit code, once the driver has ended."""
        return self._process.wait(timeout_s)

    def kill(self) -> None:
        """SIGKILL to the driver alone; it is reaped."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
        self._process.wait(LIMIT_S)

    def record(self) -> JobRecord | None:
        """What the registry says of the job that this driver runs; None before it has said anything."""
        return next((record for record in self.place.registry.list() if record.pid == self.pid), None)

    def running_record(self, timeout_s: float = LIMIT_S) -> JobRecord:
        """The record, once the driver runs an attempt with its TaskManagers."""

        def found() -> list[JobRecord]:
            assert self.exit_code is None, f"the driver ended with {self.exit_code}: {self.log_tail()}"
            record = self.record()
            is_ready = record is not None and record.status == "RUNNING" and len(record.processes) > 1
            return [record] if record is not None and is_ready else []

        return wait_until(found, timeout_s=timeout_s)[0]

    def family(self) -> list[psutil.Process]:
        """Every process of the job that was ever seen, the driver included.

        A TaskManager is a child of the Python worker that started it; if that was killed, only the record names it.
        """
        driver = {self.pid} if self.exit_code is None else set()
        for pid in driver | self._taskmanager_pids():
            try:
                found = psutil.Process(pid)
                if pid in driver or _says(found, TASKMANAGER):  # the number of a dead process may be somebody else's
                    self._family.update({process.pid: process for process in [found, *found.children(recursive=True)]})
            except psutil.NoSuchProcess:
                continue
        return list(self._family.values())

    def taskmanagers(self) -> list[psutil.Process]:
        """The TaskManagers of the attempt that runs, as `penstock status` lists them."""
        pids = self._taskmanager_pids()
        return [process for process in self.family() if process.pid in pids and is_alive(process)]

    def every_taskmanager(self) -> list[psutil.Process]:
        """Those that the driver has started itself, as in local mode, also before the record names them."""
        found = []
        for process in self.family():
            try:
                if is_alive(process) and _says(process, TASKMANAGER):
                    found.append(process)
            except psutil.NoSuchProcess:
                continue
        return found

    def _taskmanager_pids(self) -> set[int]:
        record = self.record()
        return {process.pid for process in record.processes if process.role == "taskmanager"} if record else set()

    def workers(self) -> list[psutil.Process]:
        """The Python workers of Spark: children of PySpark's daemon that are no TaskManager."""
        found = []
        for process in self.family():
            try:
                parent = process.parent()
                if parent is not None and _says(process, DAEMON) and _says(parent, DAEMON):
                    found.append(process)
            except psutil.NoSuchProcess:
                continue
        return [process for process in found if is_alive(process)]

    def said(self) -> str:
        """What this driver has printed."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def log_tail(self) -> str:
        """The last lines of it."""
        return "\n".join(self.said().splitlines()[-15:])


def is_alive(process: psutil.Process) -> bool:
    """Whether this very process exists; a zombie does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _says(process: psutil.Process, words: str) -> bool:
    return words in " ".join(process.cmdline())
