"""One seed: several processes of one job on one storage, with faults, then without; checked at every step.

First the faults: crashes, power cuts, processes that sleep anywhere while others take over, storage and sinks that
fail, stay silent or answer late, a full disk, lost tasks, late, doubled and lost acks. Then they stop, everybody wakes
up, and one more process must make progress and come to the end of the input, with nothing lost and nothing twice.
"""

import hashlib
import random
from collections import Counter
from collections.abc import Callable

from penstock.checkpoint.log.log_reader import read_log
from penstock.checkpoint.savepoint_request import SavepointFormat, SavepointRequest, Then
from penstock.errors import (
    CheckpointFailedError,
    FencedError,
    JobConflictError,
    JobFailedError,
    SinkTransactionLostError,
    StateLostError,
    StorageError,
)
from penstock.failpoint import InjectedCrash
from penstock.storage.memory import Fault
from penstock.testing.clocks import START_MS
from tests.checkpoint.checker import Violation, require
from tests.sim.baton import Actor
from tests.sim.ledger import Ledger
from tests.sim.light_job import make_job
from tests.sim.outcome import Outcome
from tests.sim.patches import patched
from tests.sim.process import MAX_LOSSES, Process
from tests.sim.profile import Profile, make_profile
from tests.sim.savepoints import Shelf

MAX_PROCESSES = 3
MAX_ATTEMPTS = 9
MAX_CALM_STEPS = 20_000
EPOCHS_TO_PROGRESS = 40
EXPECTED = (CheckpointFailedError, FencedError, JobConflictError, JobFailedError, StateLostError, StorageError)
"""How an attempt may end under faults; recovery follows."""
PUT_FAULTS = (Fault.FAIL, Fault.LOST_BEFORE, Fault.LOST_AFTER, Fault.LATE)


class SkewedClock:
    """Two clocks that only move when told to; the wall clock may also jump, forwards and backwards."""

    def __init__(self) -> None:
        self._elapsed_ms = 0
        self.skew_ms = 0

    def now_ms(self) -> int:
        return START_MS + self._elapsed_ms + self.skew_ms

    def monotonic_s(self) -> float:
        return self._elapsed_ms / 1000

    def advance(self, milliseconds: int) -> None:
        """Let time pass."""
        self._elapsed_ms += milliseconds


