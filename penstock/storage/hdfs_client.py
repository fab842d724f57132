"""A client of HDFS: `hdfs-native` with time limits, retries, and errors that say what to do (PROTOCOL R1, R5).

The library has no time limit for a NameNode that is silent, so its asynchronous client runs on a thread of this module,
where a call can be cancelled. A NameNode that is away or in safe mode has refused a call definitely: the call is
repeated until the time limit. A write without a reply is never repeated here.
"""

import asyncio
import logging
import os
import re
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from penstock.errors import (
    ConfigurationError,
    FileMissingError,
    NameTakenError,
    StorageAwayError,
    StorageError,
    UnknownOutcomeError,
)
from penstock.model.ids import new_nonce
from penstock.model.units import MIB
from penstock.storage.error_text import brief_reason
from penstock.storage.hdfs_config import NameNodes, find_namenodes
from penstock.storage.paths import TEMPORARY_MARK

try:
    import hdfs_native
except ImportError:  # the extra is not installed; `hdfs_client` says so
    hdfs_native = None  # type: ignore[assignment]

EXTRA = "penstock[hdfs]"
LIMIT_S = 60.0
"""The time for one operation, and for each piece of a large file, unless the environment says otherwise."""
LIMIT_VARIABLE = "PENSTOCK_HDFS_TIMEOUT"
TRY_S = 20.0
"""The time for one try of a call: in a nameservice another NameNode is asked then."""
OPEN_LIMIT_S = 10.0
"""The time for the first call: a wrong address is reported soon."""
PIECE_BYTES = 8 * MIB
BLOCK_BYTES = 128 * MIB
"""The block size of new files, so that it is known where a block ends."""
_WAITS_S = (0.1, 0.2, 0.5, 1.0)
"""The pauses between tries; the last one is repeated."""
_CLOSE_S = (0.05, 0.5)
"""The library asks again after 0.5 s whether a file is closed; from 0.05 s on, this module asks itself."""
_REMOTE = re.compile(r'(?:Fatal)?RPCError\("([\w.$]+)", "(.*)', re.DOTALL)
_NOT_SENT = re.compile(r"connection refused", re.IGNORECASE)
"""Comes only before a call is sent. A host that became unreachable may have executed the call before."""
_T = TypeVar("_T")


@dataclass(frozen=True)
class HdfsEntry:
    """A file or folder, with its full path."""

    path: str
    size: int
    is_folder: bool


