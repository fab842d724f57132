"""Random schedules: several drivers on one storage, with pauses, crashes, lost replies and late writes, from one seed.

Each driver has two actors, as in a real JobManager: one runs epochs and writes state, one completes checkpoints.
After the faults a last driver must make progress, and everything must be exact.
"""

from dataclasses import dataclass, field, replace
from random import Random

from penstock import failpoint
from penstock.checkpoint.failures import FailureReason
from penstock.errors import PenstockError
from penstock.failpoint import Failpoint, InjectedCrash
from penstock.storage import Fault
from tests.checkpoint.actors import Actor
from tests.checkpoint.checker import Checker, Sinks, Violation, require
from tests.checkpoint.driver import SETTINGS, Driver, World

MAX_DRIVERS = 3
PLACES = tuple(
    f"{name}.{side}"
    for name in ("C1", "C13", "C14", "C15", "C17", "C18", "C19", "C20", "C21", "C22", "C23", "C31")
    for side in ("before", "after")
)


@dataclass
class Process:
    """A driver and its two threads."""

    driver: Driver
    actors: list[Actor] = field(default_factory=list)
    silent_until: int = 0
    """Until then no reply to its writes arrives."""

    @property
    def is_over(self) -> bool:
        return all(actor.is_done for actor in self.actors)


