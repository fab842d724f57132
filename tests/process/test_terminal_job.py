"""Commands that steer a job, in a real terminal and on a real job: what they show, their exit codes, and `--json`."""

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pexpect
import pytest

from tests.process.test_terminal import NO_TRACEBACK, in_terminal, outcome

pytestmark = [pytest.mark.process, pytest.mark.full]

PROGRAM = Path(__file__).with_name("terminal_program.py")
SUBMITTED = "Job has been submitted with JobID ([0-9a-f]{32})"
SUBMITTED_JSON = r'"job_id":\s*"([0-9a-f]{32})"'
STATUS_LINE = r"purchases RUNNING \| epoch \d+ \| \d+ rows[^|]*\| \d+ rows/s \| watermark"
LINK = r"http://127\.0\.0\.1:\d+/login/[A-Za-z0-9_-]{20,}"
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A terminal in which a program runs as a job."""

    def __init__(self, folder: Path, *arguments: str, submitted: str = SUBMITTED) -> None:
        settings = {"spark.master": "local[2]", "execution.checkpointing.savepoint-dir": folder / "savepoints"}
        flags = [f"-D{name}={value}" for name, value in settings.items()]
        self.folder = folder
        self.child = in_terminal(folder, *arguments, "-p", "2", *flags, str(PROGRAM), str(folder / "results"))
        self.child.expect(submitted)
        assert isinstance(self.child.match, re.Match)
        self.job = str(self.child.match[1])

    def runs(self) -> None:
        """Wait for the live status line of a job that has read rows."""
        self.child.expect(STATUS_LINE)

    def says(self, *arguments: str, code: int = 0) -> str:
        """What another terminal shows of a command, without the escape sequences of bars and tables."""
        with suppress(pexpect.TIMEOUT):  # the job must not wait for a terminal that nobody reads
            while True:
                self.child.read_nonblocking(65_536, timeout=0)
        found, shown = outcome(self.folder, *arguments)
        assert found == code, shown
        return _ESCAPE.sub("", shown)

    def document(self, *arguments: str) -> Any:
        """The JSON that a command prints, behind the bar that a terminal gets."""
        lines = self.says(*arguments, "--json").splitlines()
        return json.loads([line for line in lines if line.strip()][-1].rpartition("\r")[2])

    def ends(self, said: str) -> None:
        """The job has ended, and so does its command, with exit code 0."""
        self.child.expect(said)
        self.child.expect(pexpect.EOF)
        self.child.close()
        assert self.child.exitstatus == 0 and NO_TRACEBACK not in str(self.child.before)

    def close(self) -> None:
        """End the command, if a test has failed before that."""
        self.child.close(force=True)


@pytest.mark.timeout(900)
def test_the_commands_for_a_job_in_a_terminal(tmp_path: Path) -> None:
    run = Terminal(tmp_path, "run")
    try:
        run.runs()
        look_at(run)
        for_a_page(tmp_path, run.job)
        steer(run)
        assert "Savepoint completed. Path: " in run.says("stop", run.job)
        run.ends(f"Job {run.job} FINISHED")
    finally:
        run.close()


def look_at(run: Terminal) -> None:
    """Commands that change nothing."""
    assert f"{run.job} : purchases (RUNNING)" in run.says("list")
    assert run.document("list")[0]["job_id"] == run.job
    assert "s0/1" in run.says("status", "purchases")
    assert run.document("status", run.job)["rest"].startswith("http://127.0.0.1:")
    logs = in_terminal(run.folder, "logs", "purchases")  # may have tracebacks: on a busy machine Spark starts twice
    logs.expect_exact("attempt 1 starts from nothing")
    logs.expect(pexpect.EOF)
    assert "jobs can run" in run.says("doctor")
    assert {finding["level"] for finding in run.document("doctor")} <= {"ok", "warning"}
    assert "customer-3" in run.says("query", "purchases", "totals", "--key", "customer-3")
    (value,) = run.document("query", "purchases", "totals", "--key", "customer-3")["values"]
    assert value["key"] == "customer-3" and value["value"] > 0
    assert len(run.document("query", "purchases", "totals")["entries"]) == 7
    (job,) = run.document("top")
    assert job["name"] == "purchases"
    top = in_terminal(run.folder, "top")
    top.expect("1 job, 1 running")
    top.expect("purchases +RUNNING")
    interrupted(top)


def for_a_page(folder: Path, job: str) -> None:
    """`dashboard`: the page of a job, and of all jobs until Ctrl-C."""
    code, shown = outcome(folder, "dashboard", job, "--no-open")
    assert code == 0 and re.search(LINK, shown), shown
    code, shown = outcome(folder, "dashboard", job, "--json")
    assert code == 0 and re.fullmatch(LINK, json.loads(shown)["link"])
    for flag in ("--no-open", "--json"):
        every = in_terminal(folder, "dashboard", flag)
        every.expect(LINK)
        interrupted(every)


def steer(run: Terminal) -> None:
    """`savepoint`, `checkpoint` and `rescale`; the job goes on, and its status line says so."""
    assert "Savepoint completed. Path: " in run.says("savepoint", "purchases")
    path = run.document("savepoint", run.job, "mine", "--type", "native")["savepoint"]
    assert Path(path).parent == run.folder / "mine" and Path(path, "_metadata").exists()
    assert re.search(r"Checkpoint\(FULL\) \d+", run.says("checkpoint", run.job, "--full"))
    assert run.document("checkpoint", run.job)["checkpoint"] > 0
    assert "was rescaled from 2 to 1 at checkpoint" in run.says("rescale", run.job, "-p", "1")
    run.runs()
    rescaled = run.document("rescale", run.job, "-p", "2")
    assert (rescaled["from"], rescaled["to"]) == (1, 2) and rescaled["pause_ms"] > 0
    run.runs()


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (["run", "--json"], ["stop", "--json"]),
        (["supervise"], ["cancel"]),
        (["supervise", "--json"], ["cancel", "--json"]),
    ],
)
def test_a_job_is_started_and_ended_in_a_terminal(tmp_path: Path, start: list[str], end: list[str]) -> None:
    is_json = "--json" in start
    job = Terminal(tmp_path, *start, submitted=SUBMITTED_JSON if is_json else SUBMITTED)
    try:
        job.runs()
        status = "FINISHED" if end[0] == "stop" else "CANCELED"
        if is_json:
            assert job.document(end[0], job.job)["job_id"] == job.job
        else:
            assert f"Cancelled job {job.job}." in job.says(*end, job.job)
        job.ends(f'"status":\\s*"{status}"' if is_json else f"Job {job.job} {status}")
    finally:
        job.close()


def interrupted(child: "pexpect.spawn[str]") -> None:
    """Ctrl-C ends it, with exit code 0."""
    child.sendintr()
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0, child.before
