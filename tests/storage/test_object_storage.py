"""What is special about an object store: lost replies, late writes, conflicts, limits, and what is never shown."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import obstore
import pytest

from penstock.errors import (
    ConfigurationError,
    FileMissingError,
    NameTakenError,
    StorageError,
    UnknownOutcomeError,
)
from penstock.storage import Storage, conditional_put, hdfs_client, open_storage, probe_two_writers, put_certain, remote
from penstock.storage.address import RemoteAddress, parse_address
from penstock.storage.conditional_put import WAITS_S, ConditionalPut
from tests.storage.s3_server import BUCKET, ENVIRONMENT, Faults, faulty_proxy


@pytest.fixture
def faults() -> Faults:
    return Faults()


@pytest.fixture
def storage(s3_uri: str, s3_endpoint: str, faults: Faults, monkeypatch: pytest.MonkeyPatch) -> Iterator[Storage]:
    """A storage behind a network that fails."""
    monkeypatch.setattr(conditional_put, "WAITS_S", (0.0, 0.0, 0.0))
    monkeypatch.setattr(conditional_put, "SMALL_TIMEOUT_S", 1)
    with faulty_proxy(s3_endpoint, faults) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        yield open_storage(s3_uri)


@pytest.fixture
def other(s3_uri: str, storage: Storage, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Storage:
    """The same place as another process sees it."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_endpoint)
    return open_storage(s3_uri)


def puts(faults: Faults) -> int:
    return len([method for method, _ in faults.seen if method == "PUT"])


@pytest.mark.parametrize("fault", ["drop", "lose", "hang", 500, 503])
def test_f16_a_write_without_reply_is_repeated_and_found(storage: Storage, faults: Faults, fault: str | int) -> None:
    faults.faults = [("PUT", "log/1", fault)]
    storage.put_new("log/1", b"mine")
    assert puts(faults) == 2
    assert storage.read("log/1") == b"mine"


def test_f16_r1_a_conflict_is_not_a_name_that_is_taken(storage: Storage, faults: Faults) -> None:
    faults.faults = [("PUT", "log/1", 409), ("PUT", "log/1", 409)]
    storage.put_new("log/1", b"mine")
    assert puts(faults) == 3
    assert storage.read("log/1") == b"mine"


def test_r1_endless_conflicts_leave_nothing_and_are_an_error(storage: Storage, faults: Faults) -> None:
    faults.faults = [("PUT", "log/1", 409)] * (len(WAITS_S) + 1)
    with pytest.raises(StorageError, match="was under way") as caught:
        storage.put_new("log/1", b"mine")
    assert not isinstance(caught.value, UnknownOutcomeError)
    assert storage.list("") == []


def test_f16_another_s_file_is_not_taken_for_ones_own_after_a_lost_reply(
    storage: Storage, other: Storage, faults: Faults
) -> None:
    other.put_new("log/1", b"other")
    faults.faults = [("PUT", "log/1", "lose")]
    with pytest.raises(NameTakenError):
        storage.put_new("log/1", b"mine!")  # of the same length
    assert storage.read("log/1") == b"other"


def test_an_equal_file_of_another_is_taken_when_no_reply_was_lost(storage: Storage, other: Storage) -> None:
    other.put_new("log/1", b"same")
    with pytest.raises(NameTakenError):
        storage.put_new("log/1", b"same")


@pytest.mark.parametrize("fault", ["lose", "hang"])
def test_a_write_that_is_never_answered_is_unknown(storage: Storage, faults: Faults, fault: str) -> None:
    tries = len(WAITS_S) + 1
    faults.faults = [("PUT", "log/1", "lose")] * (tries - 1) + [("PUT", "log/1", fault)]
    with pytest.raises(UnknownOutcomeError, match=f"after {tries} tries"):
        storage.put_new("log/1", b"mine")
    assert puts(faults) == tries
    assert storage.list("log/") == (["log/1"] if fault == "hang" else [])


def test_f16_a_write_that_lands_late_does_not_overwrite_another(
    storage: Storage, other: Storage, faults: Faults
) -> None:
    faults.faults = [("PUT", "log/1", "late")] + [("PUT", "log/1", "lose")] * len(WAITS_S)
    with pytest.raises(UnknownOutcomeError):
        storage.put_new("log/1", b"late")
    other.put_new("log/1", b"other")
    faults.released.set()
    for thread in faults.late:
        thread.join(10)
    assert other.read("log/1") == b"other"


