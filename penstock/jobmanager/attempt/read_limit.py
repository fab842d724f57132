"""How many files, or rows of topics, an epoch may read: a backlog is read in epochs of about `penstock.epoch.target`.

Without a limit the first epoch reads everything there is, and no checkpoint completes before it ends. The limit follows
the speed that was measured. Nothing depends on it but the size of epochs that are planned later.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.model.options.execution_options import EPOCH_TARGET

FIRST_FILES = 4
"""No speed is known yet, and files may be large."""
MOST_FILES = 100_000
FIRST_ROWS, MOST_ROWS = 20_000, 1_000_000
LARGEST_GROWTH, LARGEST_CUT = 4.0, 0.5
"""From one epoch to the next: a single measurement may be far off."""
TOLERANCE = 1.2
REACHED = 0.95
"""Of the limit: a source may round down in each of its partitions."""
LEAST_TARGET_MS = 1_000
"""A short checkpoint interval does not make epochs shorter than this: every epoch has a cost of its own."""


@dataclass(frozen=True)
class EpochReading:
    """What an epoch has read, and how long it took."""

    count: int
    """Files or rows, of the source that read most."""
    seconds: float


def next_limit(limit: int, reading: EpochReading, target_s: float, most: int = MOST_FILES) -> int:
    """The limit of the next epoch. It grows only if it was reached: a short epoch with few files says nothing."""
    if not reading.count:
        return limit
    fitting = reading.count * target_s / max(reading.seconds, 0.001)
    if reading.seconds > TOLERANCE * target_s:
        wanted = min(limit, max(fitting, LARGEST_CUT * limit))
    elif reading.count >= REACHED * limit and TOLERANCE * reading.seconds < target_s:
        wanted = min(fitting, LARGEST_GROWTH * limit)
    else:
        wanted = limit
    return max(1, min(most, int(wanted)))


def effective_target_s(target_ms: int, checkpoint_interval_ms: int | None) -> float | None:
    """How long an epoch should take: no longer than the checkpoint interval. None: epochs are not limited."""
    if target_ms == 0:
        return None
    longest_ms = max(checkpoint_interval_ms or target_ms, LEAST_TARGET_MS)
    return min(target_ms, longest_ms) / 1000


class ReadLimit:
    """The limit of one attempt. A new attempt begins carefully again."""

    def __init__(self, target_s: float | None, first: int, most: int) -> None:
        """`target_s` None: there is no limit."""
        self._target_s = target_s
        self._most = most
        self._is_warm = False
        self.count = first
        self.is_reached = False
        """The last epoch has read as much as it may: there is probably more."""

    @staticmethod
    def of_files(target_s: float | None = EPOCH_TARGET.default / 1000) -> "ReadLimit":
        """The limit of sources that read files."""
        return ReadLimit(target_s, FIRST_FILES, MOST_FILES)

    @staticmethod
    def of_rows(target_s: float | None = EPOCH_TARGET.default / 1000) -> "ReadLimit":
        """The limit of sources that read topics."""
        return ReadLimit(target_s, FIRST_ROWS, MOST_ROWS)

    @property
    def is_on(self) -> bool:
        """Whether epochs are limited."""
        return self._target_s is not None

    def epoch_ended(self, counts: Iterable[int], seconds: float) -> bool:
        """Whether the limit changes, after an epoch that read so much of each limited source.

        The first epoch changes nothing: its time is that of the processes that warm up.
        """
        read, before = max(counts, default=0), self.count
        self.is_reached = self.is_on and read >= REACHED * before
        if self._target_s is not None and self._is_warm:
            self.count = next_limit(before, EpochReading(read, seconds), self._target_s, self._most)
        self._is_warm = True
        return self.count != before
