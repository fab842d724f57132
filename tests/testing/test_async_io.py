"""Async I/O: order, capacity, timeouts, retries, and requests in flight over checkpoints, crashes and restores."""

import asyncio
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.datastream import AsyncFunction, AsyncRetryStrategy, KeyedProcessFunction, ProcessFunction
from penstock.datastream.functions import AsyncFunctionDescriptor
from penstock.errors import ArgumentError, UserFunctionError
from penstock.graph.stages import GraphSettings, build_job_graph
from penstock.graph.stream_graph import OperatorSpec, SourceSpec, StreamGraph
from penstock.jobmanager.attempt.recovery import StartOptions
from penstock.model.types import TAGGED
from penstock.model.watermark import WatermarkStrategy
from penstock.testing import CHECKPOINT, CRASH, Advance, Harness, MemorySink, Watermark
from penstock.testing.harness_options import HarnessOptions
from tests.sim.job import add_keyed, add_sink

Mode = AsyncFunctionDescriptor.OutputMode
CALLS: Counter[Any] = Counter()
"""How often each record was asked for."""


@pytest.fixture(autouse=True)
def _no_calls() -> Iterator[None]:
    CALLS.clear()
    yield


def called(function: AsyncFunction, *, ordered: bool = True, timeout: Any = 60_000, **more: Any) -> Any:
    return AsyncFunctionDescriptor(function, timeout, output_mode=Mode.ORDERED if ordered else Mode.UNORDERED, **more)


class InOrder(AsyncFunction):
    """Answers a record only after the records that `after` names for it."""

    def __init__(self, after: dict[int, int]) -> None:
        self.after = after

    def open(self, runtime_context: Any) -> None:
        self.answered: dict[int, asyncio.Event] = defaultdict(asyncio.Event)

    async def async_invoke(self, value: int) -> list[int]:
        if value in self.after:
            await self.answered[self.after[value]].wait()
        self.answered[value].set()
        return [value]


class Stuck(AsyncFunction):
    """Never answers these records in the first attempt."""

    def __init__(self, *stuck: Any) -> None:
        self.stuck = stuck

    def open(self, runtime_context: Any) -> None:
        self.is_first = runtime_context.get_attempt_number() == 0

    async def async_invoke(self, value: Any) -> list[Any]:
        if value in self.stuck and self.is_first:
            await asyncio.Event().wait()
        return [f"{value}!"]


def test_ordered_results_leave_in_the_order_of_their_records() -> None:
    harness = Harness.non_keyed(called(InOrder({1: 3, 2: 3})))
    assert harness.feed([1, 2, 3, 4]).finish().output == [1, 2, 3, 4]


def test_unordered_results_leave_as_they_come() -> None:
    harness = Harness.non_keyed(called(InOrder({1: 3, 2: 1}), ordered=False))
    assert harness.feed([1, 2, 3]).finish().output == [3, 1, 2]


def test_unordered_results_do_not_pass_a_watermark() -> None:
    function = called(InOrder({10: 20}), ordered=False)
    harness = Harness.non_keyed(function, timestamp=lambda value: value, async_wait_ms=1)
    harness.feed([10, Watermark(15), 20]).finish()
    assert harness.output == [10, 20]


def test_without_a_watermark_between_them_they_do() -> None:
    harness = Harness.non_keyed(called(InOrder({10: 20}), ordered=False), async_wait_ms=1)
    harness.feed([10, CHECKPOINT, 20]).finish()
    assert harness.output == [20, 10]


class Crowd(AsyncFunction):
    """Gives how many requests are in flight; each waits until as many are as can be."""

    def __init__(self, capacity: int, total: int) -> None:
        self.capacity, self.left, self.running = capacity, total, 0

    def open(self, runtime_context: Any) -> None:
        self.changed = asyncio.Event()

    async def async_invoke(self, value: int) -> list[int]:
        self.running += 1
        seen = self.running
        if self.running >= min(self.capacity, self.left):
            self.changed.set()
        await self.changed.wait()
        self.running -= 1
        self.left -= 1
        return [seen]


