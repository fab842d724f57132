"""Queries of a job: each key goes to its owner, and all of them see the end of the last epoch that the job finished."""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.control.state_query import StateQuery
from penstock.datastream import KeyedProcessFunction, ReduceFunction
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.errors import ConnectionLostError, RequestRefusedError
from penstock.graph.execution_graph import assign_subtasks
from penstock.jobmanager.attempt import attempt_reads
from penstock.jobmanager.attempt.attempt_reads import AttemptReads
from penstock.jobmanager.live_state import LiveJobState
from penstock.model.descriptors import StateTtlConfig, ValueStateDescriptor
from penstock.model.execution import JobStatus
from penstock.model.time import Time
from penstock.model.types import Types
from penstock.runtime.process.messages import Hello, ReadState, Register
from penstock.runtime.process.rpc import RpcServer
from penstock.testing import CHECKPOINT, CRASH, Advance, Harness

HELLO = Hello("token", 1, "jobmanager")


class Totals(KeyedProcessFunction):
    """Adds up the records of a key; calls `between` while the epoch runs."""

    between: Callable[[], object] | None = None

    def open(self, ctx: Any) -> None:
        descriptor = ValueStateDescriptor("total", Types.LONG())
        descriptor.set_queryable("totals")
        self.total = ctx.get_state(descriptor)
        expiring = ValueStateDescriptor("last", Types.LONG())
        expiring.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(100)).build())
        self.last = ctx.get_state(expiring)

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.total.update((self.total.value() or 0) + value[1])
        self.last.update(value[1])
        if Totals.between is not None:
            Totals.between()
        yield value


class Queried:
    """A harness whose subtasks answer over a socket, as TaskManagers do."""

    def __init__(self, function: Any = None, **settings: Any) -> None:
        self.harness = Harness.keyed(
            function or Totals(), key=lambda record: record[0], key_type=Types.STRING(), parallelism=3, **settings
        )
        self.lost = False
        self._server = RpcServer("127.0.0.1", HELLO, self._answer, lambda sender: None)
        host, port = self._server.address
        register = Register("tm", 1, host, "", port)
        self._register = register
        self._opened: list[AttemptReads] = []

    def _answer(self, sender: str, message: Any) -> Any:
        if self.lost:
            raise ConnectionLostError("killed")
        host = self.harness._host
        return host.read(message) if isinstance(message, ReadState) else host.states()

    @property
    def reads(self) -> AttemptReads:
        """Of the attempt that runs now."""
        execution = assign_subtasks(self.harness._graph, ["tm"])
        self._opened.append(AttemptReads(self.harness._book, execution, [self._register], HELLO, self.harness.clock))
        return self._opened[-1]

    def get(self, *keys: Any, state: str = "total", namespace: str | None = None) -> Any:
        reads = self.reads
        (found,) = [known for known in reads.states() if known.info.name == state]
        query = StateQuery(
            tuple(json.dumps(key).encode() for key in keys), None if namespace is None else namespace.encode()
        )
        answer = reads.read(found, query)
        return [json.loads(bytes(value)) for value in answer.values]

    def scan(self, limit: int) -> tuple[list[Any], bool]:
        reads = self.reads
        (found,) = [known for known in reads.states() if known.info.name == "total"]
        answer = reads.read(found, StateQuery(limit=limit))
        return [json.loads(bytes(entry)) for entry in answer.values], answer.more

    def close(self) -> None:
        for reads in self._opened:
            reads.close()
        self._server.close()


@pytest.fixture(params=["hashmap", "rocksdb"])
def queried(request: pytest.FixtureRequest) -> Iterator[Queried]:
    found = Queried(backend=request.param)
    yield found
    Totals.between = None
    found.close()


KEYS = [f"k{number}" for number in range(30)]


def test_r3_each_key_is_read_from_its_owner(queried: Queried) -> None:
    queried.harness.feed([(key, number + 1) for number, key in enumerate(KEYS)])
    assert queried.get(*KEYS, "nobody") == [*range(1, 31), None]
    entries, more = queried.scan(100)
    assert sorted(entries) == sorted([key, number + 1] for number, key in enumerate(KEYS)) and not more
    entries, more = queried.scan(7)
    assert len(entries) == 7 and more


def test_r4_a_running_epoch_is_not_seen(queried: Queried) -> None:
    queried.harness.feed([(key, 1) for key in KEYS])
    assert queried.get(*KEYS) == [1] * 30  # from now on RocksDB keeps old values of the state
    seen: list[Any] = []
    Totals.between = lambda: seen.append(queried.get(*KEYS))
    queried.harness.feed([("k0", 5), CHECKPOINT, ("k1", 5), ("k2", 5)])
    assert seen[0] == [1] * 30 and seen[-1] == [6] + [1] * 29
    Totals.between = None
    assert queried.get(*KEYS) == [6, 6, 6] + [1] * 27


def test_r4_what_a_crash_took_back_is_not_seen(queried: Queried) -> None:
    queried.harness.feed([("ada", 1), CHECKPOINT, ("ada", 2), CRASH])
    assert queried.get("ada") in ([1], [3])
    seen: list[Any] = []
    Totals.between = lambda: seen.append(queried.get("ada"))
    queried.harness.feed([("ada", 4)])
    assert seen[0] in ([1], [3]) and queried.get("ada") == [7]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("seed", range(3))
