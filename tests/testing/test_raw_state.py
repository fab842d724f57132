"""Rows A2 and A3: bytes of the function's own making, by partition and by key group."""

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.datastream import CheckpointedFunction, KeyedProcessFunction, MapFunction
from penstock.datastream.functions import FunctionInitializationContext, FunctionSnapshotContext
from penstock.datastream.state import ListStateDescriptor
from penstock.errors import CheckpointError, UserFunctionError
from penstock.testing import CHECKPOINT, Harness

Init = FunctionInitializationContext
Snap = FunctionSnapshotContext


class Silent(MapFunction):
    def map(self, value: Any) -> Any:
        return value


class RawPartitions(MapFunction, CheckpointedFunction):
    def initialize_state(self, context: Init) -> None:
        self.read = context.get_raw_state().get_partitions()
        self.parts = list(self.read)

    def map(self, value: bytes) -> Any:
        self.parts.append(value)
        return list(self.read)

    def snapshot_state(self, context: Snap) -> None:
        raw = context.get_raw_state()
        for part in self.parts:
            raw.start_new_partition()
            raw.write(part[:1])
            raw.write(part[1:])


def raw_partitions(harness: Harness) -> list[list[bytes]]:
    return [s.operator_states["function"].raw.get_partitions() for s in harness._host.subtasks()]


def test_a2_three_partitions_of_one_subtask_go_to_three() -> None:
    harness = Harness.non_keyed(RawPartitions()).feed([b"one", b"two", b"", CHECKPOINT])
    assert raw_partitions(harness.rescale(3)) == [[b"one"], [b"two"], [b""]]
    assert raw_partitions(harness.rescale(2)) == [[b"one", b"two"], [b""]]
    assert raw_partitions(harness.rescale(5).feed([CHECKPOINT]).rescale(1)) == [[b"one", b"two", b""]]


class NoLongerRaw(RawPartitions):
    """Reads old raw state and keeps it elsewhere from then on."""

    def snapshot_state(self, context: Snap) -> None:
        context.get_operator_state_store().get_list_state(ListStateDescriptor("parts")).update(self.parts)


def test_a2_raw_state_that_was_read_and_not_written_again_is_gone() -> None:
    harness = Harness.non_keyed(RawPartitions()).feed([b"one", CHECKPOINT])
    second = Harness.non_keyed(NoLongerRaw(), storage=harness.storage)
    second.feed([b"one", CHECKPOINT, b"two", CHECKPOINT]).crash()
    assert raw_partitions(second) == [[]]
    assert second.manifest is not None
    modes = [info.mode for snapshot in second.manifest.subtasks for info in snapshot.operator_states]
    assert modes == ["split"]


def test_a2_raw_state_that_no_function_asks_for_is_carried_on() -> None:
    harness = Harness.non_keyed(RawPartitions()).feed([b"one", CHECKPOINT])
    second = Harness.non_keyed(Silent(), storage=harness.storage).feed([b"one", CHECKPOINT, b"two", CHECKPOINT])
    third = Harness.non_keyed(RawPartitions(), storage=second.storage)
    assert raw_partitions(third) == [[b"one"]]


class RawKeyGroups(KeyedProcessFunction, CheckpointedFunction):
    def initialize_state(self, context: Init) -> None:
        self.groups = dict(context.get_raw_state().get_key_groups())

    def open(self, runtime_context: Any) -> None:
        index, count = runtime_context.get_index_of_this_subtask(), runtime_context.get_number_of_parallel_subtasks()
        groups = runtime_context.get_max_number_of_parallel_subtasks() // count
        self.own = range(index * groups, (index + 1) * groups)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield sorted(self.groups)

    def snapshot_state(self, context: Snap) -> None:
        raw = context.get_raw_state()
        for group in self.own:
            raw.start_new_key_group(group)
            raw.write(b"group ")
            raw.write(str(group).encode())


def raw_groups(harness: Harness) -> list[list[int]]:
    found = [s.operator_states["function"].raw.get_key_groups() for s in harness._host.subtasks()]
    assert all(data == f"group {group}".encode() for part in found for group, data in part)
    return [[group for group, _ in part] for part in found]


def test_a3_bytes_by_key_group_follow_their_key_groups() -> None:
    harness = Harness.keyed(RawKeyGroups(), key=str, max_parallelism=128).feed(["a", CHECKPOINT])
    assert raw_groups(harness.rescale(2)) == [[*range(64)], [*range(64, 128)]]
    harness.feed([CHECKPOINT])
    assert raw_groups(harness.rescale(4)) == [[*range(n * 32, n * 32 + 32)] for n in range(4)]
    assert raw_groups(harness.feed([CHECKPOINT]).rescale(1)) == [[*range(128)]]


def test_a3_another_number_of_key_groups_is_refused_for_bytes_that_nobody_can_split() -> None:
    harness = Harness.keyed(RawKeyGroups(), key=str, max_parallelism=128).feed(["a", CHECKPOINT])
    with pytest.raises(CheckpointError, match="set max parallelism 128 again"):
        harness.rescale(1, max_parallelism=256)


class RawWrong(MapFunction, CheckpointedFunction):
    def __init__(self, step: str) -> None:
        self.step = step

    def initialize_state(self, context: Init) -> None:
        if self.step == "early":
            context.get_raw_state().start_new_partition()

    def map(self, value: Any) -> Any:
        return value

    def snapshot_state(self, context: Snap) -> None:
        raw = context.get_raw_state()
        if self.step == "unstarted":
            raw.write(b"x")
        if self.step == "group":
            raw.start_new_key_group(0)
        if self.step == "text":
            raw.start_new_partition()
            raw.write("text")  # type: ignore[arg-type]
        if self.step in ("foreign", "twice"):
            raw.start_new_key_group(0 if self.step == "twice" else 127)
            raw.start_new_key_group(0)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ("early", r"in snapshot_state\(\) only"),
        ("unstarted", "call start_new_partition"),
        ("group", "for functions on a KeyedStream"),
        ("text", "raw state is bytes, not 'text'"),
    ],
)
def test_a2_misuse_of_raw_state_says_what_to_do(step: str, message: str) -> None:
    with pytest.raises(UserFunctionError, match=message):
        Harness.non_keyed(RawWrong(step)).feed([1])


@pytest.mark.parametrize(("step", "message"), [("foreign", "owns 0 to 63"), ("twice", "was started before")])
def test_a3_misuse_of_raw_state_says_what_to_do(step: str, message: str) -> None:
    with pytest.raises(UserFunctionError, match=message):
        Harness.keyed(RawWrong(step), key=str, parallelism=2).feed([1])