@pytest.mark.parametrize("ordered", [True, False])
def test_no_more_requests_are_in_flight_than_the_capacity(ordered: bool) -> None:
    harness = Harness.non_keyed(called(Crowd(4, 30), ordered=ordered, capacity=4))
    harness.feed(range(30)).finish()
    assert len(harness.output) == 30
    assert max(harness.output) == 4


class Several(AsyncFunction):
    """As many results as the record says, or something that is no list."""

    async def async_invoke(self, value: Any) -> Any:
        return [value] * value if isinstance(value, int) else value


def test_a_request_has_any_number_of_results() -> None:
    assert Harness.non_keyed(Several()).feed([2, 0, 1]).finish().output == [2, 2, 1]


@pytest.mark.parametrize("wrong", ["text", {"a": 1}, 1.5])
def test_results_that_are_no_list_are_refused(wrong: Any) -> None:
    with pytest.raises(
        UserFunctionError, match=r"should be of list type, .*async_invoke\(\) returned .*return \[result\]"
    ):
        Harness.non_keyed(Several()).feed([wrong]).finish()


class Forgetful(AsyncFunction):
    async def async_invoke(self, value: Any) -> Any:
        pass


def test_no_results_are_an_empty_list() -> None:
    with pytest.raises(UserFunctionError, match=r"The result of AsyncFunction cannot be none.* \[\] for no result"):
        Harness.non_keyed(Forgetful()).feed([1]).finish()


class Failing(AsyncFunction):
    """Fails so many times for each record."""

    def __init__(self, failures: int, error: type[BaseException] = ValueError) -> None:
        self.failures, self.error = failures, error

    async def async_invoke(self, value: Any) -> list[Any]:
        CALLS[value] += 1
        if CALLS[value] <= self.failures:
            raise self.error(f"no answer for {value}")
        return [value, CALLS[value]]


@pytest.mark.parametrize("error", [ValueError, SystemExit, asyncio.CancelledError])
def test_an_error_names_the_operator_and_the_record(error: type[BaseException]) -> None:
    with pytest.raises(UserFunctionError) as raised:
        Harness.non_keyed(Failing(9, error)).feed(["ada"]).finish()
    text = str(raised.value)
    assert "operator 'function'" in text and "async_invoke()" in text and "record: 'ada'" in text
    assert "no answer for ada" in text


def test_after_an_error_the_record_is_asked_for_again() -> None:
    harness = Harness.non_keyed(Failing(1))
    with pytest.raises(UserFunctionError):
        harness.feed(["ada"])
    assert harness.finish().output == ["ada", 2]


def retry(**predicates: Any) -> AsyncRetryStrategy:
    return AsyncRetryStrategy.fixed_delay(3, 1, **{"result_predicate": None, "exception_predicate": None, **predicates})


def test_errors_that_the_predicate_accepts_are_retried() -> None:
    strategy = retry(exception_predicate=lambda error: isinstance(error, ValueError))
    harness = Harness.non_keyed(called(Failing(3), async_retry_strategy=strategy))
    assert harness.feed(["a"]).finish().output == ["a", 4]


def test_errors_that_it_does_not_accept_and_too_many_are_not() -> None:
    other = retry(exception_predicate=lambda error: isinstance(error, KeyError))
    with pytest.raises(UserFunctionError, match="no answer for a"):
        Harness.non_keyed(called(Failing(1), async_retry_strategy=other)).feed(["a"]).finish()
    assert CALLS["a"] == 1
    every = retry(exception_predicate=lambda error: True)
    with pytest.raises(UserFunctionError, match="no answer for b"):
        Harness.non_keyed(called(Failing(4), async_retry_strategy=every)).feed(["b"]).finish()
    assert CALLS["b"] == 4


class Growing(AsyncFunction):
    async def async_invoke(self, value: Any) -> list[Any]:
        CALLS[value] += 1
        return [value] * CALLS[value]


def test_results_that_the_predicate_accepts_are_asked_for_again() -> None:
    strategy = retry(result_predicate=lambda results: len(results) < 3)
    harness = Harness.non_keyed(called(Growing(), async_retry_strategy=strategy))
    assert harness.feed(["a"]).finish().output == ["a", "a", "a"]


