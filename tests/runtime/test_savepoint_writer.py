"""A subtask's part of a savepoint: the figures in its ack (features T3)."""

from collections.abc import Iterable
from typing import Any

from penstock.common import Types
from penstock.datastream import KeyedProcessFunction
from penstock.model.descriptors import ValueStateDescriptor
from penstock.model.functions import RuntimeContext
from penstock.model.ids import Version
from penstock.model.snapshot import SavepointOrder
from penstock.runtime.snapshots.savepoint_writer import SavepointWriter
from penstock.storage.memory import MemoryStorage
from penstock.testing.clocks import ManualClock
from tests.runtime.subtasks import SUBTASK, Tasks, keyed_stage


class Last(KeyedProcessFunction):
    """Keeps the last value of each key."""

    def open(self, ctx: RuntimeContext) -> None:
        self.value = ctx.get_state(ValueStateDescriptor("value", Types.STRING()))

    def process_element(self, record: Any, ctx: Any) -> Iterable[Any]:
        self.value.update(record[1])
        return ()


def test_t3_the_ack_says_how_long_writing_took_and_how_the_barrier_came() -> None:
    tasks, clock = Tasks(keyed_stage(Last())), ManualClock()
    tasks.run([("ada", "a"), ("bob", "b")])
    subtask = tasks.host.subtask(SUBTASK)
    writer = SavepointWriter(subtask, lambda uri: MemoryStorage(), clock)
    written: list[float] = []

    def report(done: float) -> None:
        written.append(done)
        clock.advance(250)

    job = writer.seal(SavepointOrder(1, "savepoint", "canonical", False), Version(1, 1, "nonce"))
    ack = writer.write(job, report)
    assert written and ack.async_s == 0.25 * len(written)
    assert ack.sync_s == 0.0 and ack.figures == subtask.figures
