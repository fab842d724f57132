"""Which checkpoints a savepoint can be made from."""

from pathlib import Path

import msgspec
import pytest

from penstock.checkpoint.snapshot.stored_snapshot import StoredSnapshot, open_stored
from penstock.errors import SnapshotRefusedError, UsageError
from penstock.state_processor import savepoint_files
from penstock.state_processor.savepoint_files import require_settled
from tests.checkpoint.snapshots import FORMS, snapshot


@pytest.mark.parametrize("form", FORMS)
def test_a_snapshot_of_state_alone_is_taken(tmp_path: Path, form: str) -> None:
    require_settled(open_stored(snapshot(tmp_path / "job", form)))
    require_settled(None)


def test_a_checkpoint_without_its_log_is_read_but_not_built_on(tmp_path: Path) -> None:
    base = open_stored(snapshot(tmp_path / "job", "checkpoint"))
    for entry in (tmp_path / "job" / "log").iterdir():
        entry.unlink()
    assert open_stored(base.uri).states()
    with pytest.raises(SnapshotRefusedError, match="no job log"):
        require_settled(base)


@pytest.mark.parametrize(("what", "message"), [("spool", "rows in flight"), ("committables", "may not be committed")])
def test_rows_in_flight_and_uncommitted_output_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, message: str
) -> None:
    base = open_stored(snapshot(tmp_path / "job", "checkpoint"))
    monkeypatch.setattr(savepoint_files, "open_snapshot", lambda path: unsettled(base, what))
    with pytest.raises(UsageError, match=message):
        require_settled(base)


def unsettled(base: StoredSnapshot, what: str) -> StoredSnapshot:
    manifest = base.manifest
    if what == "committables":
        manifest = msgspec.structs.replace(manifest, committables=["a transaction"])
    else:
        first = msgspec.structs.replace(manifest.subtasks[0], spool=["a file"])
        manifest = msgspec.structs.replace(manifest, subtasks=[first, *manifest.subtasks[1:]])
    return StoredSnapshot(base.uri, base.storage, manifest)