def test_the_pauses_of_exponential_backoff_depend_on_the_attempts_only() -> None:
    strategy = AsyncRetryStrategy.exponential_backoff(9, 100, 1000, 3, None, None)
    assert [strategy.get_backoff_time_millis(n) for n in (1, 2, 3, 4, 2, 1)] == [100, 300, 900, 1000, 300, 100]
    assert strategy.can_retry(9) and not strategy.can_retry(10)


def test_a_request_that_takes_too_long_fails_the_job() -> None:
    with pytest.raises(UserFunctionError, match="timed out for input: slow") as raised:
        Harness.non_keyed(called(Stuck("slow"), timeout="20 ms")).feed(["slow"]).finish()
    assert "record: 'slow'" in str(raised.value)


class Patient(Stuck):
    def timeout(self, value: Any) -> list[Any]:
        return [f"{value}?"]


def test_the_timeout_method_gives_results_instead() -> None:
    harness = Harness.non_keyed(called(Patient("slow"), timeout="20 ms"))
    assert harness.feed(["slow", "quick"]).finish().output == ["slow?", "quick!"]


def test_the_timeout_is_that_of_all_attempts_together() -> None:
    endless = AsyncRetryStrategy.fixed_delay(1_000_000, 5, None, lambda error: True)
    with pytest.raises(UserFunctionError, match="timed out"):
        Harness.non_keyed(called(Failing(10**9), timeout="500 ms", async_retry_strategy=endless)).feed(["a"]).finish()
    assert CALLS["a"] > 1


# ---- requests in flight


@pytest.mark.parametrize("ordered", [True, False])
def test_a_crash_with_a_request_in_flight_loses_and_doubles_nothing(ordered: bool) -> None:
    harness = Harness.non_keyed(called(Stuck("b"), ordered=ordered), async_wait_ms=50)
    harness.feed(["a", "b", "c", CHECKPOINT, "d", CRASH, "e"]).finish()
    assert sorted(harness.output) == ["a!", "b!", "c!", "d!", "e!"]
    if ordered:
        assert harness.output == ["a!", "b!", "c!", "d!", "e!"]


def test_records_in_flight_are_operator_state() -> None:
    harness = Harness.non_keyed(called(Stuck("b", "c")), timestamp=lambda text: ord(text), async_wait_ms=50)
    harness.feed(["a", "b", "c"])
    until_output(harness)
    assert [element[:2] for element in harness.operator_state("async-requests")[0]] == [("b", 98), ("c", 99)]
    assert harness.output == ["a!"]


def until_output(harness: Harness) -> None:
    """Let time pass, so that epochs without records are due, until one of them emits something."""
    for _ in range(1_000):
        if harness.output:
            return
        harness.feed([Advance(1_000)])


@pytest.mark.parametrize(("parallelism", "backends"), [(1, ("hashmap", "rocksdb")), (3, ("rocksdb", "hashmap"))])
def test_a_savepoint_with_requests_in_flight_is_restored_at_another_parallelism_and_backend(
    tmp_path: Any, parallelism: int, backends: tuple[str, str]
) -> None:
    def answers(function: Any, backend: str, **settings: Any) -> Harness:
        return Harness.non_keyed(called(function, ordered=False), backend=backend, **settings)

    words = list("abcdefgh")
    harness = answers(Stuck(*words), backends[0], parallelism=2, async_wait_ms=1)
    path = harness.feed(words).savepoint(tmp_path, then="stop")
    assert harness.output == []
    again = answers(Stuck(), backends[1], parallelism=parallelism, start=StartOptions(path=path))
    assert sorted(again.finish().output) == [f"{word}!" for word in words]


def test_a_rescaled_job_asks_again_within_its_capacity() -> None:
    harness = Harness.non_keyed(called(Stuck(*range(8)), capacity=4), parallelism=2, async_wait_ms=1)
    harness.feed([*range(8), CHECKPOINT]).rescale(1)
    assert sorted(harness.finish().output) == sorted(f"{number}!" for number in range(8))


