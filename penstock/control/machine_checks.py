"""Whether this machine can run jobs: what `penstock doctor` looks at, and how to mend what it finds."""

import importlib.metadata
import os
import platform
import re
import resource
import shutil
import socket
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from penstock.clock import Clock
from penstock.control.registry import registry_of
from penstock.errors import JavaNotFoundError, PenstockError
from penstock.model.configuration import Configuration
from penstock.model.ids import new_nonce
from penstock.model.options import checkpointing_options, rest_options
from penstock.model.quantities import parse_size_bytes
from penstock.spark.java import require_java
from penstock.storage.address import join_address, parse_address
from penstock.storage.local import remove_if_empty
from penstock.storage.probe import probe_two_writers
from penstock.storage.storage import open_storage

Level = Literal["ok", "warning", "error"]
SPARKS = ((4, 1), (4, 3))
"""The oldest and the newest minor version of PySpark that is tested."""
PYTHONS = ((3, 10), (3, 14))
MIB, GIB = 1 << 20, 1 << 30
LITTLE_DISK, NO_DISK = 2 * GIB, 200 * MIB
FEW_FILES = 1024
DRIVER_MEMORY = "spark.driver.memory"
DEFAULT_DRIVER_MEMORY = "2g"
TASKMANAGER_BYTES = 300 * MIB
"""What a TaskManager takes before it has state."""
CLOCK_SLACK_S = 5.0
OLDEST_YEAR_MS = 1_735_689_600_000
"""The start of 2025: a clock before it was never set."""
CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@dataclass(frozen=True)
class Finding:
    """What one check has found."""

    check: str
    level: Level
    text: str
    fix: str = ""
    """What to do; empty if all is well."""


@dataclass(frozen=True)
class Machine:
    """What the checks look at, besides the machine itself."""

    configuration: Configuration
    clock: Clock


def check_machine(machine: Machine) -> Iterator[Finding]:
    """The findings, one after the other. A check that fails itself is a finding."""
    for name, check in CHECKS.items():
        try:
            yield from check(machine)
        except (OSError, PenstockError, ValueError) as error:
            yield Finding(name, "error", str(error), "mend what the message says, and run `penstock doctor` again")


def check_python(machine: Machine) -> Iterator[Finding]:
    """This Python, and the one that Spark's workers use."""
    version = sys.version_info[:2]
    text = f"Python {platform.python_version()} ({sys.executable})"
    if version < PYTHONS[0]:
        yield Finding("python", "error", f"{text} is too old", "use Python 3.10 or newer")
    elif version > PYTHONS[1]:
        yield Finding("python", "warning", f"{text} is newer than what is tested", "use Python 3.10 to 3.14")
    else:
        yield Finding("python", "ok", text)
    other = os.environ.get("PYSPARK_PYTHON")
    found = shutil.which(other) if other else None
    if other and (found is None or os.path.realpath(found) != os.path.realpath(sys.executable)):
        fix = "unset it, or set it to this Python: functions are pickled by this Python and unpickled by that one"
        yield Finding("python", "warning", f"PYSPARK_PYTHON is {other!r}, another Python", fix)


def check_java(machine: Machine) -> Iterator[Finding]:
    """The Java that Spark runs on."""
    before = os.environ.get("JAVA_HOME")
    try:
        require_java()
    except JavaNotFoundError as error:
        yield Finding("java", "error", str(error), "install OpenJDK 17 or newer, or `pip install 'penstock[java]'`")
        return
    where = os.environ.get("JAVA_HOME") or shutil.which("java")
    if before is None:
        os.environ.pop("JAVA_HOME", None)
    yield Finding("java", "ok", f"a Java that Spark runs on ({where})")


def check_spark(machine: Machine) -> Iterator[Finding]:
    """PySpark, without starting it."""
    try:
        version = importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        yield Finding("spark", "error", "PySpark is not installed", "pip install 'pyspark>=4.1,<4.4'")
        return
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if SPARKS[0] <= numbers <= SPARKS[1]:
        yield Finding("spark", "ok", f"PySpark {version}")
    else:
        level: Level = "error" if numbers < SPARKS[0] else "warning"
        yield Finding("spark", level, f"PySpark {version} is not one of 4.1 to 4.3", "pip install 'pyspark>=4.1,<4.4'")
    home = os.environ.get("SPARK_HOME")
    if home:
        fix = "unset SPARK_HOME, unless that Spark has the same version"
        yield Finding("spark", "warning", f"SPARK_HOME is {home!r}: Spark is started from there", fix)


def check_folders(machine: Machine) -> Iterator[Finding]:
    """The folders of checkpoints and savepoints, and that one of two writers of a file is refused there."""
    configuration = machine.configuration
    folders = {"checkpoints": configuration.get(checkpointing_options.DIRECTORY)}
    folders["checkpoints"] = folders["checkpoints"] or checkpointing_options.DEFAULT_DIRECTORY
    folders["savepoints"] = configuration.get(checkpointing_options.SAVEPOINT_DIRECTORY)
    for name, address in folders.items():
        if address is not None:
            yield _probed(name, str(parse_address(address)))


def _probed(name: str, address: str) -> Finding:
    place = parse_address(address)
    exists = not isinstance(place, Path) or place.exists()
    parents = [] if exists or not isinstance(place, Path) else [one for one in place.parents if not one.exists()]
    folder = join_address(address, f"doctor-{new_nonce()}")
    try:
        probe_two_writers(open_storage(folder))
    except (PenstockError, OSError) as error:
        option = checkpointing_options.DIRECTORY if name == "checkpoints" else checkpointing_options.SAVEPOINT_DIRECTORY
        fix = f"make the folder writable, or set {option.key} to another one"
        return Finding(name, "error", f"{address} does not work: {error}", fix)
    finally:
        if isinstance(place, Path):
            shutil.rmtree(folder, ignore_errors=True)
            for made in [] if exists else [place, *parents]:
                remove_if_empty(made)
    return Finding(name, "ok", f"{address} can be written, and refuses the second of two writers")


