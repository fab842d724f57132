"""The matrix covers what it says, and its judgement sees what it is there for."""

import random
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from penstock.checkpoint.log.entries import Claim, Complete, Entry, Record
from tests.faults.events import Expected
from tests.faults.failpoints import Case
from tests.faults.fencing import Sleeper, Wake, all_zombies
from tests.faults.jobs import JobProcess, Place
from tests.faults.matrix.all_cases import MATRIX, chosen
from tests.faults.matrix.cells import FACTORS, all_pairs, draw_cells, missing_pairs
from tests.faults.matrix.damage import swapped
from tests.faults.matrix.run import CaseResult, closing_line
from tests.faults.matrix.scene import Scene
from tests.faults.matrix.storage import _require_dead_after_error
from tests.faults.outcome import read_printed
from tests.faults.starts import not_linear

ELSEWHERE = {"F16", "F18", "F19"}
REQUESTS = [case.cell_request for case in MATRIX]


def test_every_fault_of_the_list_has_a_case() -> None:
    shown = {fault.split()[0] for case in MATRIX for fault in case.faults}
    assert shown | ELSEWHERE == {f"F{number:02}" for number in range(1, 30)}
    assert sum(len(case.faults) for case in MATRIX) >= 24


def test_all_pairs_of_settings_meet_in_some_case() -> None:
    cells = draw_cells(REQUESTS, 1)
    assert missing_pairs(REQUESTS, cells) == set()
    assert missing_pairs(REQUESTS[:3], cells[:3])  # three cases cannot do it
    assert len(all_pairs()) > 200


def test_cells_follow_from_the_seed_and_keep_what_a_case_needs() -> None:
    assert draw_cells(REQUESTS, 5) == draw_cells(REQUESTS, 5) != draw_cells(REQUESTS, 6)
    for case, cell in zip(MATRIX, draw_cells(REQUESTS, 5), strict=True):
        assert {name: cell[name] for name in case.fixed} == dict(case.fixed)
        assert all(cell[name] in values for name, values in FACTORS.items())


def test_a_case_is_chosen_by_the_id_of_its_fault_or_by_its_name() -> None:
    assert [case.name for case in chosen("F12")] == ["disk_full"] == [case.name for case in chosen("disk_full")]
    assert chosen(None) == list(MATRIX) and chosen("F99") == []


def test_a_fault_that_did_not_hit_or_an_inexact_job_is_no_success() -> None:
    case, cell = MATRIX[0], draw_cells(REQUESTS, 1)[0]
    good, missed = CaseResult(case, cell, ["seen"]), CaseResult(case, cell, [""])
    wrong, skipped = CaseResult(case, cell, ["seen"], ["1 lost"]), CaseResult(case, cell, skipped="no strace")
    assert [result.passed for result in (good, missed, wrong, skipped)] == [True, False, False, True]
    assert "NOT HIT" in missed.lines()[0] and "NOT EXACT" in wrong.lines()[0] and "SKIPPED" in skipped.lines()[0]
    assert closing_line([good, missed, wrong, skipped], 1, 7) == "matrix 2/3 hit, 1 exact, 1 skipped, seed 1, 7 s"


def test_a_line_that_was_printed_twice_is_one_row_and_other_lines_are_none(tmp_path: Path) -> None:
    row, total = "2> Row(id=7919, key='k1', amount=2, count=1)", "1> Row(id=None, key='k1', amount=2, count=1)"
    (tmp_path / "printed").write_text(f"{row}\nJob has been submitted\n{total}\n{row}\n{row[:-4]}\n")
    rows = list(read_printed(tmp_path / "printed"))
    assert [(found["id"], found["key"], found["amount"], found["count"]) for found in rows] == [
        (7919, "k1", 2, 1),
        (None, "k1", 2, 1),
    ]


def test_f13_a_second_fsync_of_a_file_after_an_error_is_seen() -> None:
    good = [
        "1 fsync(3</c/a~1>) = -1 EIO (Input/output error) (INJECTED)",
        "1 fsync(3</c/a~2>) = 0",
        "1 fsync(4</c>) = 0",
    ]
    _require_dead_after_error(good)
    with pytest.raises(AssertionError, match="again"):
        _require_dead_after_error([*good, "2 fsync(9</c/a~1>) = 0"])