class HdfsClient:
    """Calls to the NameNodes of one address. Paths are absolute. Thread safe.

    Raises FileMissingError, NameTakenError, UnknownOutcomeError if a change may or may not have happened, now or later,
    and any other StorageError if nothing was changed and nothing will be.
    """

    def __init__(
        self,
        namenodes: NameNodes,
        limit_s: float = LIMIT_S,
        connect: Callable[[str, dict[str, str]], Any] | None = None,
    ) -> None:
        """`connect` makes the library's client for a URL and settings."""
        self._namenodes = namenodes
        self._connect = connect or hdfs_native.AsyncClient
        self._limit_s = limit_s
        self._first = 0
        self._lock = threading.Lock()
        self._inner: Any = None

    def check(self) -> None:
        """Raise StorageError unless a NameNode answers soon."""
        self._repeat("connect to", "/", lambda client: client.get_file_info("/"), limit_s=OPEN_LIMIT_S)

    def find(self, path: str) -> HdfsEntry | None:
        """The file or folder, or None if there is none."""
        try:
            return _entry(self._repeat("stat", path, lambda client: client.get_file_info(path)))
        except FileMissingError:
            return None

    def list(self, folder: str, *, recursive: bool) -> "list[HdfsEntry]":
        """What the folder holds; empty if there is no such folder."""

        async def collect(client: Any) -> "list[HdfsEntry]":
            return [_entry(found) async for found in client.list_status(folder, recursive)]

        try:
            return [entry for entry in self._repeat("list", folder, collect) if entry.path != folder]
        except FileMissingError:
            return []

    def read(self, path: str) -> bytes:
        """The whole file."""

        async def collect(client: Any) -> bytes:
            reader = await self._within(client.read(path))
            size, pieces, at = len(reader), [], 0
            while at < size:
                pieces.append(await self._within(reader.read_range(at, min(PIECE_BYTES, size - at))))
                at += len(pieces[-1])
            return b"".join(pieces)

        data = self._repeat("read", path, collect, limit_s=None)
        size = self._require(path).size
        # The library reads nothing of a block that its writer has not closed, without an error.
        if len(data) != size:
            raise StorageError(
                f"cannot read {path!r} of {self._namenodes.url}: {len(data)} of {size} bytes came; its writer has not "
                f"closed it"
            )
        return data

    def put_new(self, path: str, pieces: Iterable[bytes], name: Callable[[], str] | None = None) -> None:
        """Write a new file; when this returns it is complete, closed, and on the disks of its DataNodes.

        It is written under a temporary name, made by `name`, and renamed, which fails if the name is taken. `pieces`
        is read again if the write is repeated.
        """
        temporary = self._write_temporary(path, pieces, name or (lambda: f"{path}{TEMPORARY_MARK}{new_nonce()}"))
        try:
            self.rename(temporary, path)
        except (UnknownOutcomeError, FileMissingError) as error:
            # In a nameservice the library may repeat a call that has been executed; then the temporary name is gone.
            self._find_out(temporary, path, pieces, error)
        except StorageError:
            self._remove(temporary)
            raise

    def touch(self, path: str) -> None:
        """Create an empty file, if there is none."""

        async def create(client: Any) -> None:
            await (await client.create(path, _new_file())).close()

        try:
            self._repeat("create", path, create)
        except NameTakenError:
            return

    def rename(self, old: str, new: str) -> None:
        """Give a file a free name, atomically."""
        self._repeat("rename", old, lambda client: client.rename(old, new, overwrite=False), changes=True)

    def delete(self, path: str) -> bool:
        """Delete a file or an empty folder; whether there was one. Without a reply it is repeated."""
        try:
            return bool(self._repeat("delete", path, lambda client: client.delete(path, recursive=False)))
        except FileMissingError:
            return False

    def make_folder(self, path: str) -> None:
        """Create a folder and those above it, if they do not exist."""
        self._repeat("create", path, lambda client: client.mkdirs(path, create_parent=True))

    def _write_temporary(self, path: str, pieces: Iterable[bytes], name: Callable[[], str]) -> str:
        """The name of a new, closed file. Every try has its own: what a failed one leaves is swept by its name."""
        patience = _Patience(self._limit_s)
        while True:
            temporary = name()
            try:
                size = self._run(partial(self._write, path=temporary, pieces=pieces), None)
                found = self._require(temporary).size
                if found != size:
                    raise StorageError(f"{temporary!r} has {found} bytes where {size} were written")
                return temporary
            except StorageError as error:
                self._remove(temporary)
                # Nothing has the final name yet, so even a write without a reply may be repeated.
                if not _may_pass(error) or not patience.wait(error):
                    raise self._failure("write", path, error) from None

    async def _write(self, client: Any, path: str, pieces: Iterable[bytes]) -> int:
        writer = await self._within(client.create(path, _new_file()))
        size = 0
        for piece in pieces:
            at = 0
            while at < len(piece):
                if size and size % BLOCK_BYTES == 0:
                    await self._within(writer.hsync())  # the next write closes this block, which does not sync it
                end = at + min(PIECE_BYTES, BLOCK_BYTES - size % BLOCK_BYTES)
                written = piece[at:end]
                await self._within(writer.write(written))
                at, size = end, size + len(written)
        started = time.monotonic()
        await self._within(writer.hsync())
        await self._close(client, writer, path, time.monotonic() - started)
        return size

    async def _close(self, client: Any, writer: Any, path: str, sync_s: float) -> None:
        """Close a file whose bytes are on disk.

        The NameNode answers "not yet" until a DataNode has reported the last block, some milliseconds later, and the
        library asks again only after 0.5 s. So this asks for the recovery of the file's lease, which closes the file
        if its last block was reported. If the writer was not so far, the NameNode recovers the block: slower, and
        with the same bytes.
        """
        closing = asyncio.ensure_future(writer.close())
        patience_s = _CLOSE_S[0] + 4 * sync_s  # an answer takes about as long as the sync did
        done, _ = await asyncio.wait([closing], timeout=patience_s if patience_s < _CLOSE_S[1] else self._limit_s)
        if done:
            closing.result()
            return
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)  # if it has just failed, the recovery decides
        deadline = time.monotonic() + self._limit_s
        while not await self._recover_lease(client, path):
            if time.monotonic() > deadline:
                raise TimeoutError("the file was not closed in time")
            await asyncio.sleep(_CLOSE_S[0])

    async def _recover_lease(self, client: Any, path: str) -> bool:
        try:
            return bool(await self._within(client.recover_lease(path)))
        except FileExistsError:
            return False  # the last block is not reported yet

    def _find_out(self, temporary: str, path: str, pieces: Iterable[bytes], cause: StorageError) -> None:
        """Return if a rename without a reply has happened; raise UnknownOutcomeError if it cannot be known."""
        try:
            # Once the temporary file is deleted, a rename that is still under way finds nothing to rename.
            was_there = self.delete(temporary)
            found = None if was_there else self.find(path)
            is_own = found is not None and self.read(path) == b"".join(pieces)
        except StorageError as error:
            raise UnknownOutcomeError(f"cannot tell whether {path!r} was written: {error}") from None
        if was_there:
            raise self._failure("write", path, cause)
        if found is None:
            raise UnknownOutcomeError(f"{path!r} disappeared from {self._namenodes.url} while it was renamed")
        if not is_own:
            raise NameTakenError(f"{path!r} exists already in {self._namenodes.url}")

    def _require(self, path: str) -> HdfsEntry:
        found = self.find(path)
        if found is None:
            raise FileMissingError(f"there is no file {path!r} in {self._namenodes.url}")
        return found

    def _remove(self, temporary: str) -> None:
        """Delete a temporary file if the NameNode answers; one that stays is swept by its name."""
        try:
            self._run(lambda client: client.delete(temporary, recursive=False), OPEN_LIMIT_S)
        except StorageError:
            return

    def _repeat(
        self,
        verb: str,
        path: str,
        call: Callable[[Any], Awaitable[_T]],
        *,
        limit_s: float | None = 0.0,
        changes: bool = False,
    ) -> _T:
        """The result of a call. A call that changes something is repeated only if it was certainly not executed.

        A limit of None: the call limits its own steps.
        """
        limit = self._limit_s if not limit_s else limit_s
        patience = _Patience(limit)
        while True:
            try:
                return self._run(call, None if limit_s is None else min(limit, TRY_S))
            except (FileMissingError, NameTakenError):
                raise
            except StorageError as error:
                if changes and isinstance(error, UnknownOutcomeError):
                    raise UnknownOutcomeError(f"no reply to {verb} {path!r}: {error}") from None
                if not _may_pass(error) or not patience.wait(error):
                    raise self._failure(verb, path, error) from None

    def _run(self, call: Callable[[Any], Awaitable[_T]], limit_s: float | None) -> _T:
        """One try, on the thread of the event loop."""

        async def limited() -> _T:
            return await asyncio.wait_for(call(self._connected()), limit_s)

        try:
            return asyncio.run_coroutine_threadsafe(limited(), _event_loop()).result()
        except (TimeoutError, asyncio.TimeoutError):
            self._give_up_connection()
            raise UnknownOutcomeError(
                f"no answer from {self._hosts()}; see whether the NameNode and DataNodes run"
            ) from None
        except (OSError, RuntimeError, NotImplementedError) as error:
            raise _translated(error, self._hosts()) from None

    async def _within(self, call: Awaitable[_T]) -> _T:
        return await asyncio.wait_for(call, self._limit_s)

    def _connected(self) -> Any:
        with self._lock:
            if self._inner is None:
                # Tries are made here, where it is known what may be repeated: the library makes one per NameNode.
                tries = {"dfs.client.failover.max.attempts": str(max(0, len(self._namenodes.names) * 2 - 1))}
                pause = {"dfs.client.failover.sleep.base.millis": "50", "dfs.client.failover.sleep.max.millis": "200"}
                settings = {**self._namenodes.settings(self._first), **tries, **pause}
                self._inner = self._connect(self._namenodes.url, settings)
            return self._inner

    def _give_up_connection(self) -> None:
        """Connect again for the next call, in a nameservice to the next NameNode: this one may be silent for ever."""
        with self._lock:
            self._inner, self._first = None, self._first + 1

    def _hosts(self) -> str:
        return " or ".join(self._namenodes.hosts)

    def _failure(self, verb: str, path: str, cause: StorageError) -> StorageError:
        """What the caller of an operation gets: nothing was changed."""
        kind = StorageAwayError if isinstance(cause, StorageAwayError) else StorageError
        return kind(f"cannot {verb} {path!r} in {self._namenodes.url}: {cause}")


