"""The numbers of new checkpoints: above every number in the log and on storage, never used twice (PROTOCOL R7)."""

from collections.abc import Iterable

from penstock.checkpoint.file_names import checkpoint_of
from penstock.checkpoint.log.job_log import JobLog


class CheckpointNumbers:
    """Gives out numbers to one attempt, after its claim. Not thread safe."""

    def __init__(self, log: JobLog, first: int) -> None:
        self._log = log
        self._next = max(first, _first_free(log.storage.list("")))

    @property
    def next(self) -> int:
        """The number that the next checkpoint gets."""
        return max(self._next, self._log.view().highest_checkpoint + 1)

    def take(self, lowest: int = 0) -> int:
        """A number for a new checkpoint, at least `lowest`."""
        number = max(self.next, lowest)
        self._next = number + 1
        return number

    def skip(self, present: Iterable[str]) -> None:
        """Use no number of these files: an older attempt may have written them meanwhile, and they may be deleted."""
        self._next = max(self.next, _first_free(present))


def _first_free(present: Iterable[str]) -> int:
    numbers = (checkpoint_of(path) for path in present)
    return max((number for number in numbers if number is not None), default=-1) + 1
