"""Two drivers of one job (PROTOCOL R4, reliability F18): the older one is stopped at a crash point, a newer one takes
the job over, and then the older one wakes up. It must append nothing, write nothing, delete nothing, and end with exit
code 4 and a message that says why.

Each driver of a chain is the next to be stopped, so that the folder stands still while the older one wakes up: whatever
changes in it then is the older one's doing. One change is its right: its TaskManagers may still be there, and when they
are told to end they remove the parts that they have in progress, which nobody else can need (PROTOCOL R28).
"""

import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from penstock.checkpoint.file_names import log_entry_path
from penstock.checkpoint.log.log_reader import read_log
from penstock.connectors.file.part_names import IN_PROGRESS, parse_hidden
from penstock.storage.local import LocalStorage
from tests.faults.events import Expected
from tests.faults.failpoints import DRIVER, Case, read_hits
from tests.faults.jobs import JobProcess, Place
from tests.faults.kills import FINISH_LIMIT_S, outliving
from tests.faults.outcome import Verdict, judge, strays
from tests.waiting import Stopwatch, wait_until

FENCED_EXIT = 4
FENCED_WORDS = ("no longer owns the job", "claimed at the same time", "of another driver owns the job now")
WAKE_LIMIT_S = 300.0
STILL_S = 1.0
SETTINGS = (("penstock.driver.timeout", "2s"),)
LONG_SLEEPER = Case("C19", "before", "driver", "stop")
"""With a manifest in place, just before it would append that the checkpoint is complete."""


@dataclass(frozen=True)
class Wake:
    """What an older driver did after it woke up."""

    case: Case
    exit_code: int
    message: str
    seconds: float
    changes: tuple[str, ...]
    """Files that came, went or changed, in the checkpoint folder and in the output."""
    left: tuple[str, ...]
    """Processes of it that were still there afterwards."""

    @property
    def passed(self) -> bool:
        is_said = any(words in self.message for words in FENCED_WORDS)
        return self.exit_code == FENCED_EXIT and is_said and not self.changes and not self.left

    def __str__(self) -> str:
        if self.passed:
            return f"F18 driver stopped at {self.case.place}: hit, fenced after {self.seconds:.1f} s, changed nothing"
        return (
            f"F18 driver stopped at {self.case.place}: NOT FENCED, exit code {self.exit_code}, {self.changes}, "
            f"{self.left}, {self.message!r}"
        )


@dataclass
class FencedChain:
    """A job whose drivers were stopped and replaced, one after the other."""

    cases: Sequence[Case]
    wakes: list[Wake] = field(default_factory=list)
    verdict: Verdict = field(default_factory=lambda: Verdict(0, 0, ("the job did not end",)))
    leftovers: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        woken = [wake.case for wake in self.wakes if wake.passed]
        return sorted(map(str, woken)) == sorted(map(str, self.cases)) and self.verdict.exact and not self.leftovers

    def lines(self) -> Iterator[str]:
        """One line per zombie, and what is wrong with the job."""
        yield from map(str, self.wakes)
        yield from self.verdict.wrong
        yield from self.leftovers


@dataclass(frozen=True)
class Sleeper:
    """A driver that was stopped at a crash point."""

    case: Case
    job: JobProcess
    attempt: int
    """The highest in the log when it was stopped: one above it, and the sleeper is fenced."""

    def may_remove(self, path: str) -> bool:
        """Whether this is a part that a TaskManager of its own attempt was writing."""
        parsed = parse_hidden(path.rpartition("/")[2])
        has_claimed = self.case.place != "C1.before"  # otherwise the attempt is somebody else's
        return has_claimed and parsed is not None and parsed[0] == IN_PROGRESS and parsed[1].attempt == self.attempt


def all_zombies() -> list[Case]:
    """Every crash point of the driver, before and after. After the last status there is nothing to take over."""
    cases = [Case(name, side, "driver", "stop") for name in DRIVER for side in ("before", "after")]
    return [case for case in cases if not case.ends_job]


