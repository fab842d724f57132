"""The files of an epoch, divided into tasks."""

from pathlib import Path
from random import Random

import pytest

from penstock.connectors.file_source.file_parts import LARGE_BYTES, TASK_BYTES, FilePart, tasks_of, whole_file
from penstock.errors import SourceFileLostError


def never(file: FilePart, size_bytes: int) -> list[FilePart]:
    raise AssertionError("small files are not divided")


def by_bytes(file: FilePart, size_bytes: int) -> list[FilePart]:
    bounds = [*range(0, file.size_bytes, size_bytes), file.size_bytes]
    return [FilePart(file.path, end - begin, begin, end) for begin, end in zip(bounds, bounds[1:], strict=False)]


def test_small_files_are_one_task() -> None:
    files = [FilePart(str(number), 1_000) for number in range(50)]
    assert tasks_of(files, 4, never) == [files]
    assert tasks_of([FilePart("empty", 0)], 4, never) == [[FilePart("empty", 0)]]


@pytest.mark.parametrize("seed", range(20))
def test_tasks_get_consecutive_files_in_order_and_about_the_same_size(seed: int) -> None:
    chance = Random(seed)
    files = [FilePart(str(number), chance.randrange(LARGE_BYTES)) for number in range(chance.randrange(1, 40))]
    slots = chance.randrange(1, 6)
    tasks = tasks_of(files, slots, by_bytes)
    assert len(tasks) <= slots
    seen = [part for task in tasks for part in task]
    assert list(dict.fromkeys(part.path for part in seen)) == [file.path for file in files]
    assert sum(part.size_bytes for part in seen) == sum(file.size_bytes for file in files)
    sizes = [sum(part.size_bytes for part in task) for task in tasks]
    assert max(sizes) <= sum(sizes) / slots + LARGE_BYTES + TASK_BYTES


def test_a_large_file_is_divided_and_neighbouring_parts_are_one() -> None:
    file = FilePart("a", 10 * LARGE_BYTES)
    first, second = tasks_of([file], 2, by_bytes)
    assert [(part.start, part.stop) for part in (*first, *second)] == [
        (0, file.size_bytes // 2),
        (file.size_bytes // 2, file.size_bytes),
    ]
    assert tasks_of([file], 1, never) == [[file]]


def test_a_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12")
    assert whole_file(str(tmp_path / "a")) == FilePart(str(tmp_path / "a"), 2)
    with pytest.raises(SourceFileLostError, match="has gone before it was read"):
        whole_file(str(tmp_path / "b"))
