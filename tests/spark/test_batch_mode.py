"""Batch mode on Spark: one job over the whole input, one key after the other (features W1 to W5)."""

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.common import Types
from penstock.datastream import (
    DataStream,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    RuntimeContext,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from penstock.datastream.connectors.file_system import FileSink, FileSource
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor
from penstock.errors import UsageError, UserFunctionError
from tests.spark.jobs import Jobs, collect, finished_files, read_json

DDL = "customer string, amount bigint"


def batch_environment(jobs: Jobs, **settings: str) -> StreamExecutionEnvironment:
    values = {key.replace("_", "."): value for key, value in settings.items()}
    return jobs.environment(2, values).set_runtime_mode(RuntimeExecutionMode.BATCH)


def orders(seed: int, count: int = 3000) -> list[tuple[str, int]]:
    chance = random.Random(seed)
    return [(f"customer-{chance.randrange(200)}", chance.randrange(1000)) for _ in range(count)]


def totals(stream: DataStream) -> DataStream:
    return stream.key_by("customer").sum("amount")


def test_w3_sums_of_a_static_dataframe_files_and_a_collection_are_those_of_streaming(jobs: Jobs) -> None:
    given = orders(1)
    expected: Counter[str] = Counter()
    for customer, amount in given:
        expected[customer] += amount
    jobs.write_json("orders.json", [{"customer": c, "amount": a} for c, a in given])
    env = batch_environment(jobs)
    static = jobs.spark.read.schema(DDL).json(str(jobs.folder / "in"))
    sources = [
        env.from_dataframe(static).where("amount >= 0"),
        env.add_source(FileSource.of(jobs.folder / "in", "json", DDL)),
        env.from_collection(given, DDL),
    ]
    union = sources[0].union(*sources[1:])
    batch = collect(totals(union))
    assert batch == Counter({(customer, 3 * amount): 1 for customer, amount in expected.items()})
    streaming = list(totals(jobs.environment(2).from_collection(given, DDL)).execute_and_collect("streaming"))
    assert dict(streaming) == dict(expected)
    assert [record.attempt for record in jobs.registry.list()] == [1, 1]


class Sessions(KeyedProcessFunction):
    """A summary per customer, by a timer, which tells the order in which the records came."""

    def open(self, ctx: RuntimeContext) -> None:
        self.seen = ctx.get_state(ValueStateDescriptor("seen", Types.STRING()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        self.seen.update(f"{self.seen.value() or ''}{value.amount} ")
        ctx.timer_service().register_event_time_timer(10_000)
        return ()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield ctx.get_current_key(), self.seen.value(), ctx.timer_service().current_watermark()


def test_w4_timers_fire_at_the_end_of_a_key_whose_records_are_in_the_order_of_time(jobs: Jobs) -> None:
    env = batch_environment(jobs)
    rows = [("ada", 3, 3000), ("bob", 9, 9000), ("ada", 1, 1000), ("ada", 2, 2000), ("bob", 8, 20_000)]
    static = jobs.spark.createDataFrame(rows, f"{DDL}, at bigint")
    found = env.from_dataframe(static, event_time="at").key_by("customer").process(Sessions())
    end = 2**63 - 1
    assert collect(found) == Counter([("ada", "1 2 3 ", end), ("bob", "9 8 ", end)])


RATES = MapStateDescriptor("rates", Types.STRING(), Types.LONG())


class Convert(KeyedBroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value.customer, value.amount, ctx.get_broadcast_state(RATES).get(value.customer)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        ctx.get_broadcast_state(RATES).put(value.customer, value.amount)
        return ()


def test_w5_the_broadcast_side_is_complete_before_the_first_record(jobs: Jobs) -> None:
    env = batch_environment(jobs)
    given = orders(2)
    rates = env.from_collection([(f"customer-{n}", n) for n in range(200)], DDL).broadcast(RATES)
    keyed = env.from_collection(given, DDL).key_by("customer")
    found = collect(keyed.connect(rates).process(Convert()))
    assert found == Counter((c, a, int(c.removeprefix("customer-"))) for c, a in given)


class FailsOnce(MapFunction):
    """Fails in the middle of the input, unless a file says that it has."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def map(self, value: Any) -> Any:
        if value.amount == 777 and not self.mark.exists():
            self.mark.touch()
            raise ValueError("not yet")
        return value


def test_w2_after_a_failure_the_whole_input_is_read_again_and_the_files_are_exact(
    jobs: Jobs, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1",
        "restart-strategy.fixed-delay.delay": "10ms",
    }
    env = jobs.environment(2, settings).set_runtime_mode(RuntimeExecutionMode.BATCH)
    env.enable_checkpointing(100)
    given = [*((customer, amount) for customer, amount in orders(3) if amount != 777), ("zoe", 777)]
    out = jobs.folder / "out"
    stream = env.from_collection(given, DDL).key_by("customer").map(FailsOnce(jobs.folder / "failed"), DDL)
    stream.sink_to(FileSink.for_row_format(str(out), "json").build())
    stream.print()
    result = env.execute("files")
    assert jobs.record().attempt == 2 and result.attempts == 2
    written = Counter((row["customer"], row["amount"]) for row in read_json(out))
    assert written == Counter(given)
    left = {path.name for path in out.iterdir()} - {path.name for path in finished_files(out)}
    assert all(name.startswith(".committed-") for name in left), "the first attempt has left nothing"
    printed, messages = capfd.readouterr()
    assert len(printed.splitlines()) == len(given), "the first attempt has printed nothing"
    assert messages.count("no checkpoints are taken") == 1
    assert not (jobs.folder / "checkpoints").exists()


def test_w1_an_empty_input_ends_the_job(jobs: Jobs) -> None:
    (jobs.folder / "in").mkdir()
    env = batch_environment(jobs)
    assert collect(totals(env.add_source(FileSource.of(jobs.folder / "in", "json", DDL)))) == Counter()


def test_w1_a_batch_job_can_be_cancelled_and_takes_no_savepoint(jobs: Jobs) -> None:
    env = batch_environment(jobs)

    class Stuck(MapFunction):
        def map(self, value: Any) -> Any:
            import threading

            threading.Event().wait()
            return value

    env.from_collection([1], Types.LONG()).map(Stuck(), Types.LONG()).print()
    client = env.execute_async("stuck")
    with pytest.raises(UsageError, match="a batch job has no savepoints"):
        client.trigger_savepoint(str(jobs.folder / "savepoints")).result(60)
    client.cancel().result(60)
    assert client.get_job_status().result().name == "CANCELED"


def test_w2_without_a_restart_strategy_an_error_ends_the_job(jobs: Jobs) -> None:
    env = batch_environment(jobs)
    stream = env.from_collection([("a", 777)], DDL).map(FailsOnce(jobs.folder / "failed"), DDL)
    with pytest.raises(UserFunctionError, match="not yet"):
        collect(stream)


def test_a_cached_stream_is_computed_once(jobs: Jobs, tmp_path: Path) -> None:
    calls = tmp_path / "calls"

    def doubled(order: Any) -> Any:
        with calls.open("a", encoding="utf-8") as file:
            file.write(".")
        return order[0], order[1] * 2

    env = batch_environment(jobs)
    given = [("ada", 1), ("bob", 2), ("ada", 3)]
    pair = Types.TUPLE([Types.STRING(), Types.INT()])
    kept = env.from_collection(given, pair).map(doubled, pair).cache()
    untyped = kept.map(lambda order: {"who": order[0]}).cache()
    assert collect(kept) == Counter([("ada", 2), ("bob", 4), ("ada", 6)])
    assert collect(kept.key_by(lambda order: order[0]).sum(1)) == Counter([("ada", 8), ("bob", 4)])
    assert sorted(record["who"] for record in untyped.execute_and_collect()) == ["ada", "ada", "bob"]
    assert sorted(record["who"] for record in untyped.execute_and_collect()) == ["ada", "ada", "bob"]
    assert calls.read_text(encoding="utf-8") == "..."
    kept.invalidate()
    assert collect(kept) == Counter([("ada", 2), ("bob", 4), ("ada", 6)])
    assert calls.read_text(encoding="utf-8") == "......"
