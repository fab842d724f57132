"""Queries of a subtask beside its epochs: which epoch's end they see, and when they see nothing."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.errors import StateAccessError, UnsupportedValueError
from penstock.model.descriptors import MapStateDescriptor, ValueStateDescriptor
from penstock.model.functions import KeyedProcessFunction
from penstock.model.ids import StageId, SubtaskId
from penstock.model.types import Types
from penstock.runtime.process.messages import ReadState
from penstock.state.backend.backend_settings import BackendSettings
from penstock.state.heap.hashmap_spec import HashMapSpec
from penstock.state.rocksdb.rocksdb_spec import RocksDBSpec
from tests.runtime.subtasks import Tasks, keyed_stage

FIRST, SECOND = (SubtaskId(StageId("s0"), index) for index in range(2))
BACKENDS = [HashMapSpec(), RocksDBSpec(memory_bytes=32 << 20)]


class Totals(KeyedProcessFunction):
    """Adds up the records of a key. Calls `between` between its change of the state and the end of the epoch."""

    between: Callable[[], object] | None = None

    def open(self, ctx: Any) -> None:
        descriptor = ValueStateDescriptor("total", Types.LONG())
        descriptor.set_queryable("totals")
        self.total = ctx.get_state(descriptor)
        self.seen = ctx.get_map_state(MapStateDescriptor("seen", Types.LONG(), Types.STRING()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        if value[1] == "fail":
            raise ValueError("as the test wants it")
        if isinstance(value[1], int):
            self.total.update((self.total.value() or 0) + value[1])
            self.seen.put(value[1], "seen")
        if Totals.between is not None:
            Totals.between()
        yield value


@pytest.fixture(params=BACKENDS, ids=["hashmap", "rocksdb"])
def tasks(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Tasks]:
    stage = keyed_stage(Totals(), key_type=Types.STRING(), parallelism=2)
    yield Tasks(stage, backend=BackendSettings(request.param), folder=str(tmp_path))
    Totals.between = None


def read(tasks: Tasks, epoch: int, keys: Any = ("ada",), state: str = "total", **more: Any) -> Any:
    """What both subtasks answer for keys of theirs; "not now" if they cannot be read at that epoch."""
    found: list[Any] = []
    for subtask in tasks.ids:
        request = ReadState(subtask, epoch, "function", state, json.dumps(keys).encode(), **more)
        values = tasks.host.read(request).values
        if values is None:
            return "not now"
        found.append(json.loads(values))
    return [one if other is None else other for one, other in zip(*found, strict=True)]


def test_a_finished_epoch_is_seen_at_its_end(tasks: Tasks) -> None:
    assert read(tasks, 0) == [None]
    tasks.run([("ada", 2), ("bob", 5)])
    assert read(tasks, 1, ["ada", "bob", "eve"]) == [2, 5, None]
    assert read(tasks, 1, ["ada"], "seen") == [{"$map": [[2, "seen"]]}]


def test_a_running_epoch_is_not_seen(tasks: Tasks) -> None:
    tasks.run([("ada", 2)])
    seen: list[Any] = []
    Totals.between = lambda: seen.append(tasks.host.read(_of(tasks, "ada", epoch=1)).values)
    tasks.run([("ada", 3), ("ada", 4)])
    assert seen == [b"[2]", b"[2]"]
    Totals.between = lambda: seen.append(tasks.host.read(_of(tasks, "ada", epoch=3)).values)
    tasks.run([("ada", 1)])
    assert seen[2:] == [None]  # the third epoch has not ended


def test_an_epoch_that_only_this_subtask_has_finished_is_not_seen(tasks: Tasks) -> None:
    tasks.run([("ada", 2)])
    assert read(tasks, 1) == [2]
    tasks.run([("ada", 3)])
    assert read(tasks, 1) == [2]  # the job is still at the first epoch
    assert read(tasks, 2) == [5]  # and now at the second
    tasks.run([("ada", 1)])
    assert read(tasks, 1) == "not now"  # it is gone: the job is further
    assert read(tasks, 2) == [5]


def test_an_epoch_that_was_undone_is_never_seen(tasks: Tasks) -> None:
    tasks.run([("ada", 2)])
    header = tasks.header(2)
    owner = _owner(tasks, "ada")
    with pytest.raises(Exception, match="as the test wants it"):
        tasks.execute(tasks.task(header, owner), tasks.items(header, [("ada", 3), ("ada", "fail")], owner))
    assert read(tasks, 1) == [2]
    assert read(tasks, 2) == "not now"


def test_a_scan_has_entries_and_says_if_there_are_more(tasks: Tasks) -> None:
    tasks.run([("ada", 2), ("bob", 5), ("eve", 1), ("joe", 3)])
    answers = [tasks.host.read(ReadState(s, 1, "function", "total", scan=100)) for s in tasks.ids]
    entries = [entry for answer in answers for entry in json.loads(answer.values or b"")]
    assert sorted(entries) == [["ada", 2], ["bob", 5], ["eve", 1], ["joe", 3]] and not any(a.more for a in answers)
    (busy,) = [s for s, a in zip(tasks.ids, answers, strict=True) if len(json.loads(a.values or b"")) > 1][:1]
    one = tasks.host.read(ReadState(busy, 1, "function", "total", scan=1))
    assert len(json.loads(one.values or b"")) == 1 and one.more
    tiny = tasks.host.read(ReadState(busy, 1, "function", "total", scan=100, max_bytes=10))
    assert len(json.loads(tiny.values or b"")) == 1 and tiny.more


def test_an_answer_that_is_too_long_is_refused(tasks: Tasks) -> None:
    tasks.run([("ada", 2)])
    with pytest.raises(UnsupportedValueError, match="ask for fewer keys"):
        read(tasks, 1, ["ada"] * 10, max_bytes=10)


@pytest.mark.parametrize("what", [{"scan": 1_000}, {"keys": json.dumps([f"k{n}" for n in range(1_000)]).encode()}])
def test_no_more_is_read_than_fits_into_the_answer(
    tasks: Tasks, what: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks.run([(f"k{number}", number) for number in range(1_000)])
    backend: Any = tasks.host.subtask(FIRST).backends["function"]
    read_live, read = backend.read_live, list[Any]()

    def counted(name: str, addresses: Any, *, before: bool) -> Any:
        read.extend(addresses)
        return read_live(name, addresses, before=before)

    monkeypatch.setattr(backend, "read_live", counted)
    request = ReadState(FIRST, 1, "function", "total", max_bytes=40, **what)
    if "scan" in what:
        assert tasks.host.read(request).more
    else:
        with pytest.raises(UnsupportedValueError, match="ask for fewer keys"):
            tasks.host.read(request)
    assert len(read) < 50


def test_a_closed_subtask_says_not_now_instead_of_nothing(tasks: Tasks) -> None:
    """A query that comes while the process ends must not read a store that is closed, or that is empty again."""
    tasks.run([("ada", 2)])
    tasks.host.close()
    for subtask in tasks.host.subtasks():
        for backend in subtask.backends.values():
            backend.close()
    assert read(tasks, 1) == "not now"
    answers = [tasks.host.read(ReadState(s, 1, "function", "total", scan=10)) for s in tasks.ids]
    assert [answer.values for answer in answers] == [None, None]


def test_states_are_listed_with_their_public_names(tasks: Tasks) -> None:
    states = {state.info.name: state for state in tasks.host.states().states}
    assert {name: state.queryable for name, state in states.items()} == {"total": "totals", "seen": None}


def test_unknown_states_are_refused(tasks: Tasks) -> None:
    with pytest.raises(StateAccessError, match="no operator 'nobody'"):
        tasks.host.read(ReadState(FIRST, 0, "nobody", "total", b"[]"))
    assert read(tasks, 0, state="nothing") == [None]  # another subtask may have declared it


def _of(tasks: Tasks, key: str, epoch: int) -> ReadState:
    return ReadState(_owner(tasks, key), epoch, "function", "total", json.dumps([key]).encode())


def _owner(tasks: Tasks, key: str) -> SubtaskId:
    header = tasks.header(1)
    return next(s for s in tasks.ids if len(tasks.items(header, [(key, 1)], s)[0].batch))  # type: ignore[union-attr]
