"""Time to live in a job on Spark: an idle job runs an epoch to sweep, and what has expired is forgotten."""

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.common import Time, Types
from penstock.datastream import CloseableIterator, KeyedProcessFunction
from penstock.datastream.state import StateTtlConfig, ValueStateDescriptor
from tests.spark.jobs import Jobs
from tests.waiting import wait_until

TTL_MS = 1_000


class Count(KeyedProcessFunction):
    """How often a name came within the time to live."""

    def open(self, ctx: Any) -> None:
        count = ValueStateDescriptor("count", Types.LONG())
        count.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(TTL_MS)).build())
        self.count = ctx.get_state(count)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value.name, count


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_d6_an_idle_job_sweeps_and_forgets(jobs: Jobs, backend: str) -> None:
    settings = {"state.backend.type": backend, "penstock.state.ttl.sweep-interval": "200 ms"}
    jobs.write_json("1.json", [{"name": "ada"}, {"name": "ada"}])
    stream = jobs.environment(settings=settings).from_dataframe(jobs.json_stream("name string"))
    counts = stream.key_by("name").process(Count(), output_type="name string, count bigint").uid("count")
    collected = counts.execute_and_collect("ttl")
    assert isinstance(collected, CloseableIterator)
    with collected:
        assert [tuple(next(collected)) for _ in range(2)] == [("ada", 1), ("ada", 2)]
        wait_until(lambda: jobs.record().epoch >= 2)  # there was nothing to read: it was for the sweep
        jobs.write_json("2.json", [{"name": "ada"}])
        assert tuple(next(collected)) == ("ada", 1)
