"""`penstock demo`: a job on local Spark that loses one of its processes in the middle and still counts right.

Its files are in one temporary folder, which is removed at the end; a savepoint and a first program stay for the user to
try.
"""

import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from rich.console import Console

from penstock.cli.demo.demo_check import Verdict, check
from penstock.cli.demo.demo_data import ClickStream, write_files
from penstock.cli.demo.demo_job import DemoFolders, build, configure
from penstock.cli.demo.demo_next import KeptFolder, next_commands
from penstock.cli.demo.demo_view import DemoView
from penstock.cli.flags import DebugFlag, JsonFlag
from penstock.clock import Clock, SystemClock
from penstock.control.registry import JobRecord, ProcessRecord
from penstock.control.submission import Submission, submitted
from penstock.control.terminal import MODE, print_result
from penstock.datastream import JobClient, StreamExecutionEnvironment
from penstock.datastream.job_client import CompletableFuture
from penstock.errors import JobFailedError

STREAM = ClickStream(clicks=90_000)
FILES = 24
KILL_AT = 0.4
"""The TaskManager is killed when this fraction of the clicks has been processed."""
POLL_S = 0.1
USER = "user-00042"
"""The user whose totals the last lines suggest to look at."""


def demo(*, json: JsonFlag = False, debug: DebugFlag = False) -> int:
    """Run a job that loses a process and still counts right."""
    return run_demo()


def run_demo(stream: ClickStream = STREAM, files: int = FILES) -> int:
    """Exit code 0 if the job's results are exact although one of its TaskManagers was killed."""
    view = DemoView(Console(stderr=MODE.json, highlight=False), stream.clicks)
    kept = KeptFolder.of_user()
    kept.prepare()
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as root, _state_folder(root):
        folders = DemoFolders(Path(root))
        view.introduce(stream, files)
        write_files(folders.clicks, stream, files)
        watch = _Watch(view, stream.clicks, kept, SystemClock())
        _run_job(folders, watch)
        savepoint = watch.require_savepoint()
        view.checking()
        verdict = check(folders)
        view.show_verdict(verdict)
    return _conclude(view, verdict, next_commands(kept, savepoint, USER))


def _conclude(view: DemoView, verdict: Verdict, commands: list[tuple[str, str]]) -> int:
    """Print the result and what to try next."""
    data = {
        "events": verdict.events,
        "lost": verdict.lost,
        "counted_twice": verdict.counted_twice,
        "next": [command for command, _ in commands],
    }
    print_result(str(verdict), data)
    view.propose(commands)
    return 0 if verdict.is_exact else 1


@contextmanager
def _state_folder(root: str) -> Iterator[None]:
    """Keep registry and logs below `root` while the demo runs, not in the user's own state folder."""
    before = os.environ.get("XDG_STATE_HOME")
    os.environ["XDG_STATE_HOME"] = root
    try:
        yield
    finally:
        if before is None:
            del os.environ["XDG_STATE_HOME"]
        else:
            os.environ["XDG_STATE_HOME"] = before


def _run_job(folders: DemoFolders, watch: "_Watch") -> None:
    """Run the job to its end, killing a TaskManager on the way. Spark is stopped in any case."""
    env = StreamExecutionEnvironment.get_execution_environment(configure(folders))
    with submitted(Submission(job_file=Path("demo"), report=watch.report, suspends=False)):
        with watch.view.starting():
            spark = env.spark
        try:
            build(env, folders)
            with watch.view.running():
                _follow(env.execute_async("clicks"), watch)
        finally:
            spark.stop()


def _follow(job: JobClient, watch: "_Watch") -> None:
    """Watch the job until it has ended; raises if it failed."""
    ended = job.get_job_execution_result()
    pause = threading.Event()
    try:
        while not ended.done():
            watch.look(job)
            pause.wait(POLL_S)
        watch.look(job)
    except KeyboardInterrupt:
        job.cancel().result()
        raise
    ended.result()


class _Watch:
    """Follows the job's records, kills a TaskManager, then takes a savepoint, and reports what happens."""

    def __init__(self, view: DemoView, clicks: int, kept: KeptFolder, clock: Clock) -> None:
        self.view = view
        self._clicks = clicks
        self._kept = kept
        self._clock = clock
        self._record: JobRecord | None = None
        self._killed: ProcessRecord | None = None
        self._killed_at_s = 0.0
        self._attempt = 1
        self._restored: int | None = None
        self._recovered = False
        self._savepoint: CompletableFuture[str] | None = None

    def report(self, record: JobRecord) -> None:
        """Called by the JobManager, from its own threads."""
        self._record = record

    def look(self, job: JobClient) -> None:
        """Act on the newest record."""
        record = self._record
        if record is None:
            return
        self.view.show_progress(record)
        if self._killed is None:
            if record.rows >= KILL_AT * self._clicks and record.status == "RUNNING" and record.last_checkpoint:
                self._kill(record)
        elif not self._recovered and record.attempt > self._attempt:
            # The first record of the new attempt names the checkpoint from which it starts.
            self._restored = self._restored or record.last_checkpoint
            if record.epoch and record.status == "RUNNING":
                self._recovered = True
                self.view.recovered(record.attempt, self._restored, self._clock.monotonic_s() - self._killed_at_s)
                self._savepoint = job.trigger_savepoint(str(self._kept.savepoints))

    def _kill(self, record: JobRecord) -> None:
        for process in record.processes:
            if process.role == "taskmanager" and _is_taskmanager(process.pid):
                self._killed, self._attempt = process, record.attempt
                self._killed_at_s = self._clock.monotonic_s()
                os.kill(process.pid, signal.SIGKILL)
                self.view.killed(process, record)
                return

    def require_savepoint(self) -> str:
        """The path of the savepoint. Raises unless a TaskManager was killed and the job recovered from it."""
        if self._savepoint is None:
            raise JobFailedError("the job ended before it could lose a TaskManager and recover; run the demo again")
        return self._savepoint.result()


def _is_taskmanager(pid: int) -> bool:
    """Return whether the pid still belongs to the TaskManager that registered with it."""
    try:
        return "penstock.runtime.taskmanager" in psutil.Process(pid).cmdline()
    except psutil.Error:
        return False
