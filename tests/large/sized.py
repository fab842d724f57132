"""One subtask with much state and no engine around it, as a process of its own, so that its memory can be told.

`python -m tests.large.sized rocksdb|hashmap|changes KEYS VALUE_BYTES FOLDER` prints one JSON document of figures.
"""

import gc
import json
import os
import random
import resource
import statistics
import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgspec

from penstock.clock import SystemClock
from penstock.graph.job_graph import EdgePlan, OperatorPlan, SourceRef, StagePlan
from penstock.graph.pickling import dumps
from penstock.model.descriptors import ValueStateDescriptor
from penstock.model.functions import KeyedProcessFunction, RuntimeContext
from penstock.model.ids import Version, new_nonce
from penstock.model.snapshot import CheckpointAck, NativeName, SubtaskSnapshot, files_of_format
from penstock.model.types import Types, resolve_type
from penstock.runtime.operators.batch import Batch, EdgeBatch
from penstock.runtime.process.messages import Barrier, EpochHeader
from penstock.runtime.snapshots.snapshot_loader import SnapshotLoader
from penstock.runtime.snapshots.snapshot_writer import SnapshotWriter
from penstock.runtime.subtask_place import SubtaskPlace
from penstock.runtime.task import Subtask
from penstock.state.backend.backend_settings import BackendSettings
from penstock.state.heap.hashmap_spec import HashMapSpec
from penstock.state.rocksdb.rocksdb_spec import RocksDBSpec
from penstock.storage.local import LocalStorage

MIB = 1024 * 1024
MEMORY_BYTES = 512 * MIB
BATCH = 10_000
EPOCH_BATCHES = 10
ALL_GROUPS = 128
CHANGED, ROUNDS = 1_000, 40


class Put(KeyedProcessFunction):
    """Keeps the last value of a key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.PRIMITIVE_ARRAY(Types.BYTE())))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.last.update(value[1])


class Sized:
    """A subtask and its snapshots."""

    def __init__(self, kind: str, folder: Path, attempt: int = 1) -> None:
        record = resolve_type("key bigint, value binary")
        edge = EdgePlan(0, SourceRef(0), "s0", record, "key", key_columns=("key",), key_types=(Types.LONG(),))
        put = OperatorPlan(
            "put", "put", "keyed_process", dumps(Put(), "put"), record, record, (-1,), True, (Types.LONG(),)
        )
        stage = StagePlan("s0", "s0", 1, ALL_GROUPS, (Types.LONG(),), (edge,), (put,), ())
        spec = RocksDBSpec(memory_bytes=MEMORY_BYTES, transfer_threads=2) if kind == "rocksdb" else HashMapSpec()
        settings = BackendSettings(spec)
        place = SubtaskPlace("0" * 32, attempt, stage, 0, {}, settings, str(folder / "local"))
        self.subtask = Subtask(place, lambda edge: None)  # type: ignore[arg-type, return-value]
        self.storage = LocalStorage(folder / "checkpoints")
        self.writer = SnapshotWriter(self.subtask, self.storage, SystemClock())
        self.epoch = 0
        self.checkpoint = 0

    def open(self, snapshots: list[SubtaskSnapshot], checkpoint: int | None) -> None:
        loader = SnapshotLoader(self.subtask, self.storage, sizes=self.writer.sizes)
        loader.load(snapshots, ALL_GROUPS)
        if loader.own is not None and checkpoint is not None:
            self.writer.continue_from(checkpoint, loader.own, loader.segments)
        self.subtask.open()
        self.checkpoint = checkpoint or 0

    def put(self, keys: range | list[int], value_bytes: int, seed: int) -> float:
        """Write a random value to each key; rows per second."""
        source, started = random.Random(seed), time.monotonic()
        for start in range(0, len(keys), BATCH * EPOCH_BATCHES):
            part = keys[start : start + BATCH * EPOCH_BATCHES]
            items: list[Any] = []
            for first in range(0, len(part), BATCH):
                chosen = list(part[first : first + BATCH])
                records = [(key, source.randbytes(value_bytes)) for key in chosen]
                items.append(EdgeBatch(0, Batch(records, None, chosen), len(chosen), 0))
            self.epoch += 1
            items.append(Barrier(self.epoch, None, "driver", 0))
            self.subtask.run(EpochHeader("0" * 32, 1, self.epoch, 0), items, lambda: False)
            self.subtask.finish_epoch()
        return len(keys) / (time.monotonic() - started)

    def seal(self) -> Any:
        self.checkpoint += 1
        base = self.checkpoint - 1 or None
        return self.writer.seal(self.checkpoint, base, Version(1, self.epoch, new_nonce()))

    def snapshot(self) -> tuple[CheckpointAck, float]:
        job = self.seal()
        return self.writer.write(job), job.sync_s

    def read(self, key: int) -> Any:
        backend = self.subtask.backends["put"]
        backend.keys.key = key
        try:
            return backend.handle("last").value()
        finally:
            backend.keys.clear()

    def levels(self) -> dict[str, int]:
        """RocksDB's files by name, with their level."""
        backend: Any = self.subtask.backends["put"]
        return {Path(file["name"]).name: file["level"] for file in backend.store._db.live_files()}


def rss_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def uploaded(ack: CheckpointAck, before: CheckpointAck) -> dict[str, int]:
    """New files of a checkpoint: their names and sizes."""
    known = {file.path for file in before.snapshot.files}
    native = files_of_format(ack.snapshot.files, NativeName)
    return {name.name: file.size for file, name in native if file.path not in known}


