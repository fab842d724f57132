"""Every storage does what the Protocol says."""

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow.fs as arrow_fs
import pytest

from penstock.storage import LocalStorage, MemoryStorage, Storage, open_storage
from penstock.storage.hdfs import HdfsRename
from penstock.storage.remote import RemoteStorage
from penstock.testing.conformance_storage import CHECKS


def rename_without_overwrite(old: str, new: str) -> bool:
    """What HDFS's name node does, on the local disk."""
    try:
        os.link(old, new)
    except OSError:
        return False
    os.unlink(old)
    return True


def hdfs_on_local_disk(root: Path) -> Storage:
    """The code for HDFS on files that are not in HDFS."""
    root.mkdir()
    files = arrow_fs.LocalFileSystem()
    writer = HdfsRename("hdfs://test", files, rename_without_overwrite, str(root))
    return RemoteStorage("hdfs://test", files, writer, str(root))


MAKERS: dict[str, Callable[[Path], Storage]] = {
    "local": LocalStorage,
    "memory": lambda _: MemoryStorage(),
    "hdfs code": hdfs_on_local_disk,
}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("kind", MAKERS)
def test_a_storage_conforms(kind: str, check: Callable[[Storage], None], tmp_path: Path) -> None:
    check(MAKERS[kind](tmp_path / "root"))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_an_s3_server_conforms(check: Callable[[Storage], None], s3_uri: str) -> None:
    check(open_storage(s3_uri))
