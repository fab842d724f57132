"""The process that starts a service, watches its owner, and ends it.

`python -m penstock.services.supervisor NAME FOLDER CACHE OWNER_PID`. It leaves its parent at once. The programs of the
service get a signal from the kernel if the supervisor itself is killed, so nothing outlives its owner.
"""

import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import msgspec
import psutil

from penstock.errors import PenstockError, ServiceError
from penstock.services.service import Launch, Service, ServiceProgram, load_service
from penstock.services.service_handle import (
    DOWN,
    FAILED,
    LOG_FILE,
    POLL_S,
    READY,
    START_TIMEOUT_S,
    STARTING,
    STATE_FILE,
    ServiceState,
    is_alive,
)

STOP_GRACE_S = 15.0
PARENT_DEATH_SIGNAL = 1
"""The option of prctl that sets which signal a process gets when its parent dies."""
LIBC = ctypes.CDLL(None)


@dataclass
class Supervisor:
    """One start of a service, with its data folder and its processes."""

    name: str
    folder: Path
    service: Service
    data: Path
    owner: psutil.Process
    launch: Launch | None = None
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    received: list[int] = field(default_factory=list)

    def run(self, cache: Path) -> None:
        """Serve until the owner has ended or a signal asks to stop."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, self._receive)
        self._report(STARTING)
        try:
            self.launch = self.service.prepare(self.data, cache)
            give_to(self.data, self.service.user)
            self._start()
            while self._continues():
                time.sleep(POLL_S)
        except PenstockError as error:
            self._report(FAILED, str(error))
        except Exception:
            self._report(FAILED, traceback.format_exc())
        else:
            (self.folder / STATE_FILE).unlink(missing_ok=True)
        finally:
            self._stop()
            shutil.rmtree(self.data, ignore_errors=True)

    def _continues(self) -> bool:
        """Handle the signals received so far. Returns False if it is time to stop."""
        while self.received:
            number = self.received.pop(0)
            if number == signal.SIGUSR1:
                self._kill()
            elif number == signal.SIGUSR2:
                self._start()
            else:
                return False
        for process in self.processes:
            if process.poll() is not None:
                text = f"a program ended with exit code {process.returncode}; see {self.folder / LOG_FILE}"
                raise ServiceError(text)
        return is_alive(self.owner.pid, self.owner.create_time())

    def _start(self) -> None:
        if self.processes:
            return
        assert self.launch is not None
        self._report(STARTING)
        self.processes = [self._spawn(program) for program in self.launch.programs]
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not self.service.is_ready(self.launch):
            if time.monotonic() > deadline_s:
                raise ServiceError(f"not ready within {START_TIMEOUT_S:.0f} s; see {self.folder / LOG_FILE}")
            if not self._continues():
                return
            time.sleep(POLL_S)
        self._report(READY)

    def _spawn(self, program: ServiceProgram) -> subprocess.Popen[bytes]:
        stop_signal = self.service.stop_signal

        def ask_for_signal() -> None:
            LIBC.prctl(PARENT_DEATH_SIGNAL, stop_signal, 0, 0, 0)

        return subprocess.Popen(
            program.arguments,
            cwd=self.data,
            env={**os.environ, **program.environment},
            stdin=subprocess.DEVNULL,
            user=self.service.user,
            preexec_fn=ask_for_signal,
            start_new_session=True,
        )

    def _kill(self) -> None:
        for process in self.processes:
            # Kill its children too: a server of many processes would not start again beside its old ones.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.processes = []
        self._report(DOWN)

    def _stop(self) -> None:
        """Stop the programs in reverse order; kill those that do not end in time."""
        for process in reversed(self.processes):
            if process.poll() is None:
                process.send_signal(self.service.stop_signal)
            try:
                process.wait(STOP_GRACE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.received.append(number)

    def _report(self, state: str, message: str = "") -> None:
        address = self.launch.address if self.launch is not None else ""
        own = psutil.Process()
        content = ServiceState(self.name, state, address, own.pid, own.create_time(), message)
        temporary = self.folder / f"{STATE_FILE}.new"
        temporary.write_bytes(msgspec.json.encode(content))
        os.replace(temporary, self.folder / STATE_FILE)


def give_to(folder: Path, user: str | None) -> None:
    """Make `user` the owner of the folder and everything in it."""
    if user is None:
        return
    entry = pwd.getpwnam(user)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, entry.pw_uid, entry.pw_gid, follow_symlinks=False)


def main(arguments: list[str]) -> int:
    """Leave the parent and serve."""
    name, folder, cache, owner_pid = arguments
    if os.fork():
        return 0
    service = load_service(name)
    data = Path(tempfile.mkdtemp(prefix=f"penstock-{name}-"))
    give_to(data, service.user)
    Supervisor(name, Path(folder), service, data, psutil.Process(int(owner_pid))).run(Path(cache))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
