"""Kills with SIGKILL at random moments: which process, when, and whether it really hit."""

import random
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import psutil

from penstock.control.registry import JobRecord
from tests.faults.events import Expected
from tests.faults.jobs import JobProcess, Place, is_alive
from tests.faults.outcome import Verdict, judge, strays
from tests.waiting import wait_until

KINDS = ("taskmanager", "worker", "driver")
RECOVERY_LIMIT_S = 300.0
FINISH_LIMIT_S = 600.0
GONE_LIMIT_S = 300.0


@dataclass(frozen=True)
class Strike:
    """One kill to come: a process of that kind, so long after the job was seen at that epoch."""

    kind: str
    epoch: int
    delay_s: float
    choice: float
    """Which of the processes of that kind, from 0 to 1."""


@dataclass(frozen=True)
class Hit:
    """A kill that was tried. It counts if the process was there, is gone, and the job went on."""

    strike: Strike
    pid: int
    was_alive: bool
    is_gone: bool
    before: tuple[int, int]
    """Attempt, and the last epoch that may have been committed before the kill."""
    after: tuple[int, int]

    @property
    def counts(self) -> bool:
        return self.was_alive and self.is_gone and (self.after[0] > self.before[0] or self.after[1] > self.before[1])

    def __str__(self) -> str:
        attempts = f"attempt {self.before[0]} epoch {self.before[1]} -> attempt {self.after[0]} epoch {self.after[1]}"
        word = "hit" if self.counts else "MISSED"
        return f"{word} {self.strike.kind} {self.pid} {self.strike.delay_s:.2f} s after {self.strike.epoch}: {attempts}"


@dataclass
class KilledJob:
    """A job that was killed again and again, and what came of it."""

    hits: list[Hit]
    verdict: Verdict
    leftovers: list[str] = field(default_factory=list)
    """Processes that outlived their driver, and files that nobody needs."""

    @property
    def exact(self) -> bool:
        return self.verdict.exact and not self.leftovers


def plan_strikes(kinds: Sequence[str], epochs: int, seed: int) -> list[Strike]:
    """One strike per kind, in that order, at random epochs of a job that has at least so many."""
    chance = random.Random(seed)
    moments = sorted(chance.sample(range(2, epochs * 4 // 5), len(kinds)))
    return [Strike(kind, at, chance.random(), chance.random()) for kind, at in zip(kinds, moments, strict=True)]


def run_killed(place: Place, expected: Expected, strikes: Sequence[Strike], say: Callable[[str], None]) -> KilledJob:
    """Run the job to its end through all strikes, starting its driver again whenever that was killed."""
    hits: list[Hit] = []
    leftovers: list[str] = []
    job = JobProcess(place)
    try:
        for strike in strikes:
            before, victim = _await_moment(job, strike)
            family = job.family()
            was_alive = is_alive(victim)
            victim.send_signal(signal.SIGKILL)
            if strike.kind == "driver":
                job.kill()
                job = JobProcess(place)
                leftovers += outliving(family)
            is_gone = not outliving([victim])
            at_kill, after = _await_growth(job, before)
            hits.append(Hit(strike, victim.pid, was_alive, is_gone, at_kill, (after.attempt, after.epoch)))
            say(str(hits[-1]))
        exit_code = job.wait(FINISH_LIMIT_S)
        assert exit_code == 0, f"the job ended with {exit_code}:\n{job.log_tail()}"
        leftovers += outliving(job.family())
    finally:
        job.close()
    place.fetch()
    leftovers += strays(place.job_folder, place.output)
    return KilledJob(hits, judge(expected, place.job_folder, place.output), leftovers)


def outliving(family: Sequence[psutil.Process]) -> list[str]:
    """Those of a dead driver's processes that are still there after the time they have to end."""
    try:
        wait_until(lambda: not any(map(is_alive, family)), timeout_s=GONE_LIMIT_S)
    except AssertionError:
        return [f"{process.pid} {' '.join(process.cmdline())[:80]}" for process in family if is_alive(process)]
    return []


def _await_moment(job: JobProcess, strike: Strike) -> tuple[JobRecord, psutil.Process]:
    """The moment of the strike, and its victim, chosen among those that are alive then."""
    wait_until(lambda: job.running_record(RECOVERY_LIMIT_S).epoch >= strike.epoch, timeout_s=FINISH_LIMIT_S)
    threading.Event().wait(strike.delay_s)
    found = wait_until(lambda: candidates(job, strike.kind), timeout_s=RECOVERY_LIMIT_S)
    record = job.record()
    assert record is not None and not record.ended, "the job ended before the kill"
    return record, found[int(strike.choice * len(found))]


def candidates(job: JobProcess, kind: str) -> list[psutil.Process]:
    """The processes of that kind which are alive now."""
    if kind == "driver":
        return [process for process in job.family() if process.pid == job.pid]
    if kind == "worker":
        return job.workers()
    return job.taskmanagers()


def _await_growth(job: JobProcess, before: JobRecord) -> tuple[tuple[int, int], JobRecord]:
    """Attempt and highest possible epoch at the kill, and the first record that shows that the job went on.

    A driver writes its record once a second, so the epoch at the kill is taken from one that was surely written later.
    """
    stale = job.record()
    fresh = _await_record(job, lambda record: stale is None or record.updated_ms > stale.updated_ms)
    epoch = fresh.epoch if fresh.attempt == before.attempt else before.epoch
    after = _await_record(job, lambda record: record.attempt > before.attempt or record.epoch > epoch)
    return (before.attempt, epoch), after


def _await_record(job: JobProcess, wanted: Callable[[JobRecord], bool]) -> JobRecord:
    def found() -> list[JobRecord]:
        assert job.exit_code in (None, 0), f"the driver ended with {job.exit_code}:\n{job.log_tail()}"
        record = job.record()
        return [record] if record is not None and wanted(record) else []

    return wait_until(found, timeout_s=RECOVERY_LIMIT_S)[0]
