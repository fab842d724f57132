"""Operator state of functions that Penstock calls through another one: of patterns, joins by window, and windows."""

from typing import Any

import pytest

from penstock.cep import CEP, Pattern, PatternProcessFunction, PatternSelectFunction
from penstock.cep.pattern_process_function import SelectMatches
from penstock.common import Time, Types
from penstock.datastream import (
    AggregateFunction,
    CheckpointedFunction,
    CheckpointListener,
    CoGroupFunction,
    Function,
    JoinFunction,
    ProcessWindowFunction,
    ReduceFunction,
)
from penstock.datastream.state import ListStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.graph.tagged_union import SidesOfWindow
from penstock.testing import CHECKPOINT, CRASH, Harness, Watermark

COUNT = ListStateDescriptor("count", Types.LONG())
TEN = TumblingEventTimeWindows.of(Time.milliseconds(10))
COMPLETED: list[int] = []
"""The checkpoints of which functions were notified."""


class Counts(Function, CheckpointedFunction, CheckpointListener):
    """Numbers its results, also after a crash."""

    def initialize_state(self, context: Any) -> None:
        self.saved = context.get_operator_state_store().get_list_state(COUNT)
        self.count = sum(self.saved.get())

    def snapshot_state(self, context: Any) -> None:
        self.saved.update([self.count])

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        COMPLETED.append(checkpoint_id)

    def next(self) -> Any:
        self.count += 1
        return self.count


class Matches(Counts, PatternProcessFunction):
    def process_match(self, match: Any, ctx: Any) -> Any:
        yield self.next()


class Selected(Counts, PatternSelectFunction):
    def select(self, pattern: Any) -> Any:
        return self.next()


class Grouped(Counts, CoGroupFunction):
    def co_group(self, first: Any, second: Any) -> Any:
        yield self.next()


class Joined(Counts, JoinFunction):
    def join(self, first: Any, second: Any) -> Any:
        return self.next()


class Aggregated(Counts, AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator

    def get_result(self, accumulator: Any) -> Any:
        return self.next()

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a


class Last(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return value2


class Windows(Counts, ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield self.next()


EVERY = Pattern.begin("every").where(lambda record: record[0] == 1)
SELECTED = Selected()


@pytest.mark.parametrize(
    ("function", "settings"),
    [
        (CEP.function(EVERY, Matches()), {}),
        (CEP.function(EVERY, SelectMatches([SELECTED], SELECTED.select, is_flat=False)), {}),
        (SidesOfWindow(Grouped()), {"window": TEN}),
        (SidesOfWindow(Joined()), {"window": TEN}),
        (Aggregated(), {"window": TEN}),
        (Last(), {"window": TEN, "window_function": Windows()}),
    ],
    ids=["pattern", "select", "co_group", "join", "aggregate", "window"],
)
def test_an_inner_function_has_operator_state_and_is_notified(function: Any, settings: Any) -> None:
    COMPLETED.clear()
    harness = Harness.keyed(function, key=lambda record: 0, timestamp=lambda record: record[1], **settings)
    both = [(1, 5), (2, 5), Watermark(9), (1, 15), (2, 15), Watermark(19)]
    harness.feed([*both, CHECKPOINT, CRASH, (1, 25), (2, 25), Watermark(29)])
    assert harness.output == [1, 2, 3]
    harness.feed([CHECKPOINT]).run_empty_epochs(1)
    assert COMPLETED
