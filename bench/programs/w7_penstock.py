"""Workload W7 on Penstock: checkpoints, savepoints and restores of one subtask, without an engine around it.

The state is that of workload W1: a count and a sum for each key. Everything runs in one process, so "per core" is by
its CPU time. The result is right if the restored subtasks have every key, with its last value.
"""

import argparse
import json
import os
import random
import time
from contextlib import contextmanager
from pathlib import Path

from penstock.clock import SystemClock
from penstock.graph.job_graph import EdgePlan, OperatorPlan, SourceRef, StagePlan
from penstock.graph.pickling import dumps
from penstock.model.descriptors import ValueStateDescriptor
from penstock.model.functions import KeyedProcessFunction
from penstock.model.ids import Version, new_nonce
from penstock.model.snapshot import SavepointOrder
from penstock.model.types import Types, resolve_type
from penstock.runtime.operators.batch import Batch, EdgeBatch
from penstock.runtime.process.messages import Barrier, EpochHeader
from penstock.runtime.snapshots.savepoint_writer import SavepointWriter
from penstock.runtime.snapshots.snapshot_loader import SnapshotLoader
from penstock.runtime.snapshots.snapshot_writer import SnapshotWriter
from penstock.runtime.subtask_place import SubtaskPlace
from penstock.runtime.task import Subtask
from penstock.state.backend.backend_settings import BackendSettings
from penstock.state.heap.hashmap_spec import HashMapSpec
from penstock.state.rocksdb.rocksdb_spec import RocksDBSpec
from penstock.storage.storage import open_storage

JOB_ID = "0" * 32
EPOCH_ROWS = 100_000
KEY_GROUPS = 128
MIB = 1024 * 1024
ROCKSDB_MEMORY = 256 * MIB
CHANGED_PERCENT = (0.1, 1.0, 10.0, 100.0)
PAIR = Types.TUPLE([Types.LONG(), Types.DOUBLE()])


class Last(KeyedProcessFunction):
    """Keeps the last pair of a key."""

    def open(self, ctx):
        self.last = ctx.get_state(ValueStateDescriptor("last", PAIR))

    def process_element(self, record, ctx):
        self.last.update((record[1], record[2]))


class Job:
    """A subtask with all key groups, and its snapshots in a folder."""

    def __init__(self, backend: str, folder: Path, attempt: int) -> None:
        record = resolve_type("key string, n bigint, total double")
        edge = EdgePlan(0, SourceRef(0), "s0", record, "key", key_columns=("key",), key_types=(Types.STRING(),))
        keep = OperatorPlan(
            uid="keep",
            name="keep",
            kind="keyed_process",
            function=dumps(Last(), "keep"),
            input_type=record,
            output_type=record,
            inputs=(-1,),
            keyed=True,
            key_types=(Types.STRING(),),
        )
        stage = StagePlan("s0", "s0", 1, KEY_GROUPS, (Types.STRING(),), (edge,), (keep,), ())
        spec = RocksDBSpec(memory_bytes=ROCKSDB_MEMORY) if backend == "rocksdb" else HashMapSpec()
        place = SubtaskPlace(JOB_ID, attempt, stage, 0, {}, BackendSettings(spec), str(folder / "local"))
        self.attempt = attempt
        self.subtask = Subtask(place, lambda edge: None)
        self.writer = SnapshotWriter(self.subtask, open_storage(str(folder / "checkpoints")), SystemClock())
        self.epoch = self.checkpoint = 0

    def restore(self, snapshot, storage) -> None:
        """Open with the state of a snapshot; None is an empty state."""
        loader = SnapshotLoader(self.subtask, storage, sizes=self.writer.sizes)
        loader.load([] if snapshot is None else [snapshot], KEY_GROUPS)
        self.subtask.open()

    def put(self, keys, value: int) -> None:
        """Write a value to each key."""
        for start in range(0, len(keys), EPOCH_ROWS):
            names = [name_of(key) for key in keys[start : start + EPOCH_ROWS]]
            rows = EdgeBatch(0, Batch([(name, value, value / 2) for name in names], None, names), len(names), 0)
            self.epoch += 1
            barrier = Barrier(self.epoch, None, "driver", 0)
            self.subtask.run(EpochHeader(JOB_ID, self.attempt, self.epoch, 0), [rows, barrier], lambda: False)
            self.subtask.finish_epoch()

    def take_checkpoint(self):
        """Its acknowledgement."""
        self.checkpoint += 1
        version = Version(self.attempt, self.epoch, new_nonce())
        return self.writer.write(self.writer.seal(self.checkpoint, self.checkpoint - 1 or None, version))

    def take_savepoint(self, kind: str, uri: str):
        """Its acknowledgement."""
        writer = SavepointWriter(self.subtask, open_storage, SystemClock())
        job = writer.seal(SavepointOrder(1, uri, kind), Version(self.attempt, self.epoch, new_nonce()))
        return writer.write(job, lambda progress: None)

    def count(self, keys: int, value: int) -> int:
        """How many keys have this value."""
        backend = self.subtask.backends["keep"]
        found = 0
        for key in range(keys):
            backend.keys.key = name_of(key)
            found += backend.handle("last").value() == (value, value / 2)
        backend.keys.clear()
        return found

    def close(self) -> None:
        """Free memory and files."""
        self.subtask.backends["keep"].close()


