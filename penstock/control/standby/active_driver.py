"""The driver's side of `--ha DIR`: it renews the lease, stores its program, and clears the folder at the job's end.

A process that is killed leaves everything, and a standby goes on. One whose job has ended for good removes all of it
(features U4). One whose job the user has suspended leaves the program and a mark that stops standbys.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from penstock.checkpoint.log.log_reader import read_log
from penstock.checkpoint.snapshot.snapshot_location import full_address
from penstock.clock import Clock
from penstock.control.registry import SUSPENDED, JobRecord
from penstock.control.standby.ha_folder import HaFolder, HaListing
from penstock.control.standby.kept_program import KeptProgram, describe, pack
from penstock.control.standby.lease import LOOKS_PER_TIMEOUT, Lease, Silence, read_holder
from penstock.control.standby.program_files import program_files
from penstock.control.submission import StartingJob, Submission
from penstock.errors import CheckpointError, JobConflictError, StorageError, UsageError
from penstock.model.configuration import Configuration
from penstock.model.options.availability_options import HA_FILES
from penstock.model.options.checkpointing_options import (
    CLAIM_MODE,
    DIRECTORY,
    IGNORE_UNCLAIMED_STATE,
    RECOVERY_PATH,
)
from penstock.storage.address import parse_address
from penstock.storage.storage import open_storage

ENDED_IN_LOG = {"finished": "FINISHED", "cancelled": "CANCELED", "failed": "FAILED"}
"""How a job has ended for good, in its log and for users."""
PATH_KEYS = (RECOVERY_PATH.key, *RECOVERY_PATH.old_keys)
START_KEYS = frozenset(
    (*PATH_KEYS, *(key for one in (CLAIM_MODE, IGNORE_UNCLAIMED_STATE) for key in (one.key, *one.old_keys)))
)
"""What a job starts from."""


class ActiveDriver:
    """The process that drives the job of a `--ha` folder. `close` it when the program has ended."""

    def __init__(
        self, folder: HaFolder, lease: Lease, program: KeptProgram | None, *, was_suspended: bool = False
    ) -> None:
        """`lease`: taken, and renewed from now on. `program`: the one that is in the folder already.

        `was_suspended`: taking the lease has removed the mark of a suspended job.
        """
        self._folder = folder
        self._lease = lease
        self._program = program
        self._was_suspended = was_suspended
        self._started: StartingJob | None = None
        self._submission: Submission | None = None
        self._settings: Mapping[str, str] = {}
        self._has_run = False
        self._has_ended = False

    @property
    def job_id(self) -> str | None:
        """The job that is in the folder already."""
        return self._program.job_id if self._program is not None else None

    def continued(self, submission: Submission) -> Submission:
        """How the user's program is to be run: as the job of the folder, if there is one.

        A job that no driver has claimed yet starts from the snapshot that its first start named, unless this one names
        another: the log does not know it.
        """
        program = self._program
        if program is None:
            return submission
        again = replace(submission, job_id=program.job_id)
        if has_begun(program.job_address) or not submission.overrides.keys().isdisjoint(PATH_KEYS):
            return again
        if submission.savepoint_path is not None:  # the same flags again, from a supervisor
            return again
        kept = {key: value for key, value in program.settings.items() if key in START_KEYS}
        return replace(
            again,
            savepoint_path=program.savepoint_path,
            claim_mode=submission.claim_mode or program.claim_mode,
            allow_non_restored=submission.allow_non_restored or program.allow_non_restored,
            overrides={**kept, **submission.overrides},
        )

    def stores(self, submission: Submission, settings: Mapping[str, str]) -> None:
        """This process was started by the user: its program takes the place of the one in the folder.

        `settings` are those of the command line and the files.
        """
        self._submission, self._settings = submission, settings

    def starting(self, job: StartingJob) -> None:
        """The program's job starts: from now on a standby can go on with it."""
        if self._started is not None:
            raise UsageError(
                f"--ha keeps one job alive, and this program starts a second one, {job.name!r}; give each job a "
                f"program and a folder of its own"
            )
        if job.address is None:
            raise UsageError(
                "--ha needs checkpoints that outlive the driver: call env.enable_checkpointing(…) in a streaming "
                "program, and keep them in a folder or an object store that the standby can reach"
            )
        before = self._program
        if before is not None and (job.job_id, job.address) != (before.job_id, before.job_address):
            raise JobConflictError(
                f"{self._folder.address} belongs to job {before.job_id} with checkpoints in {before.job_address}, and "
                f"the program starts job {job.job_id} with checkpoints in {job.address}; if the program names a "
                f"relative checkpoint folder, give an absolute one"
            )
        if self._submission is not None:
            self._folder.put_program(self._lease.term, self._pack(self._submission, job))
        self._started = job

    def report(self, record: JobRecord) -> None:
        """The job's newest record; what it says of the job's end, the folder says too."""
        self._has_run = True
        if not record.ended or self._started is None:
            return
        self._has_ended = True
        with suppress(StorageError, CheckpointError):  # then the lease ends, and a standby finds out by itself
            if record.status == SUSPENDED:
                if self._folder.listing().term == self._lease.term:
                    self._folder.put_suspended(self._lease.term)
            elif job_end(self._started.address) is not None:
                self._lease.close()
                clear(self._folder, self._started.job_id)
        self._lease.close()

    def close(self) -> None:
        """The program has ended. What it leaves behind without a job is removed; a suspended job stays suspended."""
        self._lease.close()
        with suppress(StorageError, CheckpointError):
            listing = self._folder.listing()
            if listing.term != self._lease.term:
                return
            is_own = listing.program is None or (self._started is not None and self._program is None)
            address = self._started.address if self._started is not None else None
            if is_own and not (self._has_ended or has_begun(address)):
                self._folder.clear(listing)
            elif self._was_suspended and not self._has_run:
                self._folder.put_suspended(self._lease.term)

    def _pack(self, submission: Submission, job: StartingJob) -> bytes:
        assert job.address is not None and job.checkpoints is not None, "checked by the caller"
        job_file = submission.job_file.resolve()
        settings = Configuration.from_dict(dict(self._settings))
        patterns = (settings.get(HA_FILES) or "").split(";")
        path = settings.get(RECOVERY_PATH)
        start = {RECOVERY_PATH.key: full_address(path)} if path is not None else {}
        program = KeptProgram(
            job_id=job.job_id,
            name=job.name,
            job_address=job.address,
            job_file=job_file.name,
            folder=str(job_file.parent),
            working_folder=os.getcwd(),
            arguments=submission.arguments,
            settings={**self._settings, **start, DIRECTORY.key: job.checkpoints},
            parallelism=submission.parallelism,
            savepoint_path=full_address(submission.savepoint_path) if submission.savepoint_path else None,
            claim_mode=submission.claim_mode,
            allow_non_restored=submission.allow_non_restored,
            allow_fallback=submission.allow_fallback,
            require_exactly_once=submission.require_exactly_once,
            pyflink=submission.pyflink,
        )
        return pack(program, program_files(job_file, [text.strip() for text in patterns if text.strip()]))


