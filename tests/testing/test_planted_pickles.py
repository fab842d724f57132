"""A pickle in any field of a snapshot is never loaded (reliability S6, S7, B-M11)."""

import base64
import hashlib
import json
import pickle
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.common import Types
from penstock.datastream import KeyedProcessFunction
from penstock.datastream.state import ListStateDescriptor, ValueStateDescriptor
from penstock.errors import PenstockError
from penstock.jobmanager.attempt.recovery import StartOptions
from penstock.model.functions import RuntimeContext
from penstock.model.operator_state import CheckpointedFunction
from penstock.spark import offset_log
from penstock.storage.local import LocalStorage
from penstock.testing import CHECKPOINT, Harness

LOADED: list[Any] = []


def spring() -> str:
    LOADED.append("sprung")
    return "sprung"


class Planted:
    def __reduce__(self) -> Any:
        return spring, ()


PICKLE = pickle.dumps(Planted())
TEXT = PICKLE.decode("latin-1")


def _watch(event: str, arguments: Any) -> None:
    if event == "pickle.find_class" and arguments[1] == "spring":
        LOADED.append(arguments)


sys.addaudithook(_watch)


class Keeps(KeyedProcessFunction, CheckpointedFunction):
    """Untyped values, whose bytes in the savepoint are the tagged codec's, keyed and not."""

    def __init__(self, kept_type: Any = None) -> None:
        self.kept_type = kept_type

    def open(self, ctx: RuntimeContext) -> None:
        self.last = ctx.get_state(ValueStateDescriptor("last", self.kept_type))

    def initialize_state(self, ctx: Any) -> None:
        self.rows = ctx.get_operator_state_store().get_list_state(ListStateDescriptor("rows"))

    def snapshot_state(self, ctx: Any) -> None:
        return

    def process_element(self, row: Any, ctx: Any) -> Iterable[Any]:
        self.last.update(row)
        self.rows.add(row)
        yield row


def saved(tmp_path: Path, form: str, kept_type: Any = None) -> Path:
    harness = Harness.keyed(Keeps(kept_type), key=str, storage=LocalStorage(tmp_path / "old"))
    return Path(harness.feed(["a", "b", CHECKPOINT]).savepoint(tmp_path / "savepoints", format=form))


def start(tmp_path: Path, path: Path, kept_type: Any = None) -> PenstockError | None:
    """Start from it and use every state; the error it ended with."""
    try:
        chosen = StartOptions(str(path), allow_non_restored=True)
        harness = Harness.keyed(Keeps(kept_type), key=str, storage=LocalStorage(tmp_path / "new"), start=chosen)
        harness.feed(["a", CHECKPOINT])
        assert harness.state("last", "b") in ("b", None) or isinstance(harness.state("last", "b"), bytes)
    except PenstockError as error:
        return error
    return None


def rewrite(path: Path, change: Any) -> None:
    metadata = path / "_metadata"
    whole = json.loads(metadata.read_bytes())
    change(whole)
    metadata.write_text(json.dumps(whole), encoding="utf-8")


def put(path: Path, file: dict[str, Any], data: bytes) -> None:
    """Other bytes for a file, with the size and the hash that they have."""
    file.update(size=len(data), sha256=hashlib.sha256(data).hexdigest())
    if file.get("inline") is not None:
        file["inline"] = base64.b64encode(data).decode()
    else:
        (path / file["path"]).write_bytes(data)


def all_files(whole: dict[str, Any]) -> list[dict[str, Any]]:
    parts = whole["subtasks"]
    found = [file for part in parts for file in (*part["files"], *part.get("operator_files", []))]
    return found + [part["operator_file"] for part in parts if part.get("operator_file")]


@pytest.fixture(autouse=True)
def nothing_is_loaded() -> Iterable[None]:
    LOADED.clear()
    yield
    assert LOADED == []


def test_the_watch_sees_a_pickle_that_is_loaded() -> None:
    assert pickle.loads(PICKLE) == "sprung"
    assert len(LOADED) == 2
    LOADED.clear()


@pytest.mark.parametrize("form", ["canonical", "native"])
def test_a_planted_manifest(tmp_path: Path, form: str) -> None:
    path = saved(tmp_path, form)
    (path / "_metadata").write_bytes(PICKLE)
    error = start(tmp_path, path)
    assert error is not None and error.code == "NOT_A_MANIFEST"


@pytest.mark.parametrize("field", ["job_id", "writer", "savepoint"])
def test_planted_in_a_field_of_the_manifest(tmp_path: Path, field: str) -> None:
    path = saved(tmp_path, "canonical")
    rewrite(path, lambda whole: whole.update({field: TEXT}))
    start(tmp_path, path)


@pytest.mark.parametrize("field", ["operator_uid", "name", "kind", "value_type"])
def test_planted_in_what_is_said_of_a_state(tmp_path: Path, field: str) -> None:
    path = saved(tmp_path, "canonical")
    rewrite(path, lambda whole: [info.update({field: TEXT}) for part in whole["subtasks"] for info in part["tables"]])
    assert start(tmp_path, path) is not None


def test_planted_as_the_name_of_a_file(tmp_path: Path) -> None:
    path = saved(tmp_path, "canonical")
    rewrite(path, lambda whole: all_files(whole)[0].update(path=TEXT))
    error = start(tmp_path, path)
    assert error is not None and error.code == "PATH_OUTSIDE_ROOT"


@pytest.mark.parametrize("form", ["canonical", "native"])
def test_planted_as_every_file(tmp_path: Path, form: str) -> None:
    path = saved(tmp_path, form)

    def plant(whole: dict[str, Any]) -> None:
        for file in all_files(whole):
            put(path, file, PICKLE)

    rewrite(path, plant)
    error = start(tmp_path, path)
    assert error is not None and error.exit_code == 5


def test_planted_as_the_value_of_every_row(tmp_path: Path) -> None:
    path = saved(tmp_path, "canonical")

    def plant(whole: dict[str, Any]) -> None:
        planted = 0
        for file in all_files(whole):
            table = pq.read_table(path / file["path"])
            column = table.schema.get_field_index("value")
            if pa.types.is_binary(table.schema.field(column).type) or pa.types.is_large_binary(
                table.schema.field(column).type
            ):
                values = pa.array([PICKLE] * len(table), table.schema.field(column).type)
                table = table.set_column(column, table.schema.field(column), values)
                sink = pa.BufferOutputStream()
                pq.write_table(table, sink)
                put(path, file, sink.getvalue().to_pybytes())
                planted += len(table)
        assert planted == 4  # two keys, two elements

    rewrite(path, plant)
    assert start(tmp_path, path) is not None


def test_bm11_pickled_state_is_read_only_by_a_state_that_is_declared_so(tmp_path: Path) -> None:
    path = saved(tmp_path, "canonical", Types.PICKLED_BYTE_ARRAY())
    error = start(tmp_path, path)
    assert error is not None and error.code == "PICKLE_DISABLED" and "'last'" in str(error)


def test_planted_in_the_position_of_the_sources(tmp_path: Path) -> None:
    for data in (PICKLE, offset_log._pack({"metadata": PICKLE, "offsets/0": PICKLE, "sources/0/0": PICKLE})):
        with pytest.raises(PenstockError):
            offset_log.arrange(data, ["a"], ["b", "a"])
