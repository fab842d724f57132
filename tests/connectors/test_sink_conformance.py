"""The sinks that need no other system, in the conformance suite; and the suite on sinks that are wrong."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import SinkTransactionLostError
from penstock.model.ids import new_nonce
from penstock.model.sink import Sink, SinkContext, SinkWriter
from penstock.model.snapshot import Committable
from penstock.testing.conformance_sink import CHECKS, SinkSystem
from penstock.testing.memory_sink import MemorySink, SinkStore
from tests.connectors.crashes import STEPS
from tests.connectors.sinks import finished, hidden, rows_of, sink_of

Check = Callable[[SinkSystem], None]
every_check = pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)


class Memory(SinkSystem):
    """A MemorySink whose commits fail before and after."""

    def __init__(self) -> None:
        super().__init__()
        self.store = SinkStore()
        self.store.called = self._called

    def _called(self, when: str, transaction: str) -> None:
        self.faults.call(bool)

    def sink(self) -> Sink:
        return MemorySink(self.store)

    def rows(self) -> list[tuple[int, int]]:
        return self.store.rows

    def leftovers(self) -> Sequence[object]:
        return self.store.unsettled


class Folder(SinkSystem):
    """A FileSink on a disk whose every step fails before and after."""

    def __init__(self, path: Path, format_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.path = path
        self.format_name = format_name
        path.mkdir()
        self.finished: list[str] = []
        """Names in the order of their commits; times of files are too coarse."""
        for name in STEPS:
            monkeypatch.setattr(os, name, self._failing(getattr(os, name)))

    def _failing(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            if function.__name__ == "rename":
                self.finished.append(os.path.basename(args[1]))
            return self.faults.call(function, *args, **named)

        return call

    def sink(self) -> Sink:
        return sink_of(self.path, self.format_name)

    def rows(self) -> list[tuple[int, int]]:
        def order(path: Path) -> int:
            return self.finished.index(path.name)

        return [(row["id"], row["value"]) for path in sorted(finished(self.path), key=order) for row in rows_of(path)]

    def leftovers(self) -> Sequence[object]:
        return [name for name in hidden(self.path) if not name.startswith(".committed-")]  # those are proofs

    def clear(self) -> None:
        for path in finished(self.path):
            path.unlink()


@every_check
def test_q5_the_memory_sink(check: Check) -> None:
    check(Memory())


@pytest.mark.parametrize("format_name", ["json", "csv", pytest.param("parquet", marks=pytest.mark.full)])
@every_check
def test_q9_the_file_sink(check: Check, format_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check(Folder(tmp_path / "out", format_name, monkeypatch))


# ---- the suite finds sinks that are wrong


class Wrong(SinkSystem):
    """A sink in memory with one fault."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.prepared: dict[str, list[Any]] = {}
        self.done: dict[str, list[Any]] = {}
        self.visible: list[Any] = []
        _systems[str(id(self))] = self

    def sink(self) -> Sink:
        return WrongSink(str(id(self)))

    def rows(self) -> list[tuple[int, int]]:
        return list(self.visible)

    def leftovers(self) -> Sequence[object]:
        return list(self.prepared)


_systems: dict[str, Wrong] = {}


class WrongSink(Sink):
    def __init__(self, system_id: str) -> None:
        self.system_id = system_id

    @property
    def system(self) -> Wrong:
        return _systems[self.system_id]

    def open(self, context: SinkContext) -> SinkWriter:
        return WrongWriter(self.system, context)

    def commit(self, committable: Committable) -> None:
        name, system = committable.transaction, self.system
        if name in system.prepared:
            rows = system.done[name] = system.prepared.pop(name)
        elif name not in system.done and system.fault != "says that lost rows are committed":
            raise SinkTransactionLostError(name)
        elif system.fault == "commits again":
            rows = system.done[name]
        else:
            return
        system.visible += sorted(rows) if system.fault == "loses the order" else rows

    def sweep(self, job_id: str, sink_uid: str, keep: Sequence[Committable], before_attempt: int) -> None:
        kept, fault = {committable.transaction for committable in keep}, self.system.fault
        for name in list(self.system.prepared):
            job, uid, attempt, _ = name.split("/")
            is_ours = (job, uid) == (job_id, sink_uid) or fault == "sweeps transactions of others"
            is_old = int(attempt) < before_attempt or fault == "sweeps running transactions"
            if is_ours and is_old and name not in kept and fault != "sweeps nothing":
                del self.system.prepared[name]


class WrongWriter(SinkWriter):
    def __init__(self, system: Wrong, context: SinkContext) -> None:
        self.system = system
        self.prefix = f"{context.job_id}/{context.sink_uid}/{context.attempt}"
        self.subtask = context.subtask.index
        self.start: list[Any] = []
        self.rows: list[Any] = []

    def begin_epoch(self) -> None:
        self.start = list(self.rows)

    def write(self, records: Sequence[Any]) -> None:
        self.rows += records
        if self.system.fault == "publishes at once":
            self.system.visible += records

    def roll_back(self) -> None:
        is_pre_committed = self.system.fault == "forgets older epochs after a pre-commit" and not self.rows
        self.rows = [] if is_pre_committed or self.system.fault == "drops older epochs" else list(self.start)

    def pre_commit(self) -> list[tuple[str, dict[str, str | int]]]:
        if not self.rows:
            return []
        name = f"{self.prefix}/{self.subtask if self.system.fault == 'uses a name twice' else new_nonce()}"
        self.system.prepared[name], self.rows = self.rows, []
        return [(name, {})]

    def close(self) -> None: ...


FAULTS = (
    "commits again",
    "drops older epochs",
    "forgets older epochs after a pre-commit",
    "loses the order",
    "publishes at once",
    "says that lost rows are committed",
    "sweeps nothing",
    "sweeps running transactions",
    "sweeps transactions of others",
    "uses a name twice",
)


def failed_checks(system: Callable[[], SinkSystem]) -> list[str]:
    found = []
    for check in CHECKS:
        try:
            check(system())
        except (AssertionError, SinkTransactionLostError):
            found.append(check.__name__)
    return found


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_sink_fails(fault: str) -> None:
    assert failed_checks(lambda: Wrong(fault))


def test_the_wrong_sink_without_its_fault_passes() -> None:
    assert failed_checks(lambda: Wrong("none")) == []
