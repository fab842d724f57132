"""The example backend is registered from outside of the package and does what every backend must do."""

import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.codec.keys import KeyCodec
from penstock.model.configuration import Configuration
from penstock.model.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.model.functions import KeyedProcessFunction, RuntimeContext
from penstock.model.types import Types
from penstock.state.backend import backend_registry
from penstock.state.backend.backend_place import BackendPlace
from penstock.state.backend.keyed_backend import KeyedBackend
from penstock.testing import CHECKPOINT, CRASH, Harness
from penstock.testing.conformance_state import CHECKS

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "sqlite_backend"


@pytest.fixture
def spec(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The example's SqliteSpec, registered as a program would."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    monkeypatch.setattr(backend_registry, "_registered", {})
    yield backend_registry.register_backend(importlib.import_module("sqlite_backend").SqliteSpec)
    sys.modules.pop("sqlite_backend", None)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_conformance(check: Callable[[Any], None], spec: Any, tmp_path: Path) -> None:
    made: list[KeyedBackend] = []

    def new(place: BackendPlace) -> KeyedBackend:
        made.append(spec().open(replace(place, folder=tmp_path)))
        return made[-1]

    check(new)
    for backend in made:
        backend.close()
    assert not list(tmp_path.iterdir())


class Tally(KeyedProcessFunction):
    """Counts words, remembers them, and rings a timer at each."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))
        self.by_length = runtime_context.get_map_state(MapStateDescriptor("by_length", Types.LONG(), Types.STRING()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        self.seen.add(self.count.value() or 0)
        self.by_length.put(len(value), value)
        ctx.timer_service().register_event_time_timer(self.count.value() or 0)
        yield value, self.count.value()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        yield ctx.get_current_key(), -timestamp


def test_a_job_survives_a_crash_and_its_savepoint_is_restored_by_another_backend(spec: Any, tmp_path: Path) -> None:
    job: Any = {"key": lambda word: word[0], "key_type": Types.STRING(), "parallelism": 2}
    harness = Harness.keyed(Tally(), backend="sqlite", **job)
    harness.feed(["ab", "b", "ac", CHECKPOINT, "abc", CRASH, "b"])
    assert harness.crashes == 1 and sorted(harness.output)[1:] == [("abc", 3), ("ac", 2), ("b", 1), ("b", 2)]
    path = harness.savepoint(tmp_path)
    for backend in ("hashmap", "rocksdb", "sqlite"):
        other = Harness.keyed(Tally(), backend=backend, start=_from(path), **{**job, "parallelism": 3})
        other.feed(["ad"])
        assert other.state("count", "a") == 4 and other.state("seen", "a") == [1, 2, 3, 4]
        assert other.state("by_length", "a") == {2: "ad", 3: "abc"}
        other.finish()
        assert sorted(record for record in other.output if record[1] < 0)[:4] == [("a", -n) for n in (4, 3, 2, 1)]


def _from(path: str) -> Any:
    from penstock.jobmanager.attempt.recovery import StartOptions

    return StartOptions(path)


def test_its_settings_come_from_the_configuration(spec: Any, tmp_path: Path) -> None:
    settings = {"state.backend.type": "sqlite", "state.backend.sqlite.cache": "1 mb"}
    found = backend_registry.find_backend("sqlite").of(Configuration.from_dict(settings))
    assert found == spec(cache_bytes=1 << 20)
    backend = found.open(BackendPlace("op", KeyCodec((Types.STRING(),)), 128, (0, 127), tmp_path))
    assert backend._database.execute("PRAGMA cache_size").fetchone() == (-1024,)  # type: ignore[attr-defined]
    backend.close()
