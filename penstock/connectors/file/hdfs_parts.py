"""Files of a sink in a folder of HDFS.

HDFS has no place for rows that may still be taken back, so a part in progress is a temporary file on the local disk,
without a name: it ends with the process. When the part becomes pending it is copied to HDFS, synced to the disks of the
DataNodes, closed, and given its pending name. Names are durable when the NameNode answers.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from penstock.connectors.file.file_formats import RecordEncoder
from penstock.connectors.file.local_parts import translated
from penstock.connectors.file.part_names import IN_PROGRESS, PENDING, PartName
from penstock.model.ids import new_nonce
from penstock.storage.address import RemoteAddress
from penstock.storage.hdfs_client import PIECE_BYTES, HdfsClient, hdfs_client


class HdfsPartFolder:
    """One folder of HDFS."""

    def __init__(self, address: RemoteAddress, client: HdfsClient | None = None) -> None:
        self._address = address
        self._client = hdfs_client(address.bucket) if client is None else client
        self._root = f"/{address.prefix}"

    def __str__(self) -> str:
        return str(self._address)

    def make(self) -> None:
        self._client.make_folder(self._root)

    def names(self) -> list[str]:
        found = self._client.list(self._root, recursive=False)
        return sorted(entry.path.rpartition("/")[2] for entry in found)

    def size(self, name: str) -> int | None:
        found = self._client.find(self._full(name) if name else self._root)
        return None if found is None else found.size

    def touch(self, name: str) -> None:
        self._client.touch(self._full(name))

    def rename(self, old: str, new: str) -> None:
        self._client.rename(self._full(old), self._full(new))

    def remove(self, name: str) -> None:
        self._client.delete(self._full(name))

    def sync(self) -> None:
        """Do nothing: names are durable once the NameNode has answered."""

    def new_part(self, name: PartName, encoder: RecordEncoder) -> "HdfsPart":
        return HdfsPart(self, name, encoder)

    def upload(self, part: PartName, file: BinaryIO) -> None:
        """Copy a file to the pending name of a part. After a crash, what remains has the name of a part in progress."""
        target = self._full(part.hidden(PENDING))
        self._client.put_new(target, _Pieces(file), lambda: self._full(part.renamed(new_nonce()).hidden(IN_PROGRESS)))

    def _full(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"


class HdfsPart:
    """A part in a local temporary file, and its pending copy in HDFS."""

    def __init__(self, folder: HdfsPartFolder, name: PartName, encoder: RecordEncoder) -> None:
        self._folder = folder
        self._name = name
        self._encoder = encoder
        self._pending = False
        self.dead = False
        with translated("open a file in", tempfile.gettempdir()):
            self._file = tempfile.TemporaryFile(prefix="penstock-part-")

    @property
    def size(self) -> int:
        return self._file.tell()

    def append(self, data: bytes) -> None:
        with translated("write to", tempfile.gettempdir()):
            self._file.write(data)

    def truncate(self, size: int) -> None:
        with translated("truncate a file in", tempfile.gettempdir()):
            self._file.seek(size)
            self._file.truncate()

    def end(self) -> None:
        """Do nothing: the rows need not be durable before they are pending."""

    def prepare(self) -> int:
        self._pending = True
        end = self._file.tell()
        try:
            if self._encoder.convert is None:
                self._folder.upload(self._name, self._file)
                return end
            self._file.seek(0)
            with tempfile.TemporaryFile(prefix="penstock-part-") as converted:
                with translated("convert a file in", tempfile.gettempdir()):
                    self._encoder.convert(self._file, converted)
                    size = converted.seek(0, 2)
                self._folder.upload(self._name, converted)
                return size
        finally:
            self._file.seek(end)

    def leave_pending(self, name: PartName) -> PartName:
        if self._pending:
            self._folder.remove(self._name.hidden(PENDING))
            self._name, self._pending = name, False
        return self._name

    def keep_pending(self) -> None:
        self._file.close()

    def discard(self) -> None:
        self._file.close()
        if self._pending:
            self._folder.remove(self._name.hidden(PENDING))


@dataclass(frozen=True)
class _Pieces:
    """The content of a file; each iteration starts at its beginning."""

    file: BinaryIO

    def __iter__(self) -> Iterator[bytes]:
        with translated("read a file in", tempfile.gettempdir()):
            self.file.seek(0)
            while piece := self.file.read(PIECE_BYTES):
                yield piece
