"""Two jobs from one savepoint do not disturb each other, and live on when it is disposed of (features N6, N12)."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from penstock.control.disposal import dispose_savepoint
from penstock.jobmanager.attempt.recovery import StartOptions
from penstock.model.descriptors import ValueStateDescriptor
from penstock.model.functions import KeyedProcessFunction
from penstock.model.types import Types
from penstock.storage.local import LocalStorage
from penstock.testing import CHECKPOINT, Harness


class Count(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: str, ctx: Any) -> Iterable[Any]:
        self.count.update((self.count.value() or 0) + 1)
        yield value, self.count.value()


def job(backend: str, folder: Path, parallelism: int = 2, start: str | None = None) -> Harness:
    return Harness.keyed(
        Count(),
        key=str,
        key_type=Types.STRING(),
        backend=backend,
        parallelism=parallelism,
        storage=LocalStorage(folder),
        start=StartOptions(start),
    )


def bytes_below(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("kind", ["canonical", "native"])
def test_n6_n12_two_jobs_from_one_savepoint_run_apart_and_outlive_it(backend: str, kind: str, tmp_path: Path) -> None:
    keys = [f"k{n}" for n in range(50)]
    old = job(backend, tmp_path / "old").feed(keys)
    path, other = (old.savepoint(tmp_path / "savepoints", format=kind) for _ in range(2))
    saved = bytes_below(tmp_path / "savepoints")
    blue, green = job(backend, tmp_path / "blue", start=path), job(backend, tmp_path / "green", 3, start=path)
    blue.feed(["k0", CHECKPOINT, "k0"])
    green.feed(["k1", CHECKPOINT])
    assert bytes_below(tmp_path / "savepoints") == saved
    before = {name: bytes_below(tmp_path / name) for name in ("old", "blue", "green")}
    dispose_savepoint(path)
    assert not Path(path).exists()
    rest = {file: data for file, data in saved.items() if Path(other) in file.parents}
    assert bytes_below(tmp_path / "savepoints") == rest and rest
    assert {name: bytes_below(tmp_path / name) for name in before} == before
    blue.crash()
    green.rescale(2)
    counts = [[harness.state("count", key) for key in ("k0", "k1", "k2")] for harness in (blue, green)]
    assert counts == [[3, 1, 1], [1, 2, 1]]
