"""Backends by name: our own, those of packages, those of programs."""

import pickle
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from penstock.errors import ConfigurationError, UsageError
from penstock.graph.pickling import dumps
from penstock.jobmanager.settings.job_settings import backend_settings
from penstock.model.configuration import Configuration
from penstock.model.snapshot import NativeName, StateFile
from penstock.state.backend import backend_registry
from penstock.state.backend.backend_place import BackendPlace
from penstock.state.backend.backend_registry import backend_names, find_backend, reader_of, register_backend
from penstock.state.backend.backend_spec import BackendSpec
from penstock.state.heap.hashmap_backend import HashMapBackend
from penstock.state.heap.hashmap_spec import HashMapSpec
from penstock.state.rocksdb.rocksdb_spec import RocksDBSpec


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_registry, "_registered", {})


@dataclass(frozen=True)
class OtherSpec(BackendSpec):
    name: ClassVar[str] = "other"
    class_name: ClassVar[str] = "OtherStateBackend"
    size: int = 1

    @classmethod
    def of(cls, configuration: Configuration) -> "OtherSpec":
        return cls(configuration.get_integer("state.backend.other.size", 1))

    def open(self, place: BackendPlace) -> HashMapBackend:
        return HashMapBackend(place)


def settings(**more: str) -> Any:
    pairs = {"state.backend.type": "other", **{f"state.backend.{key}": value for key, value in more.items()}}
    return backend_settings(Configuration.from_dict(pairs))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hashmap", HashMapSpec),
        (" RocksDB ", RocksDBSpec),
        ("HashMapStateBackend", HashMapSpec),
        ("org.apache.flink.runtime.state.hashmap.HashMapStateBackendFactory", HashMapSpec),
        ("org.apache.flink.state.rocksdb.EmbeddedRocksDBStateBackendFactory", RocksDBSpec),
    ],
)
def test_our_own_backends_have_a_name_and_those_of_flinks_classes(name: str, expected: type[BackendSpec]) -> None:
    assert find_backend(name) is expected


def test_an_unknown_name_lists_what_is_registered() -> None:
    register_backend(OtherSpec)
    with pytest.raises(ConfigurationError, match="'nothing' is registered; there are hashmap, other, rocksdb"):
        find_backend("nothing")


def test_a_program_registers_a_backend_and_its_settings_reach_it() -> None:
    with pytest.raises(ConfigurationError, match="no state backend 'other'"):
        settings()
    assert register_backend(OtherSpec) is OtherSpec and "other" in backend_names()
    assert settings(**{"other.size": "7"}).spec == OtherSpec(7)
    register_backend(OtherSpec)  # a second import of the program's module is fine


def test_a_name_that_is_taken_is_refused() -> None:
    class HashMapSpec(BackendSpec):
        name = "hashmap"
        class_name = "MyHashMap"

        def open(self, place: BackendPlace) -> HashMapBackend:
            return HashMapBackend(place)

    with pytest.raises(UsageError, match="state backend 'hashmap' is already registered"):
        register_backend(HashMapSpec)


def test_a_package_provides_a_backend_with_an_entry_point(tmp_path: Path) -> None:
    """In another process, as a TaskManager finds it."""
    package = tmp_path / "my_backend-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: my-backend\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(
        "[penstock.state_backends]\nmine = my_backend:MySpec\nbroken = my_backend:MySpec.name\n"
    )
    (tmp_path / "my_backend.py").write_text(
        "from penstock.state.heap.hashmap_spec import HashMapSpec\nclass MySpec(HashMapSpec): name = 'mine'\n"
    )
    program = (
        "from penstock.state.backend.backend_registry import backend_names, find_backend\n"
        "print(find_backend('mine').__name__, backend_names())\n"
        "try: find_backend('broken')\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    found = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": f"{tmp_path}:{Path(__file__).parent.parent.parent}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.splitlines() == [
        "MySpec ['broken', 'hashmap', 'mine', 'rocksdb']",
        "ConfigurationError the entry point of state backend 'broken' is 'mine', not a BackendSpec",
    ]


def test_a_backend_that_a_program_defines_is_sent_with_its_plan() -> None:
    @dataclass(frozen=True)
    class LocalSpec(OtherSpec):
        name: ClassVar[str] = "local"

    register_backend(LocalSpec)
    data = dumps((LocalSpec(3), backend_registry.registered_backends()), "plan")
    spec, backends = pickle.loads(data)
    assert spec.size == 3 and [backend.name for backend in backends] == ["local"]


def test_the_files_of_a_backend_are_read_by_the_backend_that_they_name() -> None:
    register_backend(OtherSpec)
    assert reader_of("rocksdb") == RocksDBSpec()
    with pytest.raises(UsageError, match="native files of state backend 'other', which cannot read any"):
        reader_of("other")


def test_native_files_of_rocksdb_are_written_as_they_always_were() -> None:
    import msgspec

    file = StateFile("p", 1, "0").with_format(NativeName("op", "1.sst"))
    assert b'"native":{"operator_uid":"op","name":"1.sst"},"table":null' in msgspec.json.encode(file)
    other = file.with_format(NativeName("op", "1.sst", "other"))
    assert msgspec.json.decode(msgspec.json.encode(other), type=StateFile) == other
