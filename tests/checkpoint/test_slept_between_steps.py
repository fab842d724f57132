"""A driver that slept between two steps looks whether it still owns the job before the next one (PROTOCOL R4)."""

from collections.abc import Sequence
from functools import partial

import pytest

from penstock.checkpoint.log.job_log import RECENT_S
from penstock.checkpoint.publication import complete
from penstock.checkpoint.restore.sink_recovery import recover_sinks
from penstock.checkpoint.sink_commits import CommitRun
from penstock.errors import FencedError
from penstock.model.snapshot import Committable
from penstock.storage.memory import MemoryStorage
from penstock.testing.clocks import ManualClock
from tests.checkpoint.logs import claim_of, claimed_log, open_log
from tests.checkpoint.manifests import committable, manifest


class SleepsAfterACommit:
    """A committer whose process is stopped after each commit, while another driver takes the job over."""

    def __init__(self, storage: MemoryStorage, clock: ManualClock) -> None:
        self._storage, self._clock = storage, clock
        self.committed: list[str] = []

    def commit(self, committables: Sequence[Committable]) -> None:
        self.committed += [one.transaction for one in committables]
        claimed_log(self._storage, writer="newer")
        self._clock.advance(60_000)

    def sweep(self, keep: Sequence[Committable], attempt: int) -> None:
        raise AssertionError("a fenced driver sweeps nothing")


MANIFEST = manifest(committables=[committable("first"), committable("second")])


def test_f18_the_commits_behind_a_sleep_are_not_made() -> None:
    storage, clock = MemoryStorage(), ManualClock()
    log = open_log(storage, clock)
    log.claim(claim_of(1))
    committer = SleepsAfterACommit(storage, clock)
    with pytest.raises(FencedError):
        CommitRun(MANIFEST, clock, 60.0).advance(committer, partial(log.check_fenced, max_age_s=RECENT_S))
    assert committer.committed == ["first"]


def test_f18_a_recovery_that_slept_commits_no_more() -> None:
    storage, clock = MemoryStorage(), ManualClock()
    log = open_log(storage, clock)
    log.claim(claim_of(1))
    committer = SleepsAfterACommit(storage, clock)
    with pytest.raises(FencedError):
        recover_sinks(log, MANIFEST, committer)
    assert committer.committed == ["first"]


def test_f18_the_manifest_behind_a_sleep_is_not_put() -> None:
    storage, clock = MemoryStorage(), ManualClock()
    log = open_log(storage, clock)
    log.claim(claim_of(1))
    log.check_fenced()
    claimed_log(storage, writer="newer")
    clock.advance(60_000)
    with pytest.raises(FencedError):
        complete(manifest(), log)
    assert not [path for path in storage.files if path.startswith("chk-")]


def test_a_look_that_is_recent_is_not_repeated() -> None:
    storage, clock = MemoryStorage(), ManualClock()
    log = open_log(storage, clock)
    log.claim(claim_of(1))
    log.check_fenced()
    claimed_log(storage, writer="newer")
    log.check_fenced(max_age_s=RECENT_S)
    clock.advance(round(1000 * RECENT_S) + 1)
    with pytest.raises(FencedError):
        log.check_fenced(max_age_s=RECENT_S)
