"""F20: files that a batch is to read and that are gone are found, by what Spark has written into its source log."""

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import SourceFileLostError
from penstock.spark.offset_log import batch_files
from penstock.spark.source_files import require_files

NO_SESSION: Any = None


def write_batch(folder: Path, batch_id: int, *log_offsets: int | None) -> None:
    """An offset log in which each source has this offset after the batch; None: not a file source."""
    (folder / "offsets").mkdir(exist_ok=True)
    lines = ["v1", "{}", *("7" if end is None else json.dumps({"logOffset": end}) for end in log_offsets)]
    (folder / "offsets" / str(batch_id)).write_text("\n".join(lines))


def write_source(folder: Path, index: int, name: str, **paths: int) -> None:
    """An entry of a file source's log: file name -> number."""
    source = folder / "sources" / str(index)
    source.mkdir(parents=True, exist_ok=True)
    entries = [{"path": f"file://{folder}/{file}.json", "timestamp": 1, "batchId": at} for file, at in paths.items()]
    (source / name).write_text("\n".join(["v1", *map(json.dumps, entries)]))


def names(folder: Path, batch_id: int) -> list[str]:
    """Of the files of a batch, source by source."""
    addresses = [address for files in batch_files(folder, batch_id) for address in files]
    return [address.rpartition("/")[2].removesuffix(".json") for address in addresses]


def test_f20_a_batch_reads_the_entries_since_the_one_before_it(tmp_path: Path) -> None:
    write_source(tmp_path, 0, "0", a=0, b=0)
    write_source(tmp_path, 0, "1", c=1)
    write_source(tmp_path, 0, "2.compact", a=0, b=0, c=1, d=2)
    write_source(tmp_path, 2, "0", z=0)
    write_batch(tmp_path, 0, 0, None, 0)
    write_batch(tmp_path, 1, 0, None, 0)
    write_batch(tmp_path, 2, 2, None, 0)
    assert [names(tmp_path, batch_id) for batch_id in range(3)] == [["a", "b", "z"], [], ["c", "d"]]
    assert [len(files) for files in batch_files(tmp_path, 0)] == [2, 0, 1]


def test_f20_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    write_source(tmp_path, 0, "0", **{"a%20b": 0, "c": 0})
    write_batch(tmp_path, 0, 0)
    for name in ("a b.json", "c.json"):
        (tmp_path / name).touch()
    require_files(NO_SESSION, tmp_path, 0)
    (tmp_path / "c.json").unlink()
    with pytest.raises(SourceFileLostError, match="c.json' has gone before it was read; put it back"):
        require_files(NO_SESSION, tmp_path, 0)