def check_registry(machine: Machine) -> Iterator[Finding]:
    """The folder in which commands find jobs, and which holds their logs and tokens."""
    folder = registry_of(machine.configuration).folder
    nearest = next(one for one in (folder, *folder.parents) if one.exists())
    fix = f"make it writable, or set {rest_options.REGISTRY_DIRECTORY.key} to another folder"
    if not os.access(nearest, os.W_OK | os.X_OK):
        yield Finding("registry", "error", f"{folder} cannot be written", fix)
    elif nearest == folder and stat.S_IMODE(folder.stat().st_mode) & 0o077:
        text = f"{folder} can be read by other users; it holds logs and tokens"
        yield Finding("registry", "warning", text, f"chmod 700 {folder}")
    else:
        yield Finding("registry", "ok", str(folder))


def check_disk(machine: Machine) -> Iterator[Finding]:
    """Free space for temporary files and for checkpoints."""
    places = {"temporary files": Path(tempfile.gettempdir())}
    address = machine.configuration.get(checkpointing_options.DIRECTORY) or checkpointing_options.DEFAULT_DIRECTORY
    checkpoints = parse_address(address)
    if isinstance(checkpoints, Path):
        places["checkpoints"] = next(one for one in (checkpoints, *checkpoints.parents) if one.exists())
    for name, folder in places.items():
        free = shutil.disk_usage(folder).free
        text = f"{free / GIB:.1f} GiB free for {name} ({folder})"
        fix = "free space, or choose another folder (TMPDIR for temporary files)"
        if free < LITTLE_DISK:
            yield Finding("disk", "error" if free < NO_DISK else "warning", text, fix)
        else:
            yield Finding("disk", "ok", text)


def check_ports(machine: Machine) -> Iterator[Finding]:
    """Loopback, the port of the control server, and the machine's own name."""
    port = machine.configuration.get(rest_options.PORT)
    host = machine.configuration.get(rest_options.BIND_ADDRESS) or "127.0.0.1"
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as found:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind((host, port))
        yield Finding("ports", "ok", f"{host} port {port or 'any'} is free")
    except OSError as error:
        fix = f"end the process that uses it, or set {rest_options.PORT.key} to another port, or to 0 for any"
        yield Finding("ports", "error", f"{host} port {port}: {error.strerror}", fix)
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        fix = f"add it to /etc/hosts: `127.0.1.1 {name}`, or set SPARK_LOCAL_IP=127.0.0.1"
        yield Finding(
            "ports", "warning", f"the machine's own name {name!r} has no address, which slows Spark down", fix
        )


def check_clock(machine: Machine) -> Iterator[Finding]:
    """The clock is set, and files get times of the same clock."""
    now_ms = machine.clock.now_ms()
    if now_ms < OLDEST_YEAR_MS:
        yield Finding("clock", "error", "the clock is years behind", "set it, and switch time synchronisation on")
        return
    with tempfile.NamedTemporaryFile(prefix="penstock-doctor-") as file:
        skew_s = os.stat(file.name).st_mtime - machine.clock.now_ms() / 1000
    if abs(skew_s) > CLOCK_SLACK_S:
        text = f"times of files are {skew_s:+.0f} s off the clock"
        yield Finding("clock", "warning", text, "synchronise the clocks of this machine and of its file server")
    else:
        yield Finding("clock", "ok", "the clock is set")


def check_memory(machine: Machine) -> Iterator[Finding]:
    """Memory for the driver's Java and one TaskManager per core."""
    total, cores = memory_limit(), os.cpu_count() or 1
    java = parse_size_bytes(machine.configuration.to_dict().get(DRIVER_MEMORY, DEFAULT_DRIVER_MEMORY))
    needed = java + cores * TASKMANAGER_BYTES
    text = f"{total / GIB:.1f} GiB and {cores} cores; Java may take {java / GIB:.1f} GiB"
    if total < needed:
        fix = f"set -D{DRIVER_MEMORY}=1g, a lower -p, or use a larger machine"
        text += f", and {cores} TaskManagers take {cores * TASKMANAGER_BYTES / GIB:.1f} GiB before they have state"
        yield Finding("memory", "warning", text, fix)
    else:
        yield Finding("memory", "ok", text)


def memory_limit() -> int:
    """The memory of the machine, or of the container that this process is in."""
    import psutil

    total = int(psutil.virtual_memory().total)
    for path in CGROUP_LIMITS:
        try:
            limit = Path(path).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if limit.isdigit():
            total = min(total, int(limit))
    return total


def check_limits(machine: Machine) -> Iterator[Finding]:
    """How many files a process may have open."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= limit < FEW_FILES:
        yield Finding("limits", "warning", f"a process may have {limit} files open", "ulimit -n 8192")
    else:
        yield Finding("limits", "ok", f"a process may have {limit if limit >= 0 else 'any number of'} files open")


CHECKS: dict[str, Callable[[Machine], Iterator[Finding]]] = {
    "python": check_python,
    "java": check_java,
    "spark": check_spark,
    "checkpoints": check_folders,
    "registry": check_registry,
    "disk": check_disk,
    "ports": check_ports,
    "clock": check_clock,
    "memory": check_memory,
    "limits": check_limits,
}
