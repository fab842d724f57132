"""H8: complete, abort, subsume, expire, delete, restore and late upload in any order: what is needed is never deleted.

The `Checker` watches each file (PROTOCOL I-3, I-11, R3); here orphans are bounded (I9), and gone after two more
checkpoints.
"""

import os
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from penstock.checkpoint.failures import FailureReason
from penstock.checkpoint.file_names import metadata_path
from penstock.checkpoint.snapshot.manifest import file_paths
from penstock.storage import Fault
from tests.checkpoint.checker import Checker, Sinks, Violation
from tests.checkpoint.driver import Driver, World, retaining

EXAMPLES = int(os.environ.get("PENSTOCK_GARBAGE_EXAMPLES", "150"))
STEPS = 40
MAX_PER_CHECKPOINT = 6
"""Files that one checkpoint may leave: two states of two runs each, a source position, a manifest."""


class GarbageMachine(RuleBasedStateMachine):
    """One job whose driver is replaced at times; replaced ones may still upload what they had sealed."""

    @initialize(retained=st.integers(1, 3), seed=st.integers(0, 1000))
    def start(self, retained: int, seed: int) -> None:
        self.fails_left = 0
        checker = Checker(self.on_call)
        self.world = World(checker, Sinks(checker), Random(seed))
        self.settings = retaining(retained, max_concurrent=3)
        self.zombies: list[Driver] = []
        self.begun = 0
        self.driver = self.new_driver()

    def new_driver(self) -> Driver:
        driver = Driver(self.world, self.settings)
        driver.begin()
        return driver

    def on_call(self, operation: str, path: str) -> Fault | None:
        if operation == "delete" and self.fails_left:
            self.fails_left -= 1
            return Fault.FAIL
        return None

    # ---- what may happen

    @rule(rows=st.integers(0, 3))
    def begin_checkpoint(self, rows: int) -> None:
        self.driver.run_epoch(rows, forced=True)
        self.begun += 1

    @rule(rows=st.integers(0, 3))
    def run_epoch(self, rows: int) -> None:
        self.driver.run_epoch(rows)
        self.begun += 1  # a checkpoint may have been due

    @precondition(lambda self: self.driver.queue)
    @rule()
    def upload_one(self) -> None:
        self.driver.write_one()

    @rule()
    def upload_all(self) -> None:
        self.driver.write_all()

    @rule()
    def complete(self) -> None:
        self.driver.coordinator.complete_ready()

    @rule()
    def abort(self) -> None:
        self.driver.coordinator.abort_all(FailureReason.SUSPENDING)

    @rule()
    def expire(self) -> None:
        self.world.clock.advance(self.settings.timeout_ms)

    @rule(count=st.integers(1, 4))
    def deletes_fail(self, count: int) -> None:
        self.fails_left = count

    @rule()
    def restore(self) -> None:
        """The driver is lost, but not what its subtasks had sealed."""
        self.zombies.append(self.driver)
        self.driver = self.new_driver()

    @precondition(lambda self: any(zombie.queue for zombie in self.zombies))
    @rule()
    def upload_late(self) -> None:
        next(zombie for zombie in self.zombies if zombie.queue).write_one()

    # ---- what must hold

    @invariant()
    def what_is_needed_is_there(self) -> None:
        if not hasattr(self, "driver"):
            return
        files = self.world.checker.storage.files
        for number, manifest in self.world.checker.retained.items():
            missing = (file_paths(manifest) | {metadata_path(number)}).difference(files)
            assert not missing, f"I-3: {missing} of checkpoint {number} are gone"

    @invariant()
    def orphans_are_bounded(self) -> None:
        if hasattr(self, "driver"):
            assert len(self.world.checker.orphans()) <= MAX_PER_CHECKPOINT * (self.begun + 1)

    def teardown(self) -> None:
        """Everything late is uploaded; after two checkpoints of a new driver nothing is left over."""
        if not hasattr(self, "driver"):
            return
        self.fails_left = 0
        for zombie in [*self.zombies, self.driver]:
            zombie.write_all()
        self.driver = self.new_driver()
        for _ in range(2):
            self.driver.checkpoint()
        assert not self.world.checker.orphans(), f"I9: {self.world.checker.orphans()}"
        assert len(self.world.checker.retained) <= self.settings.retained
        self.world.sinks.require_rows(self.driver.position)


@pytest.fixture(autouse=True)
def short_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.checkpoint.log.job_log.BASE_EVERY", 7)


def run(examples: int) -> None:
    run_state_machine_as_test(GarbageMachine, settings=settings(max_examples=examples, stateful_step_count=STEPS))


def test_h8_no_order_of_events_deletes_what_is_needed() -> None:
    run(EXAMPLES)


def test_h8_a_collection_that_reads_no_manifest_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.checkpoint.retention._needed_files", lambda log, kept: set())
    with pytest.raises((Violation, AssertionError)):
        run(examples=200)
