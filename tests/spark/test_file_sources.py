"""`FileSource`: nested folders, compressed files, columns in the names of folders, and the order of files."""

import bz2
import gzip
import os
import zlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.common import WatermarkStrategy
from penstock.datastream import DataStream
from penstock.datastream.connectors.file_system import FileSource
from penstock.errors import UsageError
from tests.spark.jobs import Jobs

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".deflate": zlib.compress,
    ".zst": lambda data: bytes(pa.compress(data, codec="zstd", asbytes=True)),
}
NO_WATERMARKS = WatermarkStrategy.no_watermarks()


def put(path: Path, text: str, *, modified_s: int | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(COMPRESS.get(path.suffix, bytes)(text.encode()))
    if modified_s is not None:
        os.utime(path, (modified_s, modified_s))


def collect(stream: DataStream) -> list[tuple[object, ...]]:
    with stream.execute_and_collect("files") as records:  # type: ignore[union-attr]
        return [tuple(record) for record in records]


def test_nested_and_compressed_files_are_read_oldest_first(jobs: Jobs) -> None:
    folder = jobs.folder / "in"
    names = ["z.json", "a/y.json.gz", "a/b/x.json.bz2", "c/w.json.deflate", "c/v.json.zst"]
    for number, name in enumerate(names):
        put(folder / name, f'{{"n": {number}}}\n', modified_s=1_700_000_000 + number)
    put(folder / "_hidden" / "v.json", "not JSON")
    put(folder / "a" / ".u.json", "not JSON")
    env = jobs.environment(1, {"penstock.epoch.max-files": "1"})
    found = collect(env.from_source(FileSource.of(folder, "json", "n int"), NO_WATERMARKS, "files"))
    assert found == [(0,), (1,), (2,), (3,), (4,)]


def test_columns_in_the_names_of_folders_are_declared(jobs: Jobs) -> None:
    put(jobs.folder / "in" / "day=2026-01-01" / "a.json", '{"n": 1}\n')
    source = FileSource.of(jobs.folder / "in", "json", "n int, day string")
    env = jobs.environment(1)
    with pytest.raises(UsageError, match=r"is named after column 'day'; say so with .partitioned_by\(\"day\"\)"):
        env.from_source(source, NO_WATERMARKS, "files").execute_and_collect("refused", limit=1)
    env = jobs.environment(1)
    assert collect(env.from_source(source.partitioned_by("day"), NO_WATERMARKS, "files")) == [(1, "2026-01-01")]