def test_r5_a_late_write_of_ones_own_is_found_by_the_repeat(storage: Storage, faults: Faults) -> None:
    faults.faults = [("PUT", "log/1", "late")] + [("PUT", "log/1", "lose")] * len(WAITS_S)

    def let_it_land(seconds: float) -> None:
        faults.released.set()
        for thread in faults.late:
            thread.join(10)

    put_certain(storage, "log/1", b"mine", let_it_land)
    assert storage.read("log/1") == b"mine"


def test_a_taken_name_that_cannot_be_read_back_is_unknown(storage: Storage, other: Storage, faults: Faults) -> None:
    other.put_new("log/1", b"other")
    faults.faults = [("HEAD", "log/1", "lose")] * 10
    with pytest.raises(UnknownOutcomeError, match="cannot be read back"):
        storage.put_new("log/1", b"mine")


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refused_write_is_known_at_once(storage: Storage, faults: Faults, status: int) -> None:
    faults.faults = [("PUT", "log/1", status)]
    with pytest.raises(StorageError) as caught:
        storage.put_new("log/1", b"mine")
    assert not isinstance(caught.value, (UnknownOutcomeError, NameTakenError))
    assert puts(faults) == 1


def test_a_refusal_after_a_lost_reply_is_still_unknown(storage: Storage, faults: Faults) -> None:
    faults.faults = [("PUT", "log/1", "drop")] + [("PUT", "log/1", 403)] * len(WAITS_S)
    with pytest.raises(UnknownOutcomeError):
        storage.put_new("log/1", b"mine")


@pytest.mark.parametrize("operation", ["read", "size"])
def test_f16_a_store_that_does_not_answer_is_not_a_missing_file(
    storage: Storage, faults: Faults, operation: str
) -> None:
    storage.put_new("log/1", b"mine")
    faults.faults = [(method, "", 403) for method in ("GET", "HEAD")] * 10
    with pytest.raises(StorageError) as caught:
        getattr(storage, operation)("log/1")
    assert not isinstance(caught.value, FileMissingError)


def test_a_failed_listing_is_not_an_empty_one(storage: Storage, faults: Faults) -> None:
    faults.faults = [("GET", "list-type", 403)] * 10
    with pytest.raises(StorageError, match="cannot list"):
        storage.list("")


def test_a_missing_bucket_is_not_a_missing_file(s3_uri: str) -> None:
    storage = open_storage("s3://no-such-bucket/x")
    for call in (storage.read, storage.size, storage.list):
        with pytest.raises(StorageError, match="no bucket or container 'no-such-bucket'") as caught:
            call("log/1")
        assert not isinstance(caught.value, FileMissingError)
    with pytest.raises(StorageError, match="refuses the write"):
        storage.put_new("log/1", b"x")


def test_f16_a_listing_that_lags_is_found_by_the_probe(storage: Storage, faults: Faults) -> None:
    def without_new_files(method: str, path: str, body: bytes) -> bytes:
        start, end = body.find(b"<Contents>"), body.rfind(b"</Contents>")
        return body if start < 0 else body[:start] + body[end + len(b"</Contents>") :]

    faults.answer = without_new_files
    with pytest.raises(StorageError, match="cannot hold checkpoints: a listing does not show"):
        probe_two_writers(storage)


def test_a_store_that_ignores_the_condition_is_refused_by_the_probe(
    s3_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = obstore.put
    monkeypatch.setattr(obstore, "put", lambda *given, mode: real(*given))
    storage = open_storage(s3_uri)
    with pytest.raises(StorageError, match="cannot hold checkpoints: it told 2 of two writers that they had won"):
        probe_two_writers(storage)
    assert storage.list("") == []


def test_a_listing_of_more_than_a_page_is_whole(s3_uri: str) -> None:
    storage = open_storage(s3_uri)
    paths = [f"shared/{number:05d}" for number in range(1005)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda path: storage.put_new(path, b""), paths))
    assert storage.list("shared/") == paths
    assert storage.folders() == ["shared"]


