"""Blocks of whole lines of a text file, or of a range of one, decompressed if its name says so."""

import bz2
import gzip
import os
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa

from penstock.connectors.file_source.file_parts import FilePart
from penstock.errors import UnsupportedValueError
from penstock.model.options.execution_options import SOURCE_PACKED
from penstock.model.units import MIB

BLOCK_BYTES = 2 * MIB
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
NOT_READ = (".snappy", ".lz4", ".xz", ".bgz")
"""Names of compressed files that Spark reads, or might read, and this reader does not."""


def divide_text(file: FilePart, size_bytes: int) -> list[FilePart]:
    """Ranges of bytes of a file that is not compressed."""
    if _suffix(file.path) in (*_OPENERS, *NOT_READ):
        return [file]
    count = max(1, file.size_bytes // size_bytes)
    bounds = [file.size_bytes * index // count for index in range(count + 1)]
    return [FilePart(file.path, end - start, start, end) for start, end in zip(bounds, bounds[1:], strict=False)]


def read_blocks(part: FilePart) -> Iterator[bytes]:
    """The lines of a file in blocks; each line ends with a line feed. A range has the lines that begin in it."""
    if not part.size_bytes:
        return  # Spark passes over empty files, also compressed ones
    suffix = _suffix(part.path)
    if suffix in NOT_READ:
        raise UnsupportedValueError(
            f"the file {part.path!r} is compressed in a format that is read by Spark only: set {SOURCE_PACKED.key}: "
            f"never"
        )
    opener = _OPENERS.get(suffix)
    with open(part.path, "rb") as raw:
        if opener is not None:
            yield from _lines(opener(raw), None, at_start=True)
            return
        if part.start:
            raw.seek(part.start - 1)
            raw.readline()  # it belongs to the range before, unless it ended there
        stop = part.stop
        yield from _lines(raw, stop if stop is None else stop - raw.tell(), at_start=not part.start)


def _lines(file: Any, size_bytes: int | None, *, at_start: bool) -> Iterator[bytes]:
    """Blocks of the lines that begin in the next so many bytes."""
    rest = b""
    left = size_bytes
    while left is None or left > 0:
        data: bytes = file.read(BLOCK_BYTES if left is None else min(BLOCK_BYTES, left))
        if not data:
            break
        left = None if left is None else left - len(data)
        if at_start:
            data, at_start = data.removeprefix(BYTE_ORDER_MARK), False
        whole, newline, tail = data.rpartition(b"\n")
        if newline:
            yield _unix_lines(rest + whole + newline)
            rest = tail
        else:
            rest += data
    if rest and left is not None:
        rest += file.readline()  # the line goes on behind the range
    if rest:
        yield _unix_lines(rest if rest.endswith(b"\n") else rest + b"\n")


def _unix_lines(block: bytes) -> bytes:
    """The block with line feeds only: a carriage return ends a line too."""
    return block.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in block else block


def _suffix(path: str) -> str:
    return os.path.splitext(path)[1]


def _inflated(raw: BinaryIO) -> BinaryIO:
    return _Inflated(raw)  # type: ignore[return-value]


class _Inflated:
    """A file of Hadoop's codec for `.deflate`: zlib streams, one after the other."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._inflate = zlib.decompressobj()
        self._has_begun = False
        self._data = b""

    def read(self, size: int) -> bytes:
        while True:
            if self._inflate.eof:
                self._data, self._inflate = self._inflate.unused_data, zlib.decompressobj()
                self._has_begun = False
            if not self._data:
                self._data = self._raw.read(size)
            if not self._data and self._has_begun:
                raise EOFError("the compressed file ends too early")
            if not self._data:
                return b""
            self._has_begun = True
            found = self._inflate.decompress(self._data, size)
            self._data = self._inflate.unconsumed_tail
            if found:
                return found


_OPENERS: dict[str, Any] = {
    ".gz": lambda raw: gzip.GzipFile(fileobj=raw),
    ".bz2": bz2.BZ2File,
    ".deflate": _inflated,
    ".zst": lambda raw: pa.CompressedInputStream(raw, "zstd"),
}
