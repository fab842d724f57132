"""The files of a folder in the order and under the addresses of Spark's file source."""

import os
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit

from penstock.errors import UnsupportedValueError, UsageError
from penstock.model.options.execution_options import SOURCE_PACKED

SPARK_SINK_LOG = "_spark_metadata"
"""A folder in which Spark's own file sink says which of the files count."""
LEGAL = "/-_.~!'()*,;:$&+=@"
"""Characters besides letters and digits that `java.net.URI` does not quote in a path."""


@dataclass(frozen=True)
class SourceFile:
    """A file as it was listed."""

    path: str
    modified_ms: int

    @property
    def order(self) -> tuple[int, str]:
        """Oldest first; of the same age by their paths."""
        return self.modified_ms, self.path


def list_files(root: str) -> list[SourceFile]:
    """All files in a folder and its subfolders, oldest first, or the one file; none if there is nothing."""
    if os.path.isdir(os.path.join(root, SPARK_SINK_LOG)):
        raise UsageError(
            f"the folder {root!r} is written by Spark's own file sink, whose log in {SPARK_SINK_LOG!r} says which "
            f"files count; read it with {SOURCE_PACKED.key}: never"
        )
    if os.path.isfile(root):
        name = os.path.basename(root)
        found = [] if is_hidden(name) else [SourceFile(root, _modified_ms(os.stat(root)))]
    else:
        found = list(_walk(root))
    return sorted(found, key=lambda file: file.order)


def is_hidden(name: str) -> bool:
    """Whether Spark passes over a file or folder of this name.

    >>> [is_hidden(name) for name in ("a.json", "_a", ".a", "_day=1", "a._COPYING_")]
    [False, True, True, False, True]
    """
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


def _walk(folder: str) -> Iterator[SourceFile]:
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:
        return  # it has gone since its parent was listed
    for entry in entries:
        if is_hidden(entry.name):
            continue
        try:
            if entry.is_dir():
                yield from _walk(entry.path)
            else:
                yield SourceFile(entry.path, _modified_ms(entry.stat()))
        except FileNotFoundError:
            continue  # the same, or a link to nothing


def _modified_ms(status: os.stat_result) -> int:
    return status.st_mtime_ns // 1_000_000


def address_of(path: str) -> str:
    """The address of a local file as Spark writes it into its logs.

    >>> address_of("/in/a b#1é.json")
    'file:///in/a%20b%231é.json'
    """
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        raise UnsupportedValueError(f"the name of the file {path!r} is not valid UTF-8; rename it") from None
    return "file://" + "".join(map(_quoted, path))


def _quoted(char: str) -> str:
    if char < "\x80":
        return quote(char, safe=LEGAL)
    return quote(char) if unicodedata.category(char) in ("Zs", "Zl", "Zp", "Cc") else char


def path_of(address: str) -> str:
    """The path of a local file's address.

    >>> path_of("file:///in/a%20b%231é.json"), path_of("file:/in/a.json")
    ('/in/a b#1é.json', '/in/a.json')
    """
    return unquote(urlsplit(address).path)