def run_fencing(place: Place, expected: Expected, cases: Sequence[Case]) -> FencedChain:
    """Stop one driver at each case, wake it when the next one has claimed the job, and let the last finish the job."""
    result = FencedChain(cases)
    jobs: list[JobProcess] = []
    try:
        _run(place, cases, result, jobs)
        result.verdict = judge(expected, place.job_folder, place.output)
        result.leftovers += strays(place.job_folder, place.output)
    except AssertionError as error:  # the other chains are still worth running
        result.verdict = Verdict(0, 0, (str(error),))
    finally:
        for job in jobs:
            job.close()
    return result


def _run(place: Place, cases: Sequence[Case], result: FencedChain, jobs: list[JobProcess]) -> None:
    sleepers: list[Sleeper] = []
    log = place.folder / "failpoints.log"
    for case in cases:
        jobs.append(JobProcess(place, PENSTOCK_FAILPOINT=case.armed, PENSTOCK_FAILPOINT_LOG=str(log)))
        _await_stopped(jobs[-1], case, log)
        newest = Sleeper(case, jobs[-1], _attempt(place))
        sleepers = _wake_fenced(sleepers, newest.attempt, place, result)
        sleepers.append(newest)
    last = JobProcess(place)
    jobs.append(last)
    wait_until(lambda: _attempt(place) > sleepers[-1].attempt or last.exit_code is not None, timeout_s=FINISH_LIMIT_S)
    # This one is at work meanwhile: what the folder shows is its own doing, and judged at the end.
    result.wakes += [wake(sleeper) for sleeper in sleepers]
    exit_code = last.wait(FINISH_LIMIT_S)
    assert exit_code == 0, f"the last driver ended with {exit_code}:\n{last.log_tail()}"
    result.leftovers += outliving(last.family())


def run_long_sleep(place: Place, expected: Expected) -> FencedChain:
    """A driver sleeps while the next one writes so many entries that its number in the log is deleted: free again."""
    result = FencedChain([LONG_SLEEPER])
    log = place.folder / "failpoints.log"
    jobs: list[JobProcess] = []
    try:
        jobs.append(JobProcess(place, PENSTOCK_FAILPOINT=LONG_SLEEPER.armed, PENSTOCK_FAILPOINT_LOG=str(log)))
        _await_stopped(jobs[0], LONG_SLEEPER, log)
        sleeper = Sleeper(LONG_SLEEPER, jobs[0], _attempt(place))
        number = read_log(LocalStorage(place.job_folder)).number + 1
        jobs.append(JobProcess(place))
        wait_until(lambda: _is_far_beyond(place, number, jobs[1]), timeout_s=FINISH_LIMIT_S, pause_s=0.2)
        owner = psutil.Process(jobs[1].pid)
        owner.send_signal(signal.SIGSTOP)
        result.wakes.append(wake(sleeper, place))
        owner.send_signal(signal.SIGCONT)
        exit_code = jobs[1].wait(FINISH_LIMIT_S)
        assert exit_code == 0, f"the owner ended with {exit_code}:\n{jobs[1].log_tail()}"
        result.verdict = judge(expected, place.job_folder, place.output)
        result.leftovers += outliving(jobs[1].family()) + strays(place.job_folder, place.output)
    except AssertionError as error:
        result.verdict = Verdict(0, 0, (str(error),))
    finally:
        for job in jobs:
            job.close()
    return result


def _is_far_beyond(place: Place, number: int, owner: JobProcess) -> bool:
    """The log has gone on by more than 200 entries, and this number has been deleted from it."""
    assert owner.exit_code is None, f"the owner ended with {owner.exit_code} too early:\n{owner.log_tail()}"
    storage = LocalStorage(place.job_folder)
    return read_log(storage).number > number + 200 and log_entry_path(number) not in storage.list("log/")


