"""Jobs that start from a savepoint or from a checkpoint of another job (features O2 to O10, PROTOCOL R25)."""

import hashlib
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.checkpoint.checkpoint_settings import CheckpointSettings
from penstock.checkpoint.log.log_reader import read_log
from penstock.checkpoint.snapshot.manifest import file_paths
from penstock.common import Types
from penstock.datastream import KeyedProcessFunction, ProcessFunction
from penstock.datastream.state import ListStateDescriptor, ValueStateDescriptor
from penstock.errors import (
    CheckpointCorruptError,
    CheckpointError,
    JobConflictError,
    SnapshotRefusedError,
    WrongJobError,
)
from penstock.failpoint import Failpoint
from penstock.graph.callables import CallableMap
from penstock.graph.job_graph import JobGraph
from penstock.graph.stages import GraphSettings, build_job_graph
from penstock.graph.stream_graph import OperatorSpec, SourceSpec, StreamGraph
from penstock.jobmanager.attempt.attempt import JobIdentity
from penstock.jobmanager.attempt.recovery import RecoveryOptions, StartOptions, begin_attempt, open_start
from penstock.model.functions import RuntimeContext
from penstock.model.operator_ids import operator_id
from penstock.model.operator_state import CheckpointedFunction
from penstock.model.types import TAGGED
from penstock.state.backend.backend_registry import find_backend
from penstock.state.backend.backend_settings import BackendSettings
from penstock.storage.local import LocalStorage
from penstock.testing import CHECKPOINT, CRASH, Harness
from penstock.testing.harness_options import HarnessOptions
from tests.sim.job import add_keyed
from tests.sim.schedule import armed

BACKENDS = ("hashmap", "rocksdb")


class Count(KeyedProcessFunction, CheckpointedFunction):
    """Counts the rows of each key, and keeps the rows of its subtask as operator state."""

    def open(self, ctx: RuntimeContext) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))

    def initialize_state(self, ctx: Any) -> None:
        self.kept = ctx.get_operator_state_store().get_list_state(ListStateDescriptor("kept", Types.STRING()))
        self.rows = list(self.kept.get())

    def snapshot_state(self, ctx: Any) -> None:
        self.kept.update(self.rows)

    def process_element(self, row: str, ctx: Any) -> Iterable[Any]:
        self.count.update((self.count.value() or 0) + 1)
        self.rows.append(row)
        yield row


def same(row: str) -> str:
    return row


def chain(uids: Sequence[str | None], parallelism: int = 2, groups: int = 8, *, mapped: bool = False) -> JobGraph:
    """A source and behind it keyed operators, one after the other; `@` in front of a uid makes it a uid hash."""
    graph = StreamGraph()
    node = graph.add("source", "rows", (), SourceSpec("collection", None, TAGGED, None, True), TAGGED)
    node.uid = "source"
    if mapped:
        node = graph.add("operator", "map", [node.id], OperatorSpec("map", CallableMap(same)), TAGGED)
    for uid in uids:
        node = add_keyed(graph, node, same, Count(), uid or "")
        node.uid = uid if uid and not uid.startswith("@") else None
        if uid and "@" in uid:
            node.uid, _, node.uid_hash = uid.partition("@")
            node.uid = node.uid or None
    return build_job_graph(graph, GraphSettings(parallelism, groups))


def options(folder: Path, path: str | None = None, backend: str = "hashmap", **start: Any) -> HarnessOptions:
    return HarnessOptions(
        storage=LocalStorage(folder),
        backend=BackendSettings(find_backend(backend)()),
        start=StartOptions(path, **start),
    )


def counts(harness: Harness, uid: str) -> list[int | None]:
    return [harness.state("count", key, uid) for key in "abc"]


def kept(harness: Harness, uid: str) -> list[str]:
    return sorted(row for rows in harness.operator_state("kept", uid) for row in rows)


