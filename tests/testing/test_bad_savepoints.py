"""Savepoints that were tampered with: each is refused with its code, names the file, and stays as it is (B-M rows)."""

import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from penstock.common import Types
from penstock.datastream import KeyedProcessFunction
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor
from penstock.errors import PenstockError
from penstock.jobmanager.attempt.recovery import StartOptions, open_start
from penstock.model.functions import RuntimeContext
from penstock.storage.local import LocalStorage
from penstock.testing import CHECKPOINT, Harness
from penstock.testing.graphs import FunctionProgram, function_graph

Change = Callable[[Path, dict[str, Any]], object]


class Count(KeyedProcessFunction):
    def __init__(self, descriptor: Any = None) -> None:
        self.descriptor: Any = descriptor or ValueStateDescriptor("count", Types.LONG())

    def open(self, ctx: RuntimeContext) -> None:
        is_map = isinstance(self.descriptor, MapStateDescriptor)
        self.count: Any = (ctx.get_map_state if is_map else ctx.get_state)(self.descriptor)

    def process_element(self, row: Any, ctx: Any) -> Iterable[Any]:
        self.count.update((self.count.value() or 0) + 1)
        yield row


def saved(tmp_path: Path) -> Path:
    harness = Harness.keyed(Count(), key=str, parallelism=2, max_parallelism=8, storage=LocalStorage(tmp_path / "old"))
    return Path(harness.feed(["a", "b", "c", "d", CHECKPOINT]).savepoint(tmp_path / "savepoints"))


def contents(folder: Path) -> dict[str, str]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size < 1 << 30]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def refused(tmp_path: Path, path: Path) -> PenstockError:
    """What a start from it says; afterwards all is as it was, and there is no new job."""
    before = contents(tmp_path)
    graph = function_graph(FunctionProgram(Count(), str, 2, 8))
    with pytest.raises(PenstockError) as caught:
        open_start(graph, StartOptions(str(path)))
    assert contents(tmp_path) == before
    assert caught.value.code in str(caught.value) and caught.value.exit_code == 5
    return caught.value


def first_file(whole: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(file for part in whole["subtasks"] for file in part["files"])
    return found


def link_out(path: Path, whole: dict[str, Any]) -> None:
    file = path / first_file(whole)["path"]
    file.rename(path.parent / "outside")
    file.symlink_to(path.parent / "outside")


def move_groups(path: Path, whole: dict[str, Any]) -> None:
    whole["subtasks"][0]["key_groups"] = [0, 4]


CHANGES: dict[str, tuple[str, Change]] = {
    "bm03": ("UNSUPPORTED_VERSION have=2 max=1", lambda path, whole: whole.update(format_version=2)),
    "bm05 absolute": ("PATH_OUTSIDE_ROOT", lambda path, whole: first_file(whole).update(path="/etc/passwd")),
    "bm05 up": ("PATH_OUTSIDE_ROOT", lambda path, whole: first_file(whole).update(path="../x")),
    "bm05 link": ("PATH_OUTSIDE_ROOT", link_out),
    "bm06 size": ("CORRUPT_MANIFEST", lambda path, whole: first_file(whole).update(size=-1)),
    "bm06 hash": ("CORRUPT_MANIFEST", lambda path, whole: first_file(whole).update(sha256="none")),
    "bm07": ("BAD_KEY_GROUPS", move_groups),
    "bm08": ("DUPLICATE_STATE", lambda path, whole: whole["subtasks"].append(whole["subtasks"][0])),
    "bm09": ("BROKEN_CHAIN", lambda path, whole: whole.update(parent=whole["checkpoint_id"])),
    "bm11": (
        "UNKNOWN_SERIALIZER",
        lambda path, whole: whole["subtasks"][0]["tables"][0].update(value_type="os.system"),
    ),
    "bm15": ("MISSING_FILE", lambda path, whole: (path / first_file(whole)["path"]).unlink()),
}


@pytest.mark.parametrize("name", CHANGES)
def test_bm03_to_bm15_a_changed_manifest(tmp_path: Path, name: str) -> None:
    code, change = CHANGES[name]
    path = saved(tmp_path)
    whole = json.loads((path / "_metadata").read_bytes())
    file = first_file(whole)["path"]
    change(path, whole)
    (path / "_metadata").write_text(json.dumps(whole), encoding="utf-8")
    error = refused(tmp_path, path)
    assert error.code == code
    assert "_metadata" in str(error) or file in str(error)


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x1f\x8b\x08", b"PK\x03\x04", b"\x80\x04.", b"\x89PNG"])
def test_bm01_something_else_instead_of_the_manifest(tmp_path: Path, data: bytes) -> None:
    path = saved(tmp_path)
    (path / "_metadata").write_bytes(data)
    error = refused(tmp_path, path)
    assert error.code == "NOT_A_MANIFEST" and f"{path}/_metadata" in str(error)


def test_bm04_a_truncated_and_an_extended_manifest(tmp_path: Path) -> None:
    path = saved(tmp_path)
    data = (path / "_metadata").read_bytes()
    for wrong in (data[:-10], data + b"{}", data.replace(b'"epoch"', b'"epoch":1,"epoch"', 1)):
        (path / "_metadata").write_bytes(wrong)
        assert refused(tmp_path, path).code == "CORRUPT_MANIFEST"


def test_bm10_a_manifest_that_is_too_large_or_too_deep(tmp_path: Path) -> None:
    path = saved(tmp_path)
    data = (path / "_metadata").read_bytes()
    (path / "_metadata").write_bytes(data[:-1] + b',"x":' + b"[" * 100_000)
    assert refused(tmp_path, path).code == "LIMIT_EXCEEDED"
    with (path / "_metadata").open("wb") as file:
        file.truncate(1 << 40)  # a hole: it would not fit into memory
    assert refused(tmp_path, path).code == "LIMIT_EXCEEDED"


@pytest.mark.parametrize(
    "descriptor",
    [
        ValueStateDescriptor("count", Types.STRING()),
        MapStateDescriptor("count", Types.STRING(), Types.LONG()),
    ],
    ids=["type", "map"],
)
def test_bm12_a_state_of_another_type_or_kind(tmp_path: Path, descriptor: Any) -> None:
    path = saved(tmp_path)
    before = contents(path)
    with pytest.raises(PenstockError, match="INCOMPATIBLE_STATE name='count' was=.* now=") as caught:
        Harness.keyed(Count(descriptor), key=str, storage=LocalStorage(tmp_path / "new"), start=StartOptions(str(path)))
    assert (caught.value.code, caught.value.exit_code) == ("INCOMPATIBLE_STATE", 5)
    assert contents(path) == before
