"""How fast one process writes a canonical savepoint of many keys in three states, without an engine around it.

`python -m tests.large.savepoint_rows KEYS FOLDER` prints one JSON document of figures; the savepoint stays in FOLDER.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from penstock.checkpoint.snapshot.manifest import FORMAT_VERSION, MAGIC, digest, encode_manifest
from penstock.clock import SystemClock
from penstock.graph.job_graph import EdgePlan, OperatorPlan, SourceRef, StagePlan
from penstock.graph.pickling import dumps
from penstock.model.descriptors import ValueStateDescriptor
from penstock.model.functions import KeyedProcessFunction, RuntimeContext
from penstock.model.ids import Version, new_nonce
from penstock.model.snapshot import Manifest, SavepointOrder, SourcePosition, TableFile, files_of_format
from penstock.model.types import Types, resolve_type
from penstock.runtime.operators.batch import Batch, EdgeBatch
from penstock.runtime.process.messages import Barrier, EpochHeader
from penstock.runtime.snapshots.savepoint_writer import SavepointWriter
from penstock.runtime.subtask_place import SubtaskPlace
from penstock.runtime.task import Subtask
from penstock.state.backend.backend_settings import BackendSettings
from penstock.storage.storage import open_storage

ALL_GROUPS = 128
BATCH = 100_000


class ThreeStates(KeyedProcessFunction):
    """A number, a sum and a text for each key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.number = runtime_context.get_state(ValueStateDescriptor("number", Types.LONG()))
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.DOUBLE()))
        self.name = runtime_context.get_state(ValueStateDescriptor("name", Types.STRING()))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.number.update(value[0])
        self.total.update(value[0] * 0.5)
        self.name.update(value[1])


def filled(keys: int, folder: Path) -> Subtask:
    """A subtask with all key groups, and one value of each state for each key."""
    record = resolve_type("key bigint, name string")
    edge = EdgePlan(0, SourceRef(0), "s0", record, "key", key_columns=("key",), key_types=(Types.LONG(),))
    states = OperatorPlan(
        "three", "three", "keyed_process", dumps(ThreeStates(), "three"), record, record, (-1,), True, (Types.LONG(),)
    )
    stage = StagePlan("s0", "s0", 1, ALL_GROUPS, (Types.LONG(),), (edge,), (states,), ())
    place = SubtaskPlace("0" * 32, 1, stage, 0, {}, BackendSettings(), str(folder / "local"))
    subtask = Subtask(place, lambda edge: None)  # type: ignore[arg-type, return-value]
    subtask.open()
    for epoch, start in enumerate(range(0, keys, BATCH), 1):
        chosen = list(range(start, min(start + BATCH, keys)))
        rows = EdgeBatch(0, Batch([(key, f"customer-{key}") for key in chosen], None, chosen), len(chosen), 0)
        items: list[Any] = [rows, Barrier(epoch, None, "driver", 0)]
        subtask.run(EpochHeader("0" * 32, 1, epoch, 0), items, lambda: False)
        subtask.finish_epoch()
    return subtask


def measure(keys: int, folder: Path) -> dict[str, Any]:
    """Write a savepoint of the filled subtask."""
    subtask = filled(keys, folder)
    uri = str(folder / "savepoint-000000-000000000000")
    writer = SavepointWriter(subtask, open_storage, SystemClock())
    version = Version(1, keys // BATCH, new_nonce())
    wall, processor = time.monotonic(), time.process_time()
    job = writer.seal(SavepointOrder(1, uri, "canonical"), version)
    sealed = time.monotonic()
    ack = writer.write(job, lambda progress: None)
    wall_s, processor_s, seal_s = time.monotonic() - wall, time.process_time() - processor, sealed - wall
    sources = SourcePosition(-1, None, [])
    manifest = Manifest(
        MAGIC, FORMAT_VERSION, "0" * 32, 1, 1, digest(b""), version.epoch, 0, None, ALL_GROUPS, {}, {},
        [ack.snapshot], sources, [], savepoint="canonical",
    )  # fmt: skip
    open_storage(uri).put_new("_metadata", encode_manifest(manifest))
    rows = sum(table.rows for _, table in files_of_format(ack.snapshot.files, TableFile))
    return {
        "path": uri,
        "rows": rows,
        "bytes": ack.written_bytes,
        "seal_s": seal_s,
        "wall_s": wall_s,
        "processor_s": processor_s,
        "rows_per_s_per_core": rows / processor_s,
    }


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]), Path(sys.argv[2]))))