def _wake_fenced(sleepers: list[Sleeper], attempt: int, place: Place, result: FencedChain) -> list[Sleeper]:
    """Wake those that the log has left behind, one at a time; the others go on sleeping."""
    for sleeper in sleepers:
        if sleeper.attempt < attempt:
            result.wakes.append(wake(sleeper, place))
    return [sleeper for sleeper in sleepers if sleeper.attempt >= attempt]


def wake(sleeper: Sleeper, place: Place | None = None) -> Wake:
    """Let it go on, and see what it does. `place`: everybody else stands still, so that the folder must too."""
    job = sleeper.job
    before = _await_stillness(place) if place is not None else {}
    watch = Stopwatch()
    family = job.family()
    psutil.Process(job.pid).send_signal(signal.SIGCONT)
    exit_code = job.wait(WAKE_LIMIT_S)
    seconds = watch.seconds()
    left = outliving(family)
    after = listing(place) if place is not None else {}
    changes = [f"- {path}" for path in sorted(before.keys() - after.keys()) if not sleeper.may_remove(path)]
    changes += [f"+ {path}" for path in sorted(after.keys() - before.keys()) if not _counts_for_nothing(path, before)]
    changes += [f"~ {path}" for path in sorted(after.keys() & before.keys()) if before[path] != after[path]]
    errors = [line for line in job.said().splitlines() if any(words in line for words in FENCED_WORDS)]
    return Wake(sleeper.case, exit_code, errors[-1] if errors else job.log_tail(), seconds, tuple(changes), tuple(left))


def _counts_for_nothing(path: str, before: Mapping[str, object]) -> bool:
    """An append at a number that was free again, below the `base` that all readers start at (PROTOCOL R4)."""
    if "ha-lease-" in path:  # a sign of life that was on its way when the driver was stopped
        return path < max(other for other in before if "ha-lease-" in other)
    folder, _, number = path.rpartition("/")
    entries = [other.rpartition("/")[2] for other in before if other.startswith(f"{folder}/")]
    return folder.endswith("/log") and bool(entries) and number < min(entries)


def listing(place: Place) -> dict[str, tuple[int, int, int]]:
    """Every file of the job: in the checkpoint folder and in the output. Its number, size and time of change.

    Without temporary ones, `name~random`: nobody reads them, and a driver that was stopped while it wrote one removes
    it when it wakes up.
    """
    found = {}
    for folder in (place.checkpoints, place.output):
        for path in folder.rglob("*"):
            try:
                about = path.lstat()
            except FileNotFoundError:
                continue
            if path.is_file() and "~" not in path.name:
                found[str(path.relative_to(place.folder))] = (about.st_ino, about.st_size, about.st_mtime_ns)
    return found


def _await_stillness(place: Place) -> dict[str, tuple[int, int, int]]:
    """The files, once nothing has changed for a while: TaskManagers of a stopped driver end what they were writing."""
    watch = Stopwatch()
    last = listing(place)

    def is_still() -> bool:
        nonlocal last, watch
        if (now := listing(place)) != last:
            last, watch = now, Stopwatch()
        return watch.seconds() >= STILL_S

    wait_until(is_still, timeout_s=WAKE_LIMIT_S)
    return last


def _await_stopped(job: JobProcess, case: Case, log: Path) -> None:
    def is_stopped() -> bool:
        assert job.exit_code is None, f"the driver ended with {job.exit_code} before {case}:\n{job.log_tail()}"
        job.family()
        return psutil.Process(job.pid).status() == psutil.STATUS_STOPPED

    wait_until(is_stopped, timeout_s=FINISH_LIMIT_S, pause_s=0.1)
    assert case.armed in read_hits(log), f"stopped, but not at {case}"


def _attempt(place: Place) -> int:
    """The highest attempt in the log of the job."""
    if not place.registry.list():
        return 0
    return read_log(LocalStorage(place.job_folder)).attempt
