"""`penstock dev`: which services it starts, finds again and stops. `tests/services` has real ones."""

import json
import os
from pathlib import Path

import pytest

from penstock.cli import dev_command
from penstock.cli.main import main
from penstock.services import RunningService

ADDRESS = "127.0.0.1:9092"


class Services:
    """What runs on this machine, in place of the real services."""

    def __init__(self) -> None:
        self.running: dict[str, RunningService] = {}
        self.owners: list[int | None] = []

    def find(self, name: str) -> RunningService | None:
        return self.running.get(name)

    def start(self, name: str, owner_pid: int | None = None) -> RunningService:
        self.owners.append(owner_pid)
        services = self

        class Started(RunningService):
            def stop(self) -> None:
                del services.running[self.name]

        self.running[name] = Started(name, ADDRESS, Path("absent"))
        return self.running[name]


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch) -> Services:
    found = Services()
    monkeypatch.setattr(dev_command, "find_running", found.find)
    monkeypatch.setattr(dev_command, "start_service", found.start)
    return found


@pytest.mark.parametrize("name", ["kafka", "postgres", "hdfs"])
def test_a_service_is_started_once_and_prints_its_address_alone(
    services: Services, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`$(penstock dev kafka)` is the address."""
    for _ in range(2):
        assert main(["dev", name]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{ADDRESS}\n{ADDRESS}\n"
    assert captured.err.count(f"starting {name}") == 1
    assert services.owners == [os.getsid(0)], "it ends with the session of the terminal"


def test_a_service_is_stopped_and_a_second_stop_is_no_error(
    services: Services, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dev", "kafka"]) == main(["dev", "kafka", "--stop"]) == main(["dev", "kafka", "--stop"]) == 0
    assert services.running == {}
    assert capsys.readouterr().out.splitlines() == [
        ADDRESS,
        "kafka was stopped and its data removed",
        "kafka is not running",
    ]


def test_with_json_the_address_is_a_document(services: Services, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dev", "kafka", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"service": "kafka", "address": ADDRESS}


@pytest.mark.parametrize("flags", [[], ["--stop"]])
def test_an_unknown_service_is_refused_before_anything_is_said_or_done(
    services: Services, flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dev", "redis", *flags]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and "starting" not in captured.err
    assert "no service 'redis'; choose one of hdfs, kafka, postgres" in captured.err
    assert services.running == {}
