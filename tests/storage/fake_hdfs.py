"""An HDFS in memory with the library's interface, whose NameNode can fail before, after and instead of a call."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from penstock.storage.hdfs import HdfsStorage
from penstock.storage.hdfs_client import HdfsClient
from penstock.storage.hdfs_config import NameNodes

NAMENODES = NameNodes("hdfs://test:8020", (), ("test:8020",))
SAFE_MODE = RuntimeError(
    r'RPCError("org.apache.hadoop.hdfs.server.namenode.SafeModeException", "Cannot change. Name node is in safe mode.\n'
    r'\tat org.apache.hadoop.hdfs.server.namenode.FSNamesystem.x(FSNamesystem.java:1)")'
)
REFUSED = OSError("Connection refused (os error 111)")
LOST = OSError("connection reset by peer")
SILENT = asyncio.TimeoutError()


@dataclass
class FakeHdfs:
    """The NameNode: files, and what goes wrong. `before` and `after` hold, for a call's name, the errors to come."""

    files: dict[str, bytes] = field(default_factory=dict)
    before: dict[str, list[Exception]] = field(default_factory=dict)
    after: dict[str, list[Exception]] = field(default_factory=dict)
    instead: dict[str, Callable[..., Any]] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    """Those that were created by name."""
    calls: list[str] = field(default_factory=list)
    around: Callable[..., Any] = lambda function, *arguments: function(*arguments)
    """Makes every call."""
    connections: int = 0

    def connect(self, url: str, settings: dict[str, str]) -> "FakeClient":
        self.connections += 1
        return FakeClient(self)

    def client(self, limit_s: float = 0.2) -> HdfsClient:
        return HdfsClient(NAMENODES, limit_s, self.connect)

    def storage(self, limit_s: float = 0.2) -> HdfsStorage:
        return HdfsStorage("hdfs://test:8020/folder", self.client(limit_s), "/folder")

    def call(self, name: str, action: Callable[..., Any], *arguments: Any) -> Any:
        self.calls.append(name)
        if self.before.get(name):
            raise self.before[name].pop(0)
        result = self.around(self.instead.pop(name, action), *arguments)
        if self.after.get(name):
            raise self.after[name].pop(0)
        return result

    def is_folder(self, path: str) -> bool:
        return path in self.folders or any(name.startswith(f"{path.rstrip('/')}/") for name in self.files)


class FakeClient:
    """What `hdfs_native.AsyncClient` does, as far as it is used."""

    def __init__(self, hdfs: FakeHdfs) -> None:
        self._hdfs = hdfs

    async def get_file_info(self, path: str) -> Any:
        def stat() -> Any:
            if path not in self._hdfs.files and not self._hdfs.is_folder(path) and path != "/":
                raise FileNotFoundError(path)
            return status(self._hdfs, path)

        return self._hdfs.call("stat", stat)

    async def list_status(self, folder: str, recursive: bool) -> AsyncIterator[Any]:
        def found() -> list[Any]:
            if not self._hdfs.is_folder(folder):
                raise FileNotFoundError(folder)
            below = [name for name in self._hdfs.files if name.startswith(f"{folder}/")]
            if recursive:
                return [status(self._hdfs, name) for name in below]
            parts = {folder + "/" + name[len(folder) + 1 :].partition("/")[0] for name in below}
            return [status(self._hdfs, name) for name in sorted(parts)]

        for entry in self._hdfs.call("list", found):
            yield entry

    async def read(self, path: str) -> "FakeReader":
        def content() -> bytes:
            if path not in self._hdfs.files:
                raise FileNotFoundError(path)
            return self._hdfs.files[path]

        return FakeReader(self._hdfs.call("read", content))

    async def create(self, path: str, options: Any) -> "FakeWriter":
        def make() -> FakeWriter:
            parents = (path[:at] for at in range(1, len(path)) if path[at] == "/")
            if any(parent in self._hdfs.files for parent in parents):
                raise RuntimeError('RPCError("org.apache.hadoop.fs.ParentNotDirectoryException", "/x (is no folder)")')
            if path in self._hdfs.files or self._hdfs.is_folder(path):
                raise FileExistsError(path)
            self._hdfs.files[path] = b""
            return FakeWriter(self._hdfs, path, options.block_size)

        assert not options.overwrite and options.create_parent
        writer: FakeWriter = self._hdfs.call("create", make)
        return writer

    async def rename(self, old: str, new: str, overwrite: bool) -> None:
        def move() -> None:
            if old not in self._hdfs.files:
                raise FileNotFoundError(f"rename source {old} is not found")
            if new in self._hdfs.files or self._hdfs.is_folder(new):
                raise FileExistsError(f"rename destination {new} already exists")
            self._hdfs.files[new] = self._hdfs.files.pop(old)

        assert not overwrite
        self._hdfs.call("rename", move)

    async def delete(self, path: str, recursive: bool) -> bool:
        assert not recursive
        return bool(self._hdfs.call("delete", lambda: self._hdfs.files.pop(path, None) is not None))

    async def mkdirs(self, path: str, create_parent: bool) -> None:
        self._hdfs.call("mkdirs", self._hdfs.folders.add, path)

    async def recover_lease(self, path: str) -> bool:
        return bool(self._hdfs.call("recover", lambda: True))


class FakeReader:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    async def read_range(self, at: int, size: int) -> bytes:
        return self._data[at : at + size]


class FakeWriter:
    def __init__(self, hdfs: FakeHdfs, path: str, block_size: int) -> None:
        self._hdfs = hdfs
        self._path = path
        self._block_size = block_size
        self._synced = 0

    async def write(self, data: bytes) -> int:
        size = len(self._hdfs.files[self._path])
        if size % self._block_size == 0:  # this write closes the last block
            assert self._synced == size, "a block is closed that is not on disk"
        assert size % self._block_size + len(data) <= self._block_size
        self._hdfs.files[self._path] += data
        return len(data)

    async def hsync(self) -> None:
        self._hdfs.call("hsync", lambda: None)
        self._synced = len(self._hdfs.files[self._path])

    async def close(self) -> None:
        if self._hdfs.call("close", lambda: None) == "never":
            await asyncio.Event().wait()


def status(hdfs: FakeHdfs, path: str) -> Any:
    data = hdfs.files.get(path)
    return SimpleNamespace(path=path, length=len(data or b""), isdir=data is None)
