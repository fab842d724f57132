"""Every name that is made can be read back, and nothing else is taken for one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.checkpoint.file_names import (
    FileKind,
    FileName,
    checkpoint_of,
    log_entry_path,
    metadata_path,
    parse_name,
    source_file_path,
    state_file_path,
)
from penstock.model.ids import StageId, SubtaskId
from penstock.storage.paths import confine

NUMBERS = st.integers(0, 10**12)
STAGES = st.from_regex(r"[A-Za-z0-9_.]{1,20}", fullmatch=True)


@given(NUMBERS, NUMBERS, STAGES, NUMBERS)
def test_every_name_says_what_it_was_made_from(attempt: int, checkpoint: int, stage: str, index: int) -> None:
    subtask = SubtaskId(StageId(stage), index)
    state = FileName(FileKind.STATE, checkpoint, attempt, subtask)
    assert parse_name(state_file_path(attempt, checkpoint, subtask)) == state
    assert parse_name(f"chk-{checkpoint}/{attempt}-{stage}-{index}-9f1c2a0b1c2d") == state
    assert parse_name(source_file_path(attempt, checkpoint)) == FileName(FileKind.SOURCE, checkpoint, attempt)
    assert parse_name(metadata_path(checkpoint)) == FileName(FileKind.METADATA, checkpoint)
    assert parse_name(log_entry_path(checkpoint)) == FileName(FileKind.LOG, checkpoint)
    assert parse_name(metadata_path(checkpoint) + "~0a") == FileName(FileKind.METADATA, checkpoint, temporary=True)
    for path in (state_file_path(attempt, checkpoint, subtask), metadata_path(checkpoint)):
        assert confine(path) == path
        assert checkpoint_of(path) == checkpoint


def test_two_names_of_one_subtask_differ() -> None:
    subtask = SubtaskId(StageId("s0"), 1)
    assert state_file_path(1, 2, subtask) != state_file_path(1, 2, subtask)


@pytest.mark.parametrize(
    "path",
    [
        "notes.txt",
        "chk-7/notes.txt",
        "chk-07/_metadata",
        "chk-7/_metadata/x",
        "shared/1-2-s0-aa",
        "shared/x-2-s0-1-aa",
        "log/42",
        "savepoint-012345-0123456789ab/_metadata",
        "chk-7/_metadata~",
        "taskowned/1-2-s0-1-aa",
        "",
    ],
)
def test_a_foreign_name_is_not_ours(path: str) -> None:
    assert parse_name(path) is None


def test_any_file_in_a_checkpoints_folder_uses_up_its_number() -> None:
    assert checkpoint_of("chk-7/notes.txt") == 7
    assert checkpoint_of("log/00000000000000000042") is None
    assert checkpoint_of("notes.txt") is None


def test_a_stage_that_could_not_be_read_back_is_refused() -> None:
    for stage in ("a-b", "", "a/b", "a~b", "x" * 65):
        with pytest.raises(ValueError):
            state_file_path(1, 2, SubtaskId(StageId(stage), 0))
