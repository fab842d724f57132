"""Both backends pass the suite that every backend must pass."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.codec.keys import KeyCodec
from penstock.state.backend.backend_registry import make_backend
from penstock.state.backend.backend_settings import BackendSettings
from penstock.state.backend.keyed_backend import KeyedBackend
from penstock.testing.conformance_state import CHECKS

BACKENDS = {
    "hashmap": BackendSettings(),
    "rocksdb": BackendSettings(kind="rocksdb", incremental=False, memory_bytes=8 * 1024 * 1024),
}


@pytest.mark.parametrize("settings", BACKENDS.values(), ids=BACKENDS)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_conformance(check: Callable[[Any], None], settings: BackendSettings, tmp_path: Path) -> None:
    made: list[KeyedBackend] = []

    def new(key_codec: KeyCodec, max_parallelism: int, key_groups: tuple[int, int]) -> KeyedBackend:
        made.append(make_backend(settings, "op", key_codec, max_parallelism, key_groups, tmp_path))
        return made[-1]

    check(new)
    for backend in made:
        backend.close()


def test_the_suite_has_its_cases() -> None:
    assert len(CHECKS) >= 60
