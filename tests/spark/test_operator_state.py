"""Rows C2 to C5 on real Spark: what each subtask gets of operator, union and broadcast state at parallelism 3, 2, 6."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.checkpoint.log.log_reader import read_log
from penstock.checkpoint.snapshot.manifest import load_manifest
from penstock.common import Types
from penstock.control.submission import Submission, submitted
from penstock.datastream import (
    CheckpointedFunction,
    CheckpointListener,
    JobClient,
    KeyedBroadcastProcessFunction,
    MapFunction,
    ProcessFunction,
    RuntimeContext,
)
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.functions import FunctionInitializationContext, FunctionSnapshotContext
from penstock.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.errors import UserFunctionError
from penstock.model.snapshot import Manifest
from penstock.storage.local import LocalStorage
from tests.spark.jobs import Jobs, read_json
from tests.waiting import LIMIT_S, wait_until

RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
SEEDS = {0: [1, 2], 1: [3, 4], 2: [5]}


def write_down(folder: Path, name: str, index: int, value: Any) -> None:
    """For the test to read: what a subtask was given."""
    hidden = folder / f".{name}-{index}"
    hidden.write_text(json.dumps(value), encoding="utf-8")
    hidden.rename(folder / f"{name}-{index}.json")


class Lists(ProcessFunction, CheckpointedFunction):
    """Keeps lists that no record changes; passes its records on until it is told to fail."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        self.split = store.get_list_state(ListStateDescriptor("split", Types.LONG()))
        self.union = store.get_union_list_state(ListStateDescriptor("union", Types.STRING()))
        self.is_restored = context.is_restored()
        self.given = list(self.split.get()), list(self.union.get())

    def open(self, runtime_context: RuntimeContext) -> None:
        index, count = runtime_context.get_index_of_this_subtask(), runtime_context.get_number_of_parallel_subtasks()
        if self.is_restored:
            self.share = [letter for letter in self.given[1] if ord(letter) % count == index]
        else:
            self.split.update(SEEDS[index])
            self.share = ["abc"[index]]
        write_down(self.folder, f"lists-{count}", index, self.given)

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        if (self.folder / "stop").exists():
            raise RuntimeError("told to stop")
        yield value

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.union.update(self.share)


