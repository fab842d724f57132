"""Savepoints on a real HDFS: written by a job, read by commands, restored at another parallelism."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.model.ids import new_nonce
from penstock.services import RunningService
from penstock.storage import open_storage
from tests.docs.pages import files_of
from tests.faults.events import Load, batch_result, write_events
from tests.faults.jobs import JobProcess, Place
from tests.faults.kills import FINISH_LIMIT_S
from tests.faults.outcome import compare, read_output, read_state
from tests.process.programs import environment
from tests.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.process]

LOAD = Load(events=6_000, keys=200, files=12)


def penstock(folder: Path, *arguments: str) -> str:
    """What a command prints."""
    run = subprocess.run(
        [sys.executable, "-m", "penstock", *arguments],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=FINISH_LIMIT_S,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def test_o8_a_savepoint_on_hdfs_is_read_and_restored_at_another_parallelism(
    tmp_path: Path, hdfs: RunningService
) -> None:
    write_events(LOAD, tmp_path / "events")
    remote = f"{hdfs.address}/savepoints-{new_nonce()}"
    interval = (("penstock.epoch.interval", "250 ms"),)
    old = Place(tmp_path / "old", tmp_path / "events", settings=interval, remote=f"{remote}/old")
    with JobProcess(old) as job:
        wait_until(lambda: job.running_record(FINISH_LIMIT_S).epoch >= 4, timeout_s=FINISH_LIMIT_S)
        registry = f"-Dpenstock.registry.dir={old.registry.folder}"
        stop = ("stop", registry, "--json", "-p", f"{remote}/savepoints", job.running_record().job_id)
        path = json.loads(penstock(tmp_path, *stop))["savepoint"]
        assert job.wait(FINISH_LIMIT_S) == 0, job.log_tail()
    assert path.startswith(f"{remote}/savepoints/")
    assert "tally" in penstock(tmp_path, "state", "ls", path)
    new = Place(tmp_path / "new", tmp_path / "events", parallelism=3, resumes=False, remote=f"{remote}/new")
    with JobProcess(new, "-s", path) as job:
        assert job.wait(FINISH_LIMIT_S) == 0, job.log_tail()
    for place in (old, new):
        place.fetch()
    rows = [*read_output(old.output), *read_output(new.output)]
    verdict = compare(batch_result(tmp_path / "events"), read_state(new.job_folder), rows)
    assert verdict.exact, verdict
    assert list(read_output(old.output)) and list(read_output(new.output))


def test_the_program_of_the_page_runs(tmp_path: Path, hdfs: RunningService) -> None:
    (tmp_path / "totals_on_hdfs.py").write_text(files_of("docs/connectors/hdfs.md")["totals_on_hdfs.py"])
    folder = f"{hdfs.address}/program-{new_nonce()}"
    penstock(tmp_path, "run", "-p", "2", "totals_on_hdfs.py", folder)
    output = open_storage(f"{folder}/out")
    names = [path for path in output.list("") if not path.startswith(".")]
    rows = [json.loads(line) for name in names for line in output.read(name).splitlines()]
    assert sorted((row["customer"], row["total"]) for row in rows) == [("ada", 2.0), ("ada", 5.0), ("bob", 1.5)]