def saved(tmp_path: Path, graph: JobGraph | None = None, form: str = "canonical", backend: str = "hashmap") -> str:
    """The path of a snapshot of a job that has counted 2, 1 and 0 rows: a savepoint, or a checkpoint."""
    harness = Harness(graph or chain(["one", "two"]), options(tmp_path / "old", backend=backend))
    harness.feed(["a", "a", "b", CHECKPOINT])
    if form == "checkpoint":
        assert harness.manifest is not None
        return f"{tmp_path}/old/chk-{harness.manifest.checkpoint_id}"
    return harness.savepoint(tmp_path / "savepoints", format=form)


def contents(path: str) -> dict[str, str]:
    files = sorted(file for file in Path(path.removeprefix("file://")).rglob("*") if file.is_file())
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("form", ["canonical", "native", "checkpoint"])
def test_o8_a_job_goes_on_from_any_kind_of_snapshot(tmp_path: Path, form: str, backend: str) -> None:
    path = saved(tmp_path, form=form, backend=backend)
    before = contents(path)
    harness = Harness(chain(["one", "two"]), options(tmp_path / "new", path, backend))
    assert counts(harness, "one") == counts(harness, "two") == [2, 1, None]
    assert kept(harness, "one") == ["a", "a", "b"]
    harness.feed(["a", "c", CHECKPOINT, "c", CRASH])
    assert counts(harness, "two") == [3, 1, 2]
    assert kept(harness, "two") == ["a", "a", "a", "b", "c", "c"]
    assert contents(path) == before


@pytest.mark.parametrize("form", ["canonical", "checkpoint"])
def test_r25_numbers_go_on_and_the_first_checkpoint_is_full(tmp_path: Path, form: str) -> None:
    path = saved(tmp_path, form=form)
    harness = Harness(chain(["one", "two"]), options(tmp_path / "new", path))
    restored = harness._attempt.manifest
    assert restored is not None and harness.manifest is None
    harness.feed(["a", CHECKPOINT])
    assert harness.manifest is not None
    assert harness.manifest.checkpoint_id == restored.checkpoint_id + 1
    assert harness.manifest.epoch > restored.epoch and harness.manifest.parent is None
    assert set(file_paths(harness.manifest)) <= set(LocalStorage(tmp_path / "new").list(""))


def test_r25_before_its_first_checkpoint_a_job_starts_from_the_same_path_again(tmp_path: Path) -> None:
    path = saved(tmp_path)
    harness = Harness(chain(["one", "two"]), options(tmp_path / "new", path)).feed(["a", CRASH, "b"])
    assert counts(harness, "one") == [3, 2, None]
    resumed = Harness(chain(["one", "two"]), options(tmp_path / "new"))  # another driver, which is told of no path
    assert counts(resumed, "one") == [2, 1, None]
    resumed.feed(["c", CHECKPOINT, CRASH])
    assert counts(resumed, "one") == [2, 1, 1]


def test_n12_two_jobs_from_one_savepoint_do_not_disturb_each_other(tmp_path: Path) -> None:
    path = saved(tmp_path)
    before = contents(path)
    blue, green = (Harness(chain(["one", "two"]), options(tmp_path / name, path)) for name in ("blue", "green"))
    blue.feed(["a", CHECKPOINT, "a", CHECKPOINT])
    green.feed(["b", CHECKPOINT, CRASH])
    assert (counts(blue, "one"), counts(green, "one")) == ([4, 1, None], [2, 2, None])
    assert contents(path) == before


def test_o2_a_derived_uid_changes_with_the_operators_before_it(tmp_path: Path) -> None:
    path = saved(tmp_path, chain([None]))
    with pytest.raises(SnapshotRefusedError, match="Cannot map checkpoint/savepoint state for operator"):
        Harness(chain([None], mapped=True), options(tmp_path / "new", path))
    with_uid = saved(tmp_path / "named", chain(["one"]))
    harness = Harness(chain(["one"], mapped=True), options(tmp_path / "named" / "new", with_uid))
    assert counts(harness, "one") == [2, 1, None]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("form", ["canonical", "native", "checkpoint"])
