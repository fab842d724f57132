"""A file that disappears before it is read is an error. Spark itself would skip it and lose its rows."""

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pyspark.sql import SparkSession

from penstock.errors import SourceFileLostError
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


def _exists(session: SparkSession, address: str) -> bool:
    parts = urlsplit(address)
    if parts.scheme in ("", "file"):
        return os.path.exists(unquote(parts.path))
    jvm = session._jvm
    assert jvm is not None
    path = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(address))
    return bool(path.getFileSystem(session._jsc.hadoopConfiguration()).exists(path))