def total(ack: CheckpointAck) -> int:
    return sum(file.size for file in ack.snapshot.files)


def measure_rocksdb(keys: int, value_bytes: int, folder: Path) -> dict[str, Any]:
    """Fill, checkpoint, change one per cent, checkpoint again, restore, compare."""
    first = Sized("rocksdb", folder)
    first.open([], None)
    figures: dict[str, Any] = {"keys": keys, "value_bytes": value_bytes, "memory_bound_mb": MEMORY_BYTES // MIB}
    figures["fill_rows_per_s"] = first.put(range(keys), value_bytes, 1)
    filled, figures["full_sync_s"] = first.snapshot()
    figures["full_bytes"], figures["full_async_s"] = total(filled), filled.async_s
    changed = random.Random(2).sample(range(keys), keys // 100)
    first.put(changed, value_bytes, 2)
    again, figures["changed_sync_s"] = first.snapshot()
    levels = first.levels()
    new = uploaded(again, filled)
    figures["changed_uploaded_bytes"] = sum(new.values())
    # What was flushed is in level 0; whatever lies deeper was rewritten by compaction.
    figures["changed_rewritten_bytes"] = sum(size for name, size in new.items() if levels.get(name, 1) > 0)
    figures["changed_new_bytes"] = figures["changed_uploaded_bytes"] - figures["changed_rewritten_bytes"]
    figures["peak_rss_mb_running"] = rss_mb()
    sample = {key: first.read(key) for key in [*changed[:500], *range(0, keys, max(1, keys // 500))]}
    snapshot = msgspec.json.decode(msgspec.json.encode(again.snapshot), type=SubtaskSnapshot)
    first.subtask.backends["put"].close()
    second, started = Sized("rocksdb", folder, 2), time.monotonic()
    second.open([snapshot], first.checkpoint)
    figures["restore_s"] = time.monotonic() - started
    figures["wrong_after_restore"] = sum(second.read(key) != value for key, value in sample.items())
    figures["checked_after_restore"] = len(sample)
    second.put(changed[:1000], value_bytes, 3)
    third, _ = second.snapshot()
    figures["next_uploaded_bytes"] = third.written_bytes
    figures["peak_rss_mb"] = rss_mb()
    second.subtask.backends["put"].close()
    return figures


def measure_hashmap(keys: int, value_bytes: int, folder: Path) -> dict[str, Any]:
    """Fill, checkpoint while work goes on, change one per cent, checkpoint again."""
    job = Sized("hashmap", folder)
    job.open([], None)
    figures: dict[str, Any] = {"keys": keys, "value_bytes": value_bytes}
    figures["fill_rows_per_s"] = job.put(range(keys), value_bytes, 1)
    figures["quiet_rows_per_s"] = job.put(range(keys // 5), value_bytes, 4)
    sealed = job.seal()
    acks: list[CheckpointAck] = []
    writing = threading.Thread(target=lambda: acks.append(job.writer.write(sealed)))
    writing.start()
    done, started = 0, time.monotonic()
    while writing.is_alive():
        job.put(range(BATCH), value_bytes, 5)
        done += BATCH
    figures["rows_per_s_while_written"] = done / (time.monotonic() - started)
    (filled,) = acks
    figures["pause_s"], figures["write_s"], figures["full_bytes"] = sealed.sync_s, filled.async_s, total(filled)
    settled, _ = job.snapshot()
    job.put(random.Random(2).sample(range(keys), keys // 100), value_bytes, 2)
    again, _ = job.snapshot()
    figures["changed_uploaded_bytes"] = again.written_bytes
    figures["settled_uploaded_bytes"] = settled.written_bytes
    figures["peak_rss_mb"] = rss_mb()
    return figures


def measure_changes(keys: int, value_bytes: int, folder: Path) -> dict[str, Any]:
    """Checkpoints after a thousand changed keys, in turn with a state of a hundredth of the keys."""
    figures: dict[str, Any] = {"keys": [keys // 100, keys], "changed_keys": CHANGED, "rounds": ROUNDS}
    for kind in ("hashmap", "rocksdb"):
        jobs = [Sized(kind, folder / f"{kind}-{count}") for count in figures["keys"]]
        for job, count in zip(jobs, figures["keys"], strict=True):
            job.open([], None)
            job.put(range(count), value_bytes, 1)
            job.snapshot()
        gc.collect()
        gc.freeze()  # as in a TaskManager
        seconds: list[list[float]] = [[], []]
        written: list[list[int]] = [[], []]
        for number in range(ROUNDS):
            for index, job in enumerate(jobs):
                changed = random.Random(number).sample(range(figures["keys"][index]), CHANGED)
                job.put(changed, value_bytes, number)
                ack, sync_s = job.snapshot()
                seconds[index].append(sync_s + ack.async_s)
                written[index].append(ack.written_bytes)
        medians = [statistics.median(found) for found in seconds]
        figures[kind] = {
            "median_s": medians,
            "longest_s": [max(found) for found in seconds],
            "median_bytes": [statistics.median(found) for found in written],
            "largest_bytes": [max(found) for found in written],
            "ratio": medians[1] / medians[0],
        }
        for job in jobs:
            job.subtask.backends["put"].close()
    return figures


if __name__ == "__main__":
    kind, keys, value_bytes, folder = sys.argv[1:]
    measure = {"rocksdb": measure_rocksdb, "hashmap": measure_hashmap, "changes": measure_changes}[kind]
    print(json.dumps(measure(int(keys), int(value_bytes), Path(folder))))
    sys.stdout.flush()
    os._exit(0)