def test_o3_a_uid_hash_restores_the_state_of_the_operator_with_that_id(tmp_path: Path, form: str, backend: str) -> None:
    path = saved(tmp_path, chain([None]), form, backend)
    (derived,) = (operator.uid for stage in chain([None]).stages for operator in stage.operators)
    renamed = chain([f"totals@{operator_id(derived)}"], mapped=True)
    harness = Harness(renamed, options(tmp_path / "new", path, backend))
    assert counts(harness, "totals") == [2, 1, None]
    assert kept(harness, "totals") == ["a", "a", "b"]
    harness.feed(["a", CHECKPOINT, "b", CHECKPOINT, "c", CRASH])
    assert counts(harness, "totals") == [3, 2, 1]
    assert kept(harness, "totals") == ["a", "a", "a", "b", "b", "c"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_o3_a_job_that_goes_on_may_give_its_operator_a_uid(tmp_path: Path, backend: str) -> None:
    saved(tmp_path, chain([None]), "checkpoint", backend)
    (derived,) = (operator.uid for stage in chain([None]).stages for operator in stage.operators)
    harness = Harness(chain([f"totals@{derived}"]), options(tmp_path / "old", backend=backend))
    harness.feed(["a", "a", "b", CHECKPOINT, "a", CHECKPOINT, "b", CRASH])  # the first four are behind it
    assert counts(harness, "totals") == [3, 2, None]


def test_o4_an_operator_that_is_gone_is_refused_and_nothing_is_changed(tmp_path: Path) -> None:
    path = saved(tmp_path)
    before = contents(path)
    with pytest.raises(SnapshotRefusedError, match="uid 'two'.*--allowNonRestoredState") as caught:
        Harness(chain(["one"]), options(tmp_path / "new", path))
    assert caught.value.exit_code == 5
    assert contents(path) == before
    assert not LocalStorage(tmp_path / "new").list("chk-")


def test_o5_state_may_be_left_behind(tmp_path: Path) -> None:
    path = saved(tmp_path)
    harness = Harness(chain(["one"]), options(tmp_path / "new", path, allow_non_restored=True))
    harness.feed(["c", CHECKPOINT, CRASH])
    assert counts(harness, "one") == [2, 1, 1]


def test_o6_a_new_operator_starts_empty(tmp_path: Path) -> None:
    harness = Harness(chain(["one", "new", "two"]), options(tmp_path / "new", saved(tmp_path))).feed(["a"])
    assert (counts(harness, "one"), counts(harness, "new")) == ([3, 1, None], [1, None, None])


def test_o7_operators_may_change_their_order(tmp_path: Path) -> None:
    path = saved(tmp_path, chain(["one"]))
    harness = Harness(chain(["two", "one"]), options(tmp_path / "new", path)).feed(["b"])
    assert (counts(harness, "one"), counts(harness, "two")) == ([2, 2, None], [None, 1, None])


@pytest.mark.parametrize("form", ["canonical", "native", "checkpoint"])
@pytest.mark.parametrize(("old", "new"), [("hashmap", "rocksdb"), ("rocksdb", "hashmap")])
def test_o10_n8_parallelism_key_groups_and_backend_may_change(tmp_path: Path, form: str, old: str, new: str) -> None:
    path = saved(tmp_path, chain(["one", "two"], 2, 8), form, old)
    for parallelism, groups in ((5, 8), (3, 16), (1, 4)):
        folder = tmp_path / f"new-{parallelism}"
        harness = Harness(chain(["one", "two"], parallelism, groups), options(folder, path, new))
        assert counts(harness, "one") == [2, 1, None]
        assert kept(harness, "one") == ["a", "a", "b"]
        harness.feed(["a", CHECKPOINT, CRASH])
        assert counts(harness, "two") == [3, 1, None]


def test_o9_no_claim_never_deletes(tmp_path: Path) -> None:
    path = saved(tmp_path)
    before = contents(path)
    Harness(chain(["one", "two"]), options(tmp_path / "new", path)).feed(["a", CHECKPOINT] * 3).finish()
    assert contents(path) == before


@pytest.mark.parametrize("retained", [1, 2])
def test_o9_a_claimed_savepoint_goes_after_so_many_newer_checkpoints(tmp_path: Path, retained: int) -> None:
    path = saved(tmp_path)
    other = tmp_path / "savepoints" / "other"
    other.mkdir()
    chosen = HarnessOptions(
        storage=LocalStorage(tmp_path / "new"), start=StartOptions(path, claim=True), retained=retained
    )
    harness = Harness(chain(["one", "two"]), chosen).feed(["a", CRASH])
    for _ in range(retained):
        assert contents(path)
        harness.feed(["a", CHECKPOINT])
    assert not Path(path.removeprefix("file://")).exists() and other.is_dir()
    harness.feed([CRASH, "b"])
    assert counts(harness, "one") == [3 + retained, 2, None]


def test_o9_a_claimed_checkpoint_takes_only_its_own_files_with_it(tmp_path: Path) -> None:
    old = Harness(chain(["one", "two"]), HarnessOptions(storage=LocalStorage(tmp_path / "old"), retained=3))
    old.feed(["a", CHECKPOINT, "b", CHECKPOINT, "c", CHECKPOINT]).finish()
    before = contents(str(tmp_path / "old"))
    path = f"{tmp_path}/old/chk-2"
    harness = Harness(chain(["one", "two"]), options(tmp_path / "new", path, claim=True)).feed(["a", CHECKPOINT])
    assert counts(harness, "one") == [2, 1, None]
    gone = set(before) - set(contents(str(tmp_path / "old")))
    assert f"{tmp_path}/old/chk-2/_metadata" in gone
    assert counts(Harness(chain(["one", "two"]), options(tmp_path / "old")), "one") == [1, 1, 1]


def test_o9_a_checkpoint_of_a_job_that_has_not_ended_cannot_be_claimed(tmp_path: Path) -> None:
    path = saved(tmp_path, form="checkpoint")
    with pytest.raises(JobConflictError, match="has not ended"):
        open_start(chain(["one", "two"]), StartOptions(path, claim=True))
    assert open_start(chain(["one", "two"]), StartOptions(path)) is not None


def test_a_damaged_file_is_named_and_nothing_is_changed(tmp_path: Path) -> None:
    path = saved(tmp_path)
    victim = next(file for file in contents(path) if file.endswith(".parquet") and "/count/" in file)
    data = bytearray(Path(victim).read_bytes())
    data[len(data) // 2] ^= 1
    Path(victim).write_bytes(data)
    before = contents(path)
    with pytest.raises(CheckpointCorruptError, match=Path(victim).name) as caught:
        Harness(chain(["one", "two"]), options(tmp_path / "new", path))
    assert caught.value.code == "CORRUPT_FILE"
    assert contents(path) == before


def test_bm13_a_folder_with_the_checkpoints_of_another_job(tmp_path: Path) -> None:
    saved(tmp_path, form="checkpoint")
    graph, chosen = chain(["one", "two"]), RecoveryOptions(CheckpointSettings(interval_ms=None), reopen=True)
    hook = Harness(graph, options(tmp_path / "hook"))
    storage = LocalStorage(tmp_path / "old")
    with pytest.raises(WrongJobError, match="WRONG_JOB") as caught:
        begin_attempt(JobIdentity("1" * 32, "other", "other"), graph, storage, chosen, hook, hook.clock)
    assert caught.value.code == "WRONG_JOB"
    assert not isinstance(caught.value, CheckpointError)


@pytest.mark.parametrize("place", ["C22.before", "C22.after", "C23.before", "C23.after"])
@pytest.mark.parametrize("hit", [1, 2, 3, 9])
def test_o9_a_crash_in_the_middle_of_the_removal_is_finished_by_the_next_attempt(
    tmp_path: Path, place: str, hit: int
) -> None:
    path = saved(tmp_path)
    harness = Harness(chain(["one", "two"]), options(tmp_path / "new", path, claim=True))
    with armed([Failpoint(place, "raise", hit=hit)]):
        harness.feed(["a", CHECKPOINT])
    harness.feed(["b", CHECKPOINT, CRASH])
    assert not Path(path.removeprefix("file://")).exists()
    assert counts(harness, "one") == [3, 2, None]
    view = read_log(LocalStorage(tmp_path / "new"))
    assert view.claimed is None


def test_o9_a_claimed_savepoint_that_somebody_has_deleted_is_no_problem(tmp_path: Path) -> None:
    path = saved(tmp_path)
    harness = Harness(chain(["one", "two"]), options(tmp_path / "new", path, claim=True))
    shutil.rmtree(path.removeprefix("file://"))
    harness.feed(["a", CHECKPOINT, CRASH])
    assert harness._coordinator.cleaning_failure is None
    assert counts(harness, "one") == [3, 1, None]


def test_o9_files_that_somebody_has_put_beside_it_stay(tmp_path: Path) -> None:
    path = saved(tmp_path)
    note = Path(path.removeprefix("file://"), "state", "note.txt")
    note.write_text("mine", encoding="utf-8")
    Harness(chain(["one", "two"]), options(tmp_path / "new", path, claim=True)).feed(["a", CHECKPOINT])
    assert list(contents(path)) == [str(note)]


def test_r25_a_driver_that_dies_between_claim_and_restore_leaves_the_path_behind(tmp_path: Path) -> None:
    def dies() -> None:
        raise KeyboardInterrupt

    chosen = replace(options(tmp_path / "new", saved(tmp_path)), crashed=dies)
    with armed([Failpoint("C24.before", "raise")]), pytest.raises(KeyboardInterrupt):
        Harness(chain(["one", "two"]), chosen)
    resumed = Harness(chain(["one", "two"]), options(tmp_path / "new"))  # --resume: told of no path
    assert counts(resumed, "one") == [2, 1, None]


def test_r25_a_relative_path_means_the_same_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(saved(tmp_path))
    monkeypatch.chdir(path.parent)
    harness = Harness(chain(["one", "two"]), options(tmp_path / "new", path.name)).feed(["a"])
    monkeypatch.chdir("/")
    harness.crash()
    assert counts(harness, "one") == [3, 1, None]
    resumed = Harness(chain(["one", "two"]), options(tmp_path / "new"))
    assert counts(resumed, "one") == [2, 1, None]


class Keeper(ProcessFunction, CheckpointedFunction):
    """Keeps every row as operator state, without a key."""

    def initialize_state(self, ctx: Any) -> None:
        self.kept = ctx.get_operator_state_store().get_list_state(ListStateDescriptor("kept", Types.STRING()))

    def snapshot_state(self, ctx: Any) -> None:
        return

    def process_element(self, row: str, ctx: Any) -> Iterable[Any]:
        self.kept.add(row)
        yield row


def keeping(parallelism: int | None) -> JobGraph:
    """A keyed operator and one behind it: in its stage, or with a stage and a parallelism of its own."""
    graph = StreamGraph()
    node = graph.add("source", "rows", (), SourceSpec("collection", None, TAGGED, None, True), TAGGED)
    node.uid = "source"
    node = add_keyed(graph, node, same, Count(), "one")
    keeper = graph.add("operator", "keeper", [node.id], OperatorSpec("process", Keeper()), TAGGED)
    keeper.uid, keeper.parallelism, keeper.chain_before = "keeper", parallelism, parallelism is None
    return build_job_graph(graph, GraphSettings(2, 8))


@pytest.mark.parametrize("form", ["canonical", "native", "checkpoint"])
@pytest.mark.parametrize(("old", "new"), [(None, 3), (3, None), (1, 2)])
def test_o7_operators_may_be_chained_otherwise(tmp_path: Path, form: str, old: int | None, new: int | None) -> None:
    assert len(keeping(old).stages) == (2 if old is None else 3)
    path = saved(tmp_path, keeping(old), form)
    harness = Harness(keeping(new), options(tmp_path / "new", path)).feed(["c", CHECKPOINT, "a", CRASH])
    assert counts(harness, "one") == [3, 1, 1]
    assert kept(harness, "keeper") == ["a", "a", "a", "b", "c"]
