"""The log of a packed file source: Spark's format, compactions, and what is deleted."""

import json
from pathlib import Path

import pytest

from penstock.connectors.file_source.listing import SourceFile
from penstock.connectors.file_source.source_log import SourceLog
from penstock.errors import CheckpointError
from penstock.spark import offset_log


def file(number: int) -> SourceFile:
    return SourceFile(f"/in/{number} é.json", 1_000 + number)


def filled(folder: Path, count: int) -> SourceLog:
    log = SourceLog(folder)
    for number in range(count):
        assert log.append([file(number)]) == number
    return log


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_an_entry_is_written_as_spark_writes_it(tmp_path: Path) -> None:
    SourceLog(tmp_path / "log").append([SourceFile("/in/a b.json", 17), SourceFile("/in/c.json", 18)])
    assert (tmp_path / "log" / "0").read_text(encoding="utf-8") == (
        'v1\n{"path":"file:///in/a%20b.json","timestamp":17,"batchId":0}\n'
        '{"path":"file:///in/c.json","timestamp":18,"batchId":0}'
    )


def test_every_tenth_entry_is_a_compaction_with_all_files(tmp_path: Path) -> None:
    log = filled(tmp_path, 12)
    assert names(tmp_path) == {*map(str, range(9)), "9.compact", "10", "11"}
    lines = (tmp_path / "9.compact").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "v1" and [json.loads(line)["batchId"] for line in lines[1:]] == list(range(10))
    assert [found.path for found in log.files_between(8, 10)] == [file(9).path, file(10).path]


def test_a_log_that_is_opened_again_continues(tmp_path: Path) -> None:
    filled(tmp_path, 25)
    log = SourceLog(tmp_path)
    assert log.last == 24 and list(log.files()) == [file(number).path for number in range(25)]
    assert log.append([file(25), file(26)]) == 25
    assert [(found.path, found.number) for found in SourceLog(tmp_path).files_between(23, 25)] == [
        (file(24).path, 24),
        (file(25).path, 25),
        (file(26).path, 25),
    ]


def test_the_interval_of_another_log_is_kept(tmp_path: Path) -> None:
    for number in range(4):
        line = json.dumps({"path": f"file:/in/{number}", "timestamp": 1, "batchId": number})
        (tmp_path / (f"{number}.compact" if number == 3 else str(number))).write_text(f"v1\n{line}", encoding="utf-8")
    log = SourceLog(tmp_path)
    assert [log.append([file(number)]) for number in range(4, 9)] == [4, 5, 6, 7, 8]
    assert "7.compact" in names(tmp_path)


def test_old_entries_are_deleted_and_a_position_needs_none_of_them(tmp_path: Path) -> None:
    folder = tmp_path / "sources" / "0"
    log = filled(folder, 100)
    kept = names(folder)
    assert {"79.compact", "89.compact", "99.compact"} <= kept and not kept & {*map(str, range(59)), "49.compact"}
    (tmp_path / "offsets").mkdir()
    (tmp_path / "metadata").write_text("{}", encoding="utf-8")
    for number in (98, 99):
        text = f'v1\n{{}}\n{{"logOffset": {number}}}'
        (tmp_path / "offsets" / str(number)).write_text(text, encoding="utf-8")
    position = offset_log.capture(tmp_path, 99)
    offset_log.build(tmp_path / "again", position, 99)
    restored = SourceLog(tmp_path / "again" / "sources" / "0")
    assert list(restored.files()) == list(log.files()) and restored.append([file(100)]) == 100
    assert offset_log.batch_files(tmp_path, 99) == [["file:///in/99%20é.json"]]


def test_a_gap_and_another_version_are_errors(tmp_path: Path) -> None:
    log = filled(tmp_path, 5)
    (tmp_path / "3").unlink()
    with pytest.raises(CheckpointError, match="are gone"):
        SourceLog(tmp_path)
    (tmp_path / "3").write_text("v2\n{}", encoding="utf-8")
    with pytest.raises(CheckpointError, match="is not of version v1"):
        log.files_between(2, 3)
    with pytest.raises(CheckpointError, match="entry 7"):
        log.files_between(6, 7)


def test_what_an_interrupted_write_left_is_not_an_entry(tmp_path: Path) -> None:
    filled(tmp_path, 2)
    (tmp_path / ".2.0f.tmp").write_text("v1", encoding="utf-8")
    (tmp_path / ".9.compact.0f.tmp").write_text("v1", encoding="utf-8")
    assert SourceLog(tmp_path).last == 1
