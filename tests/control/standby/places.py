"""A `--ha` folder with a job in it, without processes."""

from dataclasses import dataclass, field
from pathlib import Path

from penstock.checkpoint.log.entries import Status
from penstock.checkpoint.log.job_log import JobLog
from penstock.control.standby.active_driver import ActiveDriver
from penstock.control.standby.ha_folder import HaFolder
from penstock.control.standby.lease import Lease
from penstock.control.standby.standby import Standby, StandbyNotice
from penstock.control.submission import StartingJob, Submission
from penstock.storage.local import LocalStorage
from penstock.testing import ManualClock
from tests.checkpoint.logs import claimed_log
from tests.records import A_ID

TIMEOUT_MS = 10_000
STEP_MS = 1_000


@dataclass
class Place:
    """One folder for everything. Time passes only when a test lets it."""

    root: Path
    clock: ManualClock = field(default_factory=ManualClock)
    notices: list[StandbyNotice] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder = HaFolder.open(str(self.root / "ha"))
        self.program = self.root / "program" / "job.py"
        self.program.parent.mkdir()
        self.program.write_text("print('hello')\n", encoding="utf-8")

    @property
    def job_folder(self) -> Path:
        return self.root / "checkpoints" / A_ID

    def log(self) -> JobLog:
        """The log of the job, claimed."""
        return claimed_log(LocalStorage(self.job_folder))

    def end_job(self, log: JobLog, status: str) -> None:
        log.append(Status(status))  # type: ignore[arg-type]

    def lease(self) -> Lease:
        """The next one, as a process takes it that has seen the folder as it is."""
        return Lease.take(self.folder, self.folder.listing(), TIMEOUT_MS, self.clock)

    def starting(self, job_id: str = A_ID) -> StartingJob:
        checkpoints = self.root / "checkpoints"
        return StartingJob(job_id, "totals", str(checkpoints), str(checkpoints / job_id))

    def driver(self, **flags: object) -> ActiveDriver:
        """The driver of a new job, whose program is stored."""
        driver = ActiveDriver(self.folder, self.lease(), None)
        driver.stores(Submission(self.program, **flags), {"parallelism.default": "3"})  # type: ignore[arg-type]
        driver.starting(self.starting())
        return driver

    def standby(self, *, resumes: bool = False) -> Standby:
        return Standby(self.folder, self.clock, self.notices.append, timeout_ms=TIMEOUT_MS, resumes=resumes)

    def pass_time(self, milliseconds: float) -> None:
        self.clock.advance(int(milliseconds))