class Simulation:
    """One run of one seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.steps = self.random.choice((100, 300, 300, 800))
        self.intensity = self.random.choice((0.3, 1, 2))
        self.now = 0
        self.is_faulty = True
        self.wants_takeover = False
        self.processes: list[Process] = []
        self.checker = Checker(self.on_call)
        self.world = World(self.checker, Sinks(self.checker, lambda: self.chance(0.05)), Random(seed + 1))
        retained = self.random.choice((1, 1, 2, 3))
        concurrent = self.random.choice((1, 2))
        self.settings = replace(SETTINGS, interval_ms=50, retained=retained, max_concurrent=concurrent)
        self.crashes = 0

    def run(self) -> None:
        """Raise Violation if anything does not hold."""
        try:
            while self.now < self.steps:
                self.disturb()
                self.advance()
            self.end_well()
        finally:
            failpoint.disarm()
            for process in self.processes:
                self.crash(process)

    # ---- the schedule

    def chance(self, probability: float) -> bool:
        return self.is_faulty and self.random.random() < probability * self.intensity

    def disturb(self) -> None:
        """Start, pause, crash, or let a late write land."""
        self.processes = [process for process in self.processes if not process.is_over]
        takes_over = self.wants_takeover or self.chance(0.004)
        self.wants_takeover = False
        if not self.processes or (len(self.processes) < MAX_DRIVERS and takes_over):
            self.start_process()
        if self.chance(0.006):
            self.crash(self.random.choice(self.processes))
        if self.chance(0.01):
            process = self.random.choice(self.processes)
            until = self.now + self.random.choice((20, 100, 400))
            for actor in self.random.choice((process.actors, process.actors[:1], process.actors[1:])):
                actor.paused_until = until
        if self.chance(0.004):
            failpoint.disarm()
            failpoint.arm(Failpoint(self.random.choice(PLACES), "raise", hit=self.random.randint(1, 4)))
        if self.checker.storage.in_flight and self.random.random() < 0.03:
            self.checker.storage.land(self.random.randrange(len(self.checker.storage.in_flight)))
        if self.random.random() < 0.1:
            self.world.clock.advance(self.random.choice((10, 100, 1500)))
        if self.chance(0.0005):
            self.world.clock.advance(70_000)

    def advance(self) -> None:
        self.now += 1
        ready = [
            (process, actor)
            for process in self.processes
            for actor in process.actors
            if not actor.is_done and actor.paused_until <= self.now
        ]
        if not ready:
            return
        process, actor = self.random.choice(ready)
        actor.advance()
        if actor.is_done:
            self.ended(process, actor)

    def ended(self, process: Process, actor: Actor) -> None:
        """What one thread died of ends the process; what is not expected fails the test."""
        error = actor.error
        if isinstance(error, InjectedCrash) and self.chance(0.3):
            self.power_cut()
        elif error is not None and not isinstance(error, PenstockError | InjectedCrash):
            raise error
        elif error is not None:
            self.crash(process)

    def start_process(self) -> None:
        process = Process(Driver(self.world, self.settings))
        process.actors.append(Actor(lambda: self.run_epochs(process)))
        self.processes.append(process)

    def crash(self, process: Process) -> None:
        self.crashes += 1
        for actor in process.actors:
            actor.is_doomed = True
            while not actor.is_done:
                actor.advance()
            if isinstance(actor.error, Violation):
                raise actor.error

    def power_cut(self) -> None:
        """Everything on the machine ends at once, and what was not fsynced is gone."""
        for process in self.processes:
            self.crash(process)
        self.checker.power_cut()

    def on_call(self, operation: str, path: str) -> Fault | None:
        """Called by the storage before each operation: the place where others may go on, and where faults come from."""
        found = [(process, actor) for process in self.processes for actor in process.actors if actor.is_current]
        if not found:
            return None
        process, actor = found[0]
        if operation == "put_new" and path.startswith("log/"):
            if self.chance(0.06):  # long enough for others to free the number again
                actor.paused_until = self.now + 600
                self.wants_takeover = True
            if self.chance(0.01):
                process.silent_until = self.now + 200
        actor.step()
        if operation == "put_new" and process.silent_until > self.now and self.is_faulty:
            return self.random.choice((Fault.LOST_BEFORE, Fault.LATE))
        if operation == "put_new" and self.chance(0.06):
            return self.random.choice((Fault.LOST_BEFORE, Fault.LOST_AFTER, Fault.LATE, Fault.FAIL))
        if operation in ("list", "read", "delete", "size") and self.chance(0.003):
            return Fault.FAIL
        return None

    # ---- what the threads of a process do

    def run_epochs(self, process: Process) -> None:
        driver = process.driver
        driver.begin()
        process.actors.append(Actor(lambda: self.run_completions(process)))
        actor = process.actors[0]
        while True:
            actor.step()
            if driver.queue and self.random.random() < 0.5:
                driver.write_one()
            else:
                driver.run_epoch(self.random.choice((0, 1, 2, 3)), forced=self.random.random() < 0.02)
            if self.random.random() < 0.01:
                driver.coordinator.request(full=self.random.random() < 0.5)
            if self.chance(0.005):
                driver.coordinator.abort_all(FailureReason.SHUTDOWN)

    def run_completions(self, process: Process) -> None:
        actor = process.actors[1]
        while True:
            actor.step()
            told = process.driver.coordinator.complete_ready()
            for number in told:
                require(number in self.checker.completed, "I-10")

    # ---- the end

    def end_well(self) -> None:
        """Without faults, while old attempts still wake up, one driver makes progress and everything is exact."""
        self.is_faulty = False
        failpoint.disarm()
        for process in self.processes:
            for actor in process.actors:
                actor.paused_until = 0
        self.start_process()
        last = self.processes[-1]
        for _ in range(20_000):
            self.world.clock.advance(20)
            self.advance()
            if last.is_over:
                self.start_process()
                last = self.processes[-1]
            if len(last.driver.told) >= 3:
                break
        else:
            raise Violation("I-9: no progress after the faults")
        for process in self.processes:
            self.crash(process)
        while self.checker.storage.in_flight:
            self.checker.storage.land()
        self.check_exactness()

    def check_exactness(self) -> None:
        driver = Driver(self.world, self.settings)
        driver.begin()
        self.world.sinks.require_rows(driver.position)
        for _ in range(2):
            driver.checkpoint()
        self.world.sinks.require_rows(driver.position)
        require(self.checker.orphans() == [], f"I-4: {self.checker.orphans()}")
        require(len(self.checker.retained) <= self.settings.retained, "more checkpoints than asked for are retained")
