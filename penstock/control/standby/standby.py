"""A process that waits until the driver of a job dies, and says what it waits for.

The decision is made by looking: `look` reads the folder once, and either returns what to do or what it waits for.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from penstock.clock import Clock
from penstock.control.standby.active_driver import clear, job_end
from penstock.control.standby.ha_folder import HaFolder, HaListing
from penstock.control.standby.kept_program import KeptProgram, describe, unpack
from penstock.control.standby.lease import LOOKS_PER_TIMEOUT, Lease, Silence, read_holder
from penstock.control.submission import Submission
from penstock.errors import JobConflictError, StorageError
from penstock.model.configuration import Configuration
from penstock.model.options.availability_options import HA_TIMEOUT

LOST, ENDED, SUSPENDED, RUNNING, EMPTY, AWAY = "lost", "ended", "suspended", "running", "empty", "away"


class StandbyNotice(msgspec.Struct, frozen=True):
    """What a standby waits for, or why it no longer does."""

    state: str
    """`running`: a driver works. `lost`: it is gone. `suspended`, `ended`: the job is. `empty`: there is no job yet.
    `away`: the folder cannot be read."""
    text: str
    job_id: str | None = None
    name: str | None = None
    driver: str | None = None
    status: str | None = None
    """Of a job that has ended."""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Takeover:
    """The driver is gone: this process runs the job from now on."""

    lease: Lease
    program: KeptProgram
    archive: bytes
    was_suspended: bool = False
    """The user has suspended the job, and this standby resumes it."""

    def unpack(self, folder: Path, ha: str, overrides: Mapping[str, str]) -> Submission:
        """The program in an empty folder, to be run as it was started. `overrides` are settings of this machine."""
        program = unpack(self.archive, folder, ha)
        return Submission(
            job_file=folder / program.job_file,
            parallelism=program.parallelism,
            savepoint_path=program.savepoint_path,
            allow_non_restored=program.allow_non_restored,
            claim_mode=program.claim_mode,
            name=program.name,
            allow_fallback=program.allow_fallback,
            require_exactly_once=program.require_exactly_once,
            pyflink=program.pyflink,
            ha=ha,
            job_id=program.job_id,
            restarts=True,
            reopens=False,
            overrides={**program.settings, **overrides},
            arguments=program.arguments,
        )


class Standby:
    """Waits for the job of one `--ha` folder. Correctness does not depend on it: the job log decides."""

    def __init__(
        self,
        folder: HaFolder,
        clock: Clock,
        report: Callable[[StandbyNotice], None],
        *,
        timeout_ms: int | None = None,
        resumes: bool = False,
    ) -> None:
        """`timeout_ms`: in place of the one that the driver was started with. `resumes`: take a suspended job, too."""
        self._folder = folder
        self._clock = clock
        self._report = report
        self._timeout_ms = timeout_ms
        self._resumes = resumes
        self._silence = Silence(self._step_s(None) * 2)
        self._program: KeptProgram | None = None
        self._term: int | None = None
        self._archive = b""
        self._said: StandbyNotice | None = None
        self._suspended_looks = 0

    def wait_for_turn(self, wait: Callable[[float], object]) -> Takeover | StandbyNotice:
        """The job, once its driver is gone; or a notice of how the job has ended."""
        while True:
            found = self.look()
            if isinstance(found, Takeover):
                return found
            if found != self._said:
                self._said = found
                self._report(found)
            if found.state == ENDED:
                return found
            wait(self._step_s(self._program))

    def look(self) -> Takeover | StandbyNotice:
        """Look once."""
        now_s = self._clock.monotonic_s()  # before the look: a slow answer must not count as silence
        try:
            return self._decide(self._folder.listing(), now_s)
        except StorageError as error:
            return StandbyNotice(AWAY, f"the folder cannot be read, and is tried again: {error}")

    def _decide(self, listing: HaListing, now_s: float) -> Takeover | StandbyNotice:
        before = self._program
        self._read(listing)
        silent_s = self._silence.look(listing.beat, now_s)
        program = self._program
        if program is None:
            if before is not None and (status := job_end(before.job_address)) is not None:
                return _ended(before, status)
            self._program = before  # its end may be in its log only later
            where = f"{self._folder.address} holds no job"
            return StandbyNotice(EMPTY, f"standing by: {where}; waiting for `penstock run --ha` with this folder")
        about = {"job_id": program.job_id, "name": program.name}
        if listing.is_suspended and not self._resumes:
            self._suspended_looks += 1
            if self._suspended_looks % LOOKS_PER_TIMEOUT == 1 and job_end(program.job_address) is not None:
                return self._take(program, listing)  # `penstock cancel` ends a job that nobody runs
            text = f"standing by: job {program.name!r} ({program.job_id}) is suspended; waiting until it is resumed"
            return StandbyNotice(SUSPENDED, text, **about)
        if silent_s * 1000 < self._limit_ms(program) and not listing.is_suspended:
            driver = str(read_holder(self._folder, listing) or "no known process")
            if self._said is not None and self._said.state == RUNNING and driver == "no known process":
                return self._said  # between two signs of life
            text = f"standing by for job {program.name!r} ({program.job_id}), which {driver} runs"
            return StandbyNotice(RUNNING, text, driver=driver, **about)
        return self._take(program, listing)

    def _take(self, program: KeptProgram, listing: HaListing) -> Takeover | StandbyNotice:
        if listing.program is None or self._folder.read_program(listing.program) != self._archive:
            self._term = None  # that of another job, stored while nobody looked: terms start again in a cleared folder
            return self._wait_on(program)
        if (status := job_end(program.job_address)) is not None:
            clear(self._folder, program.job_id)  # its driver died while it did that
            return _ended(program, status)
        try:
            lease = Lease.take(self._folder, listing, self._limit_ms(program), self._clock)
        except JobConflictError:  # another standby was first
            self._silence = Silence(self._step_s(program) * 2)
            return self._wait_on(program)
        return Takeover(lease, program, self._archive, listing.is_suspended)

    def _wait_on(self, program: KeptProgram) -> StandbyNotice:
        return self._said or StandbyNotice(RUNNING, f"standing by for job {program.name!r} ({program.job_id})")

    def _read(self, listing: HaListing) -> None:
        """The program that the folder holds; kept until another one is there."""
        if listing.program is None:
            self._program, self._term = None, None
        elif listing.program != self._term:
            data = self._folder.read_program(listing.program)
            if data is None:  # replaced at this moment
                return
            self._program, self._archive, self._term = describe(data, self._folder.address), data, listing.program
            self._silence = Silence(self._step_s(self._program) * 2)

    def _limit_ms(self, program: KeptProgram | None) -> int:
        if self._timeout_ms is not None:
            return self._timeout_ms
        settings = program.settings if program is not None else {}
        return Configuration.from_dict(settings).get(HA_TIMEOUT)

    def _step_s(self, program: KeptProgram | None) -> float:
        return self._limit_ms(program) / 1000 / LOOKS_PER_TIMEOUT


def _ended(program: KeptProgram, status: str) -> StandbyNotice:
    text = f"job {program.name!r} ({program.job_id}) is {status}: nothing to stand by for"
    return StandbyNotice(ENDED, text, job_id=program.job_id, name=program.name, status=status)