class Simulation:
    """The run of one seed. Everything is drawn from the seed, in an order that only the seed decides."""

    def __init__(self, seed: int, tell: Callable[[str], None] | None = None, *, profile: Profile | None = None) -> None:
        self.seed = seed
        self._tell = tell
        self.random = random.Random(seed)
        self.profile = profile or make_profile(self.random, is_calm=seed % 4 == 0)
        self.job = make_job(self.random, self.random.randrange(6, 16))
        self.clock = SkewedClock()
        self.ledger = Ledger(self.on_call)
        self.shelf = Shelf(self.on_call)
        self.outcome = Outcome(self.profile.is_calm)
        self.processes: list[Process] = []
        self.current: Actor | None = None
        self.is_faulty = not self.profile.is_calm
        self.full_until = 0
        self._planned = {(planned.place, planned.hit): planned.action for planned in self.profile.planned}
        self._passed: Counter[str] = Counter()
        self._mail: list[tuple[int, Callable[[], None]]] = []
        self._trace = hashlib.blake2b(digest_size=8)
        self._wants_takeover = False
        self._write_trace(f"seed {seed}: {self.profile}, {self.job.records}")
        for sink in self.job.sinks:
            sink.store.called = self._sink_called

    def run(self) -> Outcome:
        """Raise Violation if anything does not hold."""
        with patched(self):
            try:
                self._stir()
                self._calm_down()
                self._check_end()
            finally:
                for process in self.processes:
                    self._end(process.actors)
        self.outcome.checkpoints = len(self.ledger.completed)
        if self.ledger.ghosts:
            self.outcome.faults["append below a higher number"] = self.ledger.ghosts
        self.outcome.trace = self._trace.hexdigest()
        self.outcome.marks |= {f"fault {name}" for name in self.outcome.faults} | self.profile.marks
        return self.outcome

    @property
    def steps(self) -> int:
        return self.outcome.steps

    # ---- the phases

    def _stir(self) -> None:
        """The phase with faults; for a calm seed the first process simply comes to its end."""
        limit = self.profile.steps if self.is_faulty else MAX_CALM_STEPS
        while self.steps < limit and not any(process.has_finished for process in self.processes):
            self._disturb()
            self._advance()
        if not self.is_faulty:
            wanted = 1 + self.outcome.faults["stopped"]
            require(self.outcome.attempts == wanted, f"I-9: {self.outcome.attempts} attempts without any fault")
            require(self.outcome.faults["aborted checkpoint"] == 0, "a checkpoint fails without any fault")

    def _calm_down(self) -> None:
        """I-9: no more faults. Everybody wakes up, and a new process comes to the end of the input."""
        self.is_faulty = False
        self.full_until = 0
        self._wake_all()
        older = [process for process in self.processes if not process.has_finished]
        last = self._start()
        for _ in range(MAX_CALM_STEPS):
            if last.has_finished:
                break
            if all(actor.is_done for actor in last.actors) or last.is_over:
                last = self._start()  # it has met the trail of another; those come to an end
                require(self.outcome.attempts < MAX_ATTEMPTS + 30, "I-9: attempts keep ending without any fault")
            self._advance()
            require(bool(last.told) or last.epochs <= EPOCHS_TO_PROGRESS, "I-9: no checkpoint completes")
        else:
            raise Violation("I-9: the job does not come to its end")
        while any(not actor.is_done for process in older for actor in process.actors[:2]):
            self._advance()  # PROTOCOL R4: whoever slept finds out that it owns nothing any more
            require(self.steps < 10 * MAX_CALM_STEPS, "R4: an old attempt does not end")
        while self.ledger.storage.in_flight:
            self.ledger.storage.land()

    def _check_end(self) -> None:
        """One more quiet attempt finds nothing to do, and nothing is left over."""
        for process in self.processes:
            self._end(process.actors)
        truth = self.job.truth(len(self.job.records), ended=True)
        rows = [list(sink.rows) for sink in self.job.sinks]
        wrong = list(self.job.wrong_output(truth))
        require(not wrong, f"I-5: at the end: {'; '.join(wrong)}")
        quiet = self._start(1)
        while not all(actor.is_done for actor in quiet.actors):
            self._advance()
        require(quiet.has_finished, "I-9: a job that has ended cannot be ended again")
        require([list(sink.rows) for sink in self.job.sinks] == rows, "a restart after the end changes the output")
        require(not self.ledger.orphans(), f"I-4: files that nothing needs: {self.ledger.orphans()}")
        retained = len(self.ledger.retained)
        require(retained <= self.profile.settings.retained, f"{retained} checkpoints are retained")
        left = [transaction.name for sink in self.job.sinks for transaction in sink.store.unsettled]
        require(not left, f"I-4: sink transactions are left behind: {left}")
        require(read_log(self.ledger.storage).is_terminal, "the log does not say that the job has ended")

    # ---- what happens next

    def _disturb(self) -> None:
        """Start, crash or put to sleep; let a late write land, time jump, the disk fill up."""
        alive = [process for process in self.processes if any(not actor.is_done for actor in process.actors[:2])]
        owners = [process for process in alive if not process.is_over]
        takes_over = self._wants_takeover or self._chance(self.profile.takeover)
        self._wants_takeover = False
        if not owners or (len(alive) < MAX_PROCESSES and takes_over):
            if self.outcome.attempts >= MAX_ATTEMPTS:
                self.outcome.steps = max(self.steps, self.profile.steps)
                return
            self._start()
        if not self.is_faulty:
            return
        if alive and self._chance(self.profile.crash):
            chosen = self.random.choice(alive)
            self._crash(chosen, self.random.choice(("crash", "crash driver", "crash TaskManager", "power cut")))
        if alive and self._chance(self.profile.sleep):
            chosen = self.random.choice(alive)
            actors = self.random.choice((chosen.actors, chosen.actors[:1], chosen.actors[1:2], chosen.actors[:2]))
            self._put_to_sleep(actors, self.random.choice((30, 200, 800)))
        if self.ledger.storage.in_flight and self.random.random() < 0.03:
            self.ledger.storage.land(self.random.randrange(len(self.ledger.storage.in_flight)))
        if self._chance(self.profile.time_jump):
            self._note("time jump")
            if self.random.random() < 0.5:
                self.clock.advance(70_000)
            else:
                self.clock.skew_ms = self.random.choice((-3_600_000, 0, 3_600_000))
        if self._chance(self.profile.full_disk):
            self._note("full disk")
            self.full_until = self.steps + self.random.choice((20, 100, 300))
        if alive and self._chance(self.profile.silence):
            self._note("silence")
            self.random.choice(alive).is_deaf_until = self.steps + self.random.choice((50, 200))

    def _advance(self) -> None:
        """Deliver what is due, and let one actor go on."""
        self.outcome.steps += 1
        if self._mail:
            due = [letter for at, letter in self._mail if at <= self.steps]
            self._mail = [(at, letter) for at, letter in self._mail if at > self.steps]
            for letter in due:
                letter()
        ready = [
            actor
            for process in self.processes
            for actor in process.actors
            if not actor.is_done and actor.paused_until <= self.steps and (actor.waits_for is None or actor.waits_for())
        ]
        if not ready:
            self.clock.advance(20)
            return
        actor = ready[0] if len(ready) == 1 else ready[int(self.random.random() * len(ready))]
        self._let(actor)
        if actor.is_done:
            self._ended(actor)

    def _let(self, actor: Actor) -> None:
        self.current = actor
        actor.advance()
        self.current = None

    def _ended(self, actor: Actor) -> None:
        """What an actor ended with; what is not expected fails the seed (I11)."""
        error, process = actor.error, self._process_of(actor)
        self._write_trace(f"{actor} ends: {type(error).__name__}")
        if error is None and actor.role == "epochs":
            process.is_over = True
        elif isinstance(error, InjectedCrash):
            self._crash(process, str(error))
        elif isinstance(error, EXPECTED):
            process.is_over = True
            self._note("fenced" if isinstance(error, FencedError) else f"ended by {type(error).__name__}")
            owns = process.attempt == self.ledger.owner
            require(not (owns and isinstance(error, FencedError)), f"R4: the owner of the job is fenced: {error}")
        elif isinstance(error, SinkTransactionLostError):
            raise Violation(f"I-5: output is lost: {error}") from error
        elif error is not None:
            raise error

    def _start(self, parallelism: int | None = None) -> Process:
        self.outcome.attempts += 1
        chosen = parallelism or self.random.choice((1, 1, 2, 3))
        self._write_trace(f"p{self.outcome.attempts} starts with parallelism {chosen}")
        process = Process(self, self.outcome.attempts, chosen)
        self.processes = [old for old in self.processes if not all(actor.is_done for actor in old.actors)]
        self.processes.append(process)
        return process

    def _crash(self, process: Process, how: str) -> None:
        """End a process, its driver or its TaskManager alone, or cut the power of all."""
        self._note(how)
        self._write_trace(f"{process.name} {how}")
        if how == "crash TaskManager":
            process.has_lost_state = True  # the driver hears of it with the next task
            self._end(process.actors[2:])
            return
        process.is_over = how != "crash driver"
        if how == "power cut":
            for other in self.processes:
                self._end(other.actors)
            self.ledger.storage.in_flight.clear()
            self.ledger.power_cut(lambda path: self.random.random() < 0.3)
        else:
            self._end(process.actors[:2] if how == "crash driver" else process.actors)

    def _end(self, actors: list[Actor]) -> None:
        """The threads leave where they are; they touch nothing on their way."""
        for actor in actors:
            actor.is_doomed = True
            while not actor.is_done:
                self._let(actor)
            if isinstance(actor.error, Violation):
                raise actor.error

    def _put_to_sleep(self, actors: list[Actor], steps: int) -> None:
        self._note("sleep")
        for actor in actors:
            actor.paused_until = self.steps + steps

    def _wake_all(self) -> None:
        for process in self.processes:
            process.is_deaf_until = 0
            for actor in process.actors:
                actor.paused_until = 0

    def _process_of(self, actor: Actor) -> Process:
        assert isinstance(actor.owner, Process)
        return actor.owner

    def _chance(self, probability: float) -> bool:
        return self.is_faulty and probability > 0 and self.random.random() < probability

    def _note(self, fault: str) -> None:
        self.outcome.faults[fault] += 1

    def _write_trace(self, line: str) -> None:
        self._trace.update(line.encode())
        if self._tell is not None:
            self._tell(line)

    # ---- where actors come by

    def on_call(self, operation: str, path: str) -> Fault | None:
        """Before each storage operation: others may go on, and the operation may go wrong."""
        actor = self.current
        if actor is None or actor.is_doomed:
            return None
        self._write_trace(f"{actor} {operation} {path}")
        if operation == "put_new" and path.startswith("log/") and self._chance(self.profile.append_sleep):
            self._put_to_sleep([actor], 800)
            self._wants_takeover = True
            actor.rest()
        self._may_rest(actor, self.profile.stay)
        if not self.is_faulty:
            return None
        fault = self._fault_of(operation, self._process_of(actor))
        if fault is not None:
            self._note(f"{operation} {fault.name}")
            self._write_trace(fault.name)
        return fault

    def _fault_of(self, operation: str, process: Process) -> Fault | None:
        if operation == "put_new":
            if process.is_deaf_until > self.steps:
                return self.random.choice((Fault.LOST_BEFORE, Fault.LATE))
            if self.full_until > self.steps:
                return Fault.FAIL
            return self.random.choice(PUT_FAULTS) if self._chance(self.profile.storage_fault) else None
        if not self._chance(self.profile.storage_fault / 3):
            return None
        if operation == "delete":
            return self.random.choice((Fault.FAIL, Fault.LOST_BEFORE, Fault.LOST_AFTER))
        if operation == "list" and self.random.random() < 0.5 and self.current is not None:  # slow, but whole
            self._put_to_sleep([self.current], 100)
            self.current.rest()
            return None
        return Fault.FAIL

    def reach(self, place: str) -> None:
        """A crash point is passed."""
        actor = self.current
        if actor is None:
            return
        if actor.is_doomed:
            raise InjectedCrash("crash")
        self._passed[place] += 1
        if place == "C5.after" or place == "C4.after":
            self.clock.advance(1)
        action = self._planned.get((place, self._passed[place])) if self.is_faulty else None
        if action is not None:
            self.outcome.hits[place] += 1
            self.outcome.marks.add(f"{place} {action} {actor.role}")
            self._write_trace(f"{actor} {place} {action}")
            if action != "sleep":
                raise InjectedCrash(action)
            self._put_to_sleep(self._process_of(actor).actors[:2], self.random.choice((200, 800)))
            actor.rest()
        elif self.random.random() > self.profile.stay:
            self._may_rest(actor, 0.9)

    def _may_rest(self, actor: Actor, stay: float) -> None:
        if self.random.random() >= stay:
            actor.rest()

    def _sink_called(self, when: str, transaction: str) -> None:
        """Before and after each commit."""
        self.ledger.commit(transaction)
        if self.current is not None:
            self._may_rest(self.current, self.profile.stay)
        if self._chance(self.profile.sink_fault):
            self._note(f"sink fails {when} the commit")
            raise OSError(f"the sink does not answer {when} the commit")

    def idle(self, actor: Actor, until: Callable[[], bool], at_most: int = 40) -> None:
        """Nothing to do before something holds, or that many steps have passed."""
        last = self.steps + at_most
        actor.waits_for = lambda: self.steps >= last or until()
        actor.rest()
        actor.waits_for = None

    def wait(self, seconds: float) -> None:
        """The pause before a write is tried again."""
        self.clock.advance(int(seconds * 1000))
        self.rest()

    def rest(self) -> None:
        """Whoever waits for a lock lets others go on."""
        assert self.current is not None, "the schedule itself waits for a lock"
        self.current.rest()

    def pass_time(self) -> None:
        """An epoch takes its time."""
        self.clock.advance(self.random.choice((10, 30, 60)))

    def row_count(self) -> int:
        """How many rows the next epoch reads."""
        return self.random.choice((0, 1, 1, 2, 3))

    def requested_savepoint(self) -> SavepointRequest | None:
        """A savepoint that is requested now; None: none is."""
        if self.random.random() >= self.profile.savepoint:
            return None
        kind: SavepointFormat = self.random.choice(("canonical", "canonical", "native"))
        then: Then = self.random.choice(("go_on", "go_on", "stop"))
        return SavepointRequest("/savepoints", kind, then)

    def is_forced(self) -> bool:
        """Somebody asks for a checkpoint."""
        return self.random.random() < 0.03

    def spool_after_ms(self) -> int | None:
        """When an epoch lets its rows wait for the next one."""
        return self.random.choice((None, 0, 1, 2)) if self.profile.unaligned else None

    def lost_after(self, tries: int) -> int | None:
        """After how many batches and barriers a task is lost; None: not at all."""
        if tries >= MAX_LOSSES or not self._chance(self.profile.lost_task):
            return None
        return self.random.randrange(4)

    def send(self, letter: Callable[[], None]) -> None:
        """A message to the driver: at once or later, behind others or before them, twice, or never."""
        copies = 1 + self._chance(self.profile.doubled_ack) - self._chance(self.profile.lost_ack)
        for _ in range(copies):
            late = self.random.random() < self.profile.late_ack
            self._mail.append((self.steps + (self.random.choice((3, 20, 150)) if late else 0), letter))
