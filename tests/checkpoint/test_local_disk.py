"""The same job on a real disk: what lies in its folder, and that it comes back."""

from pathlib import Path
from random import Random

from penstock.storage import LocalStorage
from tests.checkpoint.checker import Checker, Sinks
from tests.checkpoint.driver import Driver, World, new_driver, retaining


class WatchedDisk:
    """A LocalStorage that tells the checker what happens, and shows its files as a dictionary."""

    def __init__(self, root: Path, checker: Checker) -> None:
        self._disk = LocalStorage(root)
        self._checker = checker
        self.uri = self._disk.uri

    @property
    def files(self) -> dict[str, bytes]:
        return {path: self._disk.read(path) for path in self._disk.list("")}

    def put_new(self, path: str, data: bytes) -> None:
        self._disk.put_new(path, data)
        self._checker.landed(path, data)

    def delete(self, path: str) -> None:
        if path in self._disk.list(path):
            self._checker.deleted(path)
        self._disk.delete(path)

    def read(self, path: str) -> bytes:
        return self._disk.read(path)

    def list(self, prefix: str) -> "list[str]":
        return self._disk.list(prefix)

    def size(self, path: str) -> int:
        return self._disk.size(path)


def disk_world(root: Path, seed: int) -> World:
    checker = Checker()
    checker.storage = WatchedDisk(root, checker)  # type: ignore[assignment]
    return World(checker, Sinks(checker), Random(seed))


def test_m1_the_folder_of_a_job_holds_its_log_its_checkpoints_and_shared_state(tmp_path: Path) -> None:
    world = disk_world(tmp_path, seed=1)
    driver = new_driver(world, retaining(2))
    for _ in range(4):
        driver.checkpoint()
    folders = sorted(path.name for path in tmp_path.iterdir())
    assert folders == ["chk-3", "chk-4", "log", "shared"]
    assert world.checker.orphans() == []


def test_a_job_on_disk_comes_back_after_its_driver_is_gone(tmp_path: Path) -> None:
    world = disk_world(tmp_path, seed=2)
    driver = new_driver(world)
    for _ in range(3):
        driver.checkpoint()
    driver.run_epoch(5, forced=True)
    driver.write_all()
    recovered = Driver(world)
    recovered.begin()
    assert recovered.position == driver.position - 5
    for _ in range(2):
        recovered.checkpoint()
    world.sinks.require_rows(recovered.position)
    assert world.checker.orphans() == []
    recovered.finish(keep=False)
    assert all(path.startswith("log/") for path in world.checker.storage.files)
