"""Job logs for tests: without waiting, with readable ids."""

from collections.abc import Iterator
from itertools import count

from penstock.checkpoint.log.entries import Claim, Complete
from penstock.checkpoint.log.job_log import JobLog
from penstock.storage import Fault, Storage
from penstock.testing.clocks import ManualClock


class Script:
    """Gives out faults one after the other, each to the next call of its operation there. None: all is well."""

    def __init__(self) -> None:
        self.faults: list[tuple[str, str, Fault | BaseException | None]] = []

    def add(self, operation: str, path: str, *faults: Fault | BaseException | None) -> None:
        self.faults += [(operation, path, fault) for fault in faults]

    def before(self, operation: str, path: str) -> Fault | None:
        for position, (wanted, prefix, fault) in enumerate(self.faults):
            if operation == wanted and path.startswith(prefix):
                del self.faults[position]
                if isinstance(fault, BaseException):
                    raise fault
                return fault
        return None

    def landed(self, path: str, data: bytes) -> None: ...

    def deleted(self, path: str) -> None: ...


_ids: Iterator[int] = count(1)


def no_wait(seconds: float) -> None: ...


def open_log(storage: Storage, clock: ManualClock | None = None) -> JobLog:
    return JobLog.open(storage, clock or ManualClock(), wait=no_wait, new_id=lambda: f"id-{next(_ids)}")


def claim_of(attempt: int, *, writer: str = "writer") -> Claim:
    return Claim(attempt, "hash", writer, "job", "job.py", parallelism=2, max_parallelism=8)


def claimed_log(storage: Storage, *, writer: str = "writer", reopen: bool = False) -> JobLog:
    log = open_log(storage)
    log.claim(claim_of(log.view().attempt + 1, writer=writer), reopen=reopen)
    return log


def complete_of(checkpoint: int, epoch: int | None = None) -> Complete:
    return Complete(checkpoint, checkpoint if epoch is None else epoch, f"chk-{checkpoint}/_metadata", "0" * 64)
