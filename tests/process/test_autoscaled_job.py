"""A job that rescales itself: up under a backlog, down when there is nothing to do, without flapping, and exact."""

import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest

from penstock.control.registry import JobRecord, Registry
from tests.faults.outcome import read_output
from tests.process.programs import Started
from tests.waiting import LIMIT_S, wait_until

pytestmark = [pytest.mark.process, pytest.mark.full]

PROGRAM = Path(__file__).with_name("slow_program.py")
FILES, ROWS = 60, 200
PAUSE_US = 5_000
"""For each row: a minute of work for one subtask."""
SETTINGS = {
    "spark.master": "local[4]",
    "execution.checkpointing.interval": "1 s",
    "penstock.epoch.target": "2 s",
    "penstock.autoscale": "true",
    "penstock.autoscale.max-parallelism": "3",
    "penstock.autoscale.stabilization": "6 s",
    "penstock.autoscale.scale-down-interval": "12 s",
}


def write_step(folder: Path) -> None:
    """All rows at once: the load goes from nothing to more than one subtask can do, and back to nothing."""
    folder.mkdir()
    for file in range(FILES):
        rows = ({"id": file * ROWS + row, "key": f"k{row % 50}"} for row in range(ROWS))
        (folder / f"{file:03}.json").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def test_e9_a_load_step_up_and_down_is_followed_without_flapping(tmp_path: Path) -> None:
    write_step(tmp_path / "events")
    registry = tmp_path / "registry"
    flags = [f"-D{key}={value}" for key, value in {**SETTINGS, "penstock.registry.dir": registry}.items()]
    program = [str(PROGRAM), str(tmp_path / "events"), str(tmp_path / "out"), str(PAUSE_US)]
    job = Started.of([sys.executable, "-m", "penstock", "run", "-p", "1", *flags, *program], tmp_path)

    def record() -> JobRecord | None:
        assert job.process.poll() is None, job.err
        return next(iter(Registry(registry).list()), None)

    def parallelism() -> int:
        found = record()
        return found.parallelism if found is not None and found.status == "RUNNING" else 0

    def ids() -> Counter[int]:
        return Counter(row["id"] for row in read_output(tmp_path / "out"))

    try:
        wait_until(lambda: parallelism() == 3, pause_s=0.5)
        wait_until(lambda: len(ids()) == FILES * ROWS, pause_s=0.5)
        found = wait_until(lambda: [one for one in [record()] if one and one.rescale and one.rescale.after == 1])[0]
        assert job.interrupt() == 128 + signal.SIGINT
    finally:
        if job.process.poll() is None:
            os.killpg(job.process.pid, signal.SIGKILL)
            job.process.wait(LIMIT_S)
    steps = [step.after for step in found.rescales if not step.failure]
    assert steps == sorted(steps[: steps.index(3) + 1]) + sorted(steps[steps.index(3) + 1 :], reverse=True), steps
    assert all("autoscaler: busy" in step.why for step in found.rescales)
    log = (Path(found.log_dir) / "driver.log").read_text(encoding="utf-8")
    assert log.count("autoscaler: from") == len(found.rescales)
    assert set(ids().values()) == {1} and len(ids()) == FILES * ROWS
