"""Rows E1 to E8: key groups, and restores with another parallelism or another number of key groups."""

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.checkpoint.log.job_log import JobLog
from penstock.common import Types
from penstock.datastream import KeyedProcessFunction
from penstock.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.errors import UsageError
from penstock.model.key_groups import key_group_of, key_group_range, spark_hash, subtask_of
from penstock.testing import CHECKPOINT, Advance, Harness
from penstock.testing.graphs import FunctionProgram, function_graph

BACKENDS = ["hashmap", "rocksdb"]


class Sums(KeyedProcessFunction):
    """Everything that has a key: a value, a list, a map and a timer."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))
        self.counts = runtime_context.get_map_state(MapStateDescriptor("counts", Types.LONG(), Types.LONG()))

    def process_element(self, value: tuple[str, int], ctx: KeyedProcessFunction.Context) -> None:
        amount = value[1]
        self.total.update((self.total.value() or 0) + amount)
        self.seen.add(amount)
        self.counts.put(amount, (self.counts.get(amount) or 0) + 1)
        timers = ctx.timer_service()
        timers.register_processing_time_timer(timers.current_processing_time() + 1_000_000)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield ctx.get_current_key()


def sums(**settings: Any) -> Harness:
    return Harness.keyed(Sums(), key=lambda row: row[0], key_type=Types.STRING(), **settings)


def subtask_keys(harness: Harness) -> list[set[str]]:
    return [set(subtask.backends["function"].keys_with("total")) for subtask in harness._host.subtasks()]


def test_e1_the_manifest_says_which_key_groups_a_file_holds() -> None:
    harness = sums(parallelism=3).feed([(f"key {n}", n) for n in range(100)] + [CHECKPOINT])
    assert harness.manifest is not None and harness.manifest.max_parallelism == 128
    assert [snapshot.key_groups for snapshot in harness.manifest.subtasks] == [(0, 42), (43, 85), (86, 127)]


def test_e2_e3_a_key_is_where_sparks_hash_puts_it() -> None:
    """Key groups use Spark's hash instead of Flink's."""
    harness = sums(parallelism=5).feed([(f"key {n}", n) for n in range(100)])
    for index, keys in enumerate(subtask_keys(harness)):
        for key in keys:
            group = key_group_of(spark_hash([key], [Types.STRING()]), 128)
            assert subtask_of(group, 128, 5) == group * 5 // 128 == index


def test_e4_e5_the_ranges_of_the_default_max_parallelism() -> None:
    assert [key_group_range(128, 3, index) for index in range(3)] == [(0, 42), (43, 85), (86, 127)]
    graphs = [function_graph(FunctionProgram(Sums(), str, parallelism)) for parallelism in (1, 85, 86, 200)]
    assert [graph.max_parallelism for graph in graphs] == [128, 128, 256, 512]


def check(harness: Harness, rows: list[tuple[str, int]]) -> None:
    for key in {key for key, _ in rows}:
        amounts = [amount for name, amount in rows if name == key]
        assert harness.state("total", key) == sum(amounts)
        assert harness.state("seen", key) == amounts
        assert harness.state("counts", key) == {amount: amounts.count(amount) for amount in amounts}


@pytest.mark.parametrize("backend", BACKENDS)
def test_e6_every_kind_of_keyed_state_goes_from_two_to_three_to_one(backend: str) -> None:
    rows = [(f"key {n % 97}", n) for n in range(400)]
    harness = sums(parallelism=2, backend=backend).feed([*rows[:200], CHECKPOINT])
    harness.rescale(3).feed([*rows[200:300], CHECKPOINT])
    harness.rescale(1).feed([*rows[300:], CHECKPOINT])
    check(harness, rows)
    harness.rescale(4)
    check(harness, rows)
    assert sum(map(len, subtask_keys(harness))) == 97  # no key in two places
    assert sorted(harness.feed([Advance(1_000_000)]).output) == sorted(f"key {n}" for n in range(97))


@pytest.mark.parametrize("count", [10_000, pytest.param(100_000, marks=pytest.mark.full)])
@pytest.mark.parametrize("backend", BACKENDS)
def test_e6_many_keys_go_from_one_to_two_to_three_to_seven_to_one(backend: str, count: int) -> None:
    keys = [f"key {n}" for n in range(count)]
    harness = Harness.keyed(
        Total(), key=lambda row: row[0], key_type=Types.STRING(), backend=backend, parallelism=1
    ).feed([*zip(keys, range(count), strict=True), CHECKPOINT])
    changed = 0
    for step, parallelism in enumerate((2, 3, 7, 1)):
        harness.rescale(parallelism)
        harness.feed([*((key, 1_000_000) for key in keys[step::10]), CHECKPOINT])
        changed += count // 10
        found: dict[str, int] = {}
        for subtask in harness._host.subtasks():
            state = subtask.backends["function"].handle("total")
            for key in subtask.backends["function"].keys_with("total"):
                assert key not in found
                subtask.backends["function"].keys.key = key
                found[key] = state.value()
            subtask.backends["function"].keys.clear()
        expected = {key: n + 1_000_000 * (n % 10 <= step) for n, key in enumerate(keys)}
        assert found == expected
        assert sum(found.values()) == sum(range(count)) + 1_000_000 * changed


class Total(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: tuple[str, int], ctx: Any) -> None:
        self.total.update((self.total.value() or 0) + value[1])


@pytest.mark.parametrize("backend", BACKENDS)
def test_e7_another_max_parallelism_is_split_anew_and_the_job_log_says_so(backend: str) -> None:
    """Where Flink refuses."""
    rows = [(f"key {n % 97}", n) for n in range(300)]
    harness = sums(parallelism=2, max_parallelism=128, backend=backend).feed([*rows[:200], CHECKPOINT])
    harness.rescale(3, max_parallelism=50).feed([*rows[200:], CHECKPOINT])
    check(harness, rows)
    assert harness.manifest is not None and harness.manifest.max_parallelism == 50
    restore = JobLog.open(harness.storage, harness.clock).view().restore
    assert restore is not None
    assert "max parallelism was 128 in checkpoint 1 and is 50 now: keyed state is split anew" in restore.why
    harness.rescale(7, max_parallelism=32768)
    check(harness, rows)
    assert sum(map(len, subtask_keys(harness))) == 97
    assert sorted(harness.feed([Advance(1_000_000)]).output) == sorted(f"key {n}" for n in range(97))


def test_e7_the_same_max_parallelism_is_nothing_to_speak_of() -> None:
    harness = sums(parallelism=2).feed([("a", 1), CHECKPOINT]).rescale(3)
    restore = JobLog.open(harness.storage, harness.clock).view().restore
    assert restore is not None and restore.why == "recovery"


def test_e7_a_split_anew_starts_a_full_snapshot() -> None:
    """A delta on top of files with other key groups would be read for the wrong subtasks."""
    harness = sums(parallelism=1, max_parallelism=128).feed([(f"key {n}", n) for n in range(500)] + [CHECKPOINT])
    harness.rescale(1, max_parallelism=64).feed([("key 1", 1), CHECKPOINT])
    assert harness.manifest is not None
    (snapshot,) = harness.manifest.subtasks
    assert len(snapshot.files) == 1
    assert harness.rescale(2, max_parallelism=64).state("total", "key 1") == 2


def test_e8_more_subtasks_than_key_groups_are_refused_before_anything_runs() -> None:
    harness = sums(parallelism=2, max_parallelism=128).feed([("a", 1), CHECKPOINT])
    with pytest.raises(UsageError, match="parallelism 200 is not between 1 and the max parallelism 128"):
        harness.rescale(200)


def test_e8_without_a_set_max_parallelism_the_key_groups_grow() -> None:
    harness = sums(parallelism=2).feed([("a", 1), CHECKPOINT]).rescale(200)
    assert harness.state("total", "a") == 1
    harness.feed([CHECKPOINT])
    assert harness.manifest is not None and harness.manifest.max_parallelism == 512
    assert len(harness.manifest.subtasks) == 200
