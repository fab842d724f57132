"""Rows C1 to C9 but C4 and C5: operator and union list state, and functions that take part in checkpoints."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from penstock.common import Time, Types
from penstock.datastream import (
    CheckpointedFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
)
from penstock.datastream.functions import FunctionInitializationContext, FunctionSnapshotContext
from penstock.datastream.state import ListState, ListStateDescriptor, StateTtlConfig, ValueStateDescriptor
from penstock.errors import CheckpointError, CheckpointFailedError, IncompatibleStateError, UserFunctionError
from penstock.model.snapshot import InlineLimits
from penstock.testing import CHECKPOINT, CRASH, Harness
from penstock.testing.harness_options import HarnessOptions

LONGS = ListStateDescriptor("kept", Types.LONG())
Init = FunctionInitializationContext
Snap = FunctionSnapshotContext


class BufferOfTen(FlatMapFunction, CheckpointedFunction):
    """Gives its records away ten at a time."""

    def initialize_state(self, context: Init) -> None:
        self.saved = context.get_operator_state_store().get_list_state(ListStateDescriptor("buffer", Types.LONG()))
        self.buffer = list(self.saved.get()) if context.is_restored() else []

    def flat_map(self, value: int) -> Iterator[list[int]]:
        self.buffer.append(value)
        if len(self.buffer) == 10:
            yield self.buffer
            self.buffer = []

    def snapshot_state(self, context: Snap) -> None:
        self.saved.update(self.buffer)


class Keep(MapFunction, CheckpointedFunction):
    """Keeps every record in a list state; `(subtask, record)` is what it gives."""

    names: tuple[str, ...] = ("kept",)
    is_union = False
    descriptor_type: Any = Types.LONG()

    def initialize_state(self, context: Init) -> None:
        store = context.get_operator_state_store()
        get = store.get_union_list_state if self.is_union else store.get_list_state
        self.states: list[ListState[int]] = [
            get(ListStateDescriptor(name, self.descriptor_type)) for name in self.names
        ]

    def map(self, value: int) -> int:
        self.states[0].add(value)
        return value

    def snapshot_state(self, context: Snap) -> None:
        return


class KeepUnion(Keep):
    is_union = True


# ---- C1


def test_c1_a_buffer_of_ten_has_its_seven_elements_after_a_crash() -> None:
    harness = Harness.non_keyed(BufferOfTen()).feed([*range(7), CHECKPOINT, CRASH])
    assert harness.operator_state("buffer") == [[0, 1, 2, 3, 4, 5, 6]]
    assert harness.feed([7, 8, 9, 10]).output == [[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]]
    assert harness.operator_state("buffer") == [[10]]


def test_c1_a_lost_task_gives_a_new_function_the_state_of_the_epoch_before() -> None:
    """PROTOCOL R11: without any checkpoint, and not that of the run that was lost."""
    lost = iter([None, 2])  # the first task runs to its end, the second is lost in the middle
    harness = Harness.non_keyed(BufferOfTen(), lost_after=lambda tries: next(lost, None))
    harness.feed([*range(7)]).feed([*range(7, 15)])
    assert harness.lost_tasks == 1 and harness.crashes == 0
    assert harness.output == [[*range(10)]]
    assert harness.operator_state("buffer") == [[*range(10, 15)]]


class Facts(MapFunction, CheckpointedFunction):
    def initialize_state(self, context: Init) -> None:
        self.facts = [context.is_restored(), context.get_restored_checkpoint_id()]

    def map(self, value: Any) -> Any:
        return [*self.facts]

    def snapshot_state(self, context: Snap) -> None:
        self.facts = [context.get_checkpoint_id(), context.get_checkpoint_timestamp()]


def test_c1_the_contexts_say_what_was_restored_and_what_is_saved() -> None:
    harness = Harness.non_keyed(Facts()).feed(["a", CRASH, "b"])
    harness.clock.advance(5)
    now = harness.clock.now_ms()
    harness.feed(["c", CHECKPOINT, "d"])
    assert harness.output[:2] == [[False, None], [False, None]]  # checkpoint 0 holds nothing
    assert harness.output[2] == [None, now - 5]  # "c": the epoch before it had no checkpoint
    assert harness.output[3] == [1, now]
    assert harness.feed([CRASH, "e"]).output[3:] == [[True, 1], [True, 1]]


class OpenedLate(MapFunction, CheckpointedFunction):
    """Also the order: state first, then `open`."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def initialize_state(self, context: Init) -> None:
        self.calls.append("initialize")

    def open(self, runtime_context: Any) -> None:
        self.calls.append("open")

    def map(self, value: Any) -> Any:
        return list(self.calls)

    def snapshot_state(self, context: Snap) -> None:
        self.calls.append("snapshot")


