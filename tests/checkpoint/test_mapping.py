"""Which operator gets which state of a snapshot."""

import msgspec
import pytest

from penstock.checkpoint.restore.uid_mapping import ProgramUids, find_renames, rename, require_mapped
from penstock.errors import CheckpointError, UsageError
from penstock.model.operator_ids import operator_id
from penstock.model.snapshot import NativeName, OperatorStateInfo, SourcePosition, TableFile
from tests.checkpoint.manifests import committable, file_of, manifest, snapshot, table

SINKS = frozenset({"sink"})


def program(*uids: str, sources: tuple[str, ...] = ("source",), **hashes: str) -> ProgramUids:
    operators = {uid.replace("_", "-"): uid_hash for uid, uid_hash in hashes.items()}
    return ProgramUids({**dict.fromkeys(uids), **operators}, dict.fromkeys(sources), SINKS)


def test_o4_state_without_an_operator_is_refused_in_flinks_words() -> None:
    with pytest.raises(CheckpointError) as caught:
        require_mapped(manifest(), program("new"), path="/data/savepoint-1")
    assert str(caught.value).startswith(
        "Failed to rollback to checkpoint/savepoint /data/savepoint-1. Cannot map checkpoint/savepoint state for "
        f"operator {operator_id('op')} (uid 'op') to the new program, because the operator is not available in the new "
        "program. If you want to allow to skip this, you can set the --allowNonRestoredState option on the CLI."
    )
    assert caught.value.code == "UNMAPPED_STATE op=op"
    assert caught.value.code in str(caught.value)
    assert caught.value.exit_code == 5


def test_o4_operators_without_state_are_skipped() -> None:
    parts = [msgspec.structs.replace(part, operator_uids=["op", "stateless"]) for part in manifest().subtasks]
    require_mapped(manifest(subtasks=parts), program("op"))


def test_o4_operator_state_counts_as_state() -> None:
    info = OperatorStateInfo("buffer", "rows", "split", "LONG", None, 1)
    part = msgspec.structs.replace(snapshot(0, (0, 7)), operator_states=[info], operator_file=file_of("chk-7/x"))
    with pytest.raises(CheckpointError, match="buffer"):
        require_mapped(manifest(subtasks=[part]), program("op"))


def test_o4_a_source_that_is_missing_is_refused() -> None:
    with pytest.raises(CheckpointError, match="uid 'source'.*--allowNonRestoredState"):
        require_mapped(manifest(), program("op", sources=("other",)))


def test_o4_a_source_without_a_position_is_not_missed() -> None:
    require_mapped(manifest(sources=SourcePosition(-1, None, ["source"])), program("op", sources=()))


def test_o5_state_may_be_dropped() -> None:
    require_mapped(manifest(), program("new", sources=()), allow_non_restored=True)


def test_o6_o7_new_operators_in_any_order_are_fine() -> None:
    require_mapped(manifest(), program("new", "op", "newer", sources=("other", "source")))


def test_r26_output_without_a_sink_is_refused() -> None:
    with pytest.raises(CheckpointError, match=r"sinks that the program does not have: \['sink'\]"):
        require_mapped(manifest(), ProgramUids({"op": None}, {"source": None}), allow_non_restored=True)


@pytest.mark.parametrize("uid_hash", [operator_id("op"), "op"])
def test_o3_a_uid_hash_takes_the_state_of_the_operator_with_that_id(uid_hash: str) -> None:
    assert find_renames(manifest(), program(totals=uid_hash)) == {"op": "totals"}


def test_o3_the_hash_of_a_uid_and_the_uid_are_the_same_operator() -> None:
    saved = rename(manifest(), {"op": operator_id("my-uid")})
    assert find_renames(saved, program("my-uid")) == {operator_id("my-uid"): "my-uid"}


def test_o3_an_operator_with_the_same_uid_comes_before_one_with_its_hash() -> None:
    assert find_renames(manifest(), program("op", other=operator_id("op"))) == {}


def test_o3_two_operators_cannot_take_the_same_state() -> None:
    with pytest.raises(UsageError, match="'one' and 'two' both take the state of 'op'"):
        find_renames(manifest(), program(one=operator_id("op"), two=operator_id("op")))


def test_o3_a_renamed_manifest_is_renamed_in_every_place() -> None:
    keyed = file_of("state/x").with_format(TableFile("op", "total", "keyed", 1))
    native = file_of("native/x").with_format(NativeName("op", "1.sst"))
    state = file_of("operator/x").with_format(TableFile("op", "rows", "split", 1))
    info = OperatorStateInfo("op", "rows", "split", "LONG", None, 1)
    part = msgspec.structs.replace(
        snapshot(0, (0, 7), keyed, native), operator_states=[info], operator_files=[state], tables=[table()]
    )
    whole = manifest(
        subtasks=[part], watermarks={"op": 1}, max_timestamps={"op": 2}, committables=[committable("t", sink="op")]
    )
    text = msgspec.json.encode(rename(whole, {"op": "renamed", "source": "moved"}))
    assert b'"op"' not in text and b'"source"' not in text
    assert msgspec.json.encode(whole).count(b'"op"') == text.count(b'"renamed"') == 9
