"""What may go wrong in the run of a seed, and how the job is set up: drawn once, then fixed."""

import random
from dataclasses import dataclass

from penstock import failpoint
from penstock.checkpoint.checkpoint_settings import CheckpointSettings
from penstock.runtime.snapshots import snapshot_chain, snapshot_writer

PLACES = tuple(f"{name}.{side}" for name in failpoint.NAMES for side in ("before", "after"))
OFTEN = {
    "C3": 40,
    "C4": 20,
    "C5": 10,
    "C6": 30,
    "C7": 10,
    "C9": 30,
    "C10": 30,
    "C11": 30,
    "C12": 12,
    "C25": 4,
    "C27": 6,
}
OFTEN |= {"C1": 3, "C2": 3, "C8": 10, "C13": 40, "C14": 40, "C15": 40, "C16": 10, "C31": 20, "C20": 8, "C23": 10}
"""How often a point is passed in one run, about; the others a few times."""
ACTIONS = ("crash", "crash", "crash driver", "power cut", "sleep")


@dataclass(frozen=True)
class Planned:
    """At the `hit`-th passage of a crash point, by whichever process."""

    place: str
    hit: int
    action: str


@dataclass(frozen=True)
class Profile:
    """The faults of a run, as chances per step or call; and the settings of the job."""

    is_calm: bool
    settings: CheckpointSettings
    base_every: int
    inline_limit_bytes: int
    max_deltas: int
    writers: int
    """State writers of one TaskManager."""
    stay: float
    """The chance that an actor goes on where it could rest."""
    unaligned: bool
    savepoint: float
    """Per epoch: somebody asks for a savepoint."""
    planned: tuple[Planned, ...]
    steps: int
    """Length of the phase with faults."""
    crash: float
    sleep: float
    append_sleep: float
    """Per append: a sleep just before it, long enough for others to free its number again, and somebody takes over."""
    takeover: float
    storage_fault: float
    """Per operation that may change something; a third of it for the others."""
    full_disk: float
    silence: float
    """No reply to any write of a process, for a while."""
    lost_task: float
    lost_ack: float
    late_ack: float
    doubled_ack: float
    sink_fault: float
    time_jump: float

    @property
    def marks(self) -> set[str]:
        """The kinds of runs that one with this profile belongs to."""
        settings = ("max_concurrent", "retained", "tolerable_failures", "timeout_ms", "min_pause_ms")
        marks = {f"{name} {getattr(self.settings, name)}" for name in settings}
        marks |= {f"{name} {getattr(self, name)}" for name in ("base_every", "max_deltas", "writers", "unaligned")}
        return marks | ({"savepoints"} if self.savepoint else set()) | ({"calm"} if self.is_calm else set())


def make_profile(chance: random.Random, *, is_calm: bool) -> Profile:
    """A profile; a calm one has no faults, but still delays, reordering and several actors."""
    strength = 0.0 if is_calm else chance.choice((0.3, 1.0, 2.0))

    def some(probability: float, *, often: float = 0.5) -> float:
        """Most faults are absent from most runs, so that the others get deeper."""
        return probability * strength if chance.random() < often else 0.0

    planned = tuple(_planned(chance) for _ in range(0 if is_calm else chance.choice((0, 1, 1, 2, 4))))
    return Profile(
        is_calm=is_calm,
        settings=_settings(chance, is_calm=is_calm),
        base_every=chance.choice((4, 8, 20, 100)),
        inline_limit_bytes=chance.choice((0, 0, 0, snapshot_writer.INLINE_LIMIT_BYTES)),
        max_deltas=chance.choice((1, 3, snapshot_chain.MAX_DELTAS)),
        writers=chance.choice((1, 1, 2)),
        stay=chance.choice((0.5, 0.8, 0.95)),
        unaligned=chance.random() < 0.3,
        savepoint=chance.choice((0.0, 0.0, 0.0, 0.1, 0.3)),
        planned=planned,
        steps=chance.choice((300, 600, 1200)),
        crash=some(0.0015),
        sleep=some(0.003),
        append_sleep=some(0.05),
        takeover=some(0.002),
        storage_fault=some(0.03),
        full_disk=some(0.0015, often=0.3),
        silence=some(0.001, often=0.3),
        lost_task=chance.choice((0.0, 0.1, 0.3)) if not is_calm else 0.0,
        lost_ack=some(0.03, often=0.3),
        late_ack=chance.choice((0.0, 0.3, 0.8)),
        doubled_ack=some(0.1),
        sink_fault=some(0.05),
        time_jump=some(0.002, often=0.3),
    )


def _planned(chance: random.Random) -> Planned:
    place = chance.choice(PLACES)
    return Planned(place, chance.randrange(1, OFTEN.get(place.partition(".")[0], 3) + 1), chance.choice(ACTIONS))


def _settings(chance: random.Random, *, is_calm: bool) -> CheckpointSettings:
    return CheckpointSettings(
        interval_ms=chance.choice((20, 50, 100)),
        timeout_ms=600_000 if is_calm else chance.choice((3_000, 60_000)),
        min_pause_ms=chance.choice((0, 0, 100)),
        max_concurrent=chance.choice((1, 1, 2, 3)),
        retained=chance.choice((1, 1, 2, 3)),
        tolerable_failures=1_000_000 if is_calm else chance.choice((0, 2, 1_000_000)),
        commit_timeout_ms=600_000 if is_calm else chance.choice((2_000, 600_000)),
    )