def begin(
    folder: HaFolder, timeout_ms: int, clock: Clock, wait: Callable[[float], object], *, resumes: bool
) -> ActiveDriver:
    """Drive the job of the folder from now on, for a user who runs a program with `--ha`.

    JobConflictError if another process drives it, or if a job that has not ended is there and is not to be resumed.
    """
    listing = folder.listing()
    program = read_program(folder, listing)
    if program is not None and job_end(program.job_address) is not None:
        clear(folder, program.job_id)  # its driver died while it did that
        listing, program = folder.listing(), None
    if program is not None and not resumes:
        raise JobConflictError(
            f"{folder.address} belongs to job {program.name!r} ({program.job_id}), which has not ended; continue it "
            f"with --resume, end it with `penstock cancel`, or give the new job a folder of its own"
        )
    if not listing.is_suspended:
        _require_silence(folder, listing, timeout_ms, clock, wait)
        listing = folder.listing()
    lease = Lease.take(folder, listing, timeout_ms, clock)
    lease.start()
    return ActiveDriver(folder, lease, program, was_suspended=listing.is_suspended)


def _require_silence(
    folder: HaFolder, listing: HaListing, timeout_ms: int, clock: Clock, wait: Callable[[float], object]
) -> None:
    """Return once no driver has shown itself for the timeout; JobConflictError as soon as one does."""
    if listing.beat is None and listing.program is None:
        return  # with a program but no sign of life, that file may be lost, and comes back if the driver lives
    step_s = timeout_ms / 1000 / LOOKS_PER_TIMEOUT
    silence = Silence(2 * step_s)
    while silence.look(folder.listing().beat, clock.monotonic_s()) * 1000 < timeout_ms:
        now = folder.listing()
        if now.beat != listing.beat:
            holder = read_holder(folder, now)
            raise JobConflictError(
                f"the job in {folder.address} is being driven by {holder or 'another process'}; stop or cancel it "
                f"first, or use another folder"
            )
        wait(step_s)


def read_program(folder: HaFolder, listing: HaListing) -> KeptProgram | None:
    """How the job of the folder was started; None if there is none."""
    if listing.program is None:
        return None
    data = folder.read_program(listing.program)
    return describe(data, folder.address) if data is not None else None


def job_end(address: str | None) -> str | None:
    """How the job with this folder has ended for good, by its log; None if it has not, or has not begun."""
    if address is None or not is_there(address):
        return None
    status = read_log(open_storage(address)).status
    return ENDED_IN_LOG.get(status.status) if status is not None else None


def has_begun(address: str | None) -> bool:
    """Whether a driver has claimed the job with this folder in its log."""
    return address is not None and is_there(address) and read_log(open_storage(address)).attempt > 0


def is_there(address: str) -> bool:
    """Whether there can be files at an address: a local folder that is missing has none, and is not made."""
    place = parse_address(address)
    return not isinstance(place, Path) or place.is_dir()


def clear(folder: HaFolder, job_id: str) -> None:
    """Remove what the folder has of this job, and nothing if it belongs to another one by now."""
    listing = folder.listing()
    program = read_program(folder, listing)
    if program is None or program.job_id == job_id:
        folder.clear(listing)
