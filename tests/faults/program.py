"""The job under fault: de-duplication by id and a tally per key (features A4 and Q1), run by `penstock run`.

Arguments: the events, the folder for the output, milliseconds between checkpoints, and where the output goes, in the
words of `tests/faults/ends.py`. Events of a topic are not de-duplicated: one that was read twice would show.

Per key it keeps the ids seen, their order, a count, a sum and a 64-bit xor of the hashed ids (reliability I1), so that
an event that was lost or counted twice shows in state. Each subtask keeps the number and the sum of its ids in a
variable that operator state brings back. At the end of the input a timer closes each key with one more row, which has
no id.

`FAULT=kind:id:file` in the environment makes the function misbehave when that event comes: `raise`, `loop`, `type`
(a record of another type) every time; `raise-once` and `exit-once` unless the file is there, which they make.
"""

import os
import sys
import threading
from hashlib import blake2b

from penstock.common import Types, WatermarkStrategy
from penstock.datastream import CheckpointedFunction, KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from tests.faults.ends import EXCHANGE, ROW, is_topic, source_of, write_rows


class Tally(KeyedProcessFunction, CheckpointedFunction):
    """Emits every event the first time it comes, with the key's running count, and at the end the key's totals."""

    def __init__(self, deduplicates):
        self.deduplicates = deduplicates

    def initialize_state(self, ctx):
        self.saved = ctx.get_operator_state_store().get_list_state(
            ListStateDescriptor("taken", "events bigint, ids bigint")
        )
        self.taken = [sum(column) for column in zip((0, 0), *self.saved.get(), strict=True)]

    def snapshot_state(self, ctx):
        self.saved.update([tuple(self.taken)])

    def open(self, ctx):
        self.fault, at, self.marker = (os.environ.get("FAULT") or "none:-1:").split(":", 2)
        self.fault_at = int(at)
        self.seen = ctx.get_map_state(MapStateDescriptor("seen", Types.LONG(), Types.BOOLEAN()))
        self.ids = ctx.get_list_state(ListStateDescriptor("ids", Types.LONG()))
        self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.sum = ctx.get_reducing_state(ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG()))
        self.xor = ctx.get_state(ValueStateDescriptor("xor", Types.LONG()))

    def process_element(self, event, ctx):
        if self.deduplicates and self.seen.contains(event.id):
            return
        self.seen.put(event.id, True)
        if event.id == self.fault_at:
            yield from self.misbehave()
        self.taken = [self.taken[0] + 1, self.taken[1] + event.id]
        self.ids.add(event.id)
        self.sum.add(event.amount)
        digest = blake2b(event.id.to_bytes(8, "big"), digest_size=8).digest()
        self.xor.update((self.xor.value() or 0) ^ int.from_bytes(digest, "big", signed=True))
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        ctx.timer_service().register_event_time_timer(1)
        yield event.id, event.key, event.amount, count

    def misbehave(self):
        if self.fault.endswith("-once"):
            try:
                os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return
        if self.fault == "exit-once":
            os._exit(3)
        if self.fault == "type":
            yield "this", "is", "no", "row"
        elif self.fault == "loop":
            open(self.marker, "a").close()
            while True:
                threading.Event().wait(0.01)
        else:
            raise ValueError("misbehaving on purpose")

    def on_timer(self, timestamp, ctx):
        yield None, ctx.get_current_key(), self.sum.get(), self.count.value()


class InOrder(KeyedProcessFunction):
    """Behind a second exchange: passes on the rows of a key, which must come once each and in order."""

    def open(self, ctx):
        self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, row, ctx):
        count = self.count.value() or 0
        expected = count if row.id is None else count + 1
        if row.count != expected:
            raise ValueError(f"row {row.count} of key {row.key!r} came after row {count}")
        self.count.update(expected)
        yield row


def main(events: str, output: str, checkpoint_ms: str, sinks: str = "file") -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(int(checkpoint_ms))
    rows = (
        env.from_source(source_of(events), WatermarkStrategy.no_watermarks(), "events")
        .key_by("key")
        .process(Tally(deduplicates=not is_topic(events)), output_type=ROW)
        .name("tally")
        .uid("tally")
    )
    if sinks.startswith(EXCHANGE):
        rows = rows.key_by("key").process(InOrder(), output_type=ROW).name("in-order").uid("in-order")
    write_rows(rows, sinks.removeprefix(EXCHANGE), output)
    env.execute("tally")


if __name__ == "__main__":
    main(*sys.argv[1:])
