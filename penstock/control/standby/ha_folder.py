"""The folder of `--ha DIR`: who drives the job, and the program that a standby runs if that driver dies.

The folder holds, with names of their own so that it may be the checkpoint folder or lie below it:

    ha-lease-<term>-<beat>    the driver of this term is alive; it writes the next beat and deletes the last one
    ha-program-<term>.zip     the program and how it was started, stored by the driver of this term
    ha-suspended-<term>       the user has suspended the job: nobody takes it over

A term is taken by the first who writes its first beat. The newest term is that of the driver. Nothing here decides what
is true of the job: that is its job log, which fences an older driver whatever this folder says (PROTOCOL R4).
"""

import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import FileMissingError, NameTakenError, StorageError, UsageError
from penstock.storage.address import parse_address
from penstock.storage.paths import TEMPORARY_MARK
from penstock.storage.storage import Storage, open_storage

PREFIX = "ha-"
_LEASE = re.compile(r"ha-lease-(\d{8})-(\d{10})")
_PROGRAM = re.compile(r"ha-program-(\d{8})\.zip")
_SUSPENDED = re.compile(r"ha-suspended-(\d{8})")


@dataclass(frozen=True)
class HaListing:
    """What the folder holds at one moment."""

    leases: tuple[tuple[int, int], ...] = ()
    """Term and beat of each, oldest first."""
    programs: tuple[int, ...] = ()
    suspended: tuple[int, ...] = ()
    leftovers: tuple[str, ...] = ()
    """Of writes that a crash has interrupted."""

    @property
    def term(self) -> int:
        """The newest term that left any trace; 0 if there was none."""
        return max([*(term for term, _ in self.leases), *self.programs, *self.suspended], default=0)

    @property
    def beat(self) -> tuple[int, int] | None:
        """The newest sign of life."""
        return self.leases[-1] if self.leases else None

    @property
    def program(self) -> int | None:
        """The term of the program that a standby runs."""
        return self.programs[-1] if self.programs else None

    @property
    def is_suspended(self) -> bool:
        """The job was suspended, and nobody has resumed it since."""
        return self.term in self.suspended


class HaFolder:
    """The files of one `--ha` folder. Any number of processes may use it at the same time."""

    def __init__(self, storage: Storage, address: str) -> None:
        self._storage = storage
        self.address = address
        """As users write it, but absolute."""

    @staticmethod
    def open(address: str) -> "HaFolder":
        """The folder, which is created if needed. UsageError unless it belongs to this user alone."""
        place = parse_address(address)
        if isinstance(place, Path):
            place = place.resolve()  # a link that changes later leads nowhere else
            _require_private(place)
        return HaFolder(open_storage(str(place)), str(place))

    def listing(self) -> HaListing:
        """What is there now."""
        names = self._storage.list(PREFIX)
        leases = [_LEASE.fullmatch(name) for name in names]
        programs = [_PROGRAM.fullmatch(name) for name in names]
        suspended = [_SUSPENDED.fullmatch(name) for name in names]
        return HaListing(
            tuple(sorted((int(found[1]), int(found[2])) for found in leases if found)),
            tuple(sorted(int(found[1]) for found in programs if found)),
            tuple(sorted(int(found[1]) for found in suspended if found)),
            tuple(name for name in names if TEMPORARY_MARK in name),
        )

    def put_beat(self, term: int, beat: int, about: bytes) -> bool:
        """Write a sign of life; False if the name is taken."""
        try:
            self._storage.put_new(_lease_name(term, beat), about)
        except NameTakenError:
            return False
        return True

    def remove_beats(self, beats: Iterable[tuple[int, int]]) -> None:
        """Delete old signs of life."""
        for term, beat in beats:
            self._storage.delete(_lease_name(term, beat))

    def read_beat(self, term: int, beat: int) -> bytes:
        """What a sign of life says about its driver; empty if it is gone."""
        try:
            return self._storage.read(_lease_name(term, beat))
        except FileMissingError:
            return b""

    def put_program(self, term: int, data: bytes) -> None:
        """Store the program of this term, in place of older ones."""
        self._storage.put_new(_program_name(term), data)
        for older in self.listing().programs:
            if older < term:
                self._storage.delete(_program_name(older))

    def read_program(self, term: int) -> bytes | None:
        """The program of this term; None if it is gone."""
        try:
            return self._storage.read(_program_name(term))
        except FileMissingError:
            return None

    def put_suspended(self, term: int) -> None:
        """The user has suspended the job that the driver of this term ran."""
        try:
            self._storage.put_new(_suspended_name(term), b"{}")
        except NameTakenError:
            return

    def remove_suspended(self, term: int) -> None:
        """The job goes on: marks below this term mean nothing any more."""
        for older in self.listing().suspended:
            if older < term:
                self._storage.delete(_suspended_name(older))

    def clear(self, listing: HaListing) -> None:
        """Delete what this listing shows: the job has ended. The program goes first, so that nobody runs it again."""
        for term in listing.programs:
            self._storage.delete(_program_name(term))
        for term in listing.suspended:
            self._storage.delete(_suspended_name(term))
        self.remove_beats(listing.leases)
        for name in listing.leftovers:
            self._storage.delete(name)


def _lease_name(term: int, beat: int) -> str:
    return f"ha-lease-{term:08}-{beat:010}"


def _program_name(term: int) -> str:
    return f"ha-program-{term:08}.zip"


def _suspended_name(term: int) -> str:
    return f"ha-suspended-{term:08}"


def _require_private(folder: Path) -> None:
    """A standby runs the program that it finds here, so nobody else may write it; settings in it may be secret."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
        if not stat.S_ISDIR(found.st_mode):
            raise UsageError(f"--ha {str(folder)!r} is not a folder")
        if found.st_uid != os.getuid():
            raise UsageError(
                f"--ha {str(folder)!r} belongs to another user (id {found.st_uid}); use a folder of your own"
            )
        if found.st_mode & 0o077:
            if any(folder.iterdir()):
                raise UsageError(
                    f"--ha {str(folder)!r} is open to other users (mode {stat.S_IMODE(found.st_mode):03o}), and a "
                    f"standby runs the program that is stored there; make it yours alone: chmod 700 {folder}"
                )
            folder.chmod(0o700)
    except FileExistsError:
        raise UsageError(f"--ha {str(folder)!r} is not a folder") from None
    except OSError as error:
        raise StorageError(f"--ha {str(folder)!r} cannot be used: {error}") from error