def test_a_large_file_is_one_write(storage: Storage, faults: Faults) -> None:
    data = bytes(range(256)) * (40 * 1024)  # 10 MB: clients like to send this in parts, which have no condition
    storage.put_new("shared/large", data)
    assert puts(faults) == 1 and not [path for _, path in faults.seen if "uploadId" in path]
    assert storage.read("shared/large") == data
    with pytest.raises(NameTakenError):
        storage.put_new("shared/large", data)


def test_a_file_above_the_limit_is_refused(s3_uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "MAX_FILE_BYTES", 3)
    storage = open_storage(s3_uri)
    storage.put_new("a", b"xxx")
    with pytest.raises(StorageError, match="'b' has 4 bytes; .* takes files of 3 at most"):
        storage.put_new("b", b"xxxx")


def test_two_storages_in_one_bucket_do_not_see_each_other(s3_uri: str) -> None:
    one, two = open_storage(s3_uri + "/job-1"), open_storage(s3_uri + "/job-10")
    one.put_new("log/1", b"1")
    two.put_new("log/1", b"10")
    assert one.list("") == ["log/1"] and one.read("log/1") == b"1"
    one.delete("log/1")
    assert two.read("log/1") == b"10" and open_storage(s3_uri).folders() == ["job-10"]


def test_no_credential_is_shown(s3_uri: str, faults: Faults, storage: Storage) -> None:
    faults.faults = [("PUT", "", 403), ("GET", "", 403), ("GET", "", 403)]
    texts = [storage.uri, repr(storage)]
    for call in (lambda: storage.put_new("a", b""), lambda: storage.list("")):
        with pytest.raises(StorageError) as caught:
            call()
        texts += [str(caught.value), str(caught.value.__cause__)]
    for secret in (ENVIRONMENT["AWS_ACCESS_KEY_ID"], ENVIRONMENT["AWS_SECRET_ACCESS_KEY"], "Signature"):
        assert not [text for text in texts if secret in text]


def test_an_address_with_a_credential_is_refused_and_not_repeated() -> None:
    for address in (
        "s3://key:hunter2@bucket/x",
        "s3://hunter2@bucket/x",
        "abfss://c@account.dfs.core.windows.net/x?sig=hunter2",
        "gs://bucket/x#hunter2",
    ):
        with pytest.raises(ConfigurationError) as caught:
            open_storage(address)
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "address", ["s3://", "s3:///x", "s3://b", "s3://bucket/../other", "s3://bucket/a//b", "hdfs://"]
)
def test_an_address_without_a_place_is_refused(address: str) -> None:
    with pytest.raises(ConfigurationError):
        open_storage(address)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("s3a://bucket/a%20b/c d/", "s3://bucket/a%20b/c d"),
        ("gcs://bucket", "gs://bucket"),
        ("hdfs://namenode:9000/a%2520b", "hdfs://namenode:9000/a%2520b"),
        ("abfs://c0@account.blob.core.windows.net/x", "abfss://c0@account.dfs.core.windows.net/x"),
        ("az://container/x", "az://container/x"),
    ],
)
def test_an_address_means_the_same_in_every_process(text: str, canonical: str) -> None:
    address = parse_address(text)
    assert str(address) == canonical and parse_address(canonical) == address


def test_azure_s_other_clouds_are_not_taken_for_the_public_one() -> None:
    with pytest.raises(ConfigurationError, match="account.dfs.core.windows.net"):
        parse_address("abfss://container@account.dfs.core.chinacloudapi.cn/x")


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditional_put, "obstore", None)
    with pytest.raises(ConfigurationError, match=r"need obstore: pip install 'penstock\[object-stores\]'"):
        open_storage(f"s3://{BUCKET}/x")


def test_hdfs_without_its_library_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdfs_client, "hdfs_native", None)
    with pytest.raises(ConfigurationError, match=r"needs hdfs-native: pip install 'penstock\[hdfs\]'"):
        open_storage("hdfs://namenode:9000/checkpoints")


def test_a_writer_waits_between_its_tries(
    s3_uri: str, faults: Faults, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    with faulty_proxy(s3_endpoint, faults) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        faults.faults = [("PUT", "", "lose")] * 10
        address = parse_address(s3_uri)
        assert isinstance(address, RemoteAddress)
        with pytest.raises(UnknownOutcomeError):
            ConditionalPut.open(address, waited.append).put_if_absent("a", b"")
    assert waited == list(WAITS_S)
