"""Both backends pass the suite that every backend must pass."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.state.backend.backend_place import BackendPlace
from penstock.state.backend.backend_spec import BackendSpec
from penstock.state.backend.keyed_backend import KeyedBackend
from penstock.state.heap.hashmap_spec import HashMapSpec
from penstock.state.rocksdb.rocksdb_spec import RocksDBSpec
from penstock.testing.conformance_state import CHECKS

SPECS = [HashMapSpec(), RocksDBSpec(memory_bytes=8 * 1024 * 1024)]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_conformance(check: Callable[[Any], None], spec: BackendSpec, tmp_path: Path) -> None:
    made: list[KeyedBackend] = []

    def new(place: BackendPlace) -> KeyedBackend:
        made.append(spec.open(replace(place, folder=tmp_path)))
        return made[-1]

    check(new)
    for backend in made:
        backend.close()


def test_the_suite_has_its_cases() -> None:
    assert len(CHECKS) >= 90