def test_i15_under_crashes_and_lost_tasks_every_answer_is_of_a_finished_epoch(backend: str, seed: int) -> None:
    """Epochs end at control items only, so what keys hold there is all that a query may ever show."""
    chance = random.Random(seed)
    queried = Queried(backend=backend, lost_after=lambda tries: chance.choice([None, 1, 2]) if tries < 2 else None)
    keys, totals = KEYS[:8], dict.fromkeys(KEYS[:8], 0)
    finished: set[tuple[Any, ...]] = {(None,) * len(keys)}
    seen: list[tuple[Any, ...]] = []
    refused: set[str | None] = set()

    def ask() -> None:
        try:
            seen.append(tuple(queried.get(*keys)))
        except RequestRefusedError as error:
            refused.add(error.code)

    Totals.between = ask
    for _ in range(12):
        records = [(chance.choice(keys), chance.randint(1, 5)) for _ in range(chance.randint(1, 6))]
        for key, amount in records:
            totals[key] += amount
        queried.harness.feed([*records, chance.choice([CHECKPOINT, CRASH, Advance(1)])])
        finished.add(tuple(totals[key] or None for key in keys))
        ask()
    Totals.between = None
    assert queried.harness.crashes > 0 and queried.harness.lost_tasks > 0, f"seed {seed} hits nothing"
    assert len(seen) > 20 and set(seen) <= finished
    assert refused <= {"EPOCH_ENDS"}
    assert seen[-1] == tuple(totals[key] or None for key in keys)
    queried.close()


def test_expired_entries_are_not_shown_even_if_no_epoch_has_run_since(queried: Queried) -> None:
    queried.harness.feed([("ada", 1), ("bob", 2), Advance(60), ("bob", 3)])
    assert queried.get("ada", "bob", state="last") == [1, 3]
    queried.harness.clock.advance(60)
    assert queried.get("ada", "bob", state="last") == [None, 3]


def test_r9_keys_of_another_type_are_refused(queried: Queried) -> None:
    for wrong in (5, None, ["ada"], {"$bytes": "AA=="}, {"$what": 1}):
        with pytest.raises(RequestRefusedError, match="is not a key of type STRING") as refused:
            queried.get(wrong)
        assert (refused.value.status, refused.value.code) == (400, "WRONG_KEY_TYPE")


def test_the_answer_of_all_subtasks_together_has_a_limit(queried: Queried, monkeypatch: pytest.MonkeyPatch) -> None:
    queried.harness.feed([(key, 1) for key in KEYS])
    monkeypatch.setattr(attempt_reads, "MAX_ANSWER_BYTES", 40)
    assert queried.get(*KEYS[:10]) == [1] * 10
    with pytest.raises(RequestRefusedError, match="longer than 40 bytes") as refused:
        queried.get(*KEYS)  # no subtask alone has more than 40 bytes to say
    assert (refused.value.status, refused.value.code) == (413, "ANSWER_TOO_LARGE")


def test_a_lost_taskmanager_gives_the_retry_answer(queried: Queried) -> None:
    queried.harness.feed([("ada", 1)])
    reads = queried.reads
    (state,) = [known for known in reads.states() if known.queryable == "totals"]
    queried.lost = True
    with pytest.raises(RequestRefusedError, match="TaskManager does not answer") as refused:
        reads.read(state, StateQuery((b'"ada"',)))
    assert (refused.value.status, refused.value.code, refused.value.retry_after_s) == (503, "NOT_READY", 1)
    queried.harness._book.fail(ConnectionLostError("killed"))
    with pytest.raises(RequestRefusedError, match="recovers"):
        reads.read(state, StateQuery((b'"ada"',)))


class Add(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return (value1[0], value2[1], value1[2] + value2[2])


def test_a_window_is_a_namespace() -> None:
    queried = Queried(
        Add(), window=TumblingEventTimeWindows.of(Time.milliseconds(10)), timestamp=lambda record: record[1]
    )
    queried.harness.feed([("ada", 1, 5), ("bob", 2, 1), ("ada", 12, 3), ("ada", 13, 4)])
    (name,) = [known.info.name for known in queried.reads.states() if known.info.namespace is not None]
    first, second = [{"$tuple": [start, start + 10]} for start in (0, 10)]
    totals = [[first, {"$tuple": ["ada", 1, 5]}], [second, {"$tuple": ["ada", 13, 7]}]]
    ada, bob, eve = queried.get("ada", "bob", "eve", state=name)
    assert sorted(ada, key=str) == sorted(totals, key=str) and len(bob) == 1 and eve is None
    assert queried.get("ada", "bob", state=name, namespace=json.dumps(second)) == [{"$tuple": ["ada", 13, 7]}, None]
    with pytest.raises(RequestRefusedError, match="is not a key of type"):
        queried.get("ada", state=name, namespace="5")
    queried.close()


class _NoAttempt:
    reads = None


def test_a_job_without_an_attempt_says_when_to_ask_again() -> None:
    status = JobStatus.RESTARTING
    job = LiveJobState(_NoAttempt, lambda: status, list)
    with pytest.raises(RequestRefusedError, match="RESTARTING") as refused:
        job.states()
    assert refused.value.status == 503
    status = JobStatus.RUNNING
    with pytest.raises(RequestRefusedError, match="starting"):
        job.states()
    status = JobStatus.FINISHED
    with pytest.raises(RequestRefusedError, match="FINISHED") as refused:
        job.states()
    assert (refused.value.status, refused.value.code) == (409, "JOB_ENDED")


def test_published_states_are_asked_for_once_in_an_attempt(queried: Queried) -> None:
    queried.harness.feed([("ada", 1)])

    class Newest:
        reads = queried.reads

    job = LiveJobState(Newest, lambda: JobStatus.RUNNING, list)
    (found,) = job.published("totals")
    assert found.info.name == "total" and job.published("nobody") == []
    queried.lost = True
    assert job.published("totals") == [found]  # known by now
    Newest.reads = queried.reads
    assert job.published("totals") == [found]  # of the attempt before, while the new one cannot answer yet
