"""Tests of what all backends do alike run on each of them."""

from collections.abc import Iterator

import pytest

from tests.state import backends

ON_EVERY_BACKEND = ("test_keyed_state", "test_restore", "test_timers")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Without a mark on every backend; a test of deltas, which only the HashMap backend writes, says `hashmap_only`."""
    if metafunc.definition.get_closest_marker("hashmap_only") is not None:
        return
    if metafunc.module.__name__.rpartition(".")[2] in ON_EVERY_BACKEND:
        metafunc.parametrize("backend_kind", ["hashmap", "rocksdb"], indirect=True, scope="function")


@pytest.fixture(autouse=True)
def backend_kind(request: pytest.FixtureRequest) -> Iterator[str]:
    kind: str = getattr(request, "param", "hashmap")
    backends.choose(kind)
    yield kind
    backends.choose("hashmap")
