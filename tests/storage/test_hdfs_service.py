"""A real HDFS: nameservices, users, refusals, a NameNode that is away or silent, and files that were not closed."""

import signal
from pathlib import Path

import hdfs_native
import psutil
import pytest

from penstock.errors import StorageAwayError, StorageError
from penstock.model.ids import new_nonce
from penstock.services import RunningService
from penstock.services.hdfs_service import NAMENODE, administrate
from penstock.services.service import free_ports
from penstock.services.service_handle import read_state
from penstock.storage import open_storage
from penstock.storage.hdfs import HdfsStorage
from penstock.storage.hdfs_client import HdfsClient
from penstock.storage.hdfs_config import find_namenodes
from penstock.testing.conformance_storage import it_passes_the_probe_and_the_probe_leaves_nothing
from tests.storage.test_hdfs_config import configured

pytestmark = [pytest.mark.e2e, pytest.mark.process]


@pytest.fixture
def folder(hdfs: RunningService) -> str:
    return f"{hdfs.address}/service-{new_nonce()}"


def impatient(address: str, limit_s: float) -> HdfsStorage:
    """A storage that waits for a shorter time."""
    place, _, path = address.removeprefix("hdfs://").partition("/")
    return HdfsStorage(address, HdfsClient(find_namenodes(place), limit_s), f"/{path}")


def test_a_nameservice_whose_first_name_node_is_away_is_served_by_the_second(
    hdfs: RunningService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {
        "dfs.nameservices": "prod",
        "dfs.ha.namenodes.prod": "nn1, nn2",
        "dfs.namenode.rpc-address.prod.nn1": f"127.0.0.1:{free_ports(1)[0]}",
        "dfs.namenode.rpc-address.prod.nn2": hdfs.address.removeprefix("hdfs://"),
    }
    monkeypatch.setenv("HADOOP_CONF_DIR", configured(tmp_path, settings)["HADOOP_CONF_DIR"])
    storage = open_storage(f"hdfs://prod/nameservice-{new_nonce()}")
    it_passes_the_probe_and_the_probe_leaves_nothing(storage)


def test_another_user_may_not_write_where_he_may_not(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_USER_NAME", "alice")
    with pytest.raises(StorageError, match="Permission denied: user=alice, access=WRITE.*set HADOOP_USER_NAME"):
        open_storage(folder).put_new("a", b"x")


def test_an_unknown_host_is_reported_at_once() -> None:
    with pytest.raises(StorageError, match="there is no host nowhere.invalid:8020; correct the address"):
        open_storage("hdfs://nowhere.invalid/checkpoints")


def test_safe_mode_refuses_writes_with_the_reason_and_allows_reads(hdfs: RunningService, folder: str) -> None:
    storage = impatient(folder, 1)
    storage.put_new("a", b"x")
    administrate(hdfs.address, "-safemode", "enter")
    try:
        with pytest.raises(StorageAwayError, match="cannot write .*/b' in hdfs://.*: the NameNode is in safe mode"):
            storage.put_new("b", b"x")
        assert storage.read("a") == b"x" and storage.list("") == ["a"]
    finally:
        administrate(hdfs.address, "-safemode", "leave")
    storage.put_new("b", b"x")


def test_a_silent_name_node_ends_a_call_in_time_and_serves_the_next(hdfs: RunningService, folder: str) -> None:
    storage = impatient(folder, 2)
    storage.put_new("a", b"x")
    state = read_state(hdfs.folder)
    assert state is not None
    programs = psutil.Process(state.supervisor_pid).children()
    (namenode,) = [program for program in programs if NAMENODE in program.cmdline()]
    namenode.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(StorageError, match="no answer from 127.0.0.1"):
            storage.put_new("b", b"x")
    finally:
        namenode.send_signal(signal.SIGCONT)
    impatient(folder, 60).put_new("c", b"x")
    assert storage.read("a") == b"x"


def test_files_outlive_a_kill_of_hdfs(hdfs: RunningService, folder: str) -> None:
    storage = open_storage(folder)
    data = bytes(range(256)) * 4096 * 20
    storage.put_new("small", b"x")
    storage.put_new("large", data)
    hdfs.kill()
    hdfs.resume()
    assert storage.read("small") == b"x" and storage.read("large") == data
    assert storage.list("") == ["large", "small"]


def test_a_file_that_its_writer_has_not_closed_is_refused_and_not_read_as_empty(folder: str) -> None:
    """The reason why files are closed before they get their names."""
    library = hdfs_native.Client(folder)
    path = "/" + folder.removeprefix("hdfs://").partition("/")[2] + "/open"
    writer = library.create(path, hdfs_native.WriteOptions(overwrite=False, create_parent=True))
    writer.write(b"x" * 5000)
    writer.hsync()
    assert library.read(path).read() == b""
    with pytest.raises(StorageError, match="0 of 5000 bytes came"):
        open_storage(folder).read("open")
    writer.close()
    assert open_storage(folder).read("open") == b"x" * 5000
