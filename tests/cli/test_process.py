"""The command as a process: closed streams, odd locales, a job in the background."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.control.registry import Registry
from tests.records import A_ID, job_record
from tests.waiting import wait_until

pytestmark = pytest.mark.process

PENSTOCK = [sys.executable, "-m", "penstock"]
REGISTERS = f"""
import os, socket, sys
from pathlib import Path
from penstock.clock import SystemClock
from penstock.control.registry import JobRecord, Registry
from penstock.control.submission import current_submission
submission = current_submission()
registry = Registry(Path(submission.overrides["penstock.registry.dir"]))
now_ms = SystemClock().now_ms()
def record(status):
    return JobRecord(job_id="{A_ID}", name=submission.name, status=status, pid=os.getpid(), host=socket.gethostname(),
                     started_ms=now_ms, updated_ms=SystemClock().now_ms(), log_dir=str(registry.log_dir("{A_ID}")))
for status in ("RUNNING", "FINISHED"):
    registry.write(record(status))
    submission.report(record(status))
    print("said by", submission.name, sys.argv[1:])
    if status == "RUNNING":
        while not Path(sys.argv[1]).exists():
            os.sched_yield()
"""


def shell(command: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """The outcome of a shell command in which `penstock` is ours."""
    script = f'penstock() {{ "{sys.executable}" -m penstock "$@"; }}; {command}'
    return subprocess.run(
        ["bash", "-c", script],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_any_stream_may_be_closed(tmp_path: Path, closed: str) -> None:
    job = tmp_path / "job.py"
    job.write_text("import sys, os; print('x'); print('y', file=sys.stderr); print(os.fstat(1))", encoding="utf-8")
    assert shell(f"penstock run {job} {closed}").returncode == 0


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    folder = f"-Dpenstock.registry.dir={tmp_path}"
    run = shell(f"penstock list {folder} | true; exit ${{PIPESTATUS[0]}}")
    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.parametrize(
    "environment", [{"LC_ALL": "C"}, {"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "POSIX", "TERM": "dumb"}]
)
def test_names_that_a_locale_cannot_show_do_not_break_a_message(environment: dict[str, str]) -> None:
    run = shell("penstock status zürich", **environment)
    assert run.returncode == 3
    assert run.stderr.startswith("error: no job 'z")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_cli_c10_json_is_json_in_every_encoding(tmp_path: Path, encoding: str) -> None:
    registry = Registry(tmp_path)
    registry.write(job_record(name="zürich → \U0001f600", status="SUSPENDED"))
    command = [*PENSTOCK, "list", "--json", f"-Dpenstock.registry.dir={tmp_path}"]
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    listed = subprocess.run(command, env=environment, capture_output=True, timeout=60, check=True)
    assert [job["name"] for job in json.loads(listed.stdout)] == ["zürich → \U0001f600"]
    failed = subprocess.run([*command[:-1], "--no-é"], env=environment, capture_output=True, timeout=60, check=False)
    assert "--no-é" in json.loads(failed.stdout)["errors"][0]


def test_a_detached_job_is_left_running_and_its_output_is_in_its_log(tmp_path: Path) -> None:
    job, go_on = tmp_path / "job.py", tmp_path / "go on"
    job.write_text(REGISTERS, encoding="utf-8")
    setting = f"-Dpenstock.registry.dir={tmp_path / 'registry'}"
    run = subprocess.run(
        [*PENSTOCK, "run", "-d", "--name", "bg", setting, str(job), str(go_on)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, f"Job has been submitted with JobID {A_ID}\n", "")
    registry = Registry(tmp_path / "registry")
    assert registry.status(registry.read(A_ID)) == "RUNNING"
    go_on.touch()
    log = registry.log_dir(A_ID) / "output.log"
    wait_until(lambda: f"Job {A_ID} FINISHED" in log.read_text(encoding="utf-8"))
    logs = subprocess.run([*PENSTOCK, "logs", A_ID, setting, "--json"], capture_output=True, text=True, check=True)
    lines = [json.loads(line)["text"] for line in logs.stdout.splitlines()]
    assert f"said by bg {[str(go_on)]}" in lines
    assert not list(registry.folder.glob("detached-*"))


def test_a_detached_job_that_cannot_start_says_why(tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text("raise SystemExit('not today')", encoding="utf-8")
    run = shell(f"penstock run -d -Dpenstock.registry.dir={tmp_path / 'registry'} {job}")
    assert (run.returncode, run.stdout, run.stderr) == (1, "", "not today\n")
    assert not list((tmp_path / "registry").iterdir())


def test_cli_c10_a_detached_job_without_a_registry_says_what_to_set(tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text("", encoding="utf-8")
    run = shell(f"penstock run -d -Dpenstock.registry.dir=/proc/none {job}")
    assert run.returncode == 1
    assert "cannot write into the registry '/proc/none'" in run.stderr and "penstock.registry.dir" in run.stderr


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("status nothing --json > /dev/full", 3),
        ("status nothing 2> /dev/full", 3),
        ("list > /dev/full", 1),
        ("list --json > /dev/full", 1),
    ],
)
def test_cli_c10_without_output_streams_the_exit_code_remains(tmp_path: Path, command: str, code: int) -> None:
    done = shell(f"{' '.join(PENSTOCK)} {command}", XDG_STATE_HOME=str(tmp_path))
    assert done.returncode == code
    assert "Traceback" not in done.stderr and "bug" not in done.stderr