def claim(attempt: int) -> Claim:
    return Claim(attempt, "0" * 64, "writer", "tally", "program.py", 1, 128)


def complete(checkpoint: int) -> Complete:
    return Complete(checkpoint, checkpoint, f"chk-{checkpoint}/_metadata", "0" * 64)


def log_of(*entries: tuple[int, Entry]) -> list[Record]:
    """The entries, each with the attempt that wrote it."""
    return [Record(number, "id", attempt, 0, entry) for number, (attempt, entry) in enumerate(entries, 1)]


def test_f19_a_log_with_two_stories_is_seen() -> None:
    good = log_of((1, claim(1)), (1, complete(4)), (2, claim(2)), (2, complete(6)))
    assert not_linear(good) == []
    assert not_linear(log_of((1, claim(1)), (2, claim(2)), (1, complete(1)))) == [
        "entry 3 is of attempt 1, the owner is 2"
    ]
    assert not_linear(log_of((1, claim(1)), (3, claim(3)))) == ["attempt 3 follows attempt 1"]
    assert not_linear(log_of((1, claim(1)), (1, complete(5)), (1, complete(5)))) == [
        "checkpoint 5 follows checkpoint 5"
    ]
    assert not_linear(good[:1] + good[2:]) == ["entry 3 follows entry 1"]


def test_f18_every_crash_point_of_the_driver_has_its_zombie() -> None:
    places = [case.place for case in all_zombies()]
    assert len(places) == len(set(places)) == 35
    assert "C30.after" not in places  # the job has ended then


@pytest.mark.parametrize(
    "change",
    [{"exit_code": 0}, {"message": "done"}, {"changes": ("+ log/7",)}, {"left": ("12 java",)}],
)
def test_f18_a_zombie_that_acts_is_not_called_fenced(change: dict[str, Any]) -> None:
    fenced = Wake(Case("C19", "before", "driver", "stop"), 4, "attempt 1 no longer owns the job: …", 1.0, (), ())
    assert fenced.passed and "fenced after" in str(fenced)
    acted = Wake(**{**fenced.__dict__, **change})
    assert not acted.passed and "NOT FENCED" in str(acted)


@pytest.mark.parametrize(
    ("place", "path", "allowed"),
    [
        ("C20.after", "out/.inprogress-ab12-2-0123456789ab-0-9f", True),
        ("C20.after", "out/.inprogress-ab12-1-0123456789ab-0-9f", False),
        ("C20.after", "out/.pending-ab12-2-0123456789ab-0-9f", False),
        ("C20.after", "out/.committed-ab12-2-0123456789ab-0-9f", False),
        ("C20.after", "out/part-0123456789ab-0-9f.json", False),
        ("C20.after", "checkpoints/ab12/log/00000002", False),
        ("C1.before", "out/.inprogress-ab12-2-0123456789ab-0-9f", False),  # it has no attempt yet
    ],
)
def test_f18_a_zombie_may_remove_only_what_it_has_in_progress_itself(place: str, path: str, allowed: bool) -> None:
    name, side = place.split(".")
    assert Sleeper(Case(name, side, "driver", "stop"), Mock(spec=JobProcess), 2).may_remove(path) is allowed


def test_f10_files_that_are_the_same_are_not_swapped(tmp_path: Path) -> None:
    contents = {"a/CURRENT": b"MANIFEST-5\n", "b/CURRENT": b"MANIFEST-5\n", "a/log": b"1234", "b/log": b"123456"}
    for name, content in contents.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    named = swapped(Mock(spec=Scene), tmp_path / "_metadata", [tmp_path / name for name in contents])
    assert {path.name for path in named} == {"log"}
    assert (tmp_path / "a/log").read_bytes() == b"123456" and (tmp_path / "b/log").read_bytes() == b"1234"


def test_f12_a_disk_of_a_case_goes_when_the_processes_of_its_scene_have_ended() -> None:
    scene = Scene(Mock(spec=Place), draw_cells(REQUESTS, 1)[0], Expected(), random.Random(1))
    ended: list[str] = []
    scene.mounts.callback(ended.append, "disk")
    scene.jobs.append(Mock(spec=JobProcess, close=lambda: ended.append("job")))
    scene.close()
    assert ended == ["job", "disk"]