def test_c1_state_comes_before_open_and_a_snapshot_ends_every_epoch() -> None:
    harness = Harness.non_keyed(OpenedLate()).feed(["a"]).feed(["b", CHECKPOINT, "c"])
    assert harness.output[-1] == ["initialize", "open", "snapshot", "snapshot"]


class Even(FilterFunction, CheckpointedFunction):
    def initialize_state(self, context: Init) -> None:
        self.kept = context.get_operator_state_store().get_list_state(LONGS)

    def filter(self, value: int) -> bool:
        self.kept.add(value)
        return value % 2 == 0

    def snapshot_state(self, context: Snap) -> None:
        return


class Processed(ProcessFunction, CheckpointedFunction):
    def initialize_state(self, context: Init) -> None:
        self.kept = context.get_operator_state_store().get_list_state(LONGS)

    def process_element(self, value: int, ctx: Any) -> Iterator[int]:
        self.kept.add(value)
        yield value

    def snapshot_state(self, context: Snap) -> None:
        return


class Keyed(KeyedProcessFunction, CheckpointedFunction):
    """Keyed and operator state in one function; the handles of both are taken in one place."""

    def initialize_state(self, context: Init) -> None:
        self.kept = context.get_operator_state_store().get_list_state(LONGS)
        self.count = context.get_keyed_state_store().get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[tuple[int, int]]:
        self.kept.add(value)
        self.count.update((self.count.value() or 0) + 1)
        yield value % 2, self.count.value() or 0

    def snapshot_state(self, context: Snap) -> None:
        return


@pytest.mark.parametrize("function", [Even(), Processed(), Keep()])
def test_c1_every_kind_of_function_can_take_part(function: Any) -> None:
    harness = Harness.non_keyed(function).feed([1, 2, CHECKPOINT, 3, CRASH, 4])
    assert harness.operator_state("kept") == [[1, 2, 3, 4]]


def test_c1_a_keyed_function_has_both_kinds_of_state() -> None:
    harness = Harness.keyed(Keyed(), key=lambda n: n % 2, parallelism=2).feed([1, 2, 3, CHECKPOINT, 4, CRASH, 5])
    assert Counter(harness.output) == Counter([(1, 1), (0, 1), (1, 2), (0, 2), (1, 3)])
    assert sorted(n for part in harness.operator_state("kept") for n in part) == [1, 2, 3, 4, 5]


class BadSnapshot(Keep):
    def snapshot_state(self, context: Snap) -> None:
        raise ValueError("not today")


def test_c1_an_error_in_snapshot_state_names_the_operator_and_takes_the_epoch_back() -> None:
    with pytest.raises(UserFunctionError, match=r"(?s)not today.*in operator 'function', in snapshot_state\(\)"):
        Harness.non_keyed(BadSnapshot()).feed([1])


class Foreign(Keep):
    def map(self, value: Any) -> Any:
        self.states[0].add("text")  # type: ignore[arg-type]


def test_c1_a_value_that_is_not_of_the_declared_type_is_refused_where_it_is_written() -> None:
    with pytest.raises(UserFunctionError, match="LONG"):
        Harness.non_keyed(Foreign()).feed([1])


# ---- C2


