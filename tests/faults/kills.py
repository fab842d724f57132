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
from tests.faults.outcome import Verdict, judge
from tests.waiting import wait_until

KINDS = ("taskmanager", "worker", "driver")
RECOVERY_LIMIT_S = 120.0
FINISH_LIMIT_S = 600.0
GONE_LIMIT_S = 10.0


@dataclass(frozen=True)
class Strike:
    """One kill to come: a process of that kind, so long after the job was seen at that epoch."""

    kind: str
    epoch: int
    delay_s: float


@dataclass(frozen=True)
class Hit:
    """A kill that was tried. It counts if the process was there, is gone, and the job went on."""

    strike: Strike
    pid: int
    was_alive: bool
    is_gone: bool
    before: tuple[int, int]
    """Attempt and epoch."""
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
    """Processes that outlived their driver."""

    @property
    def exact(self) -> bool:
        return self.verdict.exact and not self.leftovers


def plan_strikes(kinds: Sequence[str], epochs: int, seed: int) -> list[Strike]:
    """One strike per kind, in that order, at random epochs of a job that has at least so many."""
    chance = random.Random(seed)
    moments = sorted(chance.sample(range(2, epochs - 2), len(kinds)))
    return [Strike(kind, epoch, chance.uniform(0.0, 1.0)) for kind, epoch in zip(kinds, moments, strict=True)]


def run_killed(place: Place, expected: Expected, strikes: Sequence[Strike], say: Callable[[str], None]) -> KilledJob:
    """Run the job to its end through all strikes, starting its driver again whenever that was killed."""
    hits: list[Hit] = []
    leftovers: list[str] = []
    chance = random.Random(len(strikes))
    job = JobProcess(place)
    try:
        for strike in strikes:
            before, victim = _await_moment(job, strike, chance)
            family = job.family()
            was_alive = is_alive(victim)
            victim.send_signal(signal.SIGKILL)
            if strike.kind == "driver":
                job.kill()
                job = JobProcess(place)
                leftovers += outliving(family)
            is_gone = bool(wait_until(lambda process=victim: not is_alive(process), timeout_s=GONE_LIMIT_S))  # type: ignore[misc]
            after = _await_growth(job, before)
            hits.append(Hit(strike, victim.pid, was_alive, is_gone, _progress(before), _progress(after)))
            say(str(hits[-1]))
        exit_code = job.wait(FINISH_LIMIT_S)
        assert exit_code == 0, f"the job ended with {exit_code}:\n{job.log_tail()}"
        leftovers += outliving(job.family())
    finally:
        job.__exit__()
    record = place.registry.list()[-1]
    return KilledJob(hits, judge(expected, place.checkpoints, record.job_id, place.output), leftovers)


def outliving(family: Sequence[psutil.Process]) -> list[str]:
    """Those of a dead driver's processes that are still there after the time they have to end."""
    try:
        wait_until(lambda: not any(map(is_alive, family)), timeout_s=GONE_LIMIT_S)
    except AssertionError:
        return [f"{process.pid} {' '.join(process.cmdline())[:80]}" for process in family if is_alive(process)]
    return []


def _await_moment(job: JobProcess, strike: Strike, chance: random.Random) -> tuple[JobRecord, psutil.Process]:
    """The moment of the strike, and its victim, chosen among those that are alive then."""

    def reached() -> bool:
        record = job.running_record(RECOVERY_LIMIT_S)
        return record.epoch >= strike.epoch

    wait_until(reached, timeout_s=FINISH_LIMIT_S)
    threading.Event().wait(strike.delay_s)
    found = wait_until(lambda: candidates(job, strike.kind), timeout_s=RECOVERY_LIMIT_S)
    record = job.record()
    assert record is not None and not record.ended, "the job ended before the kill"
    return record, chance.choice(found)


def candidates(job: JobProcess, kind: str) -> list[psutil.Process]:
    """The processes of that kind which are alive now."""
    if kind == "driver":
        return [process for process in job.family() if process.pid == job.pid]
    if kind == "worker":
        return job.workers()
    return job.taskmanagers()


def _await_growth(job: JobProcess, before: JobRecord) -> JobRecord:
    """The first record that shows that the job went on: a newer attempt, or a later epoch of the same one."""

    def grown() -> JobRecord | None:
        assert job.exit_code in (None, 0), f"the driver ended with {job.exit_code}:\n{job.log_tail()}"
        record = job.record()
        if record is None or record.epoch == 0:
            return None
        return record if record.attempt > before.attempt or record.epoch > before.epoch else None

    found = wait_until(lambda: grown() or None, timeout_s=RECOVERY_LIMIT_S)
    assert found is not None
    return found


def _progress(record: JobRecord) -> tuple[int, int]:
    return record.attempt, record.epoch
