"""The file sink on HDFS, in the conformance suite: on an HDFS in memory whose every call fails, and on a real one."""

import json
from collections.abc import Callable, Sequence

import hdfs_native
import pytest

from penstock.connectors.file.file_sink import FileSink
from penstock.connectors.file.hdfs_parts import HdfsPart
from penstock.connectors.file.part_writer import PartWriter
from penstock.errors import StateLostError, StorageError, UsageError
from penstock.model.ids import new_nonce
from penstock.model.sink import Sink, SinkWriter
from penstock.services import RunningService
from penstock.storage.hdfs_client import HdfsClient, hdfs_client
from penstock.testing.conformance_sink import CHECKS, SinkSystem
from tests.connectors.sinks import ROWS, context, pre_commit, sink_of
from tests.storage.fake_hdfs import REFUSED, SAFE_MODE, FakeHdfs

Check = Callable[[SinkSystem], None]
every_check = pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
REPEATED = ("a_lost_reply", "a_crash_")
"""The names of checks that run a job for every call: minutes on a real HDFS."""


class HdfsFolder(SinkSystem):
    """A FileSink in a folder of HDFS. `paths` lists the folder in the order of writing."""

    def __init__(self, address: str, client: HdfsClient, paths: Callable[[str], list[str]]) -> None:
        super().__init__()
        self.address = address
        self.client = client
        self.folder = "/" + address.removeprefix("hdfs://").partition("/")[2]
        self.paths = paths

    def sink(self) -> Sink:
        return FileSink.for_row_format(self.address, "json").build()

    def names(self) -> list[str]:
        return [path.rpartition("/")[2] for path in self.paths(self.folder)]

    def rows(self) -> list[tuple[int, int]]:
        finished = [name for name in self.names() if not name.startswith(".")]
        data = b"".join(self.client.read(f"{self.folder}/{name}") for name in finished)
        return [(row["id"], row["value"]) for row in map(json.loads, data.splitlines())]

    def leftovers(self) -> Sequence[object]:
        return [name for name in self.names() if name.startswith(".") and not name.startswith(".committed-")]

    def kill(self, writer: SinkWriter) -> None:
        close_files(writer)

    def clear(self) -> None:
        for name in self.names():
            if not name.startswith("."):
                self.client.delete(f"{self.folder}/{name}")


def close_files(writer: SinkWriter) -> None:
    """What the death of a process does to its temporary files."""
    assert isinstance(writer, PartWriter)
    for part in (*writer._parts, *writer._prepared):
        assert isinstance(part.file, HdfsPart)
        part.file._file.close()


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeHdfs:
    """Every sink of this process writes to it, without pauses."""
    found = FakeHdfs()
    client = found.client(limit_s=5)
    monkeypatch.setattr("penstock.connectors.file.hdfs_parts.hdfs_client", lambda _: client)
    monkeypatch.setattr("penstock.storage.hdfs_client._WAITS_S", (0.0,))
    return found


@every_check
def test_q9_the_file_sink_on_an_hdfs_in_memory(check: Check, fake: FakeHdfs) -> None:
    system = HdfsFolder("hdfs://test:8020/out", fake.client(limit_s=5), lambda _: list(fake.files))
    fake.around = system.faults.call
    check(system)


@pytest.mark.e2e
@pytest.mark.parametrize(
    "check", [check for check in CHECKS if not check.__name__.startswith(REPEATED)], ids=lambda check: check.__name__
)
def test_q9_the_file_sink_on_hdfs(check: Check, hdfs: RunningService) -> None:
    place = hdfs.address.removeprefix("hdfs://")
    library = hdfs_native.Client(hdfs.address)

    def paths(folder: str) -> list[str]:
        found = sorted(library.list_status(folder), key=lambda status: status.modification_time)
        return [status.path for status in found]

    check(HdfsFolder(f"{hdfs.address}/out-{new_nonce()}", hdfs_client(place), paths))


