"""JSON lines as columns: whole blocks, single lines where these might differ from Spark, and what is refused."""

import bz2
import gzip
import json
import math
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from penstock.connectors.file_source import text_blocks
from penstock.connectors.file_source.file_parts import FilePart, whole_file
from penstock.connectors.file_source.json_files import read_block, read_json
from penstock.connectors.file_source.text_blocks import divide_text, read_blocks
from penstock.errors import UnsupportedValueError

COLUMNS = pa.schema(
    [
        ("n", pa.int64()),
        ("s", pa.string()),
        ("x", pa.float64()),
        ("b", pa.bool_()),
        ("i", pa.int32()),
        ("h", pa.int16()),
    ]
)
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".json": bytes,
    ".gz": lambda data: gzip.compress(data[:50]) + gzip.compress(data[50:]),
    ".bz2": bz2.compress,
    ".deflate": lambda data: zlib.compress(data[:50]) + zlib.compress(data[50:]),
    ".zst": lambda data: bytes(pa.compress(data, codec="zstd", asbytes=True)),
}


def write(path: Path, data: bytes | str) -> FilePart:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return whole_file(str(path))


def rows(part: FilePart) -> list[dict[str, Any]]:
    batches = list(read_json(part, COLUMNS))
    assert all(batch.schema == COLUMNS for batch in batches)
    return [{k: v for k, v in row.items() if v is not None} for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("line", "row"),
    [
        ('{"n": 1, "s": "é\\u20ac\\n", "x": 1.5, "b": true, "i": -2, "h": 3}', None),
        ('{"n": null, "other": {"n": [1]}}', {}),
        ('{"N": 1}', {}),
        ("{}", {}),
        ('{"n": 1, "n": 2}', {"n": 2}),
        ('{"n": 1, "n": null}', {}),
        ('{"x": -0}', {"x": 0.0}),
        ('{"x": -0.0}', {"x": -0.0}),
        ('{"x": 1}', {"x": 1.0}),
        ('{"x": 12345678901234567890123}', {"x": 12345678901234567890123.0}),
        ('{"x": 1e400}', {"x": math.inf}),
        ('{"x": "-INF"}', {"x": -math.inf}),
        ('{"s": 1.50}', {"s": "1.50"}),
        ('{"s": true}', {"s": "true"}),
        ('{"s": "\\ud800"}', {"s": "?"}),
        ('{"s": "NaN"}', {"s": "NaN"}),
        ('{"n": 1} and more', {"n": 1}),
        ('{"n": 1}{"n": 2}', {"n": 1}),
        ('  {"n": 1}\t', {"n": 1}),
    ],
)
def test_a_line_is_read_as_spark_reads_it(tmp_path: Path, line: str, row: dict[str, Any] | None) -> None:
    found = rows(write(tmp_path / "a.json", f'{{"n": 7}}\n{line}\n'))
    expected = json.loads(line) if row is None else row
    assert found == [{"n": 7}, expected] and str(found[1]) == str(expected)


@pytest.mark.parametrize(
    "line",
    [
        '{"n": 1.0}',
        '{"n": "1"}',
        '{"n": true}',
        '{"n": 9223372036854775808}',
        '{"i": 2147483648}',
        '{"h": 32768}',
        '{"x": "1.5"}',
        '{"x": ""}',
        '{"x": NaN}',
        '{"b": 1}',
        '{"b": "true"}',
        '{"s": [1]}',
        '{"n": 01}',
        '{"n": 1',
        '{"n": 1,}',
        "[1]",
        "1",
        '{"s": "\x01"}',
    ],
)
def test_a_line_that_does_not_fit_is_refused_with_its_text(tmp_path: Path, line: str) -> None:
    part = write(tmp_path / "a.json", f'{{"n": 7}}\n{line}\n')
    with pytest.raises(UnsupportedValueError, match=r"a\.json' is not an object of the declared columns"):
        rows(part)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedValueError, match="can't decode"):
        rows(write(tmp_path / "a.json", b'{"s": "\xff"}\n'))


def test_an_object_over_several_lines_is_not_taken_for_rows(tmp_path: Path) -> None:
    assert read_block(b'{"n":1}{"n":\n2}\n', COLUMNS) is None
    assert read_block(b'{"n":1\n}\n', COLUMNS) is None
    with pytest.raises(UnsupportedValueError):
        rows(write(tmp_path / "a.json", '{"n":1}{"n":\n2}\n'))


@pytest.mark.parametrize("suffix", COMPRESS)
def test_lines_end_in_any_way_and_files_may_be_compressed(tmp_path: Path, suffix: str) -> None:
    data = b'\xef\xbb\xbf{"n":0}\r\n{"n":1}\n\n \r{"n":2}\r{"n":3}\n\n{"n":4}'
    part = write(tmp_path / f"a{suffix}", COMPRESS[suffix](data))
    assert rows(part) == [{"n": number} for number in range(5)]
    assert (divide_text(part, 5) == [part]) == (suffix != ".json")


@pytest.mark.parametrize("suffix", [".gz", ".deflate", ".bz2", ".zst"])
def test_a_compressed_file_that_ends_too_early_is_an_error(tmp_path: Path, suffix: str) -> None:
    data = COMPRESS[suffix](b"".join(b'{"n":%d}\n' % (number * 7919) for number in range(500)))
    with pytest.raises((EOFError, OSError)):
        rows(write(tmp_path / f"a{suffix}", data[:-20]))


def test_other_compressions_are_left_to_spark(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedValueError, match="packed: never"):
        rows(write(tmp_path / "a.lz4", b"x"))


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    assert rows(write(tmp_path / "a.json", "")) == [] == rows(write(tmp_path / "b.json", "\n \n"))
    assert rows(write(tmp_path / "a.gz", "")) == []


@pytest.mark.parametrize("seed", range(15))
def test_ranges_have_every_line_once_and_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    chance = Random(seed)
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", chance.choice([7, 50, 10_000]))
    lines = ["x" * chance.randrange(0, 60) for _ in range(chance.randrange(1, 50))]
    part = write(tmp_path / "a", "\n".join(lines) + chance.choice(["", "\n"]))
    parts = divide_text(part, chance.randrange(1, 200))
    found = b"".join(block for piece in parts for block in read_blocks(piece)).decode()
    assert found.split("\n")[: len(lines)] == lines
    assert sum(piece.size_bytes for piece in parts) == part.size_bytes


def test_a_block_and_its_lines_one_by_one_give_the_same(tmp_path: Path) -> None:
    chance = Random(3)
    lines = [
        json.dumps({"n": chance.randrange(-(2**63), 2**63), "s": "".join(chance.choices('aé€😀"\\\n', k=5)), "x": x})
        for x in [chance.uniform(-1e9, 1e9) for _ in range(500)] + [5e-324, 1.7976931348623157e308, 0.1, -1e-7]
    ]
    plain = rows(write(tmp_path / "a.json", "\n".join(lines)))
    slow = rows(write(tmp_path / "b.json", "\n".join([*lines, '{"x": -0}'])))
    assert plain == slow[:-1] and len(plain) == 504
