"""A driver or TaskManager that dies while the job is stopped with a savepoint (PROTOCOL R29, R30).

Whoever resumes the job completes the stop; a second job starts from the savepoint and reads the rest. The output of
both together, and the state of the second, must be those of a job that never stopped.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.faults.events import Expected
from tests.faults.jobs import ROOT, JobProcess, Place
from tests.faults.kills import FINISH_LIMIT_S, outliving
from tests.faults.outcome import Verdict, compare, read_output, read_state
from tests.waiting import wait_until

NEVER_MS = 3_600_000
"""Between checkpoints: the only ones are the first and that of the stop."""
CASES = (
    "C28.before:kill:role=driver",
    "C28.after:kill:role=driver",
    "C17.before:kill:role=driver",
    "C18.after:kill:role=driver:hit=2",
    "C19.before:kill:role=driver:hit=2",
    "C19.after:kill:role=driver:hit=2",
    "C20.before:kill:role=driver:hit=2",
    "C20.after:kill:role=driver",
    "C21.after:kill:role=driver",
    "C30.before:kill:role=driver",
    "C8.before:kill:role=tm",
    "C8.after:kill:role=tm",
    "C16.before:kill:role=tm",
)
"""The first checkpoint passes some places too."""


@dataclass(frozen=True)
class StoppedJob:
    """What a stop with a fault in it came to."""

    fault: str
    has_hit: bool
    savepoints: Sequence[Path]
    verdict: Verdict
    leftovers: Sequence[str]

    @property
    def exact(self) -> bool:
        return self.has_hit and len(self.savepoints) == 1 and self.verdict.exact and not self.leftovers

    def __str__(self) -> str:
        word = "exact" if self.exact else "WRONG"
        return f"{word} {self.fault}: hit {self.has_hit}, {len(self.savepoints)} savepoints, {self.verdict}"


def run_stop(place: Place, expected: Expected, fault: str) -> StoppedJob:
    """Stop the job in the middle of its input with this failpoint armed, resume it if its driver dies, and go on."""
    place = replace(place, checkpoint_ms=NEVER_MS)
    target, hits = place.folder / "savepoints", place.folder / "hits.log"
    leftovers: list[str] = []
    environment = {"PENSTOCK_FAILPOINT": fault, "PENSTOCK_FAILPOINT_LOG": str(hits)}
    with JobProcess(place, **environment) as job:
        record = job.running_record()
        wait_until(lambda: (job.record() or record).epoch >= 5)
        stop(place, record.job_id, target)
        family = job.family()
        job.wait(FINISH_LIMIT_S)
        leftovers += outliving(family)
    has_died = "role=driver" in fault
    if has_died:
        with JobProcess(place) as job:
            if job.wait(FINISH_LIMIT_S) != 0:
                leftovers.append(f"the resumed driver ended with {job.exit_code}: {job.log_tail()}")
    savepoints = [path.parent for path in target.glob("*/_metadata")]
    verdict = _go_on(place, expected, savepoints[0]) if savepoints else Verdict(0, 0, ("there is no savepoint",))
    hit = hits.exists() and fault.split(":")[0] in hits.read_text()
    return StoppedJob(fault, hit, savepoints, verdict, leftovers)


def stop(place: Place, job_id: str, target: Path) -> None:
    """`penstock stop`, whose answer may never come."""
    command = [sys.executable, "-m", "penstock", "stop", job_id, "-p", str(target)]
    command.append(f"-Dpenstock.registry.dir={place.registry.folder}")
    subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=FINISH_LIMIT_S, check=False)


def _go_on(place: Place, expected: Expected, savepoint: Path) -> Verdict:
    """Start a second job from the savepoint, at another parallelism, and let it come to its end."""
    second = replace(place, folder=place.folder / "second", parallelism=3, resumes=False, checkpoint_ms=1_000)
    with JobProcess(second, "-s", str(savepoint)) as job:
        exit_code = job.wait(FINISH_LIMIT_S)
        if exit_code != 0:
            return Verdict(0, 0, (f"the second job ended with {exit_code}: {job.log_tail()}",))
    return compare(expected, read_state(second.job_folder), list(_rows(place, second)))


def _rows(*places: Place) -> Iterator[dict[str, object]]:
    for place in places:
        if place.output.exists():
            yield from read_output(place.output)
