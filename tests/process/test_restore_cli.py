"""`penstock run -s` and `restore --check` on a real Spark, in processes of their own (features O4, O5, O8)."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.process.programs import (
    FUNCTION,
    STREAM,
    TOTALS,
    Started,
    environment,
    totals_in,
    use_quick_jvm,
    write_orders,
)
from tests.waiting import wait_until

pytestmark = [pytest.mark.process, pytest.mark.timeout(280)]

PROGRAM = FUNCTION + STREAM.replace("orders.key_by", 'orders.uid("orders").key_by') + 'env.execute("totals")\n'
OTHER = PROGRAM.replace('.uid("running-total")', '.uid("other-total")')


def penstock(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "penstock", *arguments],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def more_orders(folder: Path) -> None:
    row = {"customer": "ada", "amount": 10.0, "at": "2026-01-01T00:01:00Z"}
    (folder / "orders" / "2.json").write_text(json.dumps(row) + "\n", encoding="utf-8")


def run_until(folder: Path, count: int, *arguments: str) -> list[str]:
    """What a job prints until it has printed so many lines; then it is interrupted."""
    started = Started.of(["penstock", "run", *arguments], folder)
    try:
        wait_until(
            lambda: len(totals_in(started.out.splitlines())) >= count or started.process.poll() is not None,
            timeout_s=120,
        )
        assert started.process.poll() is None, started.err
        return totals_in(started.out.splitlines())
    finally:
        if started.process.poll() is None:
            started.interrupt()


def test_o4_o5_o8_a_job_starts_from_a_savepoint_or_says_why_not(tmp_path: Path) -> None:
    use_quick_jvm(tmp_path)
    write_orders(tmp_path)
    (tmp_path / "job.py").write_text(PROGRAM, encoding="utf-8")
    (tmp_path / "other.py").write_text(OTHER, encoding="utf-8")
    started = Started.of(["penstock", "run", "job.py"], tmp_path)
    started.await_totals(len(TOTALS))
    stopped = penstock(tmp_path, "stop", "totals", "-p", "savepoints", "--json")
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    assert started.process.wait(60) == 0
    (savepoint,) = (tmp_path / "savepoints").iterdir()
    before = sorted((path, path.stat().st_size) for path in savepoint.rglob("*"))
    more_orders(tmp_path)

    none = penstock(tmp_path, "run", "-s", "nowhere", "job.py")  # O8
    assert none.returncode == 3
    assert "Cannot find checkpoint or savepoint file/directory 'nowhere' on file system 'file'." in none.stderr
    empty = penstock(tmp_path, "run", "-s", "savepoints", "job.py")
    assert empty.returncode == 3
    assert "Cannot find meta data file '_metadata' in directory 'savepoints'." in empty.stderr
    assert savepoint.name in empty.stderr

    refused = penstock(tmp_path, "run", "-s", str(savepoint), "other.py")  # O4
    assert refused.returncode == 5 and "Job has been submitted" not in refused.stdout
    assert f"Failed to rollback to checkpoint/savepoint {savepoint.as_uri()}. Cannot map" in refused.stderr
    assert "(uid 'running-total')" in refused.stderr and "--allowNonRestoredState" in refused.stderr
    checked = penstock(tmp_path, "restore", "--check", "--json", "other.py", str(savepoint))
    report = json.loads(checked.stdout)
    assert checked.returncode == 5 and not report["possible"]
    assert report["sources"] == [{"uid": "orders", "outcome": "restored"}]
    assert penstock(tmp_path, "restore", "--check", "--verify", "job.py", str(savepoint)).returncode == 0

    assert run_until(tmp_path, 1, "-s", str(savepoint), "-n", "other.py") == ["ada 10.0"]  # O5
    assert run_until(tmp_path, 1, "-s", str(savepoint / "_metadata"), "-p", "3", "job.py") == ["ada 15.0"]
    assert sorted((path, path.stat().st_size) for path in savepoint.rglob("*")) == before
    assert penstock(tmp_path, "run", "-s", str(savepoint), "--resume", "job.py").returncode == 2
