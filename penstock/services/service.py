"""What a service is: where its programs come from, how they start, and when they are ready."""

import os
import pkgutil
import shutil
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Protocol

from penstock.errors import ServiceError

SUFFIX = "_service"


@dataclass(frozen=True)
class ServiceProgram:
    """One process of a service."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that are set in addition to the supervisor's environment."""


@dataclass(frozen=True)
class Launch:
    """A prepared service. Its programs are started in order, and again in the same form after a kill."""

    address: str
    programs: tuple[ServiceProgram, ...]


class Service(Protocol):
    """A system that can be started on this machine."""

    @property
    def stop_signal(self) -> int:
        """The signal that asks its programs to end without losing data."""
        ...

    @property
    def user(self) -> str | None:
        """The user who owns its folder and runs it, if that cannot be the user who starts it."""
        ...

    def fetch(self, cache: Path) -> None:
        """Get the programs into `cache` unless they are there. May take a minute; the caller holds a lock."""
        ...

    def prepare(self, folder: Path, cache: Path) -> Launch:
        """Choose ports and initialize the empty `folder`, which belongs to this start alone."""
        ...

    def is_ready(self, launch: Launch) -> bool:
        """Return whether clients are served now."""
        ...


def service_names() -> list[str]:
    """The services that can be started: the modules of this folder that are named after one."""
    names = (module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]))
    return sorted(name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX))


def load_service(name: str) -> Service:
    """The service of that name."""
    if name not in service_names():
        raise ServiceError(f"there is no service {name!r}; choose one of {', '.join(service_names())}")
    service: Service = import_module(f"penstock.services.{name}{SUFFIX}").SERVICE
    return service


def cache_folder() -> Path:
    """Where fetched programs are kept for all users of this account."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "penstock" / "services"


def free_ports(count: int) -> list[int]:
    """Different ports of the loopback address on which nothing listens now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def accepts_connections(address: str) -> bool:
    """Return whether something listens at `host:port`."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


def find_program(name: str, way_out: str) -> str:
    """The path of a program on the PATH; `way_out` says how to get it."""
    found = shutil.which(name)
    if found is None:
        raise ServiceError(f"the program {name!r} is not on the PATH; {way_out}")
    return found
