"""What came of one seed, and of many."""

from collections import Counter
from dataclasses import dataclass, field

from tests.sim.profile import PLACES


@dataclass
class Outcome:
    """What a run went through."""

    is_calm: bool = False
    """No fault was to happen."""
    steps: int = 0
    attempts: int = 0
    checkpoints: int = 0
    savepoints: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    hits: Counter[str] = field(default_factory=Counter)
    """Crash points at which something happened."""
    marks: set[str] = field(default_factory=set)
    """What kinds of things happened: crash points with what was done there and to whom, faults, settings."""
    trace: str = ""
    """A hash of everything that happened, in its order."""


@dataclass
class Summary:
    """What came of some seeds."""

    seeds: int = 0
    calm: int = 0
    attempts: int = 0
    checkpoints: int = 0
    savepoints: int = 0
    steps: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    hits: Counter[str] = field(default_factory=Counter)
    failures: dict[int, str] = field(default_factory=dict)
    """Seed -> what went wrong."""

    def add(self, outcome: Outcome) -> None:
        """One more seed."""
        self.seeds += 1
        self.calm += outcome.is_calm
        self.attempts += outcome.attempts
        self.checkpoints += outcome.checkpoints
        self.savepoints += outcome.savepoints
        self.steps += outcome.steps
        self.faults.update(outcome.faults)
        self.hits.update(outcome.hits)

    def merge(self, other: "Summary") -> None:
        """The seeds of another process."""
        self.seeds += other.seeds
        self.calm += other.calm
        self.attempts += other.attempts
        self.checkpoints += other.checkpoints
        self.savepoints += other.savepoints
        self.steps += other.steps
        self.faults.update(other.faults)
        self.hits.update(other.hits)
        self.failures |= other.failures

    @property
    def missed(self) -> list[str]:
        """Crash points that no seed has hit."""
        return [place for place in PLACES if not self.hits[place]]

    def __str__(self) -> str:
        faults = ", ".join(f"{count} {name}" for name, count in sorted(self.faults.items(), key=lambda item: -item[1]))
        hit = f"{len(PLACES) - len(self.missed)} of {len(PLACES)} crash points"
        return (
            f"faults: {faults or 'none'}\n"
            f"{self.seeds} seeds, {self.calm} without faults, {self.attempts} attempts, "
            f"{self.checkpoints} checkpoints, {self.savepoints} savepoints, {self.steps} steps, "
            f"{self.hits.total()} planned crashes at {hit}, {len(self.failures)} failed"
        )
