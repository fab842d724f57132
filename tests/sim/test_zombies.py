"""A driver that sleeps at a crash point while another takes over and writes more than 200 log entries, shortened twice.

When it wakes up it completes nothing, commits nothing, deletes nothing, and ends with a FencedError (PROTOCOL R4).
"""

from dataclasses import replace
from random import Random

import pytest

from penstock.checkpoint.log.job_log import BASE_EVERY
from penstock.errors import FencedError, JobConflictError
from tests.checkpoint.checker import require
from tests.sim.light_job import make_job
from tests.sim.patches import patched
from tests.sim.process import Process
from tests.sim.profile import PLACES, Profile, make_profile
from tests.sim.simulation import Simulation

MANY_ENTRIES = 2 * BASE_EVERY + 10
FOREVER = 10**9
ROWS = 40
HARMLESS = ("C27",)
"""Passed only with rows in flight, by a TaskManager."""
LAST = ("C30",)
"""Passed when all is complete: who takes over then has nothing left to write but the status."""
WRITES = ("C13", "C14", "C15", "C31")
ZOMBIE_PLACES = [place for place in PLACES if not place.startswith(HARMLESS)]


def profile_of(seed: int, place: str) -> Profile:
    calm = replace(make_profile(Random(seed), is_calm=True), savepoint=0.3 if place.startswith("C28") else 0.0)
    settings = replace(calm.settings, retained=1, max_concurrent=1, min_pause_ms=0, interval_ms=20)
    calm = replace(calm, settings=settings, base_every=BASE_EVERY, inline_limit_bytes=0)
    return replace(calm, unaligned=False, late_ack=0.0, savepoint=0.3)


class Zombie(Simulation):
    """Three processes: one crashes after some checkpoints, one falls asleep at a place, one takes over."""

    def __init__(self, place: str, seed: int = 1) -> None:
        super().__init__(seed, profile=profile_of(seed, place))
        self.job = make_job(Random(seed), ROWS)
        for sink in self.job.sinks:
            sink.store.called = self._sink_called
        self.place = place
        self.sleeper: Process | None = None
        self.is_asleep = False
        self.has_woken = False
        self.wants_rows = True

    def row_count(self) -> int:
        if self.place.startswith("C5") and self.sleeper is not None and self.wants_rows:
            return 8  # so many that a subtask gets a second batch
        return 1 if self.wants_rows else 0

    def is_forced(self) -> bool:
        return False

    def requested_savepoint(self):
        """Nobody starts a job again here that has stopped."""
        request = super().requested_savepoint()
        return replace(request, then="go_on") if request is not None else None

    def reach(self, place: str) -> None:
        actor = self.current
        if actor is not None and place == self.place and actor.owner is self.sleeper and self.may_sleep():
            self.is_asleep = True
            for other in self.sleeper.actors:
                other.paused_until = FOREVER
            actor.rest()
        super().reach(place)

    def may_sleep(self) -> bool:
        """Appends are slept at by the owner; who sleeps before its claim owns nothing yet."""
        assert self.sleeper is not None
        is_owner = self.sleeper.attempt > 0
        return not self.is_asleep and (is_owner or not self.place.startswith(WRITES))

    def on_call(self, operation: str, path: str):
        actor = self.current
        before = None if actor is None else actor.owner
        found = super().on_call(operation, path)
        if before is not None and before is self.sleeper and self.has_woken and operation == "delete":
            require(path not in self.ledger.storage.files, f"R4: the sleeper deletes {path}")
        return found

    def run_until(self, holds) -> None:
        for _ in range(60_000):
            if holds():
                return
            self._advance()
        raise AssertionError("it does not come so far")

    def play(self) -> None:
        with patched(self):
            try:
                self._play()
            finally:
                for process in self.processes:
                    self._end(process.actors)

    def _play(self) -> None:
        first = self._start(1)
        self.run_until(lambda: len(first.told) >= 2)
        self._crash(first, "crash")
        self.sleeper = self._start(2)
        self.run_until(lambda: self.is_asleep)
        owned = self.completed_by_sleeper()
        before = max(self.ledger.entries, default=0)
        self.wants_rows = False
        second = self._start(1)
        if self.place.startswith(LAST):
            self.run_until(lambda: second.has_finished)
        else:
            self.run_until(lambda: max(self.ledger.entries) >= before + MANY_ENTRIES)
            require(self.ledger.base > before, "the log was not shortened")
        committed = [len(sink.store.committed) for sink in self.job.sinks]
        self._wake(second, owned)
        require([len(sink.store.committed) for sink in self.job.sinks] == committed, "R4: the sleeper commits")
        self.wants_rows = True
        self.run_until(lambda: second.has_finished)
        self._check_end()

    def completed_by_sleeper(self) -> set[int]:
        assert self.sleeper is not None
        attempt = self.sleeper.attempt
        return {number for number, manifest in self.ledger.completed.items() if manifest.attempt == attempt}

    def expected(self) -> type[Exception]:
        return JobConflictError if self.place == "C1.before" else FencedError

    def _wake(self, second: Process, owned: set[int]) -> None:
        """Only the sleeper runs now."""
        assert self.sleeper is not None
        self.has_woken = True
        for actor in self.sleeper.actors:
            actor.paused_until = 0
        for actor in second.actors:
            actor.paused_until = FOREVER
        drivers = [actor for actor in self.sleeper.actors if not actor.role.startswith("writer")]
        self.run_until(lambda: all(actor.is_done for actor in drivers))
        errors = [actor.error for actor in drivers if actor.error is not None]
        assert errors and all(isinstance(error, self.expected()) for error in errors), errors
        assert "no longer owns the job" in str(errors[0]) or "was claimed at the same time" in str(errors[0])
        later = self.completed_by_sleeper() - owned
        assert not later, f"R4: the sleeper completes {later}"
        for actor in second.actors:
            actor.paused_until = 0


@pytest.mark.parametrize("place", ZOMBIE_PLACES)
def test_a_sleeper_wakes_up_after_two_hundred_entries_and_does_nothing(place: str) -> None:
    Zombie(place).play()
