"""A damaged newest checkpoint: never a wrong result or an empty start (PROTOCOL R6, R24; reliability F06 to F10)."""

from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from penstock import failpoint
from penstock.checkpoint.file_names import FileKind, parse_name
from penstock.checkpoint.log.log_reader import read_log
from penstock.checkpoint.snapshot.manifest import file_paths, load_manifest
from penstock.connectors.file.file_sink import FileSink
from penstock.errors import CheckpointError, LogCorruptError
from penstock.failpoint import Failpoint, InjectedCrash
from penstock.model.encoder import Encoder
from penstock.storage.memory import MemoryStorage
from penstock.testing import Harness
from penstock.testing.memory_sink import MemorySink
from tests.testing.damage import BACKENDS, DAMAGES, EVENTS, ITEMS, Everything, check_exact, copy_of, damage, start


@pytest.fixture(autouse=True)
def disarmed():
    yield
    failpoint.disarm()


def run(backend: str, **settings: Any) -> tuple[MemoryStorage, list[str]]:
    """The storage of a job that has taken its checkpoints, and the paths of the newest one."""
    storage = MemoryStorage()
    harness = start(storage, backend, **settings).feed(ITEMS)
    newest = harness.manifest
    assert newest is not None and len(read_log(storage).lineage) == 3
    paths = sorted(file_paths(newest))
    assert {parse_name(path).subtask.index for path in paths} == {0, 1}  # type: ignore[union-attr]
    return storage, [f"chk-{newest.checkpoint_id}/_metadata", *paths]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("how", DAMAGES)
def test_f06_to_f09_a_file_of_the_newest_checkpoint_is_damaged(backend: str, how: str) -> None:
    whole, paths = run(backend)
    newest = read_log(whole).lineage[-1].checkpoint
    outcomes = []
    for path in paths:
        storage, said = copy_of(whole), list[str]()
        damage(storage, path, how)
        try:
            harness = start(storage, backend, warn=said.append)
        except CheckpointError as refusal:
            assert path in str(refusal) and refusal.exit_code == 5
            assert read_log(storage).started, "it did not begin anew"
            outcomes.append("refused")
            continue
        assert all(path in text for text in said) and f"checkpoint {newest} " in said[0]
        restored = read_log(storage).restore
        assert restored is not None and restored.checkpoint is not None and restored.checkpoint < newest
        assert f"Going back to checkpoint {restored.checkpoint} " in said[-1]
        assert f"to {newest}, and all that followed, is read and processed again" in said[-1]
        check_exact(harness.feed(ITEMS))
        outcomes.append("went back")
    assert outcomes[0] == "went back", "the manifest is of this checkpoint alone"
    assert "refused" not in outcomes or backend != "rocksdb rows"


@pytest.mark.parametrize("how", DAMAGES)
def test_f06_to_f09_r13_rows_in_flight_are_damaged(how: str) -> None:
    limits = cycle([0, None])  # the epoch with rows spools them, the one behind it works them off
    storage, _ = run("hashmap", spool_after=lambda: next(limits))
    newest = load_manifest(storage, read_log(storage).lineage[-1])
    spooled = [file.path for snapshot in newest.subtasks for file in snapshot.spool]
    assert len(spooled) == 2
    for path in spooled:
        again, said = copy_of(storage), list[str]()
        damage(again, path, how)
        check_exact(start(again, "hashmap", warn=said.append).feed(ITEMS))
        assert path in said[0]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("how", DAMAGES)
def test_r24_with_a_sink_that_commits_the_job_refuses_unless_told(backend: str, how: str) -> None:
    storage, sink = MemoryStorage(), MemorySink()
    harness = start(storage, backend, sink=sink).feed(ITEMS)
    newest = harness.manifest
    assert newest is not None
    committed = list(sink.rows)
    assert sorted(number for _, number, _ in committed) == list(range(48))
    own = [path for path in file_paths(newest) if parse_name(path).number == newest.checkpoint_id]  # type: ignore[union-attr]
    path = min(own)
    damage(storage, path, how)
    for _ in range(2):  # again and again: a refusal changes nothing
        with pytest.raises(CheckpointError, match="--allow-fallback") as refusal:
            start(storage, backend, sink=sink)
        assert path in str(refusal.value) and "twice" in str(refusal.value)
        assert sink.rows == committed
    said: list[str] = []
    check_exact(start(storage, backend, sink=sink, allow_fallback=True, warn=said.append).feed(ITEMS).finish())
    assert len(said) == 1 and path in said[0]
    numbers = [number for _, number, _ in sink.rows]
    assert set(numbers) == set(range(60)), "at least once"
    assert sorted(numbers)[:36] == list(range(36)), "what is older than the checkpoint gone back to comes once"
    assert sink.store.unsettled == []


def test_r24_a_file_that_is_brought_back_ends_the_refusal() -> None:
    storage, sink = MemoryStorage(), MemorySink()
    harness = start(storage, "hashmap", sink=sink).feed(ITEMS)
    assert harness.manifest is not None
    path = max(file_paths(harness.manifest))
    data = storage.files[path]
    damage(storage, path, "flipped")
    with pytest.raises(CheckpointError, match=path):
        start(storage, "hashmap", sink=sink)
    storage.files[path] = data
    check_exact(start(storage, "hashmap", sink=sink).feed(ITEMS).finish())
    assert sorted(number for _, number, _ in sink.rows) == list(range(60))


def test_r24_before_its_commits_a_checkpoint_is_gone_behind_without_asking() -> None:
    """Nothing of it is visible: its transactions are dropped, and their rows come again."""
    storage, sink = MemoryStorage(), MemorySink()
    crash_at_last_checkpoint(storage, sink, "C19.after")
    newest = read_log(storage).lineage[-1]
    damage(storage, newest.metadata_path, "flipped")
    said: list[str] = []
    check_exact(start(storage, "hashmap", sink=sink, warn=said.append).feed(ITEMS).finish())
    assert len(said) == 1
    assert sorted(number for _, number, _ in sink.rows) == list(range(60)), "exactly once"