def test_rows_wait_outside_hdfs_until_their_checkpoint(fake: FakeHdfs) -> None:
    writer = FileSink.for_row_format("hdfs://test:8020/out", "json").build().open(context())
    writer.begin_epoch()
    writer.write([("a", 1)])
    assert fake.files == {}
    (committable,) = pre_commit(writer, context())
    assert list(fake.files) == [f"/out/{committable.data['pending']}"]
    writer.close()
    assert list(fake.files) == [f"/out/{committable.data['pending']}"]


def test_a_pre_commit_in_safe_mode_fails_and_its_rows_are_still_there(
    fake: FakeHdfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = fake.client(limit_s=0.2)
    monkeypatch.setattr("penstock.connectors.file.hdfs_parts.hdfs_client", lambda _: client)
    who = context()
    sink = FileSink.for_row_format("hdfs://test:8020/out", "json").build()
    writer = sink.open(who)
    writer.begin_epoch()
    writer.write([("a", 1)])
    writer.begin_epoch()
    writer.write([("b", 2)])
    fake.before["create"] = [SAFE_MODE] * 1_000_000
    with pytest.raises(StorageError, match="in safe mode"):
        writer.pre_commit()
    fake.before.clear()
    writer.roll_back()
    writer.write([("c", 3)])
    (committable,) = pre_commit(writer, who)
    sink.commit(committable)
    writer.close()
    (data,) = (data for name, data in fake.files.items() if name.startswith("/out/part-"))
    assert [json.loads(line)["n"] for line in data.splitlines()] == [1, 3]


def test_a_pending_file_that_cannot_be_taken_back_loses_the_state(fake: FakeHdfs) -> None:
    """Otherwise two transactions would hold the same rows."""
    writer = FileSink.for_row_format("hdfs://test:8020/out", "json").build().open(context())
    writer.begin_epoch()
    writer.write([("a", 1)])
    writer.begin_epoch()
    writer.pre_commit()
    fake.before["delete"] = [RuntimeError('RPCError("java.io.IOException", "broken")')]
    with pytest.raises(StateLostError, match="broken"):
        writer.roll_back()
    close_files(writer)


@pytest.mark.parametrize("format_name", ["csv", "parquet"])
def test_other_formats_are_converted_before_they_are_copied(fake: FakeHdfs, format_name: str) -> None:
    writer = sink_of("hdfs://test:8020/out", format_name).open(who := context())
    writer.begin_epoch()
    writer.write([("a", 1), ("b", 2)])
    (committable,) = pre_commit(writer, who)
    writer.close()
    (data,) = fake.files.values()
    assert len(data) == committable.data["size"]
    assert data.startswith(b"PAR1") if format_name == "parquet" else data.count(b"\n") == 3


@pytest.mark.parametrize("path", ["hdfs://test:8020", "hdfs://test:8020/"])
def test_the_root_of_hdfs_is_no_folder_of_a_sink(path: str) -> None:
    with pytest.raises(UsageError, match="needs a folder of its own"):
        FileSink.for_row_format(path, "json")


def test_other_addresses_are_refused() -> None:
    with pytest.raises(UsageError, match="local or mounted folders and to hdfs:// addresses"):
        FileSink.for_row_format("s3://bucket/out", "json")


def test_a_sink_whose_hdfs_is_away_or_whose_folder_is_a_file_is_found_before_its_job_starts(
    fake: FakeHdfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.storage.hdfs.hdfs_client", lambda _: fake.client())
    monkeypatch.setattr("penstock.storage.hdfs_client.OPEN_LIMIT_S", 0.1)
    sink = FileSink.for_row_format("hdfs://test:8020/out", "json").build()
    sink.check(ROWS)
    fake.files["/out"] = b""
    with pytest.raises(UsageError, match="is a file"):
        sink.check(ROWS)
    fake.before["stat"] = [REFUSED] * 1_000_000
    with pytest.raises(StorageError, match="no NameNode listens"):
        sink.check(ROWS)