def hdfs_client(place: str) -> HdfsClient:
    """The client of this process for the place of an address; ConfigurationError without the library."""
    if hdfs_native is None:
        raise ConfigurationError(f"hdfs://{place} needs hdfs-native: pip install '{EXTRA}'")
    namenodes = find_namenodes(place)
    key = (os.getpid(), namenodes, os.environ.get("HADOOP_USER_NAME"))
    with _shared_lock:
        if key not in _clients:
            _clients[key] = HdfsClient(namenodes, _limit_s())
        return _clients[key]


def _limit_s() -> float:
    text = os.environ.get(LIMIT_VARIABLE, "")
    try:
        seconds = float(text) if text else LIMIT_S
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ConfigurationError(f"{LIMIT_VARIABLE} is {text!r}; expected a number of seconds above 0")
    return seconds


_log = logging.getLogger("penstock.hdfs")
_shared_lock = threading.Lock()
_clients: dict[tuple[Any, ...], HdfsClient] = {}
_loops: dict[int, asyncio.AbstractEventLoop] = {}


def _event_loop() -> asyncio.AbstractEventLoop:
    """The loop of this process: a forked child has none of its parent's threads."""
    with _shared_lock:
        loop = _loops.get(os.getpid())
        if loop is None:
            loop = _loops[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="hdfs", daemon=True).start()
        return loop


