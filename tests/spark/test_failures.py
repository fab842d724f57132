"""What a user is told when something in the program or its data is wrong."""

import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.common import Types
from penstock.datastream import KeyedProcessFunction, MapFunction, RuntimeContext
from penstock.datastream.state import ValueStateDescriptor
from penstock.errors import (
    InvalidKeyError,
    NotPicklableError,
    PenstockError,
    UnsupportedValueError,
    UserFunctionError,
)
from tests.spark.jobs import Jobs, collect
from tests.waiting import LIMIT_S

PRICES = [("ada", 2), ("bob", 1), ("ada", 0), ("cyd", 4)]


class Shares(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        yield value.name, 100 // value.price


def test_a_function_that_raises_is_shown_with_its_own_traceback_first(jobs: Jobs) -> None:
    env = jobs.environment(1)
    shares = env.from_collection(PRICES, "name string, price bigint").key_by("name").process(Shares()).uid("shares")
    shares.name("Shares of the price").print()
    job = env.execute_async("raises")
    with pytest.raises(UserFunctionError) as raised:
        job.get_job_execution_result().result(LIMIT_S)
    lines = str(raised.value).splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert "test_failures.py" in lines[1] and "process_element" in lines[1]
    assert "ZeroDivisionError" in str(raised.value)
    assert lines[-4] == "in operator 'Shares of the price' (uid 'shares'), record 3 of epoch 1 in subtask s0/0"
    assert lines[-3].startswith(f"  created at {__file__}:") and ".process(Shares())" in lines[-3]
    assert lines[-2:] == ["  key: 'ada'", "  record: Row(name='ada', price=0)"]
    assert "java" not in str(raised.value).lower() and "py4j" not in str(raised.value)
    whole = traceback.format_exception(raised.value)
    assert sum("penstock/jobmanager" in line for line in whole) == 1  # only where the program waited for the job
    record = jobs.record()
    assert (job.get_job_status().result().name, record.status, record.attempt) == ("FAILED", "FAILED", 1)
    assert record.failure == str(raised.value)
    log = (Path(record.log_dir) / "driver.log").read_text(encoding="utf-8")
    assert all(line in log for line in lines if line) and "java." not in log


class LogsAndFails(MapFunction):
    def map(self, value: Any) -> Any:
        print("looking at", value)
        raise ValueError(f"no {value} today")


def test_a_failing_job_is_started_again_as_often_as_it_is_told(jobs: Jobs) -> None:
    settings = {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1",
        "restart-strategy.fixed-delay.delay": "10ms",
        "execution.checkpointing.interval": "1s",
    }
    env = jobs.environment(1, settings)
    with pytest.raises(UserFunctionError, match="no fish today") as raised:
        collect(env.from_collection(["fish"], Types.STRING()).map(LogsAndFails(), Types.STRING()))
    assert any("looking at fish" in note for note in raised.value.__notes__)
    assert jobs.record().attempt == 2


def test_a_null_key_is_an_error_with_a_way_out(jobs: Jobs) -> None:
    env = jobs.environment()
    stream = env.from_collection([("ada", 1), (None, 2)], "name string, price bigint").key_by("name").sum("price")
    with pytest.raises(
        InvalidKeyError, match="(?s)key must not be null.*filter such records out before key_by"
    ) as raised:
        collect(stream)
    assert str(raised.value).endswith("  record: Row(name=None, price=2)") and ".key_by(" in str(raised.value)
    assert raised.value.exit_code == 1


def test_a_value_that_no_codec_takes_names_the_operator_and_output_type(jobs: Jobs) -> None:
    env = jobs.environment(1)
    stream = env.from_collection([1], Types.LONG()).map(lambda _: {1, 2}).name("Make sets")
    with pytest.raises(
        UserFunctionError, match="(?s)^a value of type set has no declared.*output_type=.*operator 'Make sets'"
    ):
        collect(stream)


class HoldsLock(MapFunction):
    def __init__(self) -> None:
        self.lock = threading.Lock()

    def map(self, value: Any) -> Any:
        return value


def test_a_function_that_cannot_be_sent_is_an_error_before_anything_runs(jobs: Jobs) -> None:
    env = jobs.environment()
    env.from_collection([1]).map(HoldsLock()).name("Locked").print()
    with pytest.raises(NotPicklableError, match=r"(?s)HoldsLock.*Locked.*lock.*open\(\)"):
        env.execute("locked")
    assert jobs.registry.list() == []


class StateWithoutKey(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def map(self, value: Any) -> Any:
        return value


class TwoTypes(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        runtime_context.get_state(ValueStateDescriptor("x", Types.LONG()))
        runtime_context.get_state(ValueStateDescriptor("x", Types.STRING()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None: ...


def test_state_where_there_is_no_key_or_of_two_types_is_an_error_of_open(jobs: Jobs) -> None:
    env = jobs.environment(1)
    with pytest.raises(PenstockError, match="(?s)only accessible by functions executed on a KeyedStream.*key_by"):
        collect(env.from_collection([1]).map(StateWithoutKey()))
    with pytest.raises(PenstockError, match="(?s)State name corrupted: x.*LONG.*STRING"):
        collect(env.from_collection([(1,)], "k bigint").key_by("k").process(TwoTypes()).uid("two"))


ORDERS = "customer string, amount double, at timestamp"
TIMED = [
    {"customer": "ada", "amount": 1.0, "at": "2026-01-01T00:00:00Z"},
    {"customer": "bob", "amount": 2.0, "at": None},
    {"customer": "ada", "amount": 3.0, "at": "2026-01-01T00:00:01Z"},
    {"customer": "bob", "amount": 4.0},
]


def test_a_null_event_time_fails_the_job_by_default(jobs: Jobs) -> None:
    jobs.write_json("1.json", TIMED)
    stream = jobs.environment().from_dataframe(jobs.json_stream(ORDERS), event_time="at").key_by("customer")
    with pytest.raises(UnsupportedValueError, match="'at' is null.*penstock.event-time.null: drop"):
        collect(stream.sum("amount"))


def test_rows_without_event_time_are_dropped_and_counted_if_asked_for(jobs: Jobs) -> None:
    jobs.write_json("1.json", TIMED)
    env = jobs.environment(settings={"penstock.event-time.null": "drop"})
    stream = env.from_dataframe(jobs.json_stream(ORDERS), event_time="at").key_by("customer").sum("amount")
    records = stream.map(lambda row: (row.customer, row.amount)).execute_and_collect("drop", limit=2)
    assert sorted(records) == [("ada", 1.0), ("ada", 4.0)]
    record = jobs.record()
    assert (record.rows, record.rows_dropped) == (2, 2)
