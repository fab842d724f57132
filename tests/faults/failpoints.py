"""Every crash point of PROTOCOL section 8 with real processes.

A chain is one job that passes several points, one after the other; each kills a process, and in the end state and
output must be exact. Points of a TaskManager or a task are all armed from the start: each fires once, and the job
recovers by itself. Points of the driver are armed one by one: each start of the driver dies at the next of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from penstock.failpoint import NAMES
from tests.faults.events import Expected
from tests.faults.jobs import JobProcess, Place
from tests.faults.kills import FINISH_LIMIT_S, outliving
from tests.faults.outcome import Verdict, judge, strays
from tests.waiting import wait_until

ELSEWHERE = ("C28",)
"""In `stops`: somebody must ask for a savepoint."""
TASK = ("C3", "C11")
TASKMANAGER = ("C25", "C4", "C5", "C6", "C8", "C9", "C10", "C13", "C14", "C15", "C16", "C7", "C27")
DRIVER = (
    *("C19", "C1", "C2", "C20", "C24", "C26", "C12", "C17", "C18", "C21", "C22", "C23"),
    *("C13", "C14", "C15", "C31", "C29", "C30"),
)
"""In an order in which the points of recovery come when there is something to recover."""
OF_RECOVERY = ("C1", "C2", "C24", "C25", "C26")
FAILURE_FIRST = {"tm": "C16.after:kill:role=tm:hit=3", "driver": "C20.before:kill:role=driver:hit=6"}
"""Brings a job with checkpoints down, for chains that begin with a point of recovery."""
HITS = {
    "driver": dict.fromkeys(("C1", "C2", "C24", "C26", "C29", "C30"), 1)
    | dict.fromkeys(("C13", "C14", "C15", "C31"), 7),
    "tm": {"C7": 1, "C25": 1},
    "task": {"C3": 5, "C11": 5},
}
"""At which passage a point fires, where it is not the second: in the first epoch there is nothing to lose yet."""
UNALIGNED = (("execution.checkpointing.unaligned.enabled", "true"),)
"""For chains with C27: rows are spooled."""
CHAIN = 6
"""Cases in one job."""


@dataclass(frozen=True)
class Case:
    """One point, before or after its step, in a process of one role, and what happens there."""

    name: str
    side: str
    role: str
    action: str = "kill"

    @property
    def place(self) -> str:
        return f"{self.name}.{self.side}"

    @property
    def armed(self) -> str:
        """The words for PENSTOCK_FAILPOINT."""
        hit = HITS[self.role].get(self.name, 2)
        if self.name == "C20":  # a checkpoint has two commits: between those of the second one
            hit = 4 if self.side == "before" else 3
        return f"{self.place}:{self.action}:role={self.role}:hit={hit}"

    @property
    def ends_job(self) -> bool:
        """Whether the job has its end in the log when the process dies, so that there is nothing to resume."""
        return self.place == "C30.after"

    def __str__(self) -> str:
        return f"{self.place} {self.role}"


@dataclass(frozen=True)
class ChainResult:
    """What a chain did."""

    cases: Sequence[Case]
    hits: frozenset[str]
    """Of the armed points, those that the log shows."""
    verdict: Verdict
    leftovers: Sequence[str]

    def lines(self) -> Iterator[str]:
        """One line per case."""
        exact = self.verdict.exact and not self.leftovers
        for case in self.cases:
            word = "hit" if case.armed in self.hits else "NOT HIT"
            yield f"{case}: {word}, {'exact' if exact else 'NOT EXACT'}"

    @property
    def passed(self) -> bool:
        return self.verdict.exact and not self.leftovers and all(case.armed in self.hits for case in self.cases)


def all_cases() -> list[Case]:
    """Every point of this release, before and after, in each role that passes it."""
    by_role = {"task": TASK, "tm": TASKMANAGER, "driver": DRIVER}
    cases = [
        Case(name, side, role) for role, names in by_role.items() for name in names for side in ("before", "after")
    ]
    missing = set(NAMES) - {case.name for case in cases} - set(ELSEWHERE)
    assert not missing, f"no case for {sorted(missing)}"
    return cases


def chains(cases: Sequence[Case]) -> Iterator[list[Case]]:
    """Cases that share a job: those of the driver apart from the others, some at a time, the end of the job last."""
    for _, found in groupby(cases, key=lambda case: case.role == "driver"):
        rest = list(found)
        while rest:
            end = next((i + 1 for i, case in enumerate(rest[:CHAIN]) if case.ends_job), CHAIN)
            yield rest[:end]
            rest = rest[end:]


def run_chain(place: Place, expected: Expected, cases: Sequence[Case]) -> ChainResult:
    """Run one job through all its cases to its end."""
    log = place.folder / "failpoints.log"
    run = _run_drivers if cases[0].role == "driver" else _run_workers
    try:
        leftovers = run(place, cases, log)
    except AssertionError as error:  # the other chains are still worth running
        return ChainResult(cases, read_hits(log), Verdict(0, 0, (str(error),)), [])
    if not cases[-1].ends_job:
        leftovers += strays(place.job_folder, place.output)
    return ChainResult(cases, read_hits(log), judge(expected, place.job_folder, place.output), leftovers)


def read_hits(log: Path) -> frozenset[str]:
    """The armed points that have fired."""
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    return frozenset(line.split()[-1] for line in lines)


def _run_workers(place: Place, cases: Sequence[Case], log: Path) -> list[str]:
    """Points below the driver: the job goes on by itself."""
    armed = [case.armed for case in cases]
    if {case.name for case in cases} <= {"C25", *TASK}:
        armed.append(FAILURE_FIRST["tm"])
    with _start(place, log, ",".join(armed)) as job:
        _finish(job)
        return outliving(job.family())


def _run_drivers(place: Place, cases: Sequence[Case], log: Path) -> list[str]:
    """Points of the driver: each start dies at the next one, the last start finishes the job."""
    leftovers: list[str] = []
    first = [FAILURE_FIRST["driver"]] if cases[0].name in OF_RECOVERY else []
    for armed in [*first, *(case.armed for case in cases)]:
        with _start(place, log, armed) as job:
            exit_code = _await_exit(job)
            assert armed in read_hits(log), f"the driver ended with {exit_code} before {armed}:\n{job.log_tail()}"
            leftovers += outliving(job.family())
    if not cases[-1].ends_job:
        with _start(place, log, "") as job:
            _finish(job)
            leftovers += outliving(job.family())
    return leftovers


def _start(place: Place, log: Path, armed: str) -> JobProcess:
    return JobProcess(place, PENSTOCK_FAILPOINT=armed, PENSTOCK_FAILPOINT_LOG=str(log))


def _await_exit(job: JobProcess) -> int:
    """The exit code; its processes are noted meanwhile, so that those it leaves behind are known."""

    def ended() -> bool:
        job.family()
        return job.exit_code is not None

    wait_until(ended, timeout_s=FINISH_LIMIT_S, pause_s=0.2)
    return job.wait(0)


def _finish(job: JobProcess) -> None:
    exit_code = _await_exit(job)
    assert exit_code == 0, f"the job ended with {exit_code}:\n{job.log_tail()}"
