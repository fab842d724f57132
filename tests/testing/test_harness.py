"""The harness itself: what it replays, what it takes over, and how its memory sink behaves."""

import pickle
from typing import Any

import pytest

from penstock.checkpoint.log.job_log import JobLog
from penstock.common import Types
from penstock.datastream import KeyedProcessFunction
from penstock.errors import FencedError, SinkTransactionLostError, UsageError
from penstock.model.descriptors import ValueStateDescriptor
from penstock.model.functions import MapFunction, RuntimeContext
from penstock.model.ids import StageId, SubtaskId
from penstock.model.sink import SinkContext
from penstock.model.snapshot import Committable
from penstock.model.types import TAGGED
from penstock.storage.local import LocalStorage
from penstock.storage.memory import MemoryStorage
from penstock.testing import CHECKPOINT, CRASH, Harness, MemorySink
from penstock.testing.memory_sink import SinkStore


class Total(KeyedProcessFunction):
    def open(self, ctx: RuntimeContext) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.DOUBLE()))

    def process_element(self, order: Any, ctx: Any) -> Any:
        self.total.update((self.total.value() or 0.0) + order[1])
        yield order[0], self.total.value()


def totals(**settings: Any) -> Harness:
    return Harness.keyed(Total(), key=lambda order: order[0], **settings)


def test_the_example_of_the_documentation() -> None:
    sink = MemorySink()
    harness = totals(sink=sink)
    harness.feed([("ada", 2.0), CHECKPOINT, ("ada", 3.0), CRASH])
    assert harness.output[-1] == ("ada", 5.0) and harness.state("total", "ada") == 5.0
    assert sink.rows == [("ada", 2.0)]  # the second order is in no checkpoint yet
    assert harness.finish().state("total", "ada") == 5.0
    assert sink.rows == [("ada", 2.0), ("ada", 5.0)]


@pytest.mark.parametrize("seed", range(5))
def test_a_seed_splits_the_input_into_epochs_and_changes_no_result(seed: int) -> None:
    orders = [(key, float(n)) for n, key in enumerate("abcabcabc")]
    expected = totals().feed(orders).output
    assert totals(seed=seed, parallelism=1).feed([*orders, CRASH]).output == expected


def test_a_function_reads_the_parameters_of_its_job() -> None:
    class Scale(MapFunction):
        def open(self, ctx: RuntimeContext) -> None:
            self.factor = int(ctx.get_job_parameter("factor", "1"))
            self.unit = ctx.get_job_parameter("unit", "m")

        def map(self, value: int) -> str:
            return f"{value * self.factor} {self.unit}"

    harness = Harness.non_keyed(Scale(), job_parameters={"factor": "10"}).feed([1, CHECKPOINT, CRASH, 2])
    assert harness.output == ["10 m", "20 m"]


def test_a_function_that_changes_its_record_gets_it_unchanged_in_the_replay() -> None:
    class Change(MapFunction):
        def map(self, value: list[int]) -> list[int]:
            value.append(len(value))
            return value

    harness = Harness.keyed(Change(), key=lambda value: value[0]).feed([[7], CRASH, [8]])
    assert harness.output == [[7, 1], [8, 1]]


def test_a_second_harness_takes_the_job_over_and_the_first_is_fenced() -> None:
    first = totals(sink=(sink := MemorySink())).feed([("a", 1.0), CHECKPOINT, ("a", 2.0)])
    second = totals(storage=first.storage, sink=sink)
    assert second.state("total", "a") == 1.0
    with pytest.raises(FencedError, match="no longer owns the job"):
        first._run_empty_epoch()  # PROTOCOL R4: noticed at the start of the next epoch, not at the next checkpoint
    second.feed([("a", 1.0), CHECKPOINT, ("a", 2.0)]).finish()
    assert sink.rows == [("a", 1.0), ("a", 3.0)]


def test_another_parallelism_takes_over_the_state() -> None:
    orders = [(f"customer {n % 7}", float(n)) for n in range(40)]
    first = totals(parallelism=2, max_parallelism=16).feed([*orders[:30], CHECKPOINT])
    second = totals(parallelism=3, max_parallelism=16, storage=first.storage)
    second.feed([*orders[:30], CHECKPOINT, *orders[30:]])  # the source begins anew, and is read behind the checkpoint
    for n in range(7):
        key = f"customer {n}"
        assert second.state("total", key) == sum(amount for name, amount in orders if name == key)
    assert len(second.output) == 10


def test_it_runs_on_a_local_folder_too(tmp_path: Any) -> None:
    harness = totals(storage=LocalStorage(tmp_path)).feed([("a", 1.0), CHECKPOINT, ("a", 2.0), CRASH]).finish()
    assert harness.state("total", "a") == 3.0
    assert (tmp_path / "log").is_dir()


