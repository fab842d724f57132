"""A job with standbys (features U1): its driver dies or is stopped again and again, and a standby goes on with it.

Two standbys wait at any time. A driver that was stopped is woken while everybody else stands still, so that whatever
changes in the folders then is its doing: it must append nothing, show nothing, delete nothing, and end with exit code
4.
"""

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import psutil

from penstock.checkpoint.file_names import FileKind, parse_name
from penstock.checkpoint.log.log_reader import read_log
from penstock.connectors.file.part_names import IN_PROGRESS, PENDING, parse_hidden
from penstock.storage.local import LocalStorage
from tests.faults.events import Expected
from tests.faults.failpoints import Case
from tests.faults.fencing import Sleeper, wake
from tests.faults.jobs import JobProcess, Place, is_alive
from tests.faults.kills import FINISH_LIMIT_S, outliving
from tests.faults.outcome import Verdict, judge, strays
from tests.waiting import LIMIT_S, Stopwatch, wait_until

KILL, SLEEP = "kill", "sleep"
STANDBYS = 2
ANYWHERE = Case("anywhere", "in its work", "driver", "stop")


@dataclass(frozen=True)
class Takeover:
    """One fault, and what came of it."""

    fault: str
    hit: bool
    """The driver worked, and then it did not."""
    same_job: bool
    attempts: tuple[int, int]
    noticed_s: float
    """Until a standby took the job over."""
    running_s: float
    """Until its TaskManagers had the state."""
    quiet: str = ""
    """What an old driver that woke up did wrong."""

    @property
    def passed(self) -> bool:
        return self.hit and self.same_job and self.attempts[1] > self.attempts[0] and not self.quiet

    def __str__(self) -> str:
        word = "hit" if self.passed else "FAILED"
        times = f"noticed after {self.noticed_s:.1f} s, goes on after {self.running_s:.1f} s"
        return f"{word} {self.fault}: attempt {self.attempts[0]} -> {self.attempts[1]}, {times} {self.quiet}".rstrip()


@dataclass
class WatchedJob:
    """A job with standbys, after all faults."""

    takeovers: list[Takeover] = field(default_factory=list)
    verdict: Verdict = field(default_factory=lambda: Verdict(0, 0, ("the job did not end",)))
    leftovers: list[str] = field(default_factory=list)

    @property
    def exact(self) -> bool:
        return all(takeover.passed for takeover in self.takeovers) and self.verdict.exact and not self.leftovers


def run_standbys(place: Place, expected: Expected, faults: Sequence[str], say: Callable[[str], None]) -> WatchedJob:
    """Run the job to its end through all faults. The standbys start before it does."""
    result = WatchedJob()
    standbys = [JobProcess(replace(place, stands_by=True)) for _ in range(STANDBYS)]
    active = JobProcess(replace(place, has_standby=True, resumes=False))
    everybody = [active, *standbys]
    try:
        for fault in faults:
            takeover, successor = _strike(active, standbys, place, fault)
            result.takeovers.append(takeover)
            say(str(takeover))
            active = successor
            standbys = [standby for standby in standbys if standby is not successor]
            standbys.append(JobProcess(replace(place, stands_by=True)))
            everybody.append(standbys[-1])
        exit_code = active.wait(FINISH_LIMIT_S)
        assert exit_code == 0, f"the last driver ended with {exit_code}:\n{active.log_tail()}"
        result.leftovers += outliving(active.family())
        for standby in standbys:  # one that had only just started waits for the next job of the folder
            if "standing by for job" in standby.said():
                assert standby.wait(LIMIT_S) == 0, standby.log_tail()
        result.leftovers += [str(file) for file in place.ha.iterdir()]
        result.verdict = judge(expected, place.job_folder, place.output)
        result.leftovers += strays(place.job_folder, place.output)
    finally:
        for job in everybody:
            job.close()
    return result


def _strike(
    active: JobProcess, standbys: Sequence[JobProcess], place: Place, fault: str
) -> tuple[Takeover, JobProcess]:
    seen = active.running_record(LIMIT_S)
    wait_until(lambda: active.running_record(LIMIT_S).epoch >= seen.epoch + 2, timeout_s=FINISH_LIMIT_S)
    wait_until(lambda: any("which process" in standby.said() for standby in standbys))
    driver = psutil.Process(active.pid)
    before = read_log(LocalStorage(place.job_folder)).attempt
    family = active.family()
    worked = is_alive(driver) and active.exit_code is None
    watch = Stopwatch()
    driver.send_signal(signal.SIGKILL if fault == KILL else signal.SIGSTOP)
    successor = wait_until(lambda: [one for one in standbys if "taking over" in one.said()])[0]
    noticed_s = watch.seconds()
    after = successor.running_record(LIMIT_S)
    running_s = watch.seconds()
    quiet = ""
    if fault == KILL:
        active.kill()
        quiet = " ".join(outliving(family))
    else:
        others = [successor, *(standby for standby in standbys if standby is not successor)]
        with _still(others):
            woken = wake(Sleeper(ANYWHERE, active, before), place)
            woken = replace(woken, changes=tuple(change for change in woken.changes if _counts(change, before, place)))
        quiet = "" if woken.passed else str(woken)
    records = place.registry.list()
    is_same = len(records) == 1 and after.job_id == seen.job_id == records[0].job_id
    return Takeover(fault, worked, is_same, (before, after.attempt), noticed_s, running_s, quiet), successor


def _counts(change: str, attempt: int, place: Place) -> bool:
    """Whether a change by the old driver means anything to anybody.

    Stopped anywhere, it ends a write that was under way, and its TaskManagers the epoch that was, before it looks for
    newer attempts. New files under names of its attempt are listed nowhere, as is a manifest without an entry in the
    log (PROTOCOL R2, R22, R28). A log entry, visible output, and whatever is changed or deleted counts.
    """
    sign, _, path = change.partition(" ")
    folder, _, file = path.rpartition("/")
    part = parse_hidden(file)
    if sign == "+" and part is not None and part[0] in (IN_PROGRESS, PENDING):
        return part[1].attempt != attempt
    in_job = "/".join([*folder.split("/")[2:], file])
    name = parse_name(in_job)
    if sign != "+" or name is None or name.kind is FileKind.LOG:
        return True
    if name.kind is FileKind.METADATA:
        return in_job in [complete.metadata_path for complete in read_log(LocalStorage(place.job_folder)).retained]
    return name.attempt != attempt


@contextmanager
def _still(jobs: Sequence[JobProcess]) -> Iterator[None]:
    """All of these processes are stopped in this block."""
    processes = [psutil.Process(job.pid) for job in jobs]
    for process in processes:
        process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            process.send_signal(signal.SIGCONT)
