"""Writes to HDFS whose NameNode is away, silent, in safe mode, or answers too late; on an HDFS in memory."""

import pytest

from penstock.errors import FileMissingError, NameTakenError, StorageError, UnknownOutcomeError
from tests.storage.fake_hdfs import LOST, REFUSED, SAFE_MODE, SILENT, FakeHdfs

TARGET = "/folder/log/1"


def leftovers(hdfs: FakeHdfs) -> list[str]:
    return [path for path in hdfs.files if "~" in path]


@pytest.mark.parametrize("error", [LOST, SILENT])
def test_a_rename_that_happened_without_a_reply_is_a_write(error: Exception) -> None:
    hdfs = FakeHdfs(after={"rename": [error]})
    hdfs.storage().put_new("log/1", b"mine")
    assert hdfs.files == {TARGET: b"mine"}


def test_a_rename_that_did_not_happen_without_a_reply_is_no_write() -> None:
    hdfs = FakeHdfs(before={"rename": [LOST]})
    with pytest.raises(StorageError, match="cannot write '/folder/log/1'") as caught:
        hdfs.storage().put_new("log/1", b"mine")
    assert not isinstance(caught.value, UnknownOutcomeError) and hdfs.files == {}


def test_a_rename_without_a_reply_onto_the_file_of_another_writer_is_a_taken_name() -> None:
    """Also if a sweep has removed the temporary file: that it is gone does not prove that it was renamed."""

    def swept() -> None:
        hdfs.files = {TARGET: b"other"}

    hdfs = FakeHdfs(instead={"rename": swept}, after={"rename": [LOST]})
    with pytest.raises(NameTakenError):
        hdfs.storage().put_new("log/1", b"mine")
    assert hdfs.files == {TARGET: b"other"}


def test_a_name_node_that_stays_silent_after_a_rename_makes_the_outcome_unknown() -> None:
    hdfs = FakeHdfs(before={"rename": [LOST], "delete": [LOST] * 100})
    with pytest.raises(UnknownOutcomeError, match="cannot tell whether '/folder/log/1' was written"):
        hdfs.storage().put_new("log/1", b"mine")
    (leftover,) = leftovers(hdfs)
    assert leftover.startswith(f"{TARGET}~")  # swept by its name


def test_a_file_that_disappears_during_its_rename_is_unknown() -> None:
    hdfs = FakeHdfs(after={"rename": [LOST]})
    hdfs.instead["rename"] = lambda: hdfs.files.clear()
    with pytest.raises(UnknownOutcomeError, match="disappeared"):
        hdfs.storage().put_new("log/1", b"mine")


def test_a_rename_that_the_library_has_repeated_is_a_write() -> None:
    """After a failover its second try finds no file to rename."""
    hdfs = FakeHdfs(after={"rename": [FileNotFoundError("rename source is not found")]})
    hdfs.storage().put_new("log/1", b"mine")
    assert hdfs.files == {TARGET: b"mine"}


def test_a_host_that_became_unreachable_may_have_executed_a_rename() -> None:
    hdfs = FakeHdfs(after={"rename": [OSError("No route to host (os error 113)")]})
    hdfs.storage().put_new("log/1", b"mine")
    assert hdfs.files == {TARGET: b"mine"} and hdfs.calls.count("rename") == 1


def test_a_taken_name_is_not_overwritten_and_leaves_nothing() -> None:
    hdfs = FakeHdfs(files={TARGET: b"other"})
    with pytest.raises(NameTakenError):
        hdfs.storage().put_new("log/1", b"mine")
    assert hdfs.files == {TARGET: b"other"}


@pytest.mark.parametrize("error", [REFUSED, SAFE_MODE, LOST])
@pytest.mark.parametrize("call", ["create", "hsync", "close"])
def test_a_write_that_fails_before_its_rename_is_repeated_under_a_new_temporary_name(
    call: str, error: Exception
) -> None:
    hdfs = FakeHdfs(before={call: [error]})
    hdfs.storage(limit_s=5).put_new("log/1", b"mine")
    assert hdfs.files == {TARGET: b"mine"} and hdfs.calls.count("create") == 2


