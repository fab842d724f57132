"""Sinks that are called for each record, with operator state: the BufferingSink of Flink's documentation."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.common import Types
from penstock.datastream import CheckpointedFunction, SinkFunction
from penstock.datastream.state import ListStateDescriptor
from penstock.errors import ArgumentError, UserFunctionError
from penstock.testing import CHECKPOINT, CRASH, Advance, Harness, Watermark

WRITTEN: list[Any] = []
"""What the other system has."""


@pytest.fixture(autouse=True)
def _nothing_written() -> Iterator[None]:
    WRITTEN.clear()
    yield


class BufferingSink(SinkFunction, CheckpointedFunction):
    """Writes when it has as many records as the threshold says."""

    def __init__(self, threshold: int) -> None:
        self.threshold = threshold
        self.buffered: list[int] = []

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.checkpointed = store.get_list_state(ListStateDescriptor("buffered-elements", Types.LONG()))
        if context.is_restored():
            self.buffered.extend(self.checkpointed.get())

    def invoke(self, value: int, context: SinkFunction.Context) -> None:
        self.buffered.append(value)
        if len(self.buffered) >= self.threshold:
            WRITTEN.append(list(self.buffered))
            self.buffered.clear()

    def snapshot_state(self, context: Any) -> None:
        self.checkpointed.update(self.buffered)

    def finish(self) -> None:
        WRITTEN.append(list(self.buffered))
        self.buffered.clear()


def test_a_buffer_survives_a_crash() -> None:
    harness = Harness.non_keyed(BufferingSink(4))
    harness.feed([1, 2, 3, CHECKPOINT, CRASH, 4, 5])
    assert [WRITTEN, harness.operator_state("buffered-elements")] == [[[1, 2, 3, 4]], [[5]]]
    harness.finish()
    assert WRITTEN == [[1, 2, 3, 4], [5]]


def test_what_follows_the_last_checkpoint_is_written_again() -> None:
    Harness.non_keyed(BufferingSink(2)).feed([1, CHECKPOINT, 2, 3, 4, CRASH, 5]).finish()
    assert WRITTEN == [[1, 2], [3, 4], [1, 2], [3, 4], [5]]


def test_a_lost_task_finds_the_buffer_of_the_epoch_before() -> None:
    harness = Harness.non_keyed(BufferingSink(3), lost_after=lambda tries: 1 if tries == 0 else None)
    harness.feed([1, 2, CHECKPOINT, 3, 4, CHECKPOINT]).finish()
    assert harness.lost_tasks > 0
    assert Counter(map(tuple, WRITTEN)).keys() == {(1, 2, 3), (4,)}


def test_buffers_are_distributed_at_another_parallelism() -> None:
    harness = Harness.non_keyed(BufferingSink(100), parallelism=2).feed([*range(8), CHECKPOINT]).rescale(3)
    assert sorted(number for part in harness.operator_state("buffered-elements") for number in part) == list(range(8))
    harness.finish()
    assert sorted(number for part in WRITTEN for number in part) == list(range(8))


class Times(SinkFunction):
    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        WRITTEN.append((context.timestamp(), context.current_watermark(), context.current_processing_time()))


def test_the_context_has_the_times_of_the_record() -> None:
    harness = Harness.non_keyed(Times(), timestamp=lambda value: value)
    start = harness.clock.now_ms()
    harness.feed([Watermark(50), Advance(7), 100])
    assert WRITTEN == [(100, 50, start + 7)]


class Fails(SinkFunction):
    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        raise OSError("disk full")


def test_an_error_names_the_operator_and_the_record() -> None:
    with pytest.raises(UserFunctionError, match="(?s)disk full.*operator 'function'.*record: 'ada'"):
        Harness.non_keyed(Fails()).feed(["ada"])


class OneArgument(SinkFunction):
    def invoke(self, value: Any) -> None:  # type: ignore[override]
        return


def test_a_method_that_does_not_fit_is_refused_when_the_program_is_built() -> None:
    with pytest.raises(ArgumentError, match=r"OneArgument.invoke .* \(value, context\)"):
        Harness.non_keyed(OneArgument())
