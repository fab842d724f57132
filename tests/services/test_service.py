"""The frame of services: what is known by name, what is fetched, how much a caller is told."""

import os
from pathlib import Path

import psutil
import pytest

from penstock.errors import ServiceError
from penstock.services import find_running, load_service, service_names, start_service
from penstock.services.maven import fetch_jars
from penstock.services.service import free_ports
from penstock.services.service_handle import is_alive


def test_a_module_named_after_a_service_makes_it_known() -> None:
    assert {"kafka", "postgres"} <= set(service_names())
    for name in service_names():
        assert load_service(name).stop_signal


def test_an_unknown_service_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(ServiceError, match="no service 'redis'; choose one of .*kafka"):
        start_service("redis")


def test_without_maven_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServiceError, match="'mvn' is not on the PATH; install Maven"):
        fetch_jars(["org.apache.kafka:kafka_2.13:4.1.0"], tmp_path / "jars")
    assert not list(tmp_path.iterdir())


def test_ports_are_all_different() -> None:
    assert len(set(free_ports(5))) == 5


def test_a_folder_without_a_state_holds_no_running_service(tmp_path: Path) -> None:
    assert find_running("kafka", tmp_path) is None


def test_another_process_under_the_same_number_is_not_taken_for_the_old_one() -> None:
    own = psutil.Process()
    assert is_alive(own.pid, own.create_time())
    assert not is_alive(os.getpid(), own.create_time() - 100)
