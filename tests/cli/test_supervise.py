"""`penstock supervise`, with small programs in place of drivers."""

import json
import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from penstock.cli.main import main
from penstock.cli.supervise_command import DriverSupervisor
from penstock.clock import SystemClock
from penstock.control.registry import Registry
from penstock.control.supervision import RestartBudget
from penstock.control.terminal import MODE
from penstock.model.configuration import Configuration
from tests.records import A_ID
from tests.waiting import wait_until

pytestmark = pytest.mark.process

SETTINGS = {"penstock.supervise.max-restarts": "2", "penstock.supervise.backoff": "1 ms"}
DRIVER = """
import os, signal, sys
from pathlib import Path
from penstock.control.registry import Registry
from tests.records import job_record

folder = Path(sys.argv[1])
starts = len(list(folder.glob("start-*")))
(folder / f"start-{starts}").write_text(" ".join(sys.argv[2:]))


def submit(status="RUNNING", **changes):
    Registry(folder / "registry").write(job_record(status=status, pid=os.getpid(), **changes))

"""


class Place:
    """A folder in which a driver counts its starts."""

    def __init__(self, folder: Path, text: str) -> None:
        self.folder = folder
        (folder / "driver.py").write_text(DRIVER + text, encoding="utf-8")

    def supervisor(self, *arguments: str) -> DriverSupervisor:
        command = [sys.executable, str(self.folder / "driver.py"), str(self.folder)]
        budget = RestartBudget(Configuration.from_dict(SETTINGS), SystemClock())
        return DriverSupervisor(arguments, Registry(self.folder / "registry"), budget, command)

    def starts(self) -> list[str]:
        """The arguments of each start."""
        return [path.read_text(encoding="utf-8") for path in sorted(self.folder.glob("start-*"))]


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[2]))


def test_a_driver_that_was_killed_is_started_again_for_the_same_job(tmp_path: Path) -> None:
    text = "submit('FINISHED' if starts else 'RUNNING')\nos.kill(os.getpid(), signal.SIGKILL) if not starts else None\n"
    place = Place(tmp_path, text)
    assert place.supervisor("-p", "2", "job.py").run() == 0
    assert place.starts() == ["-p 2 job.py", f"--restart --job-id {A_ID} -p 2 job.py"]


def test_a_driver_whose_clock_was_set_back_is_started_again_for_the_same_job(tmp_path: Path) -> None:
    text = "submit(updated_ms=1000)\nos.kill(os.getpid(), signal.SIGKILL) if not starts else None\n"
    place = Place(tmp_path, text)
    assert place.supervisor("job.py").run() == 0
    assert place.starts() == ["job.py", f"--restart --job-id {A_ID} job.py"]


def test_a_driver_on_another_machine_that_has_the_same_pid_is_another_one(tmp_path: Path) -> None:
    text = "submit(host='elsewhere')\nos.kill(os.getpid(), signal.SIGKILL) if not starts else None\n"
    place = Place(tmp_path, text)
    assert place.supervisor("job.py").run() == 0
    assert place.starts() == ["job.py", "job.py"]


def test_a_job_that_has_failed_is_started_again(tmp_path: Path) -> None:
    place = Place(tmp_path, "submit('FINISHED' if starts else 'FAILED')\nsys.exit(0 if starts else 1)\n")
    assert place.supervisor("job.py").run() == 0
    assert place.starts() == ["job.py", f"--restart --job-id {A_ID} job.py"]


def test_it_gives_up_after_the_last_restart(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    place = Place(tmp_path, "os.kill(os.getpid(), signal.SIGKILL)\n")
    assert place.supervisor("job.py").run() == 128 + signal.SIGKILL
    assert place.starts() == ["job.py"] * 3
    assert "started again 2 times" in capfd.readouterr().err


def test_restarts_are_documents_with_json(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MODE, "json", True)
    place = Place(tmp_path, "submit()\nos.kill(os.getpid(), signal.SIGKILL)\n")
    assert place.supervisor("job.py").run() == 128 + signal.SIGKILL
    output = capfd.readouterr()
    documents = [json.loads(line) for line in output.out.splitlines()]
    text = f"the driver of job 'totals' ({A_ID}) was killed by signal 9; "
    common = {"job_id": A_ID, "name": "totals", "exit_code": 128 + signal.SIGKILL}
    assert documents == [
        {**common, "state": "restarting", "delay_s": 0.001, "text": text + "starting it again in 0.001 s"},
        {**common, "state": "restarting", "delay_s": 0.002, "text": text + "starting it again in 0.002 s"},
        {
            **common,
            "state": "given-up",
            "delay_s": None,
            "text": text + "it was started again 2 times within 3600 s, and is given up now",
        },
    ]
    assert output.err == ""


@pytest.mark.parametrize("flags", [["--json", "-p", "2"], ["-p", "2", "--json"]])
def test_the_json_flag_is_one_of_the_supervisor_and_of_its_drivers(
    tmp_path: Path, flags: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "job.py").touch()
    started: list[tuple[list[str], bool]] = []

    def run(supervisor: DriverSupervisor) -> int:
        started.append((list(supervisor._arguments), MODE.json))
        return 0

    monkeypatch.setattr(DriverSupervisor, "run", run)
    assert main(["supervise", *flags, str(tmp_path / "job.py"), "--json"]) == 0
    assert started == [([*flags, str(tmp_path / "job.py"), "--json"], True)]


def test_a_program_that_is_wrong_is_not_started_again(tmp_path: Path) -> None:
    place = Place(tmp_path, "sys.exit(1)\n")
    assert place.supervisor("job.py").run() == 1
    assert place.starts() == ["job.py"]


@pytest.mark.parametrize(
    ("number", "got"),
    [(signal.SIGINT, signal.SIGINT), (signal.SIGTERM, signal.SIGTERM), (signal.SIGHUP, signal.SIGTERM)],
)
def test_a_signal_is_passed_on_and_ends_the_supervision(
    tmp_path: Path, number: signal.Signals, got: signal.Signals
) -> None:
    text = """
for one in (signal.SIGINT, signal.SIGTERM):
    signal.signal(one, lambda number, _: sys.exit(128 + number))
submit()
(folder / "ready").touch()
while True:
    signal.pause()
"""
    place = Place(tmp_path, text)

    def send() -> None:
        wait_until((tmp_path / "ready").exists)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=send)
    thread.start()
    assert place.supervisor("job.py").run() == 128 + got
    thread.join()
    assert place.starts() == ["job.py"]


def test_flags_are_those_of_run_and_checked_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = tmp_path / "job.py"
    job.touch()
    assert main(["supervise", "-p", "x", str(job)]) == 2
    assert main(["supervise", "-d", str(job)]) == 2
    assert "stays with the job" in capsys.readouterr().err
    assert main(["supervise", str(tmp_path / "absent.py")]) == 3
    assert main(["supervise"]) == 2
