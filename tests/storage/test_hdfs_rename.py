"""The HDFS code on local files: renames that fail, or whose reply is lost. Not run on HDFS itself."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.fs as arrow_fs
import pytest

from penstock.errors import NameTakenError, StorageError, UnknownOutcomeError
from penstock.storage.hdfs import HdfsRename


class Files:
    """A file system that may stop answering."""

    def __init__(self) -> None:
        self.local = arrow_fs.LocalFileSystem()
        self.is_silent = False

    def __getattr__(self, name: str) -> Any:
        if self.is_silent:
            raise OSError("no answer")
        return getattr(self.local, name)


def writer(folder: Path, rename: Callable[[str, str], bool], files: Any = None) -> HdfsRename:
    return HdfsRename("hdfs://test", files or Files(), rename, str(folder))


def never(old: str, new: str) -> bool:
    return False


def done_and_lost(old: str, new: str) -> bool:
    os.rename(old, new)
    return False


def leftovers(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_rename_that_happened_despite_an_error_is_a_write(tmp_path: Path) -> None:
    writer(tmp_path, done_and_lost).put_if_absent("log/1", b"mine")
    assert (tmp_path / "log/1").read_bytes() == b"mine" and leftovers(tmp_path) == ["log/1"]


def test_a_rename_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot rename 'log/1'") as caught:
        writer(tmp_path, never).put_if_absent("log/1", b"mine")
    assert not isinstance(caught.value, (NameTakenError, UnknownOutcomeError)) and leftovers(tmp_path) == []


def test_a_rename_to_a_name_that_exists_is_a_name_that_is_taken(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log/1").write_bytes(b"other")
    with pytest.raises(NameTakenError):
        writer(tmp_path, never).put_if_absent("log/1", b"mine")
    assert (tmp_path / "log/1").read_bytes() == b"other" and leftovers(tmp_path) == ["log/1"]


def test_a_name_node_that_stops_answering_makes_the_outcome_unknown(tmp_path: Path) -> None:
    files = Files()

    def silent(old: str, new: str) -> bool:
        files.is_silent = True
        return False

    with pytest.raises(UnknownOutcomeError, match="cannot tell whether 'log/1' was written"):
        writer(tmp_path, silent, files).put_if_absent("log/1", b"mine")
    (leftover,) = leftovers(tmp_path)
    assert leftover.startswith("log/1~")  # swept by its name


def test_a_file_that_disappears_during_its_rename_is_unknown(tmp_path: Path) -> None:
    def gone(old: str, new: str) -> bool:
        os.unlink(old)
        return False

    with pytest.raises(UnknownOutcomeError, match="disappeared"):
        writer(tmp_path, gone).put_if_absent("log/1", b"mine")


def test_a_rename_that_lands_while_it_is_checked_is_unknown(tmp_path: Path) -> None:
    moved: list[str] = []

    class Landing(Files):
        def delete_file(self, path: str) -> None:
            os.rename(path, tmp_path / "log/1")
            moved.append(path)
            raise FileNotFoundError(path)

    with pytest.raises(UnknownOutcomeError, match="cannot tell whether 'log/1' was renamed"):
        writer(tmp_path, never, Landing()).put_if_absent("log/1", b"mine")
    assert moved


def test_deleting_a_missing_file_is_fine(tmp_path: Path) -> None:
    writer(tmp_path, never).delete("log/1")