def lists(parallelism: int, *parts: list[int], function: Any = None) -> Harness:
    """A harness whose subtasks hold these lists, all in one checkpoint."""
    harness = Harness.non_keyed(function or Keep(), parallelism=parallelism)
    for subtask, part in zip(harness._host.subtasks(), parts, strict=True):
        subtask.operator_states["function"].get_list_state(LONGS).update(part)
    return harness.feed([CHECKPOINT])


def test_c2_lists_are_split_evenly_in_contiguous_slices() -> None:
    harness = lists(3, [1, 2], [3, 4], [5])
    assert harness.rescale(2).operator_state("kept") == [[1, 2, 3], [4, 5]]
    assert harness.rescale(6).operator_state("kept") == [[1], [2], [3], [4], [5], []]
    assert harness.rescale(1).operator_state("kept") == [[1, 2, 3, 4, 5]]


def test_c2_three_to_two_to_six_with_a_checkpoint_at_each() -> None:
    harness = lists(3, [1, 2], [3, 4], [5])
    harness.rescale(2).feed([CHECKPOINT])
    assert harness.rescale(6).operator_state("kept") == [[1], [2], [3], [4], [5], []]


def test_c2_with_the_same_parallelism_every_subtask_gets_its_own_list_back() -> None:
    harness = lists(3, [1, 2, 3, 4], [], [5]).crash()
    assert harness.operator_state("kept") == [[1, 2, 3, 4], [], [5]]


class TwoNames(Keep):
    names = ("a", "b", "c")


def test_c2_the_next_name_starts_where_the_remainder_of_the_last_ran_out() -> None:
    harness = Harness.non_keyed(TwoNames())
    (subtask,) = harness._host.subtasks()
    store = subtask.operator_states["function"]
    for name, count in (("a", 4), ("b", 1), ("c", 4)):
        store.get_list_state(ListStateDescriptor(name, Types.LONG())).update([*range(count)])
    harness.feed([CHECKPOINT]).rescale(3)
    assert harness.operator_state("a") == [[0, 1], [2], [3]]  # the remainder of 1 ends at subtask 1
    assert harness.operator_state("b") == [[], [0], []]
    assert harness.operator_state("c") == [[2], [3], [0, 1]]


def test_c2_more_subtasks_than_elements_lose_and_double_nothing() -> None:
    harness = lists(2, [1], [2])
    for parallelism in (7, 3, 5, 1, 4, 2):
        harness.rescale(parallelism).feed([CHECKPOINT])
        assert sorted(n for part in harness.operator_state("kept") for n in part) == [1, 2]


class Silent(MapFunction):
    def map(self, value: Any) -> Any:
        return value


@pytest.mark.parametrize("function", [Keep(), KeepUnion()])
def test_c2_state_that_the_program_no_longer_asks_for_is_carried_on_once(function: Any) -> None:
    harness = Harness.non_keyed(function, parallelism=2).feed([1, 2, 3, CHECKPOINT])
    silent = Harness.non_keyed(Silent(), parallelism=3, storage=harness.storage).rescale(2)
    for parallelism in (3, 2, 4):
        silent._input._items = [None] * silent._input.position  # the source goes on behind the checkpoint
        silent.feed([CHECKPOINT]).rescale(parallelism)
    again = Harness.non_keyed(function, parallelism=2, storage=silent.storage)
    found = [sorted(part) for part in again.operator_state("kept")]
    assert found == ([[1, 2, 3]] * 2 if isinstance(function, KeepUnion) else [[1, 2], [3]])


class KeepText(Keep):
    descriptor_type = Types.STRING()


def test_c2_a_state_that_was_saved_with_another_type_or_kind_is_refused() -> None:
    harness = Harness.non_keyed(Keep()).feed([1, CHECKPOINT])
    with pytest.raises(
        IncompatibleStateError, match="saved as list state of LONG and is declared as list state of STRING"
    ):
        Harness.non_keyed(KeepText(), storage=harness.storage)
    with pytest.raises(IncompatibleStateError, match="saved as list state of LONG and is declared as union list state"):
        Harness.non_keyed(KeepUnion(), storage=harness.storage)


