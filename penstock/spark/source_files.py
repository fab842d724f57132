"""What Spark would pass over in silence: files that disappear before they are read, and columns in names of folders."""

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pyspark.sql import SparkSession

from penstock.connectors.source_connectors import FileSource
from penstock.errors import SourceFileLostError, UsageError
from penstock.spark.offset_log import batch_files


def require_files(session: SparkSession, folder: Path, batch_id: int) -> None:
    """Raise SourceFileLostError unless every file of the batch exists.

    Called when Spark has planned the batch: a file that disappears later fails the tasks that read it.
    """
    addresses = [address for files in batch_files(folder, batch_id) for address in files]
    lost = [address for address in addresses if not _exists(session, address)]
    if lost:
        more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        raise SourceFileLostError(
            f"the source file {lost[0]!r}{more} has gone before it was read; put it back and resume the job, or resume "
            f"it without the file, and its rows are missing"
        )


def refuse_partition_folders(session: SparkSession, source: FileSource) -> None:
    """Raise if folders are named after a column of the schema and the source does not say so.

    Spark reads either nested folders or the columns in their names; such a column would be null.
    """
    columns = set(source.record_type.names or ())
    for path in () if source.partition_columns else source.paths:
        for name in _folders(session, path):
            column = name.partition("=")[0]
            if "=" in name and column in columns:
                raise UsageError(
                    f"the folder {name!r} in {path!r} is named after column {column!r}; say so with "
                    f'.partitioned_by("{column}") on the file source, or take the column out of the schema'
                )


def _folders(session: SparkSession, address: str) -> list[str]:
    """The names of the folders in a folder; none if it does not exist or is a pattern."""
    jvm = session._jvm
    assert jvm is not None
    path = jvm.org.apache.hadoop.fs.Path(address)
    files = path.getFileSystem(session._jsc.hadoopConfiguration())
    found = files.globStatus(path)
    if not found or len(found) > 1 or not found[0].isDirectory():
        return []
    return [str(status.getPath().getName()) for status in files.listStatus(path) if status.isDirectory()]


def _exists(session: SparkSession, address: str) -> bool:
    parts = urlsplit(address)
    if parts.scheme in ("", "file"):
        return os.path.exists(unquote(parts.path))
    jvm = session._jvm
    assert jvm is not None
    path = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(address))
    return bool(path.getFileSystem(session._jsc.hadoopConfiguration()).exists(path))
