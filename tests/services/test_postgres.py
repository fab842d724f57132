"""A real PostgreSQL server through the frame: started, killed, resumed, and ended with its owner."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from penstock.services import RunningService, find_running, start_service
from penstock.services.service import accepts_connections
from penstock.services.service_handle import read_state
from tests.waiting import wait_until

pytestmark = pytest.mark.process


def place(service: RunningService) -> str:
    return service.address.rpartition("@")[2].partition("/")[0]


def test_a_service_is_shared_killed_and_resumed_at_its_address(postgres: RunningService) -> None:
    assert start_service("postgres", postgres.folder) == postgres
    assert accepts_connections(place(postgres))
    postgres.kill()
    assert not accepts_connections(place(postgres))
    assert find_running("postgres", postgres.folder) == postgres
    postgres.resume()
    assert accepts_connections(place(postgres))


def test_a_service_ends_with_its_owner(tmp_path: Path, postgres: RunningService) -> None:
    """The fixture skips the test where there is no PostgreSQL."""
    owner = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        service = start_service("postgres", tmp_path / "service", owner.pid)
        state = read_state(service.folder)
        assert state is not None and accepts_connections(place(service))
    finally:
        owner.communicate(b"\n")
    wait_until(lambda: not psutil.pid_exists(state.supervisor_pid))
    assert not accepts_connections(place(service))
    assert find_running("postgres", service.folder) is None