def test_c2_an_operator_that_is_gone_is_not_forgotten_in_silence() -> None:
    harness = Harness.non_keyed(Keep()).feed([1, CHECKPOINT])
    graph = harness._graph
    (stage,) = graph.stages
    renamed = replace(stage, operators=(replace(stage.operators[0], uid="renamed"),))
    with pytest.raises(CheckpointError, match="uid 'function'"):
        Harness(replace(graph, stages=(renamed,)), HarnessOptions(storage=harness.storage))


# ---- C3


def test_c3_every_subtask_gets_the_union_after_any_restore() -> None:
    harness = Harness.non_keyed(KeepUnion(), parallelism=2).feed([1, 2, CHECKPOINT])
    assert harness.operator_state("kept") == [[1], [2]]
    assert harness.crash().operator_state("kept") == [[1, 2], [1, 2]]
    assert harness.rescale(3).operator_state("kept") == [[1, 2]] * 3


class Share(MapFunction, CheckpointedFunction):
    """Takes its share out of the union, as a source takes its partitions."""

    def open(self, runtime_context: Any) -> None:
        index, count = runtime_context.get_index_of_this_subtask(), runtime_context.get_number_of_parallel_subtasks()
        self.own = [n for n in self.all if n % count == index]

    def initialize_state(self, context: Init) -> None:
        self.state = context.get_operator_state_store().get_union_list_state(LONGS)
        self.all = list(self.state.get())

    def map(self, value: int) -> int:
        self.own.append(value)
        return value

    def snapshot_state(self, context: Snap) -> None:
        self.state.update(self.own)


def test_c3_shares_taken_and_written_back_are_neither_lost_nor_doubled() -> None:
    harness = Harness.non_keyed(Share(), parallelism=2).feed([*range(10), CHECKPOINT])
    for parallelism in (3, 3, 5, 1, 2):
        harness.rescale(parallelism).feed([CHECKPOINT])
        parts = [sorted(part) for part in harness.operator_state("kept")]
        assert parts == [[n for n in range(10) if n % parallelism == index] for index in range(parallelism)]


def test_c3_a_lost_task_with_union_state_ends_the_attempt_as_only_a_restore_has_the_union() -> None:
    lost = iter([None, None, 1])  # one epoch of two tasks, then a task that is lost
    harness = Harness.non_keyed(Share(), parallelism=2, lost_after=lambda tries: next(lost, None))
    harness.feed([0, 1, CHECKPOINT, 2, 3])
    assert harness.crashes == 1
    assert sorted(n for part in harness.operator_state("kept") for n in part) == [0, 1, 2, 3]


def test_c3_a_lost_task_right_after_a_restore_gets_the_union_again() -> None:
    harness = Harness.non_keyed(Share(), parallelism=2).feed([0, 1, 2, 3, CHECKPOINT])
    lost = iter([1])
    second = Harness.non_keyed(
        Share(), parallelism=2, storage=harness.storage, lost_after=lambda tries: next(lost, None)
    )
    second.feed([0, 1, 2, 3, CHECKPOINT, 4, 5])
    assert second.lost_tasks == 1 and second.crashes == 0
    assert sorted(n for part in second.operator_state("kept") for n in part) == [0, 1, 2, 3, 4, 5]


def test_c3_an_error_of_the_function_is_shown_and_not_what_follows_from_it() -> None:
    class Fails(Share):
        def map(self, value: int) -> int:
            return 1 // value

    with pytest.raises(UserFunctionError, match="ZeroDivisionError"):
        Harness.non_keyed(Fails()).feed([1]).feed([0])


# ---- C6


class Mutable(MapFunction, CheckpointedFunction):
    def initialize_state(self, context: Init) -> None:
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("lists"))
        self.lists = list(self.state.get())

    def map(self, value: Any) -> Any:
        self.lists.append([value])
        self.state.update(self.lists)
        self.lists[-1].append("changed after the update")
        for kept in self.state.get():
            kept.append("a copy")
        return value

    def snapshot_state(self, context: Snap) -> None:
        return


