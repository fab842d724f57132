"""Savepoints of a simulated job: their own storages, with the same faults, and what must hold of one that exists."""

import io
from collections.abc import Callable
from typing import Any

import pyarrow.parquet as pq

from penstock.checkpoint.log.log_reader import read_log
from penstock.checkpoint.snapshot.manifest import decode_manifest, digest, state_files, verify_file
from penstock.checkpoint.snapshot.savepoint_paths import METADATA
from penstock.codec import tagged
from penstock.model.snapshot import Manifest, TableFile
from penstock.storage.memory import Fault, MemoryStorage
from penstock.testing.graphs import FUNCTION_UID
from tests.checkpoint.checker import require
from tests.sim.ledger import Ledger
from tests.sim.light_job import KEYS, LightJob


class Shelf:
    """The folders of all savepoints, by address."""

    def __init__(self, on_call: Callable[[str, str], Fault | None]) -> None:
        self._on_call = on_call
        self._storages: dict[str, MemoryStorage] = {}

    def open(self, uri: str) -> MemoryStorage:
        """The storage of one savepoint; the same for everybody."""
        return self._storages.setdefault(uri, MemoryStorage(self))

    def before(self, operation: str, path: str) -> Fault | None:
        return self._on_call(operation, path)

    def landed(self, path: str, data: bytes) -> None:
        """Any file may come."""

    def deleted(self, path: str) -> None:
        """Any file may go."""

    def holds(self, uri: str, sha256: str) -> bool:
        """Whether a savepoint is there."""
        data = self.open(uri).files.get(METADATA)
        return data is not None and digest(data) == sha256

    def position(self, uri: str) -> int:
        """Where its sources stood."""
        return max(decode_manifest(self.open(uri).files[METADATA], uri).sources.batch_id, 0)

    def check(self, uri: str, ledger: Ledger, job: LightJob) -> None:
        """R29: it is in the log, whole, lists no transaction, and holds the state of its position."""
        files = MemoryStorage()
        files.files.update(self.open(uri).files)  # without faults
        data = files.read(METADATA)
        manifest = decode_manifest(data, uri)
        log = MemoryStorage()
        log.files.update(ledger.storage.files)
        entry = read_log(log).savepoint
        require(entry is not None, f"R29: savepoint {uri} exists, and the log does not know of any")
        assert entry is not None
        require(entry.path != uri or entry.sha256 == digest(data), f"R29: the log has another {uri}")
        require(not manifest.committables, f"R29: savepoint {uri} lists transactions")
        found = [snapshot.subtask for snapshot in manifest.subtasks]
        require(len(found) == len(set(found)), f"R29: a subtask twice in {uri}")
        for file in state_files(manifest):
            verify_file(files, file)
        if manifest.savepoint == "canonical":
            _check_state(manifest, files, job)


def _check_state(manifest: Manifest, files: MemoryStorage, job: LightJob) -> None:
    """I-1 for a savepoint: its tables are the fold of the input up to its position."""
    position = max(manifest.sources.batch_id, 0)
    truth = job.truth(position, ended=False)
    bits = {row["key"]: row["value"] for row in _rows(manifest, files, "bits")}
    fired: dict[Any, dict[int, int]] = {}
    for row in _rows(manifest, files, "fired"):
        fired.setdefault(row["key"], {})[row["map_key"]] = row["value"]
    for key in KEYS:
        name = tagged.encode_key(key)
        found = (bits.get(name), fired.get(name, {}))
        wanted = truth.states.get(key, (None, {}))
        require(found == wanted, f"I-1: savepoint at {position} has {found} for {key!r}, expected {wanted}")


def _rows(manifest: Manifest, files: MemoryStorage, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for snapshot in manifest.subtasks:
        for file in snapshot.files:
            if isinstance(file.format, TableFile) and file.format.state == (FUNCTION_UID, "keyed", name):
                found += pq.read_table(io.BytesIO(verify_file(files, file))).to_pylist()
    return found
