"""The job log: the one place where things become true (PROTOCOL section 2).

One JobLog object belongs to one attempt. Appends go to the next number by compare-and-swap, one at a time. After an
append whose outcome cannot be found out, and after being fenced, the object refuses everything: the attempt ends.
"""

import threading
import time
from collections.abc import Callable

from penstock import failpoint
from penstock.checkpoint.file_names import LOG_FOLDER, log_entry_path, parse_name
from penstock.checkpoint.log.entries import Claim, Entry, Record, Status, encode_record
from penstock.checkpoint.log.log_reader import entry_numbers, read_log
from penstock.checkpoint.log.log_view import LogView, apply, summarize
from penstock.clock import Clock
from penstock.errors import (
    FencedError,
    JobConflictError,
    LogCorruptError,
    NameTakenError,
    StorageError,
    UnknownOutcomeError,
)
from penstock.model.ids import new_token
from penstock.storage.certain_put import WAITS_S, put_certain
from penstock.storage.storage import Storage

BASE_EVERY = 100
RECENT_S = 0.5
"""Between two steps of one thread, a check for newer attempts that is at most this old is enough."""
CLAIM_TRIES = 100


class JobLog:
    """A job's log, read to its end when opened; `claim` makes it writable. Safe to use from several threads."""

    def __init__(
        self, storage: Storage, clock: Clock, view: LogView, wait: Callable[[float], None], new_id: Callable[[], str]
    ) -> None:
        self.storage = storage
        self.clock = clock
        self.wait = wait
        self._view = view
        self._new_id = new_id
        self._lock = threading.Lock()
        self._attempt: int | None = None
        self._fenced: str | None = None
        self._in_doubt = False
        self._checked_s = float("-inf")
        """When the last check found no newer attempt."""

    @classmethod
    def open(
        cls,
        storage: Storage,
        clock: Clock,
        *,
        wait: Callable[[float], None] = time.sleep,
        new_id: Callable[[], str] = new_token,
    ) -> "JobLog":
        """The log in a job's folder, for reading. Raises LogCorruptError if it cannot be read to its end."""
        return cls(storage, clock, read_log(storage), wait, new_id)

    def view(self) -> LogView:
        """What the log said when this object last read or wrote it. Never waits."""
        return self._view

    @property
    def in_doubt(self) -> bool:
        """The outcome of the last append is unknown, so nothing more may be appended (PROTOCOL R5)."""
        return self._in_doubt

    def claim(self, claim: Claim, *, reopen: bool = False) -> None:
        """Take over the job as it was when the log was opened. The claim's attempt is one above `view().attempt`.

        Entries that its owner has written since then are included. Raises JobConflictError if another driver
        has claimed the job since, or if the job has ended and is not to be reopened.
        """
        with self._lock:
            if self._attempt is not None or claim.attempt != self._view.attempt + 1:
                raise ValueError(f"a claim of attempt {claim.attempt} does not follow attempt {self._view.attempt}")
            for _ in range(CLAIM_TRIES):
                self._refuse_ended(reopen=reopen)
                if self._try_claim(self._next_record(claim.attempt, claim)):
                    self._attempt = claim.attempt
                    return
                self._view = read_log(self.storage)
                if self._view.attempt >= claim.attempt:
                    found = self._view.claim.writer if self._view.claim is not None else "unknown"
                    raise JobConflictError(f"the job was claimed at the same time by {found!r}, which owns it now")
            raise JobConflictError(
                f"the job's owner kept writing to its log during {CLAIM_TRIES} claims; stop it first"
            )

    def append(self, entry: Entry) -> int:
        """Append the entry, which makes it true; returns its number.

        Raises FencedError if a newer attempt owns the job, UnknownOutcomeError if the entry may or may not be there
        (the attempt must end), and any other StorageError if it is not there and never will be.
        """
        with self._lock:
            return self._append(entry)

    def check_fenced(self, *, max_age_s: float = 0.0) -> None:
        """Raise FencedError if a newer attempt owns the job (PROTOCOL R4). A log that is only read owns nothing.

        With `max_age_s` an earlier check that is at most this old is enough.
        """
        with self._lock:
            if self._attempt is None:
                return
            self._require_usable()
            now_s = self.clock.monotonic_s()
            if max_age_s and now_s - self._checked_s <= max_age_s:
                return
            self._require_highest(self._highest())
            self._checked_s = now_s

    def shorten_if_due(self) -> None:
        """After every hundred entries: write a `base`, then delete what lies below it, oldest first."""
        with self._lock:
            view = self._view
            if view.number - view.base_number >= BASE_EVERY:
                present = set(self.storage.list(""))
                self._append(summarize(view, present.intersection(view.open_deletes)))
                for path in self.storage.list(LOG_FOLDER):
                    name = parse_name(path)
                    if name is not None and name.number < self._view.base_number:
                        self.storage.delete(path)

    def _append(self, entry: Entry) -> int:
        self._require_usable()
        assert self._attempt is not None, "an append needs a claim"
        record = self._next_record(self._attempt, entry)
        view = apply(self._view, record)
        is_status = isinstance(entry, Status)
        if is_status:
            failpoint.before("C30")
        self._write(record)
        if is_status:
            failpoint.after("C30")
        self._view = view
        return record.number

    def _next_record(self, attempt: int, entry: Entry) -> Record:
        return Record(self._view.number + 1, self._new_id(), attempt, self.clock.now_ms(), entry)

    def _try_claim(self, record: Record) -> bool:
        view = apply(self._view, record)
        failpoint.before("C1")
        try:
            self._write(record)
        except FencedError:
            # Not owned yet, so nothing is lost: the owner has appended an entry, or its base has freed the number.
            self._fenced, self._in_doubt = None, False
            return False
        failpoint.after("C1")
        self._view = view
        return True

    def _write(self, record: Record) -> None:
        """Put the record at its number, and check that it counts."""
        path = log_entry_path(record.number)
        failpoint.before("C31")
        self._in_doubt = True
        try:
            put_certain(self.storage, path, encode_record(record), self.wait)  # PROTOCOL R5
        except NameTakenError as error:
            raise self._fence(f"log entry {record.number} was written by another attempt") from error
        except UnknownOutcomeError:
            raise
        except StorageError:
            self._in_doubt = False
            raise
        failpoint.after("C31")
        # PROTOCOL R4: deleted entries free their numbers, so only a listing made now tells whether this one counts.
        highest = self._highest_with_retries()
        if highest != record.number:
            raise self._fence(f"log entry {record.number} was written when entry {highest} already existed")
        self._in_doubt = False

    def _highest(self) -> int:
        return max(entry_numbers(self.storage), default=0)

    def _highest_with_retries(self) -> int:
        """The highest number. An append that was written but could not be checked is in doubt, never failed."""
        for seconds in WAITS_S:
            try:
                return self._highest()
            except StorageError:
                self.wait(seconds)
        try:
            return self._highest()
        except StorageError as error:
            raise UnknownOutcomeError(f"the log cannot be listed after an append: {error}") from error

    def _require_usable(self) -> None:
        if self._fenced is not None:
            raise FencedError(self._fenced)
        if self._in_doubt:
            raise UnknownOutcomeError(
                "the outcome of an earlier append to the job log is not known; the attempt must end"
            )

    def _require_highest(self, highest: int) -> None:
        if highest > self._view.number:
            raise self._fence(f"log entry {highest} is newer than this attempt's last one, {self._view.number}")
        if highest < self._view.number:
            raise LogCorruptError(
                f"log entry {self._view.number}, written by this attempt, has gone from {self.storage.uri}"
            )

    def _fence(self, why: str) -> FencedError:
        attempt = f"attempt {self._attempt}" if self._attempt is not None else "this attempt"
        self._fenced = f"{attempt} no longer owns the job: {why}; it commits and deletes nothing more"
        return FencedError(self._fenced)

    def _refuse_ended(self, *, reopen: bool) -> None:
        status = self._view.status
        if self._view.is_terminal and not reopen and status is not None:  # PROTOCOL R6
            raise JobConflictError(f"the job has ended as {status.status!r}; ask for it by name to start it again")
