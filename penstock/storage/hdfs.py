"""`put_if_absent` for HDFS: a temporary file, then the JVM's rename, which does not overwrite (PROTOCOL R1).

`pyarrow.fs` writes the temporary file, but cannot rename it: its `move` deletes an existing target. So the rename goes
to libhdfs, the library that `pyarrow.fs` uses too. It calls `FileSystem.rename` in the JVM, which is atomic and fails
if the name is taken.
"""

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.fs as arrow_fs

from penstock.errors import ConfigurationError, NameTakenError, StorageError, UnknownOutcomeError
from penstock.model.ids import new_nonce
from penstock.storage.address import RemoteAddress
from penstock.storage.error_text import brief_reason
from penstock.storage.paths import TEMPORARY_MARK, folder_of

DEFAULT_PORT = 8020


class HdfsRename:
    """Writes and deletes files below a folder. Thread safe, as libhdfs is."""

    def __init__(self, uri: str, files: Any, rename: Callable[[str, str], bool], root: str) -> None:
        """`rename` moves a file to a free name; False if it failed or its outcome is not known."""
        self._uri = uri
        self._files = files
        self._rename = rename
        self._root = root

    @classmethod
    def connect(cls, address: RemoteAddress, files: Any, root: str) -> "HdfsRename":
        """A writer for an address, with a connection of its own to the name node."""
        return cls(str(address), files, _renaming(address), root)

    def put_if_absent(self, path: str, data: bytes) -> None:
        target = f"{self._root}/{path}"
        temporary = f"{target}{TEMPORARY_MARK}{new_nonce()}"
        try:
            self._files.create_dir(folder_of(target), recursive=True)
            with self._files.open_output_stream(temporary) as stream:
                stream.write(data)
        except OSError as error:
            self._remove(temporary)
            raise StorageError(f"cannot write {path!r} in {self._uri}: {brief_reason(error)}") from None
        if not self._rename(temporary, target):
            self._check_rename(temporary, target, path)

    def delete(self, path: str) -> None:
        try:
            self._files.delete_file(f"{self._root}/{path}")
        except FileNotFoundError:
            return
        except OSError as error:
            if self._is_file(f"{self._root}/{path}", path):
                raise StorageError(f"cannot delete {path!r} in {self._uri}: {brief_reason(error)}") from None

    def _check_rename(self, temporary: str, target: str, path: str) -> None:
        """Return if the rename has happened after all: the temporary name is gone, and the final one is there."""
        if self._is_file(temporary, path):
            is_taken = self._is_file(target, path)
            self._remove(temporary)
            if is_taken:
                raise NameTakenError(f"{path!r} exists already in {self._uri}")
            # The temporary file has just been removed: a rename that is still under way finds nothing to move.
            if self._is_file(temporary, path) or self._is_file(target, path):
                raise UnknownOutcomeError(f"cannot tell whether {path!r} was renamed in {self._uri}")
            raise StorageError(f"cannot rename {path!r} in {self._uri}")
        if not self._is_file(target, path):
            raise UnknownOutcomeError(f"{path!r} disappeared from {self._uri} while it was renamed")

    def _is_file(self, full: str, path: str) -> bool:
        try:
            return bool(self._files.get_file_info(full).type == arrow_fs.FileType.File)
        except OSError as error:
            raise UnknownOutcomeError(
                f"cannot tell whether {path!r} was written in {self._uri}: {brief_reason(error)}"
            ) from None

    def _remove(self, temporary: str) -> None:
        """Delete a temporary file if possible; one that stays is swept by its name."""
        try:
            self._files.delete_file(temporary)
        except OSError:
            return


def host_and_port(place: str) -> tuple[str, int]:
    """The name node in an address.

    >>> host_and_port("namenode"), host_and_port("namenode:9000")
    (('namenode', 8020), ('namenode', 9000))
    """
    host, _, port = place.partition(":")
    return host, int(port) if port else DEFAULT_PORT


def _renaming(address: RemoteAddress) -> Callable[[str, str], bool]:
    library = _load()
    host, port = host_and_port(address.bucket)
    builder = library.hdfsNewBuilder()
    library.hdfsBuilderSetNameNode(builder, host.encode())
    library.hdfsBuilderSetNameNodePort(builder, port)
    connection = library.hdfsBuilderConnect(builder)
    if not connection:
        raise StorageError(f"no connection to the name node of {address}")
    return lambda old, new: library.hdfsRename(connection, old.encode(), new.encode()) == 0


def _load() -> ctypes.CDLL:
    """libhdfs, with the types of the functions used here. It is found as `pyarrow.fs` finds it."""
    folders = [os.environ.get("ARROW_LIBHDFS_DIR"), f"{os.environ.get('HADOOP_HOME', '')}/lib/native"]
    found = [path for folder in folders if folder and (path := Path(folder) / "libhdfs.so").is_file()]
    if not found:
        raise ConfigurationError("checkpoints in HDFS need libhdfs.so: set HADOOP_HOME or ARROW_LIBHDFS_DIR")
    try:
        library = ctypes.CDLL(str(found[0]))
    except OSError as error:
        raise ConfigurationError(f"{found[0]} cannot be loaded: {error}; set JAVA_HOME and CLASSPATH") from None
    library.hdfsNewBuilder.restype = ctypes.c_void_p
    library.hdfsBuilderSetNameNode.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
    library.hdfsBuilderSetNameNodePort.argtypes = (ctypes.c_void_p, ctypes.c_uint16)
    library.hdfsBuilderConnect.argtypes = (ctypes.c_void_p,)
    library.hdfsBuilderConnect.restype = ctypes.c_void_p
    library.hdfsRename.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
    library.hdfsRename.restype = ctypes.c_int
    return library
