"""The jobs below a checkpoint folder, including those whose logs cannot be read (PROTOCOL R6)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.checkpoint.file_names import log_entry_path
from penstock.checkpoint.log.entries import Base, Claim, decode_record
from penstock.checkpoint.log.log_reader import entry_numbers, read_log
from penstock.checkpoint.log.log_view import LogView
from penstock.errors import CheckpointError, LogCorruptError, StorageError
from penstock.model.ids import HEX_ID, JobId
from penstock.storage.address import join_address, parse_address
from penstock.storage.storage import Storage, open_storage


@dataclass(frozen=True)
class UnreadableJob:
    """A job folder whose log cannot be read to its end."""

    job_id: JobId
    address: str
    names: frozenset[str]
    """The job's names in the claims that can be read; empty: unknown."""
    error: CheckpointError | StorageError

    def may_be(self, name: str) -> bool:
        """Whether it could be the job with this name."""
        return not self.names or name in self.names

    def refusal(self, advice: str = "") -> CheckpointError | StorageError:
        """An error that names the job: a storage that does not answer is not a damaged log."""
        kind = LogCorruptError if isinstance(self.error, CheckpointError) else StorageError
        return kind(f"{self}{advice}")

    def __str__(self) -> str:
        name = f" ({', '.join(map(repr, sorted(self.names)))})" if self.names else ""
        return f"the log of job {self.job_id}{name} in {self.address} cannot be read: {self.error}"


def refuse(job: UnreadableJob) -> None:
    """A job with state must not be overlooked (PROTOCOL R6)."""
    raise job.refusal() from job.error


def find_jobs(address: str, unreadable: Callable[[UnreadableJob], None] = refuse) -> list[tuple[JobId, LogView]]:
    """Every job that was ever claimed below a checkpoint folder, with its log's view, in the order of their ids.

    `unreadable` is called for each job whose log cannot be read; it raises if that must not be ignored.
    """
    place = parse_address(address)
    if isinstance(place, Path) and not place.is_dir():
        return []
    found = []
    for name in open_storage(address).folders():
        if HEX_ID.fullmatch(name):
            folder = join_address(address, name)
            try:
                view = read_log(open_storage(folder))
            except (CheckpointError, StorageError) as error:
                unreadable(UnreadableJob(JobId(name), folder, _names_in(folder), error))
                continue
            if view.attempt > 0:
                found.append((JobId(name), view))
    return found


def _names_in(folder: str) -> frozenset[str]:
    try:
        return frozenset(_claimed_names(open_storage(folder)))
    except StorageError:
        return frozenset()


def _claimed_names(storage: Storage) -> Iterator[str]:
    """The names in all claims that can be read, one by one."""
    for number in entry_numbers(storage):
        path = log_entry_path(number)
        try:
            entry = decode_record(storage.read(path), path).entry
        except (CheckpointError, StorageError):
            continue
        claim = entry.claim if isinstance(entry, Base) else entry
        if isinstance(claim, Claim):
            yield claim.name