@pytest.mark.parametrize("error", [REFUSED, SAFE_MODE])
def test_a_rename_that_was_refused_is_repeated(error: Exception) -> None:
    hdfs = FakeHdfs(before={"rename": [error, error]})
    hdfs.storage(limit_s=5).put_new("log/1", b"mine")
    assert hdfs.files == {TARGET: b"mine"}


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (REFUSED, "no NameNode listens at test:8020"),
        (SAFE_MODE, "in safe mode"),
        (
            RuntimeError(
                r'RPCError("org.apache.hadoop.security.AccessControlException", "Permission denied: user=alice, '
                r'access=WRITE, inode=\"/\":root:supergroup:drwxr-xr-x\n\tat org.apache.X.y(X.java:1)")'
            ),
            'Permission denied: user=alice, access=WRITE, inode="/":root:supergroup:drwxr-xr-x; set HADOOP_USER_NAME',
        ),
        (OSError("failed to lookup address information: Name or service not known"), "there is no host test:8020"),
        (
            RuntimeError('RPCError("java.io.IOException", "File /x could only be written to 0 of the 1 nodes.")'),
            "no DataNode takes the file",
        ),
        (
            RuntimeError('RPCError("org.apache.hadoop.hdfs.protocol.NSQuotaExceededException", "quota of /x")'),
            "raise the quota",
        ),
        (NotImplementedError("hsync of erasure-coded files"), "without erasure coding"),
    ],
)
def test_a_write_that_is_refused_says_why_and_what_to_do(error: Exception, reason: str) -> None:
    hdfs = FakeHdfs(before={"create": [error] * 100})
    with pytest.raises(StorageError, match="cannot write '/folder/log/1' in hdfs://test:8020") as caught:
        hdfs.storage().put_new("log/1", b"mine")
    assert reason in str(caught.value) and "org.apache.X" not in str(caught.value) and hdfs.files == {}


def test_a_silent_name_node_gets_a_new_connection_for_the_next_try() -> None:
    hdfs = FakeHdfs(files={TARGET: b"x"}, before={"stat": [SILENT]})
    assert hdfs.storage(limit_s=5).size("log/1") == 1 and hdfs.connections == 2


def test_a_file_that_is_not_closed_soon_is_closed_by_recovering_its_lease() -> None:
    hdfs = FakeHdfs(instead={"close": lambda: "never"}, before={"recover": [FileExistsError("not yet")]})
    hdfs.storage(limit_s=5).put_new("log/1", b"mine")
    assert hdfs.files == {TARGET: b"mine"} and hdfs.calls.count("recover") == 2


def test_a_file_that_lost_bytes_when_it_was_closed_is_not_published() -> None:
    def recovered() -> bool:
        hdfs.files = {path: data[:1] for path, data in hdfs.files.items()}
        return True

    hdfs = FakeHdfs(instead={"close": lambda: "never", "recover": recovered})
    with pytest.raises(StorageError, match="has 1 bytes where 4 were written"):
        hdfs.storage(limit_s=5).put_new("log/1", b"mine")
    assert hdfs.files == {}


def test_a_file_whose_writer_has_not_closed_it_is_not_read_as_an_empty_one() -> None:
    hdfs = FakeHdfs(files={TARGET: b"mine"}, instead={"read": lambda: b""})
    with pytest.raises(StorageError, match="0 of 4 bytes came"):
        hdfs.storage().read("log/1")


def test_a_delete_without_a_reply_is_repeated() -> None:
    hdfs = FakeHdfs(files={TARGET: b"mine"}, after={"delete": [LOST]})
    hdfs.storage(limit_s=5).delete("log/1")
    assert hdfs.files == {}


def test_a_name_node_that_is_away_is_not_an_empty_folder() -> None:
    hdfs = FakeHdfs(before={"list": [REFUSED] * 100, "stat": [REFUSED] * 100, "read": [REFUSED] * 100})
    with pytest.raises(StorageError, match="no NameNode listens") as caught:
        hdfs.storage().list("log/")
    assert not isinstance(caught.value, FileMissingError)
    with pytest.raises(StorageError, match="no NameNode listens") as caught:
        hdfs.storage().read("log/1")
    assert not isinstance(caught.value, FileMissingError)


@pytest.mark.parametrize("pieces", [(b"x" * 25,), (b"x" * 7, b"y" * 13, b"z" * 20), (b"x" * 10, b"y" * 10), (b"",), ()])
def test_every_block_of_a_file_is_synced_before_it_is_closed(
    pieces: tuple[bytes, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The HDFS in memory refuses a write that would close another block."""
    monkeypatch.setattr("penstock.storage.hdfs_client.BLOCK_BYTES", 10)
    monkeypatch.setattr("penstock.storage.hdfs_client.PIECE_BYTES", 4)
    hdfs = FakeHdfs()
    hdfs.client().put_new(TARGET, pieces)
    assert hdfs.files == {TARGET: b"".join(pieces)}
