"""An idle job runs epochs and checkpoints without records for weeks: nothing may pile up."""

import gc
import sys
from collections.abc import Iterable
from typing import Any

import pytest

from penstock.common import Types
from penstock.datastream import KeyedProcessFunction
from penstock.model.descriptors import MapStateDescriptor, ValueStateDescriptor
from penstock.model.functions import RuntimeContext
from penstock.storage.memory import MemoryStorage
from penstock.testing import CHECKPOINT, Advance, Harness, ManualClock, MemorySink

CHECKPOINTS = 1_000


class Waiting(KeyedProcessFunction):
    """Has state, and timers that are due after the test."""

    def open(self, ctx: RuntimeContext) -> None:
        self.last = ctx.get_state(ValueStateDescriptor("last", Types.LONG()))
        self.seen = ctx.get_map_state(MapStateDescriptor("seen", Types.LONG(), Types.BOOLEAN()))

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        """Its timers only have to be kept."""

    def process_element(self, value: int, ctx: Any) -> Iterable[int]:
        self.last.update(value)
        self.seen.put(value, True)
        ctx.timer_service().register_event_time_timer(1_000_000 + value)
        ctx.timer_service().register_processing_time_timer(ctx.timer_service().current_processing_time() + 10**9)
        yield value


def idle_job() -> Harness:
    harness = Harness.keyed(Waiting(), key=lambda value: value % 7, sink=MemorySink())
    return harness.feed([*range(100), CHECKPOINT, Advance(10)])


def allocated() -> int:
    """Memory blocks in use, after everything that is garbage has gone."""
    gc.collect()
    return sys.getallocatedblocks()


@pytest.mark.parametrize("epochs", [20_000, pytest.param(100_000, marks=pytest.mark.full)])
def test_many_empty_epochs_leak_nothing(epochs: int) -> None:
    harness = idle_job().run_empty_epochs(1_000)  # whatever is made once is made
    before = allocated()
    harness.run_empty_epochs(epochs)
    assert allocated() - before < 200
    assert harness.state("last", 3) == 94


def test_a_thousand_checkpoints_of_an_idle_job_leak_nothing() -> None:
    harness = idle_job().feed([CHECKPOINT] * 200)
    before = allocated()
    harness.feed([CHECKPOINT] * CHECKPOINTS)
    assert allocated() - before < 2_000  # the log grows by up to a hundred entries before it is shortened
    assert isinstance(harness.storage, MemoryStorage)
    assert len(harness.storage.files) < 250
    assert harness.crash().state("last", 3) == 94


def test_a_checkpoint_with_nothing_changed_writes_no_state() -> None:
    harness = idle_job()
    assert harness.manifest is not None
    before = harness.manifest.subtasks[0].files
    harness.feed([CHECKPOINT, CHECKPOINT])
    assert harness.manifest.subtasks[0].files == before


def test_time_does_not_go_back_behind_the_checkpoint_before_the_first_epoch() -> None:
    """Found by the simulator: the wall clock jumped back between checkpoint 0 and the first epoch (PROTOCOL I-6)."""
    clock = ManualClock()
    harness = Harness.keyed(Waiting(), key=lambda value: value, clock=clock)
    assert harness.manifest is not None
    first_ms = harness.manifest.now_ms
    clock.set_wall(first_ms - 3_600_000)
    harness.feed([1, CHECKPOINT])
    assert harness.manifest.checkpoint_id == 1 and harness.manifest.now_ms == first_ms
