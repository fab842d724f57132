"""The lease: signs of life of the process that drives a job, and how a standby notices that they have ended.

No clock is compared with another. A standby measures on its own monotonic clock how long the newest sign of life has
not changed. If it is wrong, because the driver was only slow, the claim in the job log still decides who owns the job.
"""

import os
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from penstock.clock import Clock
from penstock.control.standby.ha_folder import HaFolder, HaListing
from penstock.errors import JobConflictError, StorageError

BEATS_PER_TIMEOUT = 5
LOOKS_PER_TIMEOUT = 10


class Holder(msgspec.Struct, frozen=True):
    """The process behind a sign of life, for messages."""

    pid: int
    host: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


def this_process() -> Holder:
    """The process that asks."""
    return Holder(os.getpid(), socket.gethostname())


def read_holder(folder: HaFolder, listing: HaListing) -> Holder | None:
    """Who wrote the newest sign of life; None if nobody did, or if that cannot be read."""
    if listing.beat is None:
        return None
    try:
        return msgspec.json.decode(folder.read_beat(*listing.beat), type=Holder)
    except (msgspec.MsgspecError, StorageError):
        return None


@dataclass
class Silence:
    """How long the newest sign of life has not changed, on the clock of whoever looks.

    One look counts for no more than `longest_step_s`: a standby that was stopped itself, or whose storage did not
    answer for a while, must look again before it draws a conclusion.
    """

    longest_step_s: float
    seconds: float = 0.0
    _seen: tuple[int, int] | None = None
    _looked_at_s: float | None = None

    def look(self, beat: tuple[int, int] | None, now_s: float) -> float:
        """Seconds without a change, including this look."""
        if self._looked_at_s is None or beat != self._seen:
            self.seconds = 0.0
        else:
            self.seconds += min(max(0.0, now_s - self._looked_at_s), self.longest_step_s)
        self._seen, self._looked_at_s = beat, now_s
        return self.seconds


class Lease:
    """This process drives the job, and renews its sign of life until it is closed. Thread safe."""

    def __init__(self, folder: HaFolder, term: int, timeout_ms: int, clock: Clock) -> None:
        self._folder = folder
        self.term = term
        self._timeout_s = timeout_ms / 1000
        self._clock = clock
        self._beat = 0
        self._about = msgspec.json.encode(this_process())
        self._silence = Silence(self._timeout_s / LOOKS_PER_TIMEOUT * 2)
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    @staticmethod
    def take(folder: HaFolder, seen: HaListing, timeout_ms: int, clock: Clock) -> "Lease":
        """The lease of the term above what was seen. JobConflictError if somebody else has taken that term."""
        lease = Lease(folder, seen.term + 1, timeout_ms, clock)
        if not lease._begin_term(lease.term):
            raise JobConflictError(f"another process has just taken over the job in {folder.address}")
        folder.remove_beats(seen.leases)
        folder.remove_suspended(lease.term)
        return lease

    def start(self) -> None:
        """Renew the lease in the background."""
        self._thread = threading.Thread(target=self._keep, name="ha-lease", daemon=True)
        self._thread.start()

    def renew(self) -> bool:
        """Give one sign of life; False while another process holds a newer term.

        If that one falls silent too, and the job has not been taken from this process, the lease is taken again:
        somebody must show that the job is driven.
        """
        listing = self._folder.listing()
        if listing.term > self.term:
            silent_s = self._silence.look(listing.beat, self._clock.monotonic_s())
            if silent_s < self._timeout_s or listing.is_suspended:
                return False
            if not self._begin_term(listing.term + 1):
                return False
        else:
            self._beat += 1
            self._folder.put_beat(self.term, self._beat, self._about)
        self._folder.remove_beats(old for old in listing.leases if old != (self.term, self._beat))
        return True

    def _begin_term(self, term: int) -> bool:
        """Take this term; False if another process has it.

        Its first sign of life may be gone by now, because it has written others, so that the name alone proves nothing.
        """
        if not self._folder.put_beat(term, 0, self._about):
            return False
        newest = self._folder.listing().beat
        if newest is not None and newest > (term, 0):
            return False
        self.term, self._beat = term, 0
        return True

    def close(self) -> None:
        """Give no further sign of life. What is in the folder stays."""
        self._closed.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(self._timeout_s)

    def _keep(self) -> None:
        while not self._closed.wait(self._timeout_s / BEATS_PER_TIMEOUT):
            with suppress(StorageError):  # a folder that cannot be written must not end a job that runs
                self.renew()
