"""Several drivers of one job started together (reliability F19): one gets it, the others end with exit code 4.

The job was left by a driver that died. In each round some drivers are started at once; when all but one have ended,
that one works for a while and is killed, which leaves the job for the next round. In the end the log must tell one
story.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from penstock.checkpoint.log.entries import Claim, Complete, Record, decode_record
from penstock.checkpoint.log.log_reader import read_log
from penstock.checkpoint.snapshot.manifest import load_manifest
from penstock.clock import SystemClock
from penstock.errors import FileMissingError
from penstock.storage.local import LocalStorage
from tests.faults.events import Expected
from tests.faults.fencing import FENCED_EXIT
from tests.faults.jobs import JobProcess, Place
from tests.faults.kills import FINISH_LIMIT_S, outliving
from tests.faults.outcome import judge
from tests.waiting import wait_until

REFUSALS = ("no longer owns the job", "claimed at the same time", "is running (")
SETTINGS = (
    ("penstock.driver.timeout", "60 s"),
    ("penstock.epoch.interval", "1 s"),
    ("execution.checkpointing.num-retained", "90"),  # so that every manifest is there in the end
)


@dataclass
class Rounds:
    """What came of all rounds."""

    lines: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    entries: dict[int, Record] = field(default_factory=dict)
    """Every entry of the log that was ever seen: the owner compacts it."""

    def look(self, place: Place) -> list[Record]:
        """The log so far."""
        self.entries.update({record.number: record for record in _records(place)})
        return [record for _, record in sorted(self.entries.items())]


def run_starts(place: Place, expected: Expected, counts: Sequence[int]) -> Rounds:
    """One round for each number of drivers, then the end of the job."""
    result = Rounds()
    jobs: list[JobProcess] = []
    try:
        owner = JobProcess(place)
        jobs.append(owner)
        for count in counts:
            _await_checkpoint(place, owner, result)
            owner.kill()
            started = [JobProcess(place) for _ in range(count)]
            jobs += started
            owner = _await_winner(started, place, result)
        wait_until(lambda: result.look(place) and owner.exit_code is not None, timeout_s=FINISH_LIMIT_S, pause_s=0.2)
        assert owner.exit_code == 0, f"the last driver ended with {owner.exit_code}:\n{owner.log_tail()}"
        result.wrong += [line for job in jobs for line in outliving(job.family())]
        verdict = judge(expected, place.job_folder, place.output)
        if not verdict.exact:
            result.wrong.append(f"{verdict.lost} lost, {verdict.doubled} doubled, {verdict.wrong}")
        result.wrong += not_linear(result.look(place)) + broken_chain(LocalStorage(place.job_folder))
    except AssertionError as error:
        result.wrong.append(str(error))
    finally:
        for job in jobs:
            job.close()
    return result


def _await_winner(started: Sequence[JobProcess], place: Place, result: Rounds) -> JobProcess:
    """The driver that has the job, once all others have ended as losers do."""

    def alone() -> list[JobProcess]:
        running = [job for job in started if job.exit_code is None]
        for job in running:
            job.family()
        result.look(place)
        return running if len(running) <= 1 else []

    running = wait_until(alone, timeout_s=FINISH_LIMIT_S)
    ended_ms = SystemClock().now_ms()
    assert running, f"nobody has the job:\n{started[0].log_tail()}"
    winner = running[0]
    _await_checkpoint(place, winner, result)
    losers = [job for job in started if job is not winner]
    for job in losers:
        is_told = any(words in job.said() for words in REFUSALS)
        if job.exit_code != FENCED_EXIT or not is_told:
            result.wrong.append(f"a loser ended with {job.exit_code}:\n{job.log_tail()}")
        result.wrong += outliving(job.family())
    last_claim_ms = max(record.written_ms for record in result.look(place) if isinstance(record.entry, Claim))
    seconds = max(0, ended_ms - last_claim_ms) / 1000
    result.lines.append(
        f"F19 {len(started)} drivers started together: one won, {len(losers)} ended with exit code 4, "
        f"the last of them {seconds:.1f} s after the winner's claim"
    )
    return winner


def _await_checkpoint(place: Place, job: JobProcess, result: Rounds) -> None:
    """Until this driver has completed a checkpoint; it is still at work then."""

    def own() -> bool:
        assert job.exit_code is None, f"the driver ended with {job.exit_code}:\n{job.log_tail()}"
        record = job.record()
        if record is None or record.attempt == 0:
            return False
        return any(r.attempt == record.attempt and isinstance(r.entry, Complete) for r in result.look(place))

    wait_until(own, timeout_s=FINISH_LIMIT_S, pause_s=0.2)


def not_linear(records: Sequence[Record]) -> list[str]:
    """Where the log does not tell one story: one owner at a time, and numbers that only grow."""
    wrong = []
    owner, last = 0, -1
    for before, record in zip([None, *records], records, strict=False):
        if before is not None and record.number != before.number + 1:
            wrong.append(f"entry {record.number} follows entry {before.number}")
        if isinstance(record.entry, Claim):
            if record.entry.attempt != owner + 1:
                wrong.append(f"attempt {record.entry.attempt} follows attempt {owner}")
            owner = record.entry.attempt
        if record.attempt != owner:
            wrong.append(f"entry {record.number} is of attempt {record.attempt}, the owner is {owner}")
        if isinstance(record.entry, Complete):
            if record.entry.checkpoint <= last:
                wrong.append(f"checkpoint {record.entry.checkpoint} follows checkpoint {last}")
            last = record.entry.checkpoint
    return wrong


def broken_chain(storage: LocalStorage) -> list[str]:
    """Checkpoints that are not built on the one before them."""
    view = read_log(storage)
    if len(view.lineage) < 2 or view.attempt < 2:
        return [f"{len(view.lineage)} checkpoints of {view.attempt} attempts: too few to tell a story"]
    pairs = [
        (former.checkpoint, load_manifest(storage, complete))
        for former, complete in zip(view.lineage, view.lineage[1:], strict=False)
    ]
    return [
        f"checkpoint {manifest.checkpoint_id} builds on {manifest.parent}, and {former} was before it"
        for former, manifest in pairs
        if manifest.parent != former
    ]


def _records(place: Place) -> list[Record]:
    """The entries in the log now; one that is compacted away meanwhile is left out."""
    if not place.registry.list() or not place.checkpoints.exists():
        return []
    storage = LocalStorage(place.job_folder)
    found = []
    for path in storage.list("log/"):
        if "~" not in path:
            with suppress(FileMissingError):
                found.append(decode_record(storage.read(path), path))
    return found