def test_the_end_of_the_input_is_written_down_once_and_for_all() -> None:
    harness = totals().feed([("a", 1.0)]).finish()
    assert harness.manifest is not None and harness.manifest.final
    status = JobLog.open(harness.storage, harness.clock).view().status
    assert status is not None and status.status == "finished"
    assert harness.crash().output == [("a", 1.0)]
    with pytest.raises(UsageError, match="the input has ended"):
        harness.feed([("a", 2.0)])


def test_what_cannot_run_says_what_can() -> None:
    class Plain:
        pass

    with pytest.raises(UsageError, match="an object of type Plain cannot run on a keyed stream; give an instance of a"):
        Harness.keyed(Plain(), key=str)
    with pytest.raises(UsageError, match="a subclass of ProcessFunction, MapFunction, FlatMapFunction"):
        Harness.non_keyed(Total())
    with pytest.raises(UsageError, match="no state backend 'stone'"):
        totals(backend="stone")


def test_a_function_without_a_key() -> None:
    class Double(MapFunction):
        def map(self, value: int) -> int:
            return 2 * value

    harness = Harness.non_keyed(Double(), parallelism=2).feed([1, 2, 3, CHECKPOINT, 4, CRASH])
    assert harness.output == [2, 4, 6, 8]


# ---- the memory sink


def context(attempt: int = 1, sink_uid: str = "sink") -> SinkContext:
    return SinkContext("job", attempt, sink_uid, SubtaskId(StageId("s0"), 0), TAGGED)


def committable(transaction: str, rows: int = 1) -> Committable:
    return Committable("sink", SubtaskId(StageId("s0"), 0), 1, transaction, {"rows": rows})


def prepared(sink: MemorySink, rows: list[Any], attempt: int = 1) -> str:
    writer = sink.open(context(attempt))
    writer.begin_epoch()
    writer.write(rows)
    ((name, _),) = writer.pre_commit()
    return name


def test_a_committed_transaction_is_committed_once_however_often_it_is_asked_for() -> None:
    sink = MemorySink()
    name = prepared(sink, [1, 2])
    for _ in range(3):
        sink.commit(committable(name))
    assert sink.rows == [1, 2]
    assert (sink.store.commit_count, sink.store.repeated_commit_count) == (1, 2)
    assert sink.store.unsettled == []


def test_a_transaction_that_was_swept_is_lost() -> None:
    sink = MemorySink()
    old, kept, new = prepared(sink, [1]), prepared(sink, [2]), prepared(sink, [3], attempt=2)
    sink.sweep("another job", "sink", [], 9)
    sink.sweep("job", "another sink", [], 9)
    sink.sweep("job", "sink", [committable(kept)], 2)
    assert [t.name for t in sink.store.unsettled] == [kept, new]
    with pytest.raises(SinkTransactionLostError, match="has lost 1 rows"):
        sink.commit(committable(old))


def test_a_transaction_that_is_still_open_cannot_be_committed() -> None:
    sink = MemorySink()
    writer = sink.open(context())
    writer.begin_epoch()
    writer.write([1])
    with pytest.raises(SinkTransactionLostError, match="was not prepared"):
        sink.commit(committable(sink.store.unsettled[0].name))
    writer.close()
    assert sink.store.unsettled == []


def test_a_rolled_back_epoch_goes_on_where_it_began_under_another_name() -> None:
    sink = MemorySink()
    writer = sink.open(context())
    writer.begin_epoch()
    writer.write([1])
    writer.begin_epoch()
    writer.write([2])
    ((dropped, _),) = writer.pre_commit()
    writer.roll_back()
    writer.begin_epoch()
    writer.write([3])
    ((name, data),) = writer.pre_commit()
    assert name != dropped and data == {"rows": 2}
    sink.commit(committable(name, 2))
    assert sink.rows == [1, 3]
    with pytest.raises(SinkTransactionLostError):
        sink.commit(committable(dropped))


def test_an_epoch_without_rows_has_no_transaction() -> None:
    writer = MemorySink().open(context())
    writer.begin_epoch()
    writer.roll_back()
    assert writer.pre_commit() == []


def test_a_copy_of_the_sink_has_the_same_store_and_no_other_process_has_it() -> None:
    sink = MemorySink()
    assert pickle.loads(pickle.dumps(sink)).store is sink.store
    lost = pickle.dumps(MemorySink(SinkStore()))
    with pytest.raises(UsageError, match="only in the process that made it"):
        pickle.loads(lost)


def test_memory_storage_is_the_default() -> None:
    assert isinstance(totals().storage, MemoryStorage)
