"""The commit of a batch job's output: repeated, and then final."""

from collections.abc import Sequence

import pytest

from penstock.common import Configuration
from penstock.errors import OutputIncompleteError, UsageError
from penstock.jobmanager.attempt.batch_epoch import PersistentCommitter, announce
from penstock.jobmanager.attempt.epoch_tracker import EpochSummary
from penstock.jobmanager.settings.batch_mode import refuse_start
from penstock.jobmanager.settings.job_settings import JobSettings
from penstock.model.ids import StageId, SubtaskId
from penstock.model.snapshot import Committable
from penstock.testing import ManualClock

FIRST = Committable("files", SubtaskId(StageId("s0"), 0), 1, "t0", {})
SECOND = Committable("files", SubtaskId(StageId("s0"), 1), 1, "t1", {})


class Flaky:
    """A committer that fails some times before a transaction succeeds."""

    def __init__(self, failures: dict[str, int]) -> None:
        self.failures = failures
        self.committed: list[str] = []
        self.swept: list[int] = []

    def commit(self, committables: Sequence[Committable]) -> None:
        for committable in committables:
            if self.failures.get(committable.transaction, 0):
                self.failures[committable.transaction] -= 1
                raise OSError("the disk is away")
            self.committed.append(committable.transaction)

    def sweep(self, keep: Sequence[Committable], attempt: int) -> None:
        self.swept.append(attempt)


def persistent(flaky: Flaky) -> PersistentCommitter:
    clock = ManualClock()
    return PersistentCommitter(flaky, clock, 10.0, lambda seconds: clock.advance(round(1000 * seconds)))


def test_w2_a_committed_job_whose_printed_lines_cannot_be_written_is_not_run_again() -> None:
    def full(summary: EpochSummary) -> None:
        raise OSError("no space left on device")

    with pytest.raises(OutputIncompleteError, match="is committed, .* could not be written: no space left"):
        announce(EpochSummary(1, 3, 3, 0, ["1> a"], [], [FIRST], None), full)


def test_w2_a_commit_that_fails_is_repeated() -> None:
    flaky = Flaky({"t0": 2, "t1": 3})
    persistent(flaky).commit([FIRST, SECOND])
    assert flaky.committed == ["t0", "t1"]


def test_w2_a_commit_that_goes_on_failing_is_final() -> None:
    flaky = Flaky({"t1": 100})
    with pytest.raises(OutputIncompleteError, match=r"'t1' of sink 'files' could not be committed: the disk is away"):
        persistent(flaky).commit([FIRST, SECOND])
    assert flaky.committed == ["t0"]


def test_w2_transactions_of_older_attempts_are_aborted() -> None:
    flaky = Flaky({})
    persistent(flaky).sweep([], 2)
    assert flaky.swept == [2]


def test_w2_w3_settings_of_checkpoints_and_backends_have_no_effect_and_a_note_says_so() -> None:
    values = {
        "execution.checkpointing.interval": "5s",
        "execution.checkpointing.unaligned.enabled": "true",
        "execution.checkpointing.mode": "AT_LEAST_ONCE",
        "state.backend.type": "rocksdb",
    }
    settings = JobSettings.of("job", Configuration.from_dict(values), batch=True)
    assert not settings.takes_checkpoints and settings.backend.kind == "hashmap" and not settings.warnings
    assert [note.split(": ")[1].split(",")[0] for note in settings.notes] == [
        "no checkpoints are taken",
        "the state backend has no effect",
    ]
    assert JobSettings.of("job", Configuration(), batch=True).notes == ()
    assert JobSettings.of("job", Configuration.from_dict(values)).notes == ()


def test_w2_a_batch_job_starts_from_nothing() -> None:
    started = Configuration.from_dict({"execution.state-recovery.path": "/savepoints/savepoint-1"})
    with pytest.raises(UsageError, match=r"starts without state.*savepoint-1"):
        refuse_start(started, resumes=False)
    with pytest.raises(UsageError, match="nothing to resume"):
        refuse_start(Configuration(), resumes=True)
    refuse_start(Configuration(), resumes=False)
