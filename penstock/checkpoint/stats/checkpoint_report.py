"""Statistics of all checkpoints of a job: counts, the latest of each kind, and figures for percentiles."""

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from penstock.checkpoint.stats.checkpoint_history import CheckpointStats

FIGURES_LENGTH = 1000
"""How many completed checkpoints the percentiles cover."""
COUNTED_LENGTH = 1000
"""How many counted checkpoints are known by their numbers: far more than any history that is noted again."""


class RestoreStats(msgspec.Struct, frozen=True):
    """What the job was last restored from."""

    checkpoint_id: int
    at_ms: int
    is_savepoint: bool = False
    path: str | None = None


class CheckpointFigures(msgspec.Struct, frozen=True):
    """The figures of one completed checkpoint."""

    written_bytes: int
    full_bytes: int
    duration_ms: int
    processed_bytes: int
    persisted_bytes: int

    @staticmethod
    def of(stats: CheckpointStats) -> "CheckpointFigures":
        """The figures of a checkpoint that have percentiles."""
        processed = sum(part.figures.processed_bytes for part in stats.parts)
        return CheckpointFigures(
            stats.written_bytes, stats.full_bytes, stats.duration_ms or 0, processed, stats.persisted_bytes
        )


@dataclass(frozen=True)
class CheckpointReport:
    """The statistics at one moment."""

    history: Sequence[CheckpointStats] = ()
    """The last ones, oldest first."""
    completed: int = 0
    failed: int = 0
    restored: int = 0
    """How often an attempt has restored a checkpoint or savepoint."""
    savepoints: Sequence[CheckpointStats] = ()
    """The last ones that have ended, oldest first, with the numbers of the checkpoints at whose barriers they were."""
    latest_completed: CheckpointStats | None = None
    latest_failed: CheckpointStats | None = None
    latest_restore: RestoreStats | None = None
    figures: Sequence[CheckpointFigures] = ()
    retained: frozenset[int] | None = None
    """Which checkpoints still have their files; None: unknown."""

    @property
    def latest_savepoint(self) -> CheckpointStats | None:
        """The newest completed one."""
        complete = [stats for stats in self.savepoints if stats.status == "completed"]
        return complete[-1] if complete else None

    @property
    def in_progress(self) -> int:
        """How many have not ended."""
        return sum(stats.status == "in_progress" for stats in self.history)


class CheckpointTally:
    """Counts the checkpoints of a job over all attempts in this process. Thread safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counted: set[int] = set()
        """The highest numbers; those below them were counted too, or never will be."""
        self._counted_below = 0
        self._completed = 0
        self._failed = 0
        self._restored = 0
        self._latest: dict[str, CheckpointStats] = {}
        self._latest_restore: RestoreStats | None = None
        self._figures: deque[CheckpointFigures] = deque(maxlen=FIGURES_LENGTH)

    def note(self, history: Iterable[CheckpointStats]) -> None:
        """Count those that have ended; one that was counted before changes nothing."""
        with self._lock:
            for stats in history:
                if stats.status == "completed" and stats.savepoint:
                    self._latest["savepoint"] = stats  # it completes some time after its checkpoint
                number = stats.checkpoint_id
                if stats.status == "in_progress" or number in self._counted or number < self._counted_below:
                    continue
                self._counted.add(number)
                if stats.status == "failed":
                    self._failed += 1
                    self._latest["failed"] = stats
                else:
                    self._completed += 1
                    self._latest["completed"] = stats
                    self._figures.append(CheckpointFigures.of(stats))
            if len(self._counted) > 2 * COUNTED_LENGTH:
                self._counted = set(sorted(self._counted)[-COUNTED_LENGTH:])
                self._counted_below = min(self._counted)

    def restore(self, restore: RestoreStats) -> None:
        """Note that an attempt restores a checkpoint or savepoint."""
        with self._lock:
            self._restored += 1
            self._latest_restore = restore

    def report(
        self,
        history: Sequence[CheckpointStats],
        savepoints: Sequence[CheckpointStats] = (),
        retained: frozenset[int] | None = None,
    ) -> CheckpointReport:
        """The statistics now."""
        with self._lock:
            return CheckpointReport(
                history=history,
                savepoints=savepoints,
                completed=self._completed,
                failed=self._failed,
                restored=self._restored,
                latest_completed=self._latest.get("completed"),
                latest_failed=self._latest.get("failed"),
                latest_restore=self._latest_restore,
                figures=tuple(self._figures),
                retained=retained,
            )
