"""H12: every state of the disk that a power cut can leave during three checkpoints; each is recovered from (I6 to I9).

The log and the coordinator run on LocalStorage, whose changes of the disk are recorded. At every operation, every tree
of files that the disk may hold is taken over by a new driver.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from penstock.checkpoint.log.log_reader import read_log
from penstock.checkpoint.snapshot.manifest import load_manifest
from penstock.storage.local import LocalStorage
from tests.checkpoint.checker import Checker, Sinks
from tests.checkpoint.driver import SETTINGS, Driver, new_world
from tests.storage.disk_states import Disk, Operation, recorded

CHECKPOINTS = 3
BASE_EVERY = 6


class RecordedSinks(Sinks):
    """Sinks that tell what they do: an outside system loses nothing when the power goes."""

    def __init__(self, checker: Checker, operations: list[Operation]) -> None:
        super().__init__(checker)
        self._operations = operations

    def prepare(self, name, rows) -> None:
        super().prepare(name, rows)
        self._operations.append(("prepare", name, list(rows)))

    def commit(self, committables) -> None:
        self.committed.update(committable.transaction for committable in committables)
        self._operations.extend(("commit", committable.transaction) for committable in committables)


@dataclass
class Trace:
    """What a run of three checkpoints did, in order."""

    operations: list[Operation] = field(default_factory=list)
    root: str = ""

    def record(self, folder: Path) -> None:
        """Run the job on a real disk."""
        self.root = str(folder / "job")
        with recorded(self.operations.append):
            world = new_world(seed=5)
            world.checker.storage = LocalStorage(Path(self.root))  # type: ignore[assignment]
            world.sinks = RecordedSinks(world.checker, self.operations)
            driver = Quiet(world, SETTINGS)
            driver.begin()
            for _ in range(CHECKPOINTS):
                number = driver.checkpoint()
                self.operations.append(("told", int(number), driver.position))


class Quiet(Driver):
    """A driver whose storage nobody watches."""

    def completed(self, checkpoint_id) -> None:
        self.told.append(checkpoint_id)

    def aborted(self, checkpoint_id, reason) -> None:
        raise AssertionError(f"checkpoint {checkpoint_id}: {reason}")


@dataclass
class Outside:
    """What the world knows apart from the disk."""

    prepared: dict[str, list[int]] = field(default_factory=dict)
    committed: list[str] = field(default_factory=list)
    told_position: int = 0

    def apply(self, operation: Operation) -> None:
        if operation[0] == "prepare":
            self.prepared[operation[1]] = operation[2]
        elif operation[0] == "commit":
            self.committed.append(operation[1])
        elif operation[0] == "told":
            self.told_position = operation[2]


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    found = Trace()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock.checkpoint.log.job_log.BASE_EVERY", BASE_EVERY)
        found.record(tmp_path_factory.mktemp("trace"))
    return found


def recover(tree: dict[str, bytes], outside: Outside) -> Driver:
    """A driver that takes over what is left, checked against what had been promised."""
    world = new_world()
    checker = world.checker
    checker.storage.files.update(tree)
    know(checker)
    sinks = world.sinks
    sinks.rows.update(outside.prepared)
    for name in dict.fromkeys(outside.committed):
        sinks.committed.add(name)
        sinks.visible.update(outside.prepared[name])
    driver = Driver(world, SETTINGS)
    driver.begin()  # I-1: the rows are compared with the position
    assert driver.position >= outside.told_position, f"P8: {driver.position} rows, {outside.told_position} promised"
    sinks.require_rows(driver.position)
    return driver


def know(checker: Checker) -> None:
    """Let the checker know what the log says; every retained checkpoint must be whole (I-3)."""
    view = read_log(checker.storage)
    checker.owner = view.attempt
    checker.discarded.update(view.open_deletes)
    checker.bases.append(view.base_number)
    for complete in view.retained:
        manifest = load_manifest(checker.storage, complete)
        checker.retained[complete.checkpoint] = checker.completed[complete.checkpoint] = checker.newest = manifest


def trees(trace: Trace, disk: Disk) -> Iterable[dict[str, bytes]]:
    for tree in disk.states():
        yield {os.path.relpath(path, trace.root): data for path, data in tree.items()}


def test_h12_every_crash_state_of_three_checkpoints_is_recovered_from(trace: Trace) -> None:
    disk, outside = Disk(), Outside()
    seen: set[int] = set()
    count = 0
    for operation in [("start", ""), *trace.operations]:
        disk.apply(operation)
        outside.apply(operation)
        for tree in trees(trace, disk):
            state = hash((frozenset(tree.items()), len(outside.committed), outside.told_position))
            if state in seen:
                continue
            seen.add(state)
            count += 1
            try:
                driver = recover(tree, outside)
                if count % 3 == 0:
                    go_on(driver)
            except BaseException as error:
                raise AssertionError(f"after {operation[:2]}, with {sorted(tree)}: {error!r}") from error
    assert count > 300, f"only {count} states"


def go_on(driver: Driver) -> None:
    """Two more checkpoints, and nothing is left over (I-9, I9)."""
    for _ in range(2):
        driver.checkpoint()
    driver.world.sinks.require_rows(driver.position)
    assert not driver.world.checker.orphans()


def test_the_enumeration_finds_a_folder_that_is_not_fsynced(trace: Trace) -> None:
    with pytest.raises(AssertionError, match="promised|I-3|LogMissing|CheckpointMissing"):
        test_h12_every_crash_state_of_three_checkpoints_is_recovered_from(without(trace, "fsync folder"))


def test_the_enumeration_finds_a_file_that_is_not_fsynced(trace: Trace) -> None:
    with pytest.raises(AssertionError, match="Corrupt"):
        test_h12_every_crash_state_of_three_checkpoints_is_recovered_from(without(trace, "fsync"))


def without(trace: Trace, kind: str) -> Trace:
    return Trace([operation for operation in trace.operations if operation[0] != kind], trace.root)


def test_the_recording_says_what_local_storage_does(tmp_path: Path) -> None:
    operations: list[Operation] = []
    with recorded(operations.append):
        storage = LocalStorage(tmp_path / "job")
        storage.put_new("chk-1/_metadata", b"abc")
        storage.delete("chk-1/_metadata")
    kinds = [operation[0] for operation in operations]
    assert kinds == [
        *("mkdir", "fsync folder", "mkdir", "create", "write", "fsync", "link", "unlink"),
        *("fsync folder", "fsync folder", "unlink", "rmdir"),
    ]
