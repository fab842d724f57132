"""`restore_from=`: the state of a real snapshot in a harness, to try the next version of a function on."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from penstock.common import Types
from penstock.datastream import KeyedProcessFunction, ProcessFunction
from penstock.datastream.state import ListStateDescriptor, MapStateDescriptor, StateTtlConfig, ValueStateDescriptor
from penstock.errors import IncompatibleStateError, SnapshotNotFoundError, UsageError
from penstock.model.functions import RuntimeContext
from penstock.model.operator_state import CheckpointedFunction
from penstock.model.time import Time
from penstock.testing import CHECKPOINT, CRASH, Advance, Harness
from penstock.testing.harness_options import HarnessOptions
from tests.golden import job
from tests.golden.test_golden import GOLDEN
from tests.testing.test_restore_rules import BACKENDS, Count, chain, saved

FORMS = ("canonical", "native", "checkpoint")


class NextVersion(KeyedProcessFunction):
    """Counts in steps of ten, and has a new state."""

    def open(self, ctx: RuntimeContext) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.new = ctx.get_map_state(MapStateDescriptor("new", Types.STRING(), Types.LONG()))

    def process_element(self, row: str, ctx: Any) -> Iterable[Any]:
        self.count.update((self.count.value() or 0) + 10)
        self.new.put(row, 1)
        yield row, self.count.value()


def restored(path: str, function: Any = None, **settings: Any) -> Harness:
    return Harness.keyed(function or NextVersion(), key=lambda row: row, restore_from=path, **settings)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_next_version_of_a_function_runs_on_real_keys(form: str, backend: str, tmp_path: Path) -> None:
    path = saved(tmp_path, chain(["one"]), form, backend)
    harness = restored(path, backend=backend, parallelism=3)
    assert sorted(harness.keys("count")) == ["a", "b"] and harness.state("count", "a") == 2
    harness.feed(["a", CHECKPOINT, "c", CRASH, "b"])
    assert sorted(harness.output) == [("a", 12), ("b", 11), ("c", 10)]
    assert harness.state("new", "a") == {"a": 1}


def test_the_snapshot_stays_as_it_was(tmp_path: Path) -> None:
    path = saved(tmp_path, chain(["one"]))
    before = {file: file.read_bytes() for file in Path(path).rglob("*") if file.is_file()}
    restored(path).feed(["a", CHECKPOINT]).finish()
    assert {file: file.read_bytes() for file in Path(path).rglob("*") if file.is_file()} == before


def test_one_of_several_operators_is_named(tmp_path: Path) -> None:
    path = saved(tmp_path, chain(["one", "two"]))
    with pytest.raises(UsageError, match="keyed state of 2 operators: 'one', 'two'; name one with uid="):
        restored(path)
    with pytest.raises(UsageError, match="no keyed state of an operator 'three'; it has that of: 'one', 'two'"):
        restored(path, uid="three")
    assert restored(path, uid="two").feed(["b"]).output == [("b", 11)]


def test_operator_state_comes_with_keyed_state_and_without_it(tmp_path: Path) -> None:
    path = saved(tmp_path, chain(["one"]))
    both = restored(path, Count())
    assert [row for rows in both.operator_state("kept") for row in sorted(rows)] == ["a", "a", "b"]

    class Kept(ProcessFunction, CheckpointedFunction):
        def initialize_state(self, ctx: Any) -> None:
            self.kept = ctx.get_operator_state_store().get_list_state(ListStateDescriptor("kept", Types.STRING()))

        def snapshot_state(self, ctx: Any) -> None:
            pass

        def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
            yield len(list(self.kept.get()))

    assert Harness.non_keyed(Kept(), restore_from=path).feed(["x"]).output == [3]


def test_a_key_of_several_columns_has_the_types_of_the_snapshot(tmp_path: Path) -> None:
    class Pairs(NextVersion):
        def process_element(self, row: Any, ctx: Any) -> Iterable[Any]:
            self.count.update((self.count.value() or 0) + 1)
            yield ctx.get_current_key(), self.count.value()

    types = (Types.STRING(), Types.INT())
    first = Harness.keyed(Pairs(), key=lambda row: row, key_types=types, uid="pairs")
    path = first.feed([("a", 1), ("a", 2)]).savepoint(tmp_path)
    again = restored(path, Pairs())
    assert sorted(again.keys("count")) == [("a", 1), ("a", 2)]
    assert again.feed([("a", 2)]).output == [(("a", 2), 2)]


def test_another_key_type_is_refused_with_both(tmp_path: Path) -> None:
    path = saved(tmp_path, chain(["one"]))
    with pytest.raises(IncompatibleStateError, match="LONG"):
        restored(path, key_type=Types.LONG())


def test_the_clock_shows_the_time_of_the_snapshot(tmp_path: Path) -> None:
    class Forgets(NextVersion):
        def open(self, ctx: RuntimeContext) -> None:
            count = ValueStateDescriptor("count", Types.LONG())
            count.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(10)).build())
            self.count = ctx.get_state(count)
            self.new = ctx.get_map_state(MapStateDescriptor("new", Types.STRING(), Types.LONG()))

    first = Harness.keyed(Forgets(), key=lambda row: row).feed([Advance(10**9), "a"])
    harness = restored(first.savepoint(tmp_path), Forgets())
    assert harness.clock.now_ms() == first.clock.now_ms()
    assert harness.feed([Advance(9_000), "a", Advance(10_001), "a"]).output == [("a", 20), ("a", 10)]


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.name)
def test_snapshots_of_released_versions_are_read(golden: Path) -> None:
    (metadata,) = golden.rglob("_metadata")
    backend = golden.name.split("-")[0]
    harness = Harness.keyed(
        job.Everything(), key=lambda record: record[0], restore_from=str(metadata.parent), backend=backend
    )
    assert sorted(harness.keys("value typed")) == sorted(job.KEYS)
    assert harness.feed([("ada", 7)]).state("value typed", "ada") == -7 * 10**15


def test_wrong_paths_and_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SnapshotNotFoundError):
        restored(str(tmp_path / "savepoint-none"))
    path = saved(tmp_path, chain(["one"]))
    with pytest.raises(UsageError, match="restore_from= and start= both"):
        restored(path, start=HarnessOptions().start)
    stateless = Harness.non_keyed(Plain()).feed(["a"]).savepoint(tmp_path / "stateless")
    with pytest.raises(UsageError, match="has no keyed state"):
        restored(stateless)


class Plain(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        yield value
