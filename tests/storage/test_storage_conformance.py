"""Every storage does what the Protocol says."""

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.storage import LocalStorage, MemoryStorage, Storage
from penstock.testing.conformance_storage import CHECKS

MAKERS: dict[str, Callable[[Path], Storage]] = {
    "local": LocalStorage,
    "memory": lambda _: MemoryStorage(),
}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("kind", MAKERS)
def test_a_storage_conforms(kind: str, check: Callable[[Storage], None], tmp_path: Path) -> None:
    check(MAKERS[kind](tmp_path / "root"))