def name_of(key: int) -> str:
    """As in the other workloads."""
    return f"user-{key:08d}"


class Watch:
    """Wall and CPU time of steps."""

    @contextmanager
    def step(self):
        """The times of a block, as they are after it."""
        wall, cpu = time.monotonic(), time.process_time()
        yield
        self.wall_s, self.cpu_s = time.monotonic() - wall, time.process_time() - cpu


def measure(args) -> tuple[dict[str, float], dict[str, float], int]:
    """The figures, the batch of the first checkpoint, and for how many keys every restore was right."""
    keys, watch, figures = args.keys, Watch(), {}
    first = Job(args.backend, args.work, 1)
    first.restore(None, None)
    first.put(range(keys), 1)
    started_ms = time.time() * 1000
    with watch.step():
        last = first.take_checkpoint()
    batch = {"rows": keys, "started_ms": started_ms, "finished_ms": time.time() * 1000}
    figures["full checkpoint keys/s per core"] = keys / watch.cpu_s
    figures["full checkpoint pause ms"] = 1000 * last.sync_s
    figures["full checkpoint MB"] = last.written_bytes / MIB
    source = random.Random(1)
    for number, percent in enumerate(CHANGED_PERCENT, 2):
        changed = range(keys) if percent == 100 else source.sample(range(keys), max(1, int(keys * percent / 100)))
        first.put(changed, number)
        with watch.step():
            last = first.take_checkpoint()
        figures[f"checkpoint with {percent:g} % changed ms"] = 1000 * watch.wall_s
        figures[f"checkpoint with {percent:g} % changed MB"] = last.written_bytes / MIB
    value = len(CHANGED_PERCENT) + 1
    sources = [("checkpoint", last.snapshot, open_storage(str(args.work / "checkpoints")))]
    for kind in ("canonical", "native"):
        uri = str(args.work / f"savepoint-{kind}")
        with watch.step():
            ack = first.take_savepoint(kind, uri)
        figures[f"{kind} savepoint keys/s per core"] = keys / watch.cpu_s
        sources.append((f"{kind} savepoint", ack.snapshot, open_storage(uri)))
    first.close()
    right = keys
    for attempt, (name, snapshot, storage) in enumerate(sources, 2):
        job = Job(args.backend, args.work, attempt)
        with watch.step():
            job.restore(snapshot, storage)
        figures[f"restore of {name} keys/s per core"] = keys / watch.cpu_s
        right = min(right, job.count(keys, value))
        job.close()
    return figures, batch, right


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, help="not used: there is a row for each key")
    parser.add_argument("--keys", type=int, required=True)
    parser.add_argument("--rows-per-s", type=int, help="not used")
    parser.add_argument("--parallelism", type=int, help="not used: one subtask")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--events", type=Path, required=True)
    parser.add_argument("--backend", default="hashmap")
    args = parser.parse_args()
    figures, batch, right = measure(args)
    (args.work / "figures.json").write_text(json.dumps(figures))
    args.events.write_text(json.dumps({**batch, "rows_out": right}) + "\n")
    os._exit(0)


if __name__ == "__main__":
    main()
