"""H9: two to five writers of one log that pause anywhere, on both kinds of storage: one chain, and nobody is lied to.

Every storage operation is a place where a writer may sleep while others claim, append and shorten the log.
"""

import os
from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest

from penstock.checkpoint.log import job_log as log_module
from penstock.checkpoint.log.entries import Entry, Resumed, Stopping
from penstock.checkpoint.log.job_log import JobLog
from penstock.checkpoint.log.log_reader import read_log
from penstock.errors import FencedError, JobConflictError, StorageError
from penstock.storage import Fault, LocalStorage, Storage
from penstock.testing.clocks import ManualClock
from tests.checkpoint.logs import claim_of
from tests.sim.baton import Actor, BatonLock
from tests.sim.ledger import Ledger

SEEDS = int(os.environ.get("PENSTOCK_FENCING_SEEDS", "300"))
LOCAL_SEEDS = 15
STEPS = 400


class Stepping:
    """A storage whose every operation is a step of its writer."""

    def __init__(self, inner: Storage, step: Callable[[], None]) -> None:
        self._inner = inner
        self._step = step

    def __getattr__(self, name: str):
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def stepping(*arguments):
            self._step()
            return found(*arguments)

        return stepping


class Race:
    """Writers of one log, interleaved by a seed."""

    def __init__(self, seed: int) -> None:
        self.name = f"race {seed}"
        self.random = Random(seed)
        self.current: Actor | None = None
        self.now = 0
        self.believed: dict[int, str] = {}
        """Number -> id of the entries that some writer was told are there."""
        self.fenced = 0
        self.fault_rate = self.random.choice((0.0, 0.02, 0.1))
        self._ids = count(1)

    def on_call(self, operation: str, path: str) -> Fault | None:
        """For a storage with a script: lost replies and late writes too."""
        self.step()
        if self.current is None or self.random.random() >= self.fault_rate:
            return None
        if operation == "put_new":
            return self.random.choice((Fault.FAIL, Fault.LOST_BEFORE, Fault.LOST_AFTER, Fault.LATE))
        return Fault.FAIL if operation in ("list", "read") else None

    def step(self) -> None:
        actor = self.current
        if actor is not None and self.random.random() < 0.5:
            if self.random.random() < 0.05:
                actor.paused_until = self.now + self.random.choice((20, 200))
            actor.rest()

    def write(self, storage: Storage) -> None:
        """One writer: it claims, appends until it is fenced, and claims again."""
        for _ in range(3):
            last = ""

            def new_id() -> str:
                nonlocal last
                last = f"id-{next(self._ids)}"
                return last

            try:
                log = JobLog.open(storage, ManualClock(), wait=lambda _: self.step(), new_id=new_id)
                log.claim(claim_of(log.view().attempt + 1))
                self.believe(log.view().number, last)
                for number in range(self.random.randrange(1, 12)):
                    entry: Entry = Stopping(number) if number % 2 else Resumed()
                    self.believe(log.append(entry), last)
                    log.shorten_if_due()
            except (FencedError, JobConflictError):
                self.fenced += 1
            except StorageError:
                continue

    def believe(self, number: int, entry_id: str) -> None:
        assert number not in self.believed, f"two writers believe that entry {number} is theirs"
        self.believed[number] = entry_id

    def run(self, storage: Storage) -> None:
        actors = [Actor(self, str(n), lambda actor: self.write(storage)) for n in range(self.random.randrange(2, 6))]
        while alive := [actor for actor in actors if not actor.is_done]:
            self.now += 1
            ready = [actor for actor in alive if actor.paused_until <= self.now]
            if ready:
                self.current = self.random.choice(ready)
                self.current.advance()
                error, self.current = self.current.error, None
                if error is not None:
                    raise error
            assert self.now < 100_000, "the writers do not come to an end"


@pytest.fixture(autouse=True)
def short_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "BASE_EVERY", 4)


def with_baton_locks(monkeypatch: pytest.MonkeyPatch, race: Race) -> None:
    monkeypatch.setattr(log_module, "threading", SimpleNamespace(Lock=lambda: BatonLock(race.step)))


def test_h9_writers_on_a_storage_that_loses_replies_make_one_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    fenced = ghosts = 0
    for seed in range(SEEDS):
        race = Race(seed)
        with_baton_locks(monkeypatch, race)
        ledger = Ledger(race.on_call)  # I-2: whose entry counts, in the order in which they land
        try:
            race.run(ledger.storage)
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error
        wrong = {number for number, entry_id in race.believed.items() if ledger.entries.get(number) != entry_id}
        assert not wrong, f"seed {seed}: writers believe in entries {wrong}, which do not count"
        while ledger.storage.in_flight:
            ledger.storage.land()
        assert read_log(ledger.storage).number == max(ledger.entries), f"seed {seed}"
        fenced += race.fenced
        ghosts += ledger.ghosts
    assert fenced > SEEDS and ghosts > SEEDS // 20  # they did get into each other's way


def test_h9_writers_on_a_local_disk_make_one_chain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fenced = 0
    for seed in range(LOCAL_SEEDS):
        race = Race(seed)
        with_baton_locks(monkeypatch, race)
        storage = LocalStorage(tmp_path / str(seed))
        race.run(Stepping(storage, race.step))
        view = read_log(storage)
        assert view.number >= max(race.believed), f"seed {seed}"
        fenced += race.fenced
    assert fenced > LOCAL_SEEDS
