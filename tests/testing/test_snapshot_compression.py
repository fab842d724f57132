"""Snapshot compression (features I5): smaller files, the same state, and whoever reads need not know."""

from typing import Any

import pytest

from penstock.common import Types
from penstock.datastream import CheckpointedFunction, KeyedProcessFunction
from penstock.datastream.state import ListStateDescriptor, ValueStateDescriptor
from penstock.model.snapshot import InlineLimits
from penstock.state.backend.backend_settings import BackendSettings
from penstock.storage.memory import MemoryStorage
from penstock.testing import CHECKPOINT, Harness

ROWS = [(number % 50, "the same words again and again " * 5) for number in range(200)]
EXPECTED = dict.fromkeys(range(50), ROWS[0][1] * 4)


class Texts(KeyedProcessFunction, CheckpointedFunction):
    def open(self, ctx: Any) -> None:
        self.text = ctx.get_state(ValueStateDescriptor("text", Types.STRING()))

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.seen = store.get_list_state(ListStateDescriptor("seen", Types.STRING()))

    def snapshot_state(self, context: Any) -> None: ...

    def process_element(self, value: Any, ctx: Any) -> None:
        self.text.update((self.text.value() or "") + value[1])
        self.seen.add(value[1])


def run(storage: MemoryStorage, *, compression: bool | None, items: list[Any]) -> Harness:
    backend = BackendSettings(compression=compression)
    job = Harness.keyed(
        Texts(), key=lambda row: row[0], backend=backend, storage=storage, limits=InlineLimits(inline_bytes=0)
    )
    return job.feed(items)


def written(storage: MemoryStorage) -> int:
    return sum(len(data) for path, data in storage.files.items() if "_metadata" not in path and "log/" not in path)


def test_i5_compressed_snapshots_are_smaller() -> None:
    sizes = {}
    for compression in (True, False):
        storage = MemoryStorage()
        run(storage, compression=compression, items=[*ROWS, CHECKPOINT])
        sizes[compression] = written(storage)
    assert sizes[True] * 5 < sizes[False]


@pytest.mark.parametrize("first", [True, False, None])
@pytest.mark.parametrize("second", [True, False])
def test_i5_whatever_was_written_is_read(first: bool | None, second: bool) -> None:
    storage = MemoryStorage()
    run(storage, compression=first, items=[*ROWS[:100], CHECKPOINT, *ROWS[100:], CHECKPOINT])
    again = run(storage, compression=second, items=[])
    assert {key: again.state("text", key) for key in range(50)} == EXPECTED
    assert again.operator_state("seen") == [[text for _, text in ROWS]]
