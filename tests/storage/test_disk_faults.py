"""A disk that fails: the checkpoint fails, nothing half-written is used, no file is fsynced twice (F12 to F15)."""

import errno
import io
import os
from pathlib import Path
from typing import Any

import pytest

from penstock.checkpoint.log.log_reader import read_log
from penstock.checkpoint.snapshot.manifest import load_manifest, verify_file
from penstock.checkpoint.snapshot.manifest import state_files as files_of
from penstock.connectors.file.file_sink import FileSink
from penstock.errors import (
    NameTakenError,
    NotDurableError,
    PenstockError,
    StorageError,
    UnknownOutcomeError,
)
from penstock.model.encoder import Encoder
from penstock.storage import local, put_certain
from penstock.storage.local import LocalStorage
from penstock.testing import Harness
from tests.storage.disk import Disk
from tests.testing.damage import EVENTS, ITEMS, check_exact, start

STRIDE = 5
"""Every fifth call is made to fail; the others are of the same kinds."""


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(tmp_path, monkeypatch)


def no_wait(seconds: float) -> None: ...


# ---- one file


def test_f13_a_file_is_never_fsynced_again_after_an_error(disk: Disk, tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    disk.fail_nth(1, "fsync")
    with pytest.raises(StorageError, match="cannot write 'log/1'.*Input/output error") as caught:
        put_certain(storage, "log/1", b"x", no_wait)
    assert not isinstance(caught.value, UnknownOutcomeError) and storage.list("") == []
    put_certain(storage, "log/1", b"x", no_wait)
    assert disk.synced_after_error == [] and len(disk.dead) == 1


def test_f13_a_name_whose_folder_was_not_fsynced_is_never_reported_as_durable(disk: Disk, tmp_path: Path) -> None:
    """A second fsync would succeed without having written anything."""
    storage = LocalStorage(tmp_path)
    storage.put_new("log/1", b"x")
    disk.fail_nth(1, "fsync folder")
    with pytest.raises(NotDurableError, match="'log/2' may not be durable"):
        put_certain(storage, "log/2", b"y", no_wait)
    assert [call for call, path in disk.calls if path.endswith("/log")].count("fsync folder") == 2


def test_f13_nothing_is_written_into_a_folder_that_may_vanish(disk: Disk, tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    disk.fail_nth(2, "fsync folder")  # of the root, which holds the new folder's name
    with pytest.raises(NotDurableError):
        storage.put_new("chk-1/a", b"x")
    with pytest.raises(StorageError, match="folder above 'chk-1' failed"):
        storage.put_new("chk-1/b", b"x")
    storage.put_new("chk-2/a", b"x")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE, errno.EROFS, errno.EACCES, errno.EDQUOT])
def test_f12_f15_what_the_disk_refuses_is_named_with_its_path(disk: Disk, tmp_path: Path, code: int) -> None:
    storage = LocalStorage(tmp_path)
    for call in ("create", "fsync", "link"):
        disk.fail_nth(1, call, code)
        with pytest.raises(StorageError) as caught:
            storage.put_new("chk-1/a", b"x")
        assert "chk-1/a" in str(caught.value) or "'a'" in str(caught.value)
        assert os.strerror(code) in str(caught.value)
        assert storage.list("") == []
    storage.put_new("chk-1/a", b"x")
    with pytest.raises(NameTakenError):
        storage.put_new("chk-1/a", b"y")


def test_f12_a_file_that_is_written_in_pieces_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = io.FileIO.write

    class Slow(io.FileIO):
        def write(self, data: Any) -> int:
            return real(self, bytes(data)[:7])

    monkeypatch.setattr(local, "open", lambda descriptor, mode, buffering: Slow(descriptor, "wb"), raising=False)
    LocalStorage(tmp_path).put_new("a", bytes(range(100)))
    monkeypatch.undo()
    assert LocalStorage(tmp_path).read("a") == bytes(range(100))


# ---- a whole job


def drive(folder: Path, disk: Disk) -> tuple[Harness, list[str]]:
    """Run the job to its end, starting it again after every error; the errors."""
    sink = FileSink.for_row_format(folder / "out", Encoder.simple_string_encoder()).build()
    harness: Harness | None = None
    fed = False
    errors: list[str] = []
    for _ in range(30):
        try:
            storage: Any = LocalStorage(folder / "job")
            harness = harness or start(storage, "hashmap", sink=sink)
            harness.clock.advance(5_000)  # a commit that failed is tried again after a pause
            harness.feed([] if fed else ITEMS)
            fed = True
            return harness.finish(), errors
        except PenstockError as error:
            fed = fed or harness is not None
            errors.append(f"{type(error).__name__}: {error}")
    raise AssertionError(f"it does not end: {errors}")


def check_job(folder: Path, harness: Harness, disk: Disk) -> None:
    check_exact(harness)
    lines = [
        line
        for path in (folder / "out").iterdir()
        if not path.name.startswith((".", "_"))
        for line in path.read_text().splitlines()
    ]
    assert sorted(int(line.split(", ")[1]) for line in lines) == list(range(len(EVENTS))), "every row once"
    assert disk.synced_after_error == []
    storage = LocalStorage(folder / "job")
    for complete in read_log(storage).retained:  # what is complete can be restored
        for file in files_of(load_manifest(storage, complete)):
            verify_file(storage, file)


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("fsync", errno.EIO),
        ("fsync folder", errno.EIO),
        ("create", errno.ENOSPC),
        ("create", errno.EMFILE),
        ("link", errno.EIO),
        ("fsync", errno.ENOSPC),
    ],
)
def test_f12_to_f15_every_single_fault_of_the_disk_is_survived(
    tmp_path: Path, disk: Disk, call: str, code: int
) -> None:
    """The n-th call fails, for every n, until the job gets through without meeting the fault."""
    number, hits = 0, 0
    while True:
        number += STRIDE
        folder = tmp_path / str(number)
        folder.mkdir()
        disk.failed.clear()
        disk.fail_nth(number, call, code)
        harness, errors = drive(folder, disk)
        check_job(folder, harness, disk)
        if not disk.failed:
            break
        hits += 1
        assert len(errors) <= 2, errors
    assert hits >= 5


def test_f12_a_disk_that_is_full_for_a_while_costs_checkpoints_and_nothing_else(tmp_path: Path, disk: Disk) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    left = [8]

    def full(call: str, path: str) -> int | None:
        if "/job/job/" in path and call == "create" and "shared" in path and left[0] > 0:
            left[0] -= 1
            return errno.ENOSPC
        return None

    disk.fault = full
    harness, errors = drive(folder, disk)
    assert errors and all("No space left" in error for error in errors), errors
    check_job(folder, harness, disk)


def test_f15_a_folder_that_cannot_be_written_is_an_error_of_the_start(tmp_path: Path, disk: Disk) -> None:
    disk.fault = lambda call, path: errno.EROFS if call == "create" else None
    with pytest.raises(StorageError, match="Read-only file system"):
        start(LocalStorage(tmp_path / "job"), "hashmap")  # type: ignore[arg-type]
    disk.fault = lambda call, path: None
    assert LocalStorage(tmp_path / "job").list("") == []
