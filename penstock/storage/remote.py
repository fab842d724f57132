"""Files in an object store: read and listed through `pyarrow.fs`, written through conditional puts."""

import os
from typing import Any
from urllib.parse import urlsplit

import pyarrow.fs as arrow_fs

from penstock import failpoint
from penstock.errors import ConfigurationError, FileMissingError, StorageError
from penstock.storage.address import AZURE, GCS, S3, RemoteAddress
from penstock.storage.conditional_put import ConditionalPut
from penstock.storage.error_text import brief_reason
from penstock.storage.paths import Paths, confine, confine_new, folder_of, is_confined

READ_TRIES = 6
"""The tries of a read or a listing that S3 does not answer; each ends after three seconds of silence."""
MAX_FILE_BYTES = 5 * 1000**3
"""S3's limit for one request; a conditional put is one request."""


class RemoteStorage:
    """The files below one prefix. Any number of processes may use it at once.

    Reads and listings must show what was written before them: S3, Google Cloud Storage and Azure do.
    """

    def __init__(self, uri: str, files: Any, writer: ConditionalPut, root: str) -> None:
        """`files` is a `pyarrow.fs.FileSystem`, `root` the storage's root in it: `bucket/prefix`."""
        self._uri = uri
        self._files = files
        self._writer = writer
        self._root = root

    @property
    def uri(self) -> str:
        return self._uri

    def put_new(self, path: str, data: bytes) -> None:
        """Write a new file in one conditional request (PROTOCOL R1)."""
        confine_new(path)
        if len(data) > MAX_FILE_BYTES:
            raise StorageError(f"{path!r} has {len(data)} bytes; {self.uri} takes files of {MAX_FILE_BYTES} at most")
        failpoint.before("C13")
        self._writer.put_if_absent(path, data)
        failpoint.after("C15")

    def read(self, path: str) -> bytes:
        try:
            with self._files.open_input_stream(self._full(path)) as stream:
                data: bytes = stream.readall()
                return data
        except (FileNotFoundError, NotADirectoryError):
            self._require_place()
            raise FileMissingError(f"there is no file {path!r} in {self.uri}") from None
        except (OSError, ValueError) as error:
            raise self._failure("read", path, error) from None

    def list(self, prefix: str) -> Paths:
        folder = folder_of(prefix)
        if folder and not is_confined(folder):
            return []  # no file has such a path
        found = self._select("/".join(filter(None, (self._root, folder))), prefix, recursive=True)
        below = len(self._root) + 1
        paths = (info.path[below:] for info in found if info.type == arrow_fs.FileType.File)
        return sorted(path for path in paths if path.startswith(prefix))

    def folders(self) -> Paths:
        found = self._select(self._root, "", recursive=False)
        return sorted(info.base_name for info in found if info.type == arrow_fs.FileType.Directory)

    def delete(self, path: str) -> None:
        self._writer.delete(confine(path))

    def size(self, path: str) -> int:
        full = self._full(path)
        try:
            info = self._files.get_file_info(full)
        except (OSError, ValueError) as error:
            raise self._failure("stat", path, error) from None
        if info.type != arrow_fs.FileType.File:
            self._require_place()
            raise FileMissingError(f"there is no file {path!r} in {self.uri}")
        return int(info.size)

    def _full(self, path: str) -> str:
        return f"{self._root}/{confine(path)}"

    def _select(self, folder: str, prefix: str, *, recursive: bool) -> Any:
        try:
            found = self._files.get_file_info(arrow_fs.FileSelector(folder, recursive=recursive, allow_not_found=True))
        except (OSError, ValueError) as error:
            raise self._failure("list", prefix, error) from None
        if not found:
            self._require_place()
        return found

    def _require_place(self) -> None:
        """Raise StorageError if the bucket itself does not exist: then nothing is known about its files."""
        bucket = self._root.partition("/")[0]
        try:
            is_there = not bucket or self._files.get_file_info(bucket).type != arrow_fs.FileType.NotFound
        except (OSError, ValueError) as error:
            raise self._failure("stat", bucket, error) from None
        if not is_there:
            raise StorageError(f"there is no bucket or container {bucket!r} for {self.uri}; create it first")

    def _failure(self, verb: str, path: str, error: Exception) -> StorageError:
        return StorageError(f"cannot {verb} {path!r} in {self.uri}: {brief_reason(error)}")


def open_remote(address: RemoteAddress) -> RemoteStorage:
    """The storage at an address. Endpoint and credentials come from the environment, as the reference page says."""
    writer = ConditionalPut.open(address)
    root = "/".join(filter(None, (address.bucket, address.prefix)))
    return RemoteStorage(str(address), _open(_FILE_SYSTEMS[address.kind], address), writer, root)


def _open(make: Any, address: RemoteAddress) -> Any:
    try:
        return make(address)
    except (OSError, ValueError) as error:
        raise StorageError(f"cannot open {address}: {brief_reason(error)}") from None


def _s3(_: RemoteAddress) -> Any:
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    settings: dict[str, Any] = {"retry_strategy": arrow_fs.AwsStandardS3RetryStrategy(max_attempts=READ_TRIES)}
    if region:
        settings["region"] = region
    if endpoint:
        parts = urlsplit(endpoint)
        settings |= {"scheme": parts.scheme or "https", "endpoint_override": parts.netloc or endpoint}
        settings.setdefault("region", "us-east-1")
    return arrow_fs.S3FileSystem(**settings)


def _gcs(_: RemoteAddress) -> Any:
    settings: dict[str, Any] = {}
    if endpoint := os.environ.get("GOOGLE_BASE_URL"):
        parts = urlsplit(endpoint)
        settings |= {"scheme": parts.scheme, "endpoint_override": parts.netloc}
    return arrow_fs.GcsFileSystem(**settings)


def _azure(address: RemoteAddress) -> Any:
    account = address.account or os.environ.get("AZURE_STORAGE_ACCOUNT_NAME")
    if not account:
        raise ConfigurationError(
            f"{address} does not name the storage account: write abfss://container@account.dfs.core.windows.net/path, "
            f"or set AZURE_STORAGE_ACCOUNT_NAME"
        )
    key, token = os.environ.get("AZURE_STORAGE_ACCOUNT_KEY"), os.environ.get("AZURE_STORAGE_SAS_TOKEN")
    settings = {"account_key": key} if key else {"sas_token": token} if token else {}
    if endpoint := os.environ.get("AZURE_STORAGE_ENDPOINT"):
        parts = urlsplit(endpoint)
        settings |= {"blob_storage_authority": parts.netloc, "blob_storage_scheme": parts.scheme}
        settings |= {"dfs_storage_authority": parts.netloc, "dfs_storage_scheme": parts.scheme}
    return arrow_fs.AzureFileSystem(account, **settings)


_FILE_SYSTEMS = {S3: _s3, GCS: _gcs, AZURE: _azure}
