"""Commands on a real job in a process of its own: savepoint, stop, cancel, checkpoint, dispose (features N2 to N6)."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest

from penstock.cli.main import main
from penstock.control.registry import Registry
from penstock.control.tokens import ADMIN_FILE, READ_FILE
from tests.process.programs import (
    FUNCTION,
    STREAM,
    TOTALS,
    Started,
    totals_in,
    write_orders,
)
from tests.waiting import LIMIT_S

pytestmark = pytest.mark.process

TIMER = """
    def on_timer(self, timestamp, ctx):
        yield "end of " + ctx.get_current_key(), 0.0
"""
PROGRAM = (
    FUNCTION.replace(
        "        yield order.customer",
        "        ctx.timer_service().register_event_time_timer(10**15)\n        yield order.customer",
    )
    + TIMER
    + STREAM.replace("5_000", "3_600_000")  # checkpoints come when they are asked for
    + 'env.execute("totals")\n'
)
SUM = {"ada": 5.0, "bob": 1.5, "cyd": 4.0}


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    exit_code: int
    out: str
    err: str


class RunningJob:
    """`penstock run` of the program, and commands about it, which are run in this process."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys
        (folder / "job.py").write_text(PROGRAM, encoding="utf-8")
        write_orders(folder)
        self.run = Started.of(
            ["penstock", "run", f"-Dexecution.checkpointing.savepoint-dir={folder}/default", "job.py"], folder
        )
        self.run.await_totals(len(TOTALS))
        (self.record,) = Registry(folder / "state" / "penstock" / "registry").list()
        self.id = self.record.job_id

    def command(self, *arguments: str) -> Done:
        self._capsys.readouterr()
        exit_code = main(list(arguments))
        return Done(exit_code, *self._capsys.readouterr())

    def ask(self, *arguments: str) -> Any:
        """The JSON that a command prints."""
        done = self.command(*arguments, "--json")
        assert done.exit_code == 0, done
        return json.loads(done.out)

    @property
    def status(self) -> str:
        return str(self.ask("status", self.id)["status"])

    def end(self) -> int:
        """How the process of the job ended."""
        return self.run.process.wait(LIMIT_S)


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[RunningJob]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    job = RunningJob(tmp_path, capsys)
    yield job
    if job.run.process.poll() is None:
        job.run.interrupt()


def totals_of(savepoint: str) -> dict[str, float]:
    folder = Path(savepoint, "state", "running-total", "total")
    rows = [row for file in folder.iterdir() for row in pq.read_table(file).to_pylist()]
    return {row["key"]: row["value"] for row in rows}


def test_n2_n5_n6_m6_a_job_is_steered_by_commands(job: RunningJob, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = job.folder
    assert job.command("list", "-r").out.splitlines()[1].endswith(f" : {job.id} : totals (RUNNING)")
    first = job.ask("savepoint", "totals", "mine")["savepoint"]
    assert Path(first).parent == folder / "mine" and totals_of(first) == SUM
    native = job.ask("savepoint", job.id[:8], "--type", "native")["savepoint"]
    assert Path(native).parent == folder / "default"
    taken = job.command("savepoint", job.id)
    assert taken.exit_code == 0 and "Savepoint completed. Path: " in taken.out, taken.err
    assert job.ask("checkpoint", job.id)["checkpoint"] > 0
    full = job.command("checkpoint", job.id, "--full")
    assert full.out.splitlines()[-2].startswith("Checkpoint(FULL) ")
    (kept,) = job.ask("checkpoints", "list", "penstock-checkpoints")
    assert kept["job_id"] == job.id and Path(kept["path"], "_metadata").exists() and kept["parallelism"] >= 1

    # N6: only its own folder goes
    assert job.command("savepoint", "-d", first).out.endswith(f"Savepoint '{first}' disposed.\n")
    assert not Path(first).exists() and Path(native, "_metadata").exists()
    assert job.command("savepoint", "-d", kept["path"]).exit_code == 4 and Path(kept["path"], "_metadata").exists()

    # security S2: nobody sees the token, and only its owner can read it
    tokens = [(Path(job.record.log_dir) / name).read_text() for name in (ADMIN_FILE, READ_FILE)]
    logs = "".join(path.read_text(errors="replace") for path in Path(job.record.log_dir).glob("*.log"))
    shown = logs + job.run.out + job.run.err + job.command("status", job.id, "--json").out
    lines = [part for process in psutil.process_iter(["cmdline"]) for part in process.info["cmdline"] or ()]
    assert not any(token in shown or token in lines for token in tokens)
    listening = [c.laddr for c in psutil.Process(job.run.process.pid).net_connections("tcp") if c.status == "LISTEN"]
    assert job.record.rest in {f"http://127.0.0.1:{address.port}" for address in listening}
    assert {address.ip for address in listening} <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}

    # -m: the token in the environment or in a file
    server = str(job.record.rest).removeprefix("http://")
    monkeypatch.setenv("PENSTOCK_TOKEN", tokens[0])
    by_variable = job.command("checkpoint", job.id, "-m", server)
    assert by_variable.exit_code == 0, by_variable
    monkeypatch.setenv("PENSTOCK_TOKEN", "wrong")
    refused = job.command("cancel", job.id, "-m", server)
    monkeypatch.delenv("PENSTOCK_TOKEN")
    assert refused.exit_code == 6 and server in refused.err and "wrong" not in refused.err

    # N5: a savepoint that fails leaves the job running
    (folder / "blocked").write_text("a file, not a folder")
    failed = job.command("cancel", job.id, "-s", "blocked")
    assert failed.exit_code == 1 and "blocked" in failed.err and job.status == "RUNNING"
    done = job.command("cancel", job.id, "-s", "last")
    assert done.exit_code == 0 and f"Cancelled job {job.id}. Savepoint stored in {folder}/last/" in done.out
    assert job.end() == 0 and job.run.out.splitlines()[-1] == f"Job {job.id} CANCELED"
    (last,) = (folder / "last").iterdir()
    assert totals_of(str(last)) == SUM
    assert job.command("cancel", job.id).exit_code == 0
    assert job.command("savepoint", job.id).exit_code == 3
    assert not list(Path(job.record.log_dir).glob("rest-*"))


def test_n4_a_job_is_drained_and_stopped_with_a_savepoint(job: RunningJob) -> None:
    """Without `--drain`: tests/process/test_journey.py."""
    stopped = job.command("stop", job.id, "-p", "stops", "--drain")
    assert stopped.exit_code == 0, stopped
    first, last = stopped.out.splitlines()
    assert first == f'Draining job "{job.id}" with a CANONICAL savepoint.'
    path = last.removeprefix("Savepoint completed. Path: ")
    assert totals_of(path) == SUM
    assert job.end() == 0 and job.run.out.splitlines()[-1] == f"Job {job.id} FINISHED"
    fired = [line for line in totals_in(job.run.out.splitlines()) if line.startswith("end of ")]
    assert len(fired) == 3
    assert job.ask("list", "-a")[0]["status"] == "FINISHED"
    assert job.command("stop", job.id).exit_code == 3
