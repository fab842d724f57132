"""`penstock supervise`: a `penstock run` that is started again when its driver dies or its job fails."""

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import msgspec
import typer

from penstock.cli.flags import DebugFlag, JsonFlag, parse_settings
from penstock.clock import SystemClock
from penstock.control.effective_settings import load_settings
from penstock.control.registry import Registry, registry_of
from penstock.control.supervision import DriverEnd, RestartBudget, has_ended
from penstock.control.terminal import MODE, print_message, print_result
from penstock.errors import StorageError, UsageError
from penstock.model.configuration import Configuration

PASSED_ON = {signal.SIGINT: signal.SIGINT, signal.SIGTERM: signal.SIGTERM, signal.SIGHUP: signal.SIGTERM}
"""What the supervisor gets, and what the driver gets then: a terminal that closes suspends the job, too."""


class SupervisorNotice(msgspec.Struct, frozen=True):
    """What the supervisor does after the end of a driver."""

    state: str
    """`restarting`, or `given-up`: no restart is left."""
    text: str
    exit_code: int
    """Of the driver, as shells count."""
    job_id: str | None = None
    name: str | None = None
    delay_s: float | None = None
    """Until the restart."""


def supervise(
    *,
    arguments: Annotated[
        list[str], typer.Argument(metavar="[FLAGS] job.py [args]", help="The same as for `penstock run`.")
    ],
    json: JsonFlag = False,
    debug: DebugFlag = False,
) -> int:
    """Run a program as a job, and start it again when its driver dies or the job fails."""
    shared = {"--json": json, "--debug": debug}  # behind a flag with a value they are among the arguments
    arguments = [*(flag for flag, is_set in shared.items() if is_set), *arguments]
    flags = run_flags(arguments)
    if flags.get("detached"):
        raise UsageError("supervise stays with the job: leave out -d, or put the command itself in the background")
    configuration = load_settings(Configuration(), parse_settings(flags.get("settings"))).configuration
    budget = RestartBudget(configuration, SystemClock())
    return DriverSupervisor(arguments, registry_of(configuration), budget).run()


def run_flags(arguments: Sequence[str]) -> dict[str, Any]:
    """The values of `penstock run`'s own flags. Errors are those of `penstock run`."""
    from penstock.cli.command_table import COMMANDS

    command = COMMANDS["run"].load("run")
    context = command.make_context("penstock supervise", list(arguments))
    flags: dict[str, Any] = context.params
    if not Path(flags["job_file"]).is_file():
        from penstock.cli.program import require_job_file

        require_job_file(Path(flags["job_file"]))
    return flags


class DriverSupervisor:
    """Starts drivers one after the other. Belongs to the main thread."""

    def __init__(
        self,
        arguments: Sequence[str],
        registry: Registry,
        budget: RestartBudget,
        command: Sequence[str] = (sys.executable, "-m", "penstock", "run"),
    ) -> None:
        self._arguments = arguments
        self._command = command
        self._registry = registry
        self._budget = budget
        self._child: subprocess.Popen[bytes] | None = None
        self._stopped_by: signal.Signals | None = None
        self._stopped = threading.Event()

    def run(self) -> int:
        """The exit code of the last driver."""
        extra: list[str] = []
        with self._signals_passed_on():
            while True:
                end = self._run_driver(extra)
                if self._stopped_by is not None or not end.needs_restart():
                    return end.shell_code
                delay_s = self._budget.next_delay_s()
                if delay_s is None:
                    limit = f"{self._budget.limit} times within {self._budget.window_s:g} s"
                    report(end, "given-up", f"it was started again {limit}, and is given up now")
                    return end.shell_code
                if end.record is not None:
                    extra = ["--restart", "--job-id", end.record.job_id]
                report(end, "restarting", f"starting it again in {delay_s:g} s", delay_s)
                if self._stopped.wait(delay_s):
                    assert self._stopped_by is not None, "set together"
                    return 128 + self._stopped_by

    def _run_driver(self, extra: Sequence[str]) -> DriverEnd:
        if self._stopped_by is not None:
            return DriverEnd(-self._stopped_by)
        before = {record.job_id: record for record in self._registry.list()}
        # A session of its own: Ctrl-C at the terminal reaches it once, through this process.
        self._child = subprocess.Popen([*self._command, *extra, *self._arguments], start_new_session=True)
        if self._stopped_by is not None:  # it came while the process was started
            self._child.send_signal(PASSED_ON[self._stopped_by])
        exit_code = self._child.wait()
        # Compared with what was there, not by time: a clock that was set back must not make this a job that never was.
        changed = [record for record in self._registry.list() if record != before.get(record.job_id)]
        own = (self._child.pid, socket.gethostname())
        record = next((record for record in changed if (record.pid, record.host) == own), None)
        return DriverEnd(exit_code, record, record is not None and has_ended(record))

    @contextmanager
    def _signals_passed_on(self) -> Iterator[None]:
        before = {number: signal.signal(number, self._receive) for number in PASSED_ON}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self._stopped_by = self._stopped_by or signal.Signals(number)
        self._stopped.set()
        if self._child is not None and self._child.returncode is None:
            self._child.send_signal(PASSED_ON[signal.Signals(number)])  # nothing if it ends at this moment


def report(end: DriverEnd, state: str, consequence: str, delay_s: float | None = None) -> None:
    """A line on stderr, or with `--json` a document on stdout, among those of the drivers."""
    text, job = f"{end.describe()}; {consequence}", end.record
    if not MODE.json:
        print_message(text)
        return
    job_id, name = (job.job_id, job.name) if job is not None else (None, None)
    with suppress(StorageError):  # a driver is started whether or not this can be printed
        print_result(text, SupervisorNotice(state, text, end.shell_code, job_id, name, delay_s))
