"""How much of a file source's own log belongs to a position (PROTOCOL R19); Spark's part is in tests/spark."""

import io
import json
import zipfile
from pathlib import Path

import pytest

from penstock.errors import CheckpointError
from penstock.spark import offset_log


def query_folder(folder: Path, entries: int) -> Path:
    """A query's folder after so many batches of one file each, compacted every tenth."""
    for name in ("offsets", "sources/0"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text("{}", encoding="utf-8")
    for number in range(entries):
        (folder / "offsets" / str(number)).write_text(f'v1\n{{}}\n{{"logOffset":{number}}}', encoding="utf-8")
        line = json.dumps({"path": f"{number}.json", "timestamp": 1, "batchId": number})
        name = f"{number}.compact" if number % 10 == 9 else str(number)
        (folder / "sources" / "0" / name).write_text(f"v1\n{line}", encoding="utf-8")
    return folder


def log_names(position: bytes) -> set[str]:
    with zipfile.ZipFile(io.BytesIO(position)) as archive:
        return {name.removeprefix("sources/0/") for name in archive.namelist() if name.startswith("sources/")}


def test_only_the_last_two_compactions_and_what_follows_them_are_kept(tmp_path: Path) -> None:
    """Each holds every file there ever was: with all of them a position could outgrow what is restored.

    The one before the newest tells Spark the interval between two.
    """
    folder = query_folder(tmp_path / "query", 40)
    assert log_names(offset_log.capture(folder, 32)) == {"19.compact", "29.compact", "30", "31", "32"}
    assert log_names(offset_log.capture(folder, 29)) == {"19.compact", "29.compact"}
    assert log_names(offset_log.capture(folder, 8)) == {str(number) for number in range(9)}
    assert log_names(offset_log.capture(folder, -1)) == set()


def test_a_log_with_a_gap_is_an_error_and_not_a_position(tmp_path: Path) -> None:
    folder = query_folder(tmp_path / "query", 33)
    (folder / "sources" / "0" / "31").unlink()
    with pytest.raises(CheckpointError, match="are gone"):
        offset_log.capture(folder, 32)
    assert log_names(offset_log.capture(folder, 30)) == {"19.compact", "29.compact", "30"}
