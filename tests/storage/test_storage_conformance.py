"""Every storage does what the Protocol says."""

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.model.ids import new_nonce
from penstock.services import RunningService
from penstock.storage import LocalStorage, MemoryStorage, Storage, open_storage
from penstock.testing.conformance_storage import CHECKS
from tests.storage.fake_hdfs import FakeHdfs

MAKERS: dict[str, Callable[[Path], Storage]] = {
    "local": LocalStorage,
    "memory": lambda _: MemoryStorage(),
    "hdfs code": lambda _: FakeHdfs().storage(limit_s=5),
}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("kind", MAKERS)
def test_a_storage_conforms(kind: str, check: Callable[[Storage], None], tmp_path: Path) -> None:
    check(MAKERS[kind](tmp_path / "root"))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_an_s3_server_conforms(check: Callable[[Storage], None], s3_uri: str) -> None:
    check(open_storage(s3_uri))


@pytest.mark.e2e
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_hdfs_conforms(check: Callable[[Storage], None], hdfs: RunningService) -> None:
    check(open_storage(f"{hdfs.address}/conformance-{new_nonce()}"))
