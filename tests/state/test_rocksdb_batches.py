"""Rows of a state in RocksDB, which may be larger than memory."""

from typing import Any

import pyarrow as pa
import pytest

from penstock.model.descriptors import ListStateDescriptor, ValueStateDescriptor
from penstock.model.types import Types
from penstock.state.format.table_rows import decode_rows
from penstock.state.rocksdb import rocksdb_rows as module
from penstock.state.rocksdb.rocksdb_rows import all_rows
from tests.state import backends
from tests.state.backends import at, epoch, string_backend


@pytest.mark.parametrize("kind", ["value", "list"])
def test_rows_come_in_batches_of_limited_size(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH_BYTES", 10_000)
    backends.choose("rocksdb")
    backend = string_backend()
    descriptor: Any = ValueStateDescriptor("s", Types.STRING())
    if kind == "list":
        descriptor = ListStateDescriptor("s", Types.STRING())
    state = backend.table(descriptor)
    for _ in range(2):
        with epoch(backend):
            for number in range(100):
                at(backend, f"k{number}")
                state.update("x" * 1000) if kind == "value" else state.add("x" * 1000)
    table, info = backend._tables["s"], backend._infos["s"]
    found = [*all_rows(table, table.family.scan(b"", None), info, backend.key_codec)]
    assert len(found) >= 10 and sum(map(len, found)) == 100
    rows = [decode_rows(pa.Table.from_batches([batch]), info) for batch in found]
    values = [value for part in rows for value in part.values]
    assert values == [("x" * 1000 if kind == "value" else ["x" * 1000] * 2)] * 100
    assert len({key for part in rows for key in part.keys}) == 100
    backend.close()