class Totals(KeyedBroadcastProcessFunction, CheckpointedFunction):
    """Running totals by customer, each with the number of rules that its subtask knows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.rules = dict(context.get_operator_state_store().get_broadcast_state(RULES).items())

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))
        count = runtime_context.get_number_of_parallel_subtasks()
        write_down(self.folder, f"rules-{count}", runtime_context.get_index_of_this_subtask(), self.rules)

    def process_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
        total = (self.total.value() or 0) + value.amount
        self.total.update(total)
        yield value.customer, total, len(list(ctx.get_broadcast_state(RULES).keys()))

    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> None:
        ctx.get_broadcast_state(RULES).put(value.name, value.bound)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        return


def newest_manifest(jobs: Jobs) -> Manifest | None:
    """Of the newest completed checkpoint of the one job in the folder."""
    (folder,) = [path for path in (jobs.folder / "checkpoints").iterdir() if len(path.name) == 32]
    storage = LocalStorage(folder)
    line = read_log(storage).lineage
    return load_manifest(storage, line[-1]) if line else None


class Shop:
    """The job, run again and again in one folder."""

    def __init__(self, jobs: Jobs) -> None:
        self.jobs = jobs
        self.orders: list[tuple[str, int]] = []

    def start(self, parallelism: int) -> JobClient:
        jobs = self.jobs
        env = jobs.environment(parallelism, {"execution.checkpointing.interval": "300ms"})
        orders = env.from_dataframe(jobs.json_stream("customer string, amount bigint"))
        rules = env.from_dataframe(jobs.json_stream("name string, bound bigint", jobs.folder / "rules"))
        passed = orders.process(Lists(jobs.folder), "customer string, amount bigint").uid("lists")
        totals = passed.key_by("customer").connect(rules.broadcast(RULES)).process(Totals(jobs.folder), OUT)
        totals.uid("totals").sink_to(FileSink.for_row_format(str(jobs.folder / "out"), "json").build()).uid("out")
        with submitted(Submission(Path("shop.py"), resume=parallelism != 3)):
            return env.execute_async("shop")

    def order(self, name: str, rows: list[tuple[str, int]]) -> None:
        self.orders += rows
        self.jobs.write_json(name, [{"customer": customer, "amount": amount} for customer, amount in rows])

    def stop(self, job: JobClient, name: str) -> None:
        """Let the job fail at a record that the next one will take."""
        (self.jobs.folder / "stop").touch()
        self.order(name, [("stop", 1)])
        with pytest.raises(UserFunctionError, match="told to stop"):
            job.get_job_execution_result().result(LIMIT_S)
        (self.jobs.folder / "stop").unlink()

    def await_output(self) -> list[dict[str, Any]]:
        """The rows of all orders, once a checkpoint has made them certain."""
        wait_until(lambda: len(read_json(self.jobs.folder / "out")) >= len(self.orders))
        return read_json(self.jobs.folder / "out")

    def given(self, name: str, parallelism: int) -> list[Any]:
        paths = [self.jobs.folder / f"{name}-{parallelism}-{index}.json" for index in range(parallelism)]
        wait_until(lambda: all(path.exists() for path in paths))
        return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


OUT = "customer string, total bigint, rules bigint"


def counts(manifest: Manifest | None, name: str) -> list[int]:
    if manifest is None:
        return []
    return [info.count for snapshot in manifest.subtasks for info in snapshot.operator_states if info.name == name]


def test_c2_c3_c4_three_subtasks_become_two_and_then_six(jobs: Jobs) -> None:
    shop = Shop(jobs)
    jobs.write_json("1.json", [{"name": "a", "bound": 1}, {"name": "b", "bound": 2}], jobs.folder / "rules")
    job = shop.start(3)
    wait_until(lambda: bool(list((jobs.folder / "checkpoints").glob("?" * 32))))
    wait_until(lambda: counts(newest_manifest(jobs), "rules") == [2, 2, 2])
    shop.order("1.json", [(f"c{n % 40}", n) for n in range(400)])
    shop.await_output()
    assert counts(newest_manifest(jobs), "split") == [2, 2, 1]
    shop.stop(job, "2.json")

    job = shop.start(2)
    split, union = zip(*shop.given("lists", 2), strict=True)
    assert list(split) == [[1, 2, 3], [4, 5]]
    assert list(union) == [["a", "b", "c"]] * 2
    assert shop.given("rules", 2) == [{"a": 1, "b": 2}] * 2
    shop.order("3.json", [(f"c{n % 40}", n) for n in range(300)])
    check_totals(shop.await_output(), shop.orders)
    assert sum(counts(newest_manifest(jobs), "union")) == 3  # each subtask has written its share
    shop.stop(job, "4.json")

    job = shop.start(6)
    split, union = zip(*shop.given("lists", 6), strict=True)
    assert list(split) == [[1], [2], [3], [4], [5], []]
    assert [sorted(letters) for letters in union] == [["a", "b", "c"]] * 6
    assert shop.given("rules", 6) == [{"a": 1, "b": 2}] * 6
    shop.order("5.json", [(f"c{n % 40}", n) for n in range(200)])
    check_totals(shop.await_output(), shop.orders)
    job.cancel().result(LIMIT_S)


def check_totals(rows: list[dict[str, Any]], orders: list[tuple[str, int]]) -> None:
    """Every order is in the totals once: the greatest of a customer is the sum, and each step is one order."""
    assert {row["rules"] for row in rows} == {2}
    found: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        found[row["customer"]].append(row["total"])
    amounts: dict[str, list[int]] = defaultdict(list)
    for customer, amount in orders:
        amounts[customer].append(amount)
    assert found.keys() == amounts.keys()
    for customer, totals in found.items():
        ordered = sorted(totals)
        steps = [after - before for before, after in zip([0, *ordered], ordered, strict=False)]
        assert Counter(steps) == Counter(amounts[customer]), customer


class Notified(MapFunction, CheckpointListener):
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, runtime_context: RuntimeContext) -> None:
        self.index = runtime_context.get_index_of_this_subtask()
        self.ids: list[int] = []

    def map(self, value: Any) -> Any:
        return value

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.ids.append(checkpoint_id)
        write_down(self.folder, "notified", self.index, self.ids)


def test_c5_functions_are_notified_of_the_last_checkpoint_of_a_job_that_ends(jobs: Jobs) -> None:
    keep = {"penstock.checkpoint.retain-finished": "true"}
    env = jobs.environment(2, {"execution.checkpointing.interval": "1h", **keep})
    stream = env.from_collection(list(range(10)), Types.LONG()).map(Notified(jobs.folder), Types.LONG()).uid("notified")
    stream.print()
    env.execute("notified")
    final = newest_manifest(jobs)
    assert final is not None and final.final
    for index in range(2):
        ids = json.loads((jobs.folder / f"notified-{index}.json").read_text(encoding="utf-8"))
        assert ids == [final.checkpoint_id]


def test_every_subtask_gets_every_record_of_a_broadcast_without_states(jobs: Jobs) -> None:
    env = jobs.environment(3)
    numbers = env.from_collection(list(range(5)), Types.LONG())
    through_a_stage = numbers.map(lambda n: n + 100, Types.LONG())
    both = numbers.broadcast().union(through_a_stage.broadcast()).map(lambda n: n, Types.LONG())
    records = both.execute_and_collect("broadcast")
    assert Counter(records) == Counter(dict.fromkeys((*range(5), *range(100, 105)), 3))
    assert jobs.record().rows == 5
