"""CSV files as columns: with and without quotes, and what is refused."""

import csv
import io
import math
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from penstock.connectors.file_source import text_blocks
from penstock.connectors.file_source.csv_files import CsvColumns, read_csv
from penstock.connectors.file_source.file_parts import FilePart, whole_file
from penstock.connectors.file_source.text_blocks import divide_text
from penstock.errors import UnsupportedValueError

COLUMNS = pa.schema([("s", pa.string()), ("n", pa.int64()), ("x", pa.float64()), ("b", pa.bool_()), ("h", pa.int16())])


def write(path: Path, text: str) -> FilePart:
    path.write_bytes(text.encode())
    return whole_file(str(path))


def rows(part: FilePart, columns: pa.Schema = COLUMNS, *, header: bool = False) -> list[tuple[Any, ...]]:
    batches = list(read_csv(part, CsvColumns(columns, header)))
    assert all(batch.schema == columns for batch in batches)
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("line", "row"),
    [
        ("é,1,1.5,true,3", ("é", 1, 1.5, True, 3)),
        (",,,,", (None,) * 5),
        ('"a,""b""",1,1,FALSE,-5', ('a,"b"', 1, 1.0, False, -5)),
        ('"",1,1,,', (None, 1, 1.0, None, None)),
        ('a"b,1,1,,', ('a"b', 1, 1.0, None, None)),
        (' "a" ,1,1,,', (' "a" ', 1, 1.0, None, None)),
        (" a ,+7,-0,,", (" a ", 7, -0.0, None, None)),
        ("a,-0,+1.5e3,True,+32767", ("a", 0, 1500.0, True, 32767)),
        ("a,9223372036854775807,-Inf,,", ("a", 2**63 - 1, -math.inf, None, None)),
        ("a,1,.5,,", ("a", 1, 0.5, None, None)),
        ("a,1,1e400,,", ("a", 1, math.inf, None, None)),
        ("0x10,1,5.,,", ("0x10", 1, 5.0, None, None)),
    ],
)
def test_a_line_is_read_as_spark_reads_it(tmp_path: Path, line: str, row: tuple[Any, ...]) -> None:
    found = rows(write(tmp_path / "a.csv", f"z,1,1,,\n{line}\n"))
    assert found == [("z", 1, 1.0, None, None), row] and str(found[1]) == str(row)


@pytest.mark.parametrize(
    "line",
    [
        "a,1,1,true",
        "a,1,1,true,1,1",
        "a,1.0,1,,",
        "a, 1,1,,",
        "a,0x10,1,,",
        "a,9223372036854775808,1,,",
        "a,1,1,,32768",
        "a,1,x,,",
        "a,1,1_0,,",
        "a,1,0x1p3,,",
        "a,1,1,yes,",
        "a,1,1,1,",
        '"a"b,1,1,,',
        '"a,1,1,,',
        '"a" ,1,1,,',
    ],
)
def test_a_line_that_does_not_fit_is_refused(tmp_path: Path, line: str) -> None:
    part = write(tmp_path / "a.csv", f"z,1,1,,\n{line}\n")
    with pytest.raises(UnsupportedValueError, match=r"a\.csv' does not have the declared columns"):
        rows(part)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"\xff,1,1,,\n")
    (tmp_path / "b.csv").write_bytes(b'"\xff",1,1,,\n')
    for name in ("a.csv", "b.csv"):
        with pytest.raises(UnsupportedValueError, match="UTF|utf-8"):
            rows(whole_file(str(tmp_path / name)))


def test_the_header_is_the_first_line_with_text_and_blank_lines_do_not_count(tmp_path: Path) -> None:
    part = write(tmp_path / "a.csv", "\n \t\nname,of\r\na,1\n\n   \nb,2")
    columns = pa.schema([("s", pa.string()), ("n", pa.int64())])
    assert rows(part, columns, header=True) == [("a", 1), ("b", 2)]
    assert rows(write(tmp_path / "b.csv", "s,n"), columns, header=True) == []


@pytest.mark.parametrize("seed", range(5))
def test_ranges_of_a_file_have_all_rows_and_one_header(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = Random(seed)
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", chance.choice([20, 10_000]))
    wanted = [("".join(chance.choices('ab,"é', k=chance.randrange(1, 9))), number) for number in range(200)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([("s", "n"), *wanted])
    part = write(tmp_path / "a.csv", text.getvalue())
    columns = pa.schema([("s", pa.string()), ("n", pa.int64())])
    found = [row for piece in divide_text(part, 300) for row in rows(piece, columns, header=True)]
    assert found == wanted and len(divide_text(part, 300)) > 3
