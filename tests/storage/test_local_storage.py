"""What is special about a local disk: permissions, links, fsync, leftovers and concurrent writers."""

import os
import pickle
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock import failpoint
from penstock.errors import ConfigurationError, NameTakenError, StorageError, UnknownOutcomeError
from penstock.failpoint import Failpoint, InjectedCrash
from penstock.storage import LocalStorage, open_storage


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "job")


@pytest.fixture(autouse=True)
def disarmed():
    yield
    failpoint.disarm()


def test_files_and_folders_are_for_their_owner_only(storage: LocalStorage, tmp_path: Path) -> None:
    storage.put_new("chk-1/x", b"x")
    assert stat.S_IMODE((tmp_path / "job/chk-1/x").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "job/chk-1").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "job").stat().st_mode) == 0o700


@pytest.mark.parametrize("place", ["C13.before", "C13.after", "C14.before", "C14.after", "C15.before", "C15.after"])
def test_a_crash_while_writing_leaves_the_whole_file_or_none(storage: LocalStorage, place: str) -> None:
    failpoint.arm(Failpoint(place, "raise"))
    with pytest.raises(InjectedCrash):
        storage.put_new("chk-1/x", b"data")
    failpoint.disarm()
    assert ("chk-1/x" in storage.list("")) == (place == "C15.after")
    leftovers = [path for path in storage.list("") if "~" in path]
    assert len(leftovers) == (0 if place == "C13.before" else 1)
    assert all(path.startswith("chk-1/x~") for path in leftovers)
    if "chk-1/x" not in storage.list(""):
        storage.put_new("chk-1/x", b"data")
    assert storage.read("chk-1/x") == b"data"


def test_a_file_whose_fsync_failed_never_appears(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = os.fsync, []

    def broken(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 1:
            raise OSError(5, "Input/output error")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(StorageError) as caught:
        storage.put_new("a/b", b"x")
    assert not isinstance(caught.value, UnknownOutcomeError)
    assert storage.list("") == []
    storage.put_new("a/b", b"x")
    assert storage.read("a/b") == b"x"


def test_a_folder_whose_fsync_failed_makes_the_outcome_unknown(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def broken(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(5, "Input/output error")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(UnknownOutcomeError):
        storage.put_new("a/b", b"x")
    with pytest.raises(UnknownOutcomeError):  # a taken name is reported only once it is durable
        storage.put_new("a/b", b"x")
    monkeypatch.setattr(os, "fsync", real)
    with pytest.raises(NameTakenError):
        storage.put_new("a/b", b"x")


def test_folders_are_fsynced_from_the_file_to_the_root(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    real, synced = os.fsync, []

    def noted(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}").rpartition("/job")[2].split("~")[0])
        real(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    storage.put_new("a/b/c", b"x")
    assert synced == ["/a/b/c", "/a/b", "/a", ""]
    del synced[:]
    storage.put_new("a/b/d", b"x")
    assert synced == ["/a/b/d", "/a/b"]


def test_a_lost_reply_of_the_link_is_detected_by_the_link_count(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.link

    def linked_and_lost(source: Path, target: Path, *, follow_symlinks: bool) -> None:
        real(source, target, follow_symlinks=follow_symlinks)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "link", linked_and_lost)
    storage.put_new("a/b", b"x")
    assert storage.list("") == ["a/b"]


def test_a_file_system_without_hard_links_is_an_error_that_says_so(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*args: Path, **options: bool) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    with pytest.raises(StorageError, match="cannot link 'a/b'"):
        storage.put_new("a/b", b"x")
    assert storage.list("") == []


def test_links_out_of_the_folder_are_not_followed(storage: LocalStorage, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    (tmp_path / "job/way-out").symlink_to(outside)
    (tmp_path / "job/file").symlink_to(outside / "secret")
    for path in ("way-out/secret", "file"):
        with pytest.raises(StorageError):
            storage.read(path)
        assert path not in storage.list("")
    with pytest.raises(StorageError):
        storage.put_new("way-out/new", b"x")
    with pytest.raises(StorageError):
        storage.delete("way-out/secret")
    assert (outside / "secret").exists()


def test_a_numbered_folder_is_removed_with_its_last_file_and_others_stay(storage: LocalStorage, tmp_path: Path) -> None:
    for path in ("chk-1/a", "chk-1/b", "shared/a"):
        storage.put_new(path, b"")
    storage.delete("chk-1/a")
    assert (tmp_path / "job/chk-1").is_dir()
    storage.delete("chk-1/b")
    storage.delete("shared/a")
    assert sorted(p.name for p in (tmp_path / "job").iterdir()) == ["shared"]
    storage.put_new("chk-1/c", b"x")
    assert storage.read("chk-1/c") == b"x"


def test_a_removed_folder_is_not_remembered_as_durable(
    storage: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.put_new("chk-1/a", b"")
    storage.delete("chk-1/a")
    synced: list[str] = []
    monkeypatch.setattr("penstock.storage.local._fsync_folder", lambda folder: synced.append(folder.name))
    storage.put_new("chk-1/a", b"")
    assert synced == ["chk-1", "job"]


def test_of_many_writers_of_one_name_one_wins(storage: LocalStorage) -> None:
    def write(number: int) -> int | None:
        try:
            storage.put_new("log/1", str(number).encode())
        except NameTakenError:
            return None
        return number

    for _ in range(20):
        with ThreadPoolExecutor(8) as pool:
            winners = [number for number in pool.map(write, range(8)) if number is not None]
        assert len(winners) == 1
        assert storage.read("log/1") == str(winners[0]).encode()
        assert storage.list("") == ["log/1"]
        storage.delete("log/1")


def test_an_unreadable_folder_is_an_error_and_not_empty(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.put_new("a/b", b"x")

    def refused(path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(StorageError, match="cannot list"):
        storage.list("")


def test_a_root_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError):
        LocalStorage(tmp_path / "file")
    with pytest.raises(StorageError):
        LocalStorage(tmp_path / "file" / "below")


def test_a_storage_can_be_opened_again_by_its_address(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path / "with space")
    storage.put_new("a", b"x")
    assert open_storage(storage.uri).read("a") == b"x"
    assert open_storage(str(tmp_path / "with space")).read("a") == b"x"
    assert pickle.loads(pickle.dumps(storage)).read("a") == b"x"
    with pytest.raises(ConfigurationError, match="no storage for addresses with 'ftp://'"):
        open_storage("ftp://host/folder")