def test_f07_with_one_checkpoint_kept_there_is_nothing_to_go_back_to() -> None:
    storage = MemoryStorage()
    harness = Harness.keyed(Everything(), key=lambda e: e[0], storage=storage).feed(ITEMS)
    assert harness.manifest is not None
    path = f"chk-{harness.manifest.checkpoint_id}/_metadata"
    damage(storage, path, "removed")
    with pytest.raises(CheckpointError, match=f"{path}.*no older one is kept.*num-retained"):
        Harness.keyed(Everything(), key=lambda e: e[0], storage=storage, allow_fallback=True)


def test_f10_a_file_in_the_place_of_another_is_found_by_its_contents() -> None:
    storage, paths = run("hashmap")
    left, right = paths[-2:]
    storage.files[left], storage.files[right] = storage.files[right], storage.files[left]
    said: list[str] = []
    try:
        check_exact(start(storage, "hashmap", warn=said.append).feed(ITEMS))
    except CheckpointError as refusal:
        assert left in str(refusal) or right in str(refusal)
    else:
        assert left in said[0] or right in said[0]


# ---- the job log


def crash_at_last_checkpoint(storage: MemoryStorage, sink: MemorySink, place: str) -> None:
    """A job whose driver is lost there, at its fourth checkpoint."""
    harness = start(storage, "hashmap", sink=sink, crashed=lambda: (_ for _ in ()).throw(Lost()))
    hits = {"C19": 4, "C20": 7, "C21": 4, "C22": 2, "C23": 1}[place.split(".")[0]]
    failpoint.arm(Failpoint(place, "raise", hit=hits))
    with pytest.raises((Lost, InjectedCrash)):
        harness.feed(ITEMS)
    failpoint.disarm()


class Lost(Exception):
    """The driver is gone."""


@pytest.mark.parametrize("place", ["C19.after", "C20.before", "C20.after", "C21.after", "C22.after", "nowhere"])
@pytest.mark.parametrize("how", DAMAGES)
def test_r6_a_damaged_log_is_refused_or_changes_nothing(place: str, how: str) -> None:
    def job() -> tuple[MemoryStorage, MemorySink]:
        storage, sink = MemoryStorage(), MemorySink()
        if place == "nowhere":
            start(storage, "hashmap", sink=sink).feed(ITEMS)
        else:
            crash_at_last_checkpoint(storage, sink, place)
        return storage, sink

    entries = [path for path in job()[0].files if parse_name(path).kind is FileKind.LOG]  # type: ignore[union-attr]
    assert len(entries) > 8
    refused = 0
    for path in entries:
        storage, sink = job()
        damage(storage, path, how)
        try:
            harness = start(storage, "hashmap", sink=sink)
        except LogCorruptError as refusal:
            assert refusal.exit_code == 5
            assert path in str(refusal) or str(int(path.rpartition("/")[2])) in str(refusal)
            refused += 1
            continue
        assert how == "removed" and path == entries[-1], "only the last entry can be missed"
        check_exact(harness.feed(ITEMS).finish())
        assert sorted(number for _, number, _ in sink.rows) == list(range(len(EVENTS))), "exactly once"
    assert refused >= len(entries) - 1


def test_r6_state_without_a_log_is_not_started_from_nothing() -> None:
    storage, _ = run("hashmap")
    for path in storage.list("log/"):
        storage.delete(path)
    with pytest.raises(LogCorruptError, match="holds state.*no job log"):
        start(storage, "hashmap")


def test_r21_r24_what_an_older_checkpoint_has_committed_may_have_been_taken_away_since(tmp_path: Path) -> None:
    """A reader has moved the finished files, and their markers are swept: going back does not ask for them again."""
    storage, out = MemoryStorage(), tmp_path / "out"
    sink = FileSink.for_row_format(out, Encoder.simple_string_encoder()).build()
    harness = start(storage, "hashmap", sink=sink).feed(ITEMS)
    assert harness.manifest is not None
    for path in finished(out):
        path.rename(tmp_path / path.name)
    damage(storage, f"chk-{harness.manifest.checkpoint_id}/_metadata", "flipped")
    check_exact(start(storage, "hashmap", sink=sink, allow_fallback=True).feed(ITEMS).finish())
    again = [line for path in finished(out) for line in path.read_text().splitlines()]
    assert len(again) == 24, "the rows behind the checkpoint that was gone back to"


def finished(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if not path.name.startswith((".", "_"))]


def test_r23_a_job_that_has_begun_does_not_begin_again_without_its_first_checkpoint() -> None:
    """Its sources would begin somewhere else, and nobody would know."""
    storage = MemoryStorage()
    start(storage, "hashmap").feed(ITEMS[:5])
    (complete,) = [path for path in storage.list("log/") if b'"type":"complete"' in storage.files[path]]
    del storage.files[complete]
    with pytest.raises(LogCorruptError, match="no log entry 2"):
        start(storage, "hashmap")


def test_r31_behind_a_damaged_final_checkpoint_the_end_comes_again() -> None:
    storage = MemoryStorage()
    start(storage, "hashmap").feed(ITEMS).finish()
    final = read_log(storage).lineage[-1]
    assert load_manifest(storage, final).final
    damage(storage, final.metadata_path, "truncated")
    said: list[str] = []
    check_exact(start(storage, "hashmap", warn=said.append).feed(ITEMS).finish())
    assert len(said) == 1 and load_manifest(storage, read_log(storage).lineage[-1]).final
