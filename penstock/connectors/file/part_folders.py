"""The folder of a sink, by its path."""

from pathlib import Path

from penstock.connectors.file.local_parts import LocalPartFolder
from penstock.connectors.file.part_files import PartFolder
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
