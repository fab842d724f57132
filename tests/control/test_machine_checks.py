"""`penstock doctor`: each check finds what is wrong and says how to mend it."""

import json
import socket
from pathlib import Path

import pytest

from penstock.cli.main import main
from penstock.control import machine_checks
from penstock.control.machine_checks import CHECKS, Finding, Machine, check_machine
from penstock.model.configuration import Configuration
from penstock.testing.clocks import ManualClock

NOW = 1_790_000_000_000


def findings(check: str, settings: dict[str, str] | None = None, now_ms: int = NOW) -> list[Finding]:
    return list(CHECKS[check](Machine(Configuration.from_dict(settings or {}), ManualClock(now_ms))))


def only(check: str, settings: dict[str, str] | None = None) -> Finding:
    (found,) = findings(check, settings)
    return found


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.delenv("SPARK_HOME", raising=False)


def test_this_machine_can_run_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {one["check"] for one in found} == set(CHECKS)
    assert not list(Path().glob("*")), "nothing is left behind"


def test_an_error_has_a_fix_and_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    Path("taken").write_text("a file", encoding="utf-8")
    assert main(["doctor", "-Dexecution.checkpointing.dir=taken/checkpoints"]) == 1
    shown = capsys.readouterr().out
    assert "ERROR    checkpoints" in shown and "fix: " in shown and "1 to mend before a job can run" in shown


def test_a_folder_is_probed_and_left_as_it_was(tmp_path: Path) -> None:
    assert only("checkpoints", {"execution.checkpointing.dir": "new/deep"}).level == "ok"
    assert not (tmp_path / "new").exists()
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "file").touch()
    settings = {"execution.checkpointing.dir": "old", "execution.checkpointing.savepoint-dir": "old"}
    assert [one.level for one in findings("checkpoints", settings)] == ["ok", "ok"]
    assert [path.name for path in (tmp_path / "old").iterdir()] == ["file"]


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        found = findings("ports", {"rest.port": str(taken.getsockname()[1])})[0]
    assert found.level == "error" and "rest.port" in found.fix


def test_a_java_that_is_missing_or_too_old(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    found = only("java")
    assert found.level == "error" and "penstock[java]" in found.fix


def test_another_python_for_the_workers_and_another_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "no-such-python")
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert [one.level for one in findings("python")][1:] == ["warning"]
    assert [one.level for one in findings("spark")][1:] == ["warning"]


def test_a_python_and_a_spark_that_are_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_checks, "PYTHONS", ((9, 0), (9, 1)))
    monkeypatch.setattr(machine_checks, "SPARKS", ((9, 0), (9, 1)))
    assert only("python").level == "error"
    assert only("spark").level == "error"


def test_little_disk_and_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_checks, "LITTLE_DISK", 1 << 62)
    assert {one.level for one in findings("disk")} == {"warning"}
    monkeypatch.setattr(machine_checks, "NO_DISK", 1 << 62)
    assert {one.level for one in findings("disk")} == {"error"}
    found = only("memory", {"spark.driver.memory": "1000000g"})
    assert found.level == "warning" and "spark.driver.memory" in found.fix


def test_a_container_limits_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(machine_checks, "CGROUP_LIMITS", (str(tmp_path / "none"), str(limit)))
    limit.write_text("max\n", encoding="ascii")
    total = machine_checks.memory_limit()
    limit.write_text("1000000\n", encoding="ascii")
    assert machine_checks.memory_limit() == 1_000_000 < total


def test_a_registry_that_others_can_read(tmp_path: Path) -> None:
    folder = tmp_path / "registry"
    folder.mkdir(mode=0o755)
    found = only("registry", {"penstock.registry.dir": str(folder)})
    assert found.level == "warning" and found.fix == f"chmod 700 {folder}"
    folder.chmod(0o700)
    assert only("registry", {"penstock.registry.dir": str(folder)}).level == "ok"


def test_a_clock_that_was_never_set_or_differs_from_that_of_files() -> None:
    assert findings("clock", now_ms=0)[0].level == "error"
    assert findings("clock", now_ms=1_740_000_000_000)[0].level == "warning"


def test_few_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_checks, "FEW_FILES", 1 << 60)
    assert only("limits").fix == "ulimit -n 8192"


def test_a_check_that_fails_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(machine: Machine) -> list[Finding]:
        raise OSError("no such device")

    monkeypatch.setattr(machine_checks, "CHECKS", {"disk": broken})
    (found,) = check_machine(Machine(Configuration(), ManualClock(NOW)))
    assert (found.level, found.text) == ("error", "no such device")