def _new_file() -> Any:
    return hdfs_native.WriteOptions(block_size=BLOCK_BYTES, overwrite=False, create_parent=True)


class _Patience:
    """The time that one operation has for all its tries."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._started = time.monotonic()
        self._tries = 0

    def wait(self, error: StorageError) -> bool:
        """Pause before the next try; False if the time is over. The log says once what is waited for."""
        seconds = _WAITS_S[min(self._tries, len(_WAITS_S) - 1)]
        left_s = self._started + self._limit_s - time.monotonic()
        if seconds > left_s:
            return False
        self._tries += 1
        if self._tries == len(_WAITS_S):
            _log.warning("waiting for HDFS, %.0f s at most: %s", left_s, error)
        time.sleep(seconds)
        return True


def _may_pass(error: StorageError) -> bool:
    """Whether another try may succeed."""
    return isinstance(error, (StorageAwayError, UnknownOutcomeError))


def _entry(found: Any) -> HdfsEntry:
    return HdfsEntry(found.path, found.length, found.isdir)


def _translated(error: Exception, hosts: str) -> StorageError:
    """What an error of the library means."""
    text = str(error)
    remote = _REMOTE.match(text)
    if isinstance(error, FileExistsError):
        return NameTakenError(_first_line(text))
    if isinstance(error, FileNotFoundError) or "(is not a directory)" in text:
        return FileMissingError(_first_line(text))
    if remote is not None:
        return _translated_reply(remote[1].rpartition(".")[2], _first_line(remote[2]))
    if "failed to lookup" in text:
        return StorageError(
            f"there is no host {hosts}; correct the address, or set HADOOP_CONF_DIR to a folder whose hdfs-site.xml "
            f"describes the nameservice"
        )
    if isinstance(error, OSError) and _NOT_SENT.search(text):
        return StorageAwayError(
            f"no NameNode listens at {hosts} ({brief_reason(error)}); start it, or correct the address (the default "
            f"port is 8020)"
        )
    if isinstance(error, NotImplementedError):
        return StorageError(f"{brief_reason(error)}; use a folder without erasure coding")
    return UnknownOutcomeError(f"no answer from {hosts}: {_first_line(text)}")


def _translated_reply(kind: str, message: str) -> StorageError:
    """What an exception of the NameNode means. It is an answer: the call was not executed."""
    if kind == "SafeModeException" or "is in safe mode" in message:
        return StorageAwayError(
            "the NameNode is in safe mode and changes nothing; wait until it has left it, see `hdfs dfsadmin "
            "-safemode get`"
        )
    if kind in ("RetriableException", "StandbyException", "ServerTooBusyException", "ObserverRetryOnActiveException"):
        return StorageAwayError(f"the NameNode asks to try again: {message}")
    if "could only be written to 0" in message or "could only be replicated to 0" in message:
        return StorageAwayError(f"no DataNode takes the file: {message}; see `hdfs dfsadmin -report`")
    if kind in ("AccessControlException", "AuthorizationException"):
        return StorageError(f"{message}; set HADOOP_USER_NAME to a user who may, or change the folder's permissions")
    if kind in ("NSQuotaExceededException", "DSQuotaExceededException", "QuotaExceededException"):
        return StorageError(f"{message}; raise the quota, or use another folder")
    return StorageError(f"{kind}: {message}")


def _first_line(text: str) -> str:
    """The message of a Java exception without its stack trace."""
    line = re.split(r"\n\tat |\\n\\tat ", text)[0].replace('\\"', '"').replace("\\n", " ")
    return " ".join(line.split())[:300]