def test_a_drain_waits_for_every_request(tmp_path: Any) -> None:
    harness = Harness.non_keyed(called(Patient("slow"), timeout="100 ms"), async_wait_ms=1)
    harness.feed(["slow"]).savepoint(tmp_path, then="stop", drain=True)
    assert harness.output == ["slow?"]


def test_a_lost_task_asks_again_and_emits_once() -> None:
    DOOR.is_open = False
    harness = Harness.non_keyed(Guest(), async_wait_ms=1, lost_after=lambda tries: 2 if tries == 0 else None)
    harness.feed([1, 2, 3, 4, CHECKPOINT])
    assert harness.output == []
    DOOR.open()
    harness.feed([5, 6, 7, 8]).finish()
    assert harness.lost_tasks > 1
    assert harness.output == list(range(1, 9))


class Door:
    """Closed until the test opens it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.is_open = False
        self.waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def enter(self) -> None:
        event = asyncio.Event()
        with self.lock:
            self.waiting.append((asyncio.get_running_loop(), event))
            if self.is_open:
                event.set()
        await event.wait()

    def open(self) -> None:
        with self.lock:
            self.is_open = True
            for loop, event in self.waiting:
                if not loop.is_closed():
                    loop.call_soon_threadsafe(event.set)
            self.waiting.clear()


DOOR = Door()


class Guest(AsyncFunction):
    """Answers when the test opens the door."""

    async def async_invoke(self, value: Any) -> list[Any]:
        await DOOR.enter()
        return [value]


def test_an_idle_job_emits_results_that_come_later() -> None:
    DOOR.is_open = False
    harness = Harness.non_keyed(Guest(), async_wait_ms=20)
    harness.feed(["late"])
    assert harness.output == []
    DOOR.open()
    until_output(harness)
    assert harness.output == ["late"]


def test_the_threads_of_lost_processes_end() -> None:
    before = set(threading.enumerate())
    harness = Harness.non_keyed(called(Stuck("b")), async_wait_ms=1)
    harness.feed(["b", CHECKPOINT, CRASH, "c"]).finish()
    assert set(threading.enumerate()) <= before


# ---- event time


class RowsInOrder(InOrder):
    async def async_invoke(self, value: Any) -> list[Any]:
        await super().async_invoke(value[1])
        return [value]


class Watches(ProcessFunction):
    """Says the watermark that each row meets."""

    def process_element(self, row: Any, ctx: Any) -> Any:
        yield row[1], ctx.timer_service().current_watermark()


class KeyedWatches(KeyedProcessFunction):
    """The same, behind an exchange."""

    def process_element(self, row: Any, ctx: Any) -> Any:
        yield row[1], ctx.timer_service().current_watermark()


def watched(items: list[Any], *, chained: bool, times_first: bool, crashed_at: int | None = None) -> dict[int, int]:
    """Row -> the watermark that it meets behind async I/O in which the row of time 100 waits for that of 300."""
    sink, graph = MemorySink(), StreamGraph()
    node = graph.add("source", "events", (), SourceSpec("collection", None, TAGGED, None, True), TAGGED)
    strategy = WatermarkStrategy(0).with_timestamp_assigner(lambda row, _: row[1])
    times = OperatorSpec("timestamps", strategy, {"out_of_orderness_ms": 0})
    asks = OperatorSpec("async_wait", called(RowsInOrder({100: 300}), ordered=False))
    for spec in (times, asks) if times_first else (asks, times):
        node = graph.add("operator", spec.kind, [node.id], spec, TAGGED)
        node.uid = spec.kind
    if chained:
        node = graph.add("operator", "watch", [node.id], OperatorSpec("process", Watches()), TAGGED)
        node.uid = "watch"
    else:
        node = add_keyed(graph, node, lambda row: row[0], KeyedWatches(), "watch")
    add_sink(graph, node, sink, "out")
    harness = Harness(build_job_graph(graph, GraphSettings(1, 8, async_wait_ms=1)))
    for number, item in enumerate(items):
        harness.feed([item, CHECKPOINT])
        if number == crashed_at:
            harness.crash()
    harness.finish()
    return dict(sink.rows)


@pytest.mark.parametrize("crashed_at", [None, 1])
@pytest.mark.parametrize("times_first", [True, False])
@pytest.mark.parametrize("chained", [True, False])
def test_a_watermark_does_not_pass_records_in_flight(chained: bool, times_first: bool, crashed_at: int | None) -> None:
    rows = [("a", time) for time in (100, 200, 250, 280, 300, 400)]
    seen = watched(rows, chained=chained, times_first=times_first, crashed_at=crashed_at)
    assert sorted(seen) == [100, 200, 250, 280, 300, 400]
    assert all(watermark < time for time, watermark in seen.items())


def test_it_goes_on_behind_them() -> None:
    seen = watched([("a", 50), ("a", 60), ("a", 70), ("a", 80)], chained=True, times_first=True)
    assert seen[80] >= 50


class FirstStuck(Stuck):
    """Passes rows on, that of 60 when the test opens the door. Those that are stuck stay."""

    async def async_invoke(self, value: Any) -> list[Any]:
        await super().async_invoke(value[1])
        if value[1] == 60:
            await DOOR.enter()
        return [value]


def twice_asked(sink: MemorySink, parallelism: int, *stuck: int, **options: Any) -> Harness:
    """Rows go through two functions. `stuck` stay in the first, those of 60 and 201 wait for 300 in the second."""
    graph = StreamGraph()
    node = graph.add("source", "events", (), SourceSpec("collection", None, TAGGED, None, True), TAGGED)
    strategy = WatermarkStrategy(0).with_timestamp_assigner(lambda row, _: row[1])
    second = called(RowsInOrder({60: 300, 201: 300}), ordered=False)
    specs = {
        "times": OperatorSpec("timestamps", strategy, {"out_of_orderness_ms": 0}),
        "first": OperatorSpec("async_wait", called(FirstStuck(*stuck), ordered=False)),
        "second": OperatorSpec("async_wait", second),
    }
    for uid, spec in specs.items():
        node = graph.add("operator", uid, [node.id], spec, TAGGED)
        node.uid = uid
    node = add_keyed(graph, node, lambda row: row[0], KeyedWatches(), "watch")
    add_sink(graph, node, sink, "out")
    settings = GraphSettings(parallelism, 8, async_wait_ms=20)
    return Harness(build_job_graph(graph, settings), HarnessOptions(**options))


def test_a_watermark_does_not_pass_a_record_of_a_subtask_that_was_behind_others(tmp_path: Any) -> None:
    before = twice_asked(MemorySink(), 2, 60)
    for times in ((50, 51), (60, 100), (150, 151), (200, 201)):  # 60 holds back the watermark of one subtask only
        before.feed([*(("a", time) for time in times), CHECKPOINT])
    sink = MemorySink()
    DOOR.is_open = False
    after = twice_asked(sink, 1, start=StartOptions(path=before.savepoint(tmp_path, then="stop")))
    after.run_empty_epochs(2)  # 60 is on its way to the second function, which holds 201 of the subtask that was ahead
    DOOR.open()
    after.run_empty_epochs(3).feed([("a", 300)]).finish()
    seen = dict(sink.rows)
    assert seen[60] < 60 and seen[201] < 201


# ---- wrong use


class Plain(AsyncFunction):
    def async_invoke(self, value: Any) -> Any:
        return [value]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (called(Plain()), "async_invoke.* should be declared as 'async def'"),
        (called(Several(), capacity=0), "capacity is 0"),
        (called(Several(), async_retry_strategy=None), "async_retry_strategy is None"),
        (called(Several(), timeout=0, async_retry_strategy=retry()), "Timeout should be configured"),
        (called(len), "takes an AsyncFunction"),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_call_is_refused_when_the_program_is_built(call: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Harness.non_keyed(call)


def test_a_record_that_cannot_be_state_is_refused_at_once() -> None:
    with pytest.raises(UserFunctionError, match="record"):
        Harness.non_keyed(Several()).feed([object()]).finish()
