"""Files in HDFS: written under a temporary name and renamed, which never overwrites (PROTOCOL R1)."""

import re

from penstock import failpoint
from penstock.errors import FileMissingError, StorageError
from penstock.storage.address import RemoteAddress
from penstock.storage.hdfs_client import HdfsClient, hdfs_client
from penstock.storage.paths import Paths, confine, confine_new, folder_of, is_confined

_NUMBERED = re.compile(r".*-\d+")


class HdfsStorage:
    """The files below one folder. Any number of processes may use it at once."""

    def __init__(self, uri: str, client: HdfsClient, root: str) -> None:
        """`root` is the absolute path of the folder; empty for the root of HDFS."""
        self._uri = uri
        self._client = client
        self._root = root

    @property
    def uri(self) -> str:
        return self._uri

    def put_new(self, path: str, data: bytes) -> None:
        """Write a new file: temporary file, hsync, close, rename without overwrite (PROTOCOL R1)."""
        confine_new(path)
        failpoint.before("C13")
        self._client.put_new(self._full(path), (data,))
        failpoint.after("C15")

    def read(self, path: str) -> bytes:
        try:
            return self._client.read(self._full(path))
        except FileMissingError:
            raise self._missing(path) from None

    def list(self, prefix: str) -> Paths:
        folder = folder_of(prefix)
        if folder and not is_confined(folder):
            return []  # no file has such a path
        found = self._client.list("/".join((self._root, folder)).rstrip("/") or "/", recursive=True)
        below = len(self._root) + 1
        paths = (entry.path[below:] for entry in found if not entry.is_folder)
        return sorted(path for path in paths if path.startswith(prefix))

    def folders(self) -> Paths:
        found = self._client.list(self._root or "/", recursive=False)
        return sorted(entry.path.rpartition("/")[2] for entry in found if entry.is_folder)

    def delete(self, path: str) -> None:
        full = self._full(path)
        self._client.delete(full)
        # A numbered folder (chk-7) is never used again, so it is removed with its last file. Other folders stay.
        folder = folder_of(full)
        if folder != self._root and _NUMBERED.fullmatch(folder) and not self._client.list(folder, recursive=False):
            self._client.delete(folder)

    def size(self, path: str) -> int:
        found = self._client.find(self._full(path))
        if found is None or found.is_folder:
            raise self._missing(path)
        return found.size

    def _full(self, path: str) -> str:
        return f"{self._root}/{confine(path)}"

    def _missing(self, path: str) -> StorageError:
        return FileMissingError(f"there is no file {path!r} in {self.uri}")


def open_hdfs(address: RemoteAddress) -> HdfsStorage:
    """The storage at an address. Raises StorageError with the reason if no NameNode answers."""
    client = hdfs_client(address.bucket)
    client.check()
    return HdfsStorage(str(address), client, f"/{address.prefix}".rstrip("/"))
