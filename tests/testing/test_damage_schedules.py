"""Random crashes, damage, local copies and other parallelism in one job: state is always exact, output never lost."""

import random
from pathlib import Path
from typing import Any

import pytest

from penstock import failpoint
from penstock.checkpoint.log.log_reader import read_log
from penstock.checkpoint.snapshot.manifest import file_paths, load_manifest
from penstock.errors import CheckpointError
from penstock.failpoint import Failpoint, InjectedCrash
from penstock.model.snapshot import InlineLimits
from penstock.model.types import Types
from penstock.runtime.snapshots.local_copies import LocalBackup
from penstock.storage.memory import MemoryStorage
from penstock.testing import CHECKPOINT, Harness
from penstock.testing.memory_sink import MemorySink
from tests.testing.damage import BACKENDS, DAMAGES, EVENTS, Everything, check_exact, damage

PLACES = ("C12", "C17", "C18", "C19", "C20", "C21", "C22", "C23", "C24", "C25", "C26")


class Lost(Exception):
    """Every process is gone."""


class Schedule:
    """One job under one seed."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.random = random.Random(seed)
        self.storage = MemoryStorage()
        self.sink = MemorySink()
        self.items: list[Any] = []
        for event in EVENTS:
            self.items += [event] + [CHECKPOINT] * (self.random.random() < 0.25)
        self.backend = BACKENDS[self.random.choice(["hashmap", "hashmap", "rocksdb files"])]
        is_local = self.random.random() < 0.5
        self.local = LocalBackup(is_local, is_local, (str(folder),))
        self.said: list[str] = []
        self.may_repeat = False
        self.refusals = 0
        self.damages = 0
        self.repairs: dict[str, bytes] = {}

    def run(self) -> Harness:
        for _ in range(self.random.randrange(3, 8)):
            self.live()
            self.strike()
        failpoint.disarm()
        return self.begin(allow_fallback=True).feed(self.items).finish()

    def begin(self, *, allow_fallback: bool) -> Harness:
        said_before = len(self.said)
        harness = Harness.keyed(
            Everything(),
            key=lambda event: event[0],
            key_type=Types.STRING(),
            parallelism=self.random.choice([1, 2, 2, 3]),
            max_parallelism=16,
            backend=self.backend,
            storage=self.storage,
            sink=self.sink,
            limits=InlineLimits(inline_bytes=0),
            local=self.local,
            retained=3,
            allow_fallback=allow_fallback,
            warn=self.said.append,
            crashed=self.lose,
        )
        # Without permission it goes back only behind checkpoints of which nothing is visible.
        self.may_repeat = self.may_repeat or (allow_fallback and len(self.said) > said_before)
        return harness

    def lose(self) -> None:
        raise Lost

    def live(self) -> None:
        """Start the job and let it run until it is lost somewhere, or has read some of its input."""
        place = f"{self.random.choice(PLACES)}.{self.random.choice(['before', 'after'])}"
        failpoint.arm(Failpoint(place, "raise", hit=self.random.randrange(1, 12)))
        try:
            harness = self.begin(allow_fallback=False)
            harness.feed(self.items[: self.random.randrange(len(self.items))])
        except (Lost, InjectedCrash):
            pass
        except CheckpointError as refusal:
            assert "allow-fallback" in str(refusal) or "no older one" in str(refusal) or "all are" in str(refusal)
            self.refusals += 1
            self.repair()
        failpoint.disarm()

    def strike(self) -> None:
        """Damage a file of the newest checkpoint."""
        self.repairs = {}
        view = read_log(self.storage)
        if not view.lineage or self.random.random() < 0.4:
            return
        manifest = load_manifest(self.storage, view.lineage[-1])
        path = self.random.choice([view.lineage[-1].metadata_path, *sorted(file_paths(manifest))])
        self.repairs[path] = self.storage.files[path]
        damage(self.storage, path, self.random.choice(list(DAMAGES)))
        self.damages += 1

    def repair(self) -> None:
        """Bring the file back, as the refusal says; or what cannot be brought back is the end of the line."""
        self.storage.files.update(self.repairs)


@pytest.mark.parametrize("first", range(0, 30, 15))
def test_r24_no_schedule_of_crashes_and_damage_loses_or_doubles_an_event(tmp_path: Path, first: int) -> None:
    refusals = fallbacks = 0
    for seed in range(first, first + 15):
        schedule = Schedule(seed, tmp_path / str(seed))
        try:
            harness = schedule.run()
        except CheckpointError as refusal:
            assert schedule.damages and ("all are damaged" in str(refusal) or "no older one" in str(refusal)), seed
            continue
        check_exact(harness)
        numbers = sorted(number for _, number, _ in schedule.sink.rows)
        assert set(numbers) == set(range(len(EVENTS))), f"seed {seed}: lost"
        if not schedule.may_repeat:
            assert numbers == list(range(len(EVENTS))), f"seed {seed}: doubled"
        assert schedule.sink.store.unsettled == [], f"seed {seed}"
        refusals += schedule.refusals
        fallbacks += len(schedule.said)
    assert refusals and fallbacks