def test_c6_what_a_snapshot_holds_is_out_of_reach_of_the_function() -> None:
    harness = Harness.non_keyed(Mutable()).feed([1])
    (subtask,) = harness._host.subtasks()
    sealed = subtask.operator_states["function"].seal()
    harness.feed([2])
    assert sealed[0].content == [[1]]
    assert harness.operator_state("lists") == [[[1, "changed after the update"], [2]]]


def test_c6_a_list_changed_right_behind_the_barrier_is_in_the_snapshot_as_it_was() -> None:
    harness = Harness.non_keyed(Keep()).feed([1, 2])
    (subtask,) = harness._host.subtasks()
    store = subtask.operator_states["function"]
    sealed = store.seal()
    store.get_list_state(LONGS).add(3)
    store.get_list_state(LONGS).clear()
    assert sealed[0].content == [1, 2] and sealed[0].info.count == 2


def test_c6_large_state_goes_to_a_file_of_its_own_that_goes_with_its_checkpoint() -> None:
    harness = Harness.non_keyed(Keep()).feed([*range(5_000), CHECKPOINT])
    assert harness.manifest is not None
    (snapshot,) = harness.manifest.subtasks
    (info,) = snapshot.operator_states
    assert (info.name, info.mode, info.value_type, info.count) == ("kept", "split", "LONG", 5_000)
    assert snapshot.operator_file is not None and snapshot.operator_file.path
    assert harness.crash().operator_state("kept") == [[*range(5_000)]]
    harness.feed([1, CHECKPOINT, 1, CHECKPOINT])
    assert snapshot.operator_file.path not in harness.storage.list("")


def test_c6_operator_state_counts_where_the_jobmanager_keeps_the_state() -> None:
    limits = InlineLimits(max_state_bytes=5_000)
    small = Harness.non_keyed(Keep(), limits=limits).feed([*range(100), CHECKPOINT])
    assert small.crash().operator_state("kept") == [[*range(100)]]
    with pytest.raises(CheckpointFailedError, match="larger than the maximum permitted memory-backed state"):
        Harness.non_keyed(Keep(), limits=limits).feed([*range(2_000), CHECKPOINT])


# ---- C7


class WithTtl(Keep):
    def initialize_state(self, context: Init) -> None:
        descriptor = ListStateDescriptor("kept", Types.LONG())
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).build())
        context.get_operator_state_store().get_list_state(descriptor)


def test_c7_a_time_to_live_on_operator_state_is_refused() -> None:
    with pytest.raises(UserFunctionError, match="has a time to live, which only keyed state can have"):
        Harness.non_keyed(WithTtl())


# ---- C8


@pytest.mark.parametrize("seed", range(20))
def test_c8_state_and_source_position_move_together_wherever_it_crashes(seed: int) -> None:
    chance = random.Random(seed)
    items: list[Any] = []
    for n in range(60):
        items.append(n)
        items += [CHECKPOINT] if chance.random() < 0.1 else []
        items += [CRASH] if chance.random() < 0.1 else []
    harness = Harness.non_keyed(BufferOfTen(), seed=seed, lost_after=lambda tries: chance.choice([None, 0, 1, 3]))
    harness.feed(items)
    batches = harness.output
    rest = [n for part in harness.operator_state("buffer") for n in part]
    assert [n for batch in batches for n in batch] + rest == [*range(60)]


# ---- C9


def test_c9_subtasks_end_together_so_a_final_checkpoint_has_the_state_of_all() -> None:
    harness = Harness.non_keyed(Share(), parallelism=3).feed([*range(6)]).finish()
    assert harness.manifest is not None and harness.manifest.final
    assert [info.count for snapshot in harness.manifest.subtasks for info in snapshot.operator_states] == [2, 2, 2]


# ---- names


class TwoKinds(Keep):
    def initialize_state(self, context: Init) -> None:
        store = context.get_operator_state_store()
        store.get_list_state(LONGS)
        store.get_union_list_state(LONGS)


def test_one_name_is_a_list_state_or_a_union_list_state() -> None:
    with pytest.raises(UserFunctionError, match="already in use and not a union list state"):
        Harness.non_keyed(TwoKinds())
