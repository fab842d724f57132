"""Paths as users write them: absolute, so that they mean the same in every process of a job."""

import os
import re
from urllib.parse import unquote, urlsplit

from penstock.errors import UsageError
from penstock.storage.address import HDFS, RemoteAddress, names_this_machine, parse_address

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def sink_path(path: str | os.PathLike[str]) -> str:
    """The absolute path of a local folder, given as a path or a `file:` address, or an address of HDFS.

    >>> sink_path("file:///data/out/"), sink_path("hdfs://namenode:8020/out/")
    ('/data/out', 'hdfs://namenode:8020/out')
    """
    text = os.fspath(path)
    if not text:
        raise UsageError("the path of a file sink is empty; give a folder")
    if _SCHEME.match(text):
        address = urlsplit(text)
        if address.scheme == HDFS:
            return _hdfs_folder(text)
        if address.scheme != "file" or not names_this_machine(address.netloc):
            raise UsageError(
                f"a file sink writes to local or mounted folders and to hdfs:// addresses, not to {text!r}"
            )
        text = unquote(address.path)
    return os.path.abspath(text)


def absolute(path: str | os.PathLike[str]) -> str:
    """A path of any file system, made absolute if it is a local one."""
    text = os.fspath(path)
    if not text:
        raise UsageError("the path of a file source is empty; give a file, a folder or a pattern")
    return text if _SCHEME.match(text) else os.path.abspath(text)


def _hdfs_folder(text: str) -> str:
    """The address in its usual form; UsageError if it names no folder below the root."""
    address = parse_address(text)
    if not isinstance(address, RemoteAddress) or not address.prefix:
        raise UsageError(f"a file sink needs a folder of its own; add one to {text!r}, such as {text.rstrip('/')}/out")
    return str(address)
