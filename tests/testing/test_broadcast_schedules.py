"""Broadcast state under random crashes, lost tasks and changes of parallelism: every copy has every record once."""

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.common import Types
from penstock.datastream import KeyedBroadcastProcessFunction
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor
from penstock.graph.callables import CallableKeySelector, CallableMap
from penstock.graph.job_graph import JobGraph
from penstock.graph.stages import GraphSettings, build_job_graph
from penstock.graph.stream_graph import BroadcastTo, KeyBy, OperatorSpec, SourceSpec, StreamGraph
from penstock.model.types import TAGGED
from penstock.storage.memory import MemoryStorage
from penstock.testing import CHECKPOINT, CRASH, Harness, ManualClock
from penstock.testing.harness_options import HarnessOptions

SEEN = MapStateDescriptor("seen", Types.LONG(), Types.LONG())


class Beside(KeyedBroadcastProcessFunction):
    """Every number arrives twice: under its key in one subtask, and broadcast in all of them."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        yield value

    def process_broadcast_element(self, value: int, ctx: Any) -> None:
        seen = ctx.get_broadcast_state(SEEN)
        seen.put(value, (seen.get(value) or 0) + 1)


def graph(parallelism: int) -> JobGraph:
    """source → map → broadcast ┐
    source → key_by ────────────┴→ Beside"""
    made = StreamGraph()
    source = made.add("source", "numbers", (), SourceSpec("collection", None, TAGGED, None, True), TAGGED)
    mapped = made.add("operator", "map", [source.id], OperatorSpec("map", CallableMap(lambda n: n)), TAGGED)
    broadcast = made.add("partition", "Broadcast", [mapped.id], BroadcastTo(), TAGGED)
    key = KeyBy(None, CallableKeySelector(lambda n: n % 7), (TAGGED,))
    keyed = made.add("key_by", "Key By", [source.id], key, TAGGED)
    spec = OperatorSpec("keyed_broadcast", Beside(), {"descriptors": (SEEN,)})
    made.add("operator", "beside", [keyed.id, broadcast.id], spec, TAGGED).uid = "beside"
    return build_job_graph(made, GraphSettings(parallelism, 16))


@pytest.mark.parametrize("seed", range(40))
def test_c4_every_copy_has_every_record_once(seed: int) -> None:
    chance = random.Random(seed)
    storage, clock = MemoryStorage(), ManualClock()
    items: list[Any] = []
    count = 0

    def lost_after(tries: int) -> int | None:
        return chance.randrange(4) if tries < 3 and chance.random() < 0.2 else None

    for life in range(3):
        for _ in range(chance.randrange(15)):
            items += [chance.choice([CHECKPOINT, CRASH])] if chance.random() < 0.3 else []
            items.append(count)
            count += 1
        parallelism = chance.randrange(1, 5)
        options = HarnessOptions(seed + life, clock, storage, lost_after=lost_after)
        harness = Harness(graph(parallelism), options).feed([*items, CHECKPOINT])
        items.append(CHECKPOINT)
        copies = harness.operator_state("seen", "beside", broadcast=True)
        assert copies == [dict.fromkeys(range(count), 1)] * parallelism
        counts = {key: harness.state("count", key, "beside") for key in range(7)}
        assert {key: n for key, n in counts.items() if n} == Counter(n % 7 for n in range(count))
