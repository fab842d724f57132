"""Snapshots of every released version restore with the code of today: `scripts/golden.py` wrote them."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from penstock import __version__
from penstock.jobmanager.attempt.recovery import StartOptions
from penstock.storage.local import LocalStorage
from penstock.testing import CHECKPOINT, CRASH
from tests.golden import job

FOLDER = Path(__file__).resolve().parent
CHANGELOG = (FOLDER.parent.parent / "CHANGELOG.md").read_text(encoding="utf-8")
KINDS = ("canonical", "native", "checkpoint")
MAX_BYTES = 1_000_000
VERSIONS = sorted(path.name for path in FOLDER.iterdir() if re.fullmatch(r"\d+\.\d+\.\d+", path.name))
GOLDEN = [path for version in VERSIONS for path in sorted((FOLDER / version).iterdir())]


def test_every_version_has_golden_snapshots_of_each_backend_and_kind() -> None:
    released = re.findall(r"^## \[(\d+\.\d+\.\d+)\]", CHANGELOG, re.M)
    assert set(VERSIONS) == {*released, __version__}, "run scripts/golden.py, once for each version"
    every = {f"{backend}-{kind}" for backend in job.BACKENDS for kind in KINDS}
    for version in VERSIONS:
        assert {path.name for path in (FOLDER / version).iterdir()} == every


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_golden_snapshots_are_small(golden: Path) -> None:
    assert sum(path.stat().st_size for path in golden.rglob("*") if path.is_file()) <= MAX_BYTES


def _cases() -> list[Any]:
    """Every snapshot with every backend that can read it, and with another parallelism than it was taken with."""
    cases = []
    for golden in GOLDEN:
        own, kind = golden.name.split("-")
        for backend in (own,) if kind == "native" else job.BACKENDS:
            for parallelism in (2, 3):
                name = f"{golden.parent.name}/{golden.name} on {backend} x {parallelism}"
                cases.append(pytest.param(golden, backend, parallelism, id=name))
    return cases


@pytest.mark.parametrize(("golden", "backend", "parallelism"), _cases())
def test_a_golden_snapshot_restores(golden: Path, backend: str, parallelism: int, tmp_path: Path) -> None:
    copy = tmp_path / "moved" / golden.name
    shutil.copytree(golden, copy)
    expected = json.loads((copy / "expected.json").read_text(encoding="utf-8"))
    timers = expected.pop("timers")
    (metadata,) = copy.rglob("_metadata")
    harness = job.harness(
        parallelism=parallelism,
        backend=backend,
        storage=LocalStorage(tmp_path / "new"),
        start=StartOptions(str(metadata.parent)),
    )
    assert job.content(harness) == expected
    harness.feed([CHECKPOINT, CRASH])
    assert job.content(harness) == expected
    assert job.fire(harness) == timers
    gone = {name: content for name, content in job.content(harness)["keyed"].items() if name.endswith(", ttl")}
    assert {value for content in gone.values() for value in content.values()} <= {"None", "[]", "{}"}


def test_twelve_kinds_of_state_and_more_are_in_each() -> None:
    assert len(job.descriptors()) >= 28
    for golden in GOLDEN:
        expected = json.loads((golden / "expected.json").read_text(encoding="utf-8"))
        assert set(expected) == {"keyed", "split", "union", "rules", "raw", "raw keyed", "timers"}
        assert expected["keyed"].keys() == job.descriptors().keys()
        domains = {domain for domain in ("EVENT_TIME", "PROCESSING_TIME") if domain in str(expected["timers"])}
        assert len(domains) == 2 and all(expected.values())
