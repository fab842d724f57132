"""`penstock run -s` and `restore --check` on a real Spark, as they are typed (features O4, O5, O8).

The commands run in this process, on the session of the tests; `penstock run -s` as a process of its own is in
tests/process/test_journey.py.
"""

import json
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.cli.main import main
from penstock.control.registry import Registry
from tests.process.programs import FUNCTION, STREAM, TOTALS, totals_in, write_orders
from tests.waiting import LIMIT_S, wait_until


class Commands:
    """Commands about jobs whose records and checkpoints are in one folder."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.registry = Registry(folder / "registry")
        self._capsys = capsys
        self._settings = [
            f"-Dpenstock.registry.dir={self.registry.folder}",
            f"-Dexecution.checkpointing.dir={folder / 'checkpoints'}",
            "-Dparallelism.default=2",
        ]
        self.out = ""
        self.err = ""

    def run(self, *arguments: str) -> int:
        """The exit code of a command; what it prints is in `out` and `err`."""
        self._capsys.readouterr()
        exit_code = main([arguments[0], *self._settings, *arguments[1:]])
        self.out, self.err = self._capsys.readouterr()
        return exit_code

    def run_job(self, count: int, *arguments: str, end: tuple[str, ...]) -> list[str]:
        """What a job prints, once that are so many lines; then a command ends it."""
        known = {record.job_id for record in self.registry.list()}
        codes: list[int] = []
        job = threading.Thread(target=lambda: codes.append(main(["run", *self._settings, *arguments])), daemon=True)
        shown = ""

        def enough() -> bool:
            nonlocal shown
            shown += self._capsys.readouterr().out
            assert job.is_alive(), shown
            return len(totals_in(shown.splitlines())) >= count

        job.start()
        wait_until(enough)
        (record,) = (record for record in self.registry.list() if record.job_id not in known)
        assert self.run(end[0], record.job_id, *end[1:]) == 0, self.err
        job.join(LIMIT_S)
        assert codes == [0]
        return totals_in(shown.splitlines())


@pytest.fixture
def commands(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Commands:
    monkeypatch.chdir(tmp_path)
    write_orders(tmp_path)
    program = FUNCTION + STREAM.replace("orders.key_by", 'orders.uid("orders").key_by') + 'env.execute("totals")\n'
    program = program.replace('"orders/"', f'"{tmp_path / "orders"}"')  # Spark's working folder is another one
    (tmp_path / "job.py").write_text(program, encoding="utf-8")
    other = program.replace('.uid("running-total")', '.uid("other-total")')
    (tmp_path / "other.py").write_text(other, encoding="utf-8")
    return Commands(tmp_path, capsys)


def more_orders(folder: Path) -> None:
    row = {"customer": "ada", "amount": 10.0, "at": "2026-01-01T00:01:00Z"}
    (folder / "orders" / "2.json").write_text(json.dumps(row) + "\n", encoding="utf-8")


def test_o4_o5_o8_a_job_starts_from_a_savepoint_or_says_why_not(commands: Commands) -> None:
    folder = commands.folder
    stop = ("stop", "-p", "savepoints", "--json")
    assert commands.run_job(len(TOTALS), "job.py", end=stop) == TOTALS
    (savepoint,) = (folder / "savepoints").iterdir()
    before = sorted((path, path.stat().st_size) for path in savepoint.rglob("*"))
    more_orders(folder)

    assert commands.run("run", "-s", "nowhere", "job.py") == 3  # O8
    assert "Cannot find checkpoint or savepoint file/directory 'nowhere' on file system 'file'." in commands.err
    assert commands.run("run", "-s", "savepoints", "job.py") == 3
    assert "Cannot find meta data file '_metadata' in directory 'savepoints'." in commands.err
    assert savepoint.name in commands.err

    assert commands.run("run", "-s", str(savepoint), "other.py") == 5  # O4
    assert "Job has been submitted" not in commands.out
    assert f"Failed to rollback to checkpoint/savepoint {savepoint.as_uri()}. Cannot map" in commands.err
    assert "(uid 'running-total')" in commands.err and "--allowNonRestoredState" in commands.err
    assert commands.run("restore", "--check", "--json", "other.py", str(savepoint)) == 5
    report = json.loads(commands.out)
    assert not report["possible"] and report["sources"] == [{"uid": "orders", "outcome": "restored"}]
    assert commands.run("restore", "--check", "--verify", "job.py", str(savepoint)) == 0

    assert commands.run_job(1, "-s", str(savepoint), "-n", "other.py", end=("cancel",)) == ["ada 10.0"]  # O5
    last = ("-s", str(savepoint / "_metadata"), "-p", "3", "job.py")
    assert commands.run_job(1, *last, end=("cancel",)) == ["ada 15.0"]
    assert sorted((path, path.stat().st_size) for path in savepoint.rglob("*")) == before
    assert commands.run("run", "-s", str(savepoint), "--resume", "job.py") == 2
