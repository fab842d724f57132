"""The folder of a sink, by its path."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from penstock.connectors.file.local_parts import LocalPartFolder
from penstock.connectors.file.part_files import PartFolder
from penstock.errors import FileMissingError, UsageError
from penstock.storage.address import parse_address


def part_folder(path: str) -> PartFolder:
    """The folder at an absolute path or an `hdfs://` address.

    >>> str(part_folder("/data/totals"))
    '/data/totals'
    """
    address = parse_address(path)
    if isinstance(address, Path):
        return LocalPartFolder(path)
    from penstock.connectors.file.hdfs_parts import HdfsPartFolder  # loaded only if needed

    return HdfsPartFolder(address)


def require_reachable(path: str) -> None:
    """Raise if the storage of a sink's folder does not answer, or if a file is in the folder's place."""
    address = parse_address(path)
    if isinstance(address, Path):
        return
    from penstock.storage.hdfs import open_hdfs  # loaded only if needed

    storage = open_hdfs(replace(address, prefix=""))
    with suppress(FileMissingError):
        storage.size(address.prefix)
        raise UsageError(f"the folder {path!r} of a file sink is a file; give another folder")
