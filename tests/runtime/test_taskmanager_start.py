"""TaskManager processes that are made ready before a job needs them."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.runtime.process import taskmanager_start
from penstock.runtime.process.log_parts import NO_LIMITS, LogLimits
from penstock.runtime.process.taskmanager_config import TaskManagerConfig
from penstock.runtime.process.taskmanager_start import end_ready_taskmanagers, prepare_taskmanagers, start_here

LIMIT_S = 120


@pytest.fixture
def ready() -> Iterator["subprocess.Popen[bytes]"]:
    """One process that is ready; it does not outlive the test."""
    prepare_taskmanagers(1)
    prepare_taskmanagers(1)  # it is there already
    (process,) = taskmanager_start._ready
    yield process
    end_ready_taskmanagers()
    process.wait(LIMIT_S)


def config_without_jobmanager(folder: Path, limits: LogLimits = NO_LIMITS) -> TaskManagerConfig:
    """A TaskManager that finds nobody at the address of its JobManager, and ends."""
    return TaskManagerConfig(
        taskmanager="tm-1-0",
        job_id="0" * 32,
        attempt=1,
        token="t",
        jobmanager=("127.0.0.1", 1),
        host="127.0.0.1",
        storage=None,
        log_path=str(folder / "logs" / "taskmanager-1-0.log"),
        sys_path=[],
        executor="",
        watch=[],
        log_limits=limits,
    )


def test_a_ready_process_that_gets_no_configuration_ends_quietly(ready: "subprocess.Popen[bytes]") -> None:
    assert ready.poll() is None
    end_ready_taskmanagers()
    assert ready.wait(LIMIT_S) == 0
    assert taskmanager_start._ready == []


def test_a_taskmanager_is_the_ready_process_and_logs_to_its_own_file(
    ready: "subprocess.Popen[bytes]", tmp_path: Path
) -> None:
    config = config_without_jobmanager(tmp_path)
    assert start_here(config, {}) == ready.pid
    assert ready.wait(LIMIT_S) == 1
    assert "127.0.0.1" in Path(config.log_path).read_text()


def test_a_taskmanager_keeps_its_log_within_the_limits(ready: "subprocess.Popen[bytes]", tmp_path: Path) -> None:
    config = config_without_jobmanager(tmp_path, LogLimits(max_bytes=1, backups=2))
    start_here(config, {})
    assert ready.wait(LIMIT_S) == 1
    names = {path.name for path in Path(config.log_path).parent.iterdir()}
    assert len(names) == 3 and "taskmanager-1-0.log" in names and "taskmanager-1-0.log.1" not in names


def test_a_ready_process_that_has_died_is_passed_over(ready: "subprocess.Popen[bytes]", tmp_path: Path) -> None:
    ready.kill()
    ready.wait(LIMIT_S)
    assert start_here(config_without_jobmanager(tmp_path), {}) != ready.pid


def test_with_variables_of_its_own_a_taskmanager_is_a_new_process(
    ready: "subprocess.Popen[bytes]", tmp_path: Path
) -> None:
    assert start_here(config_without_jobmanager(tmp_path), {"SOME_VARIABLE": "1"}) != ready.pid
