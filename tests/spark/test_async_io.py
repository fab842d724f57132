"""Async I/O on real Spark: an idle job emits late results, and a killed TaskManager's requests are made again."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

from penstock.common import Time, Types
from penstock.datastream import AsyncDataStream, AsyncFunction
from penstock.datastream.connectors.file_system import FileSink
from tests.spark.jobs import Jobs, collect, read_json
from tests.spark.recoveries import RESTARTS, await_attempt, await_checkpoints, cancel, kill_taskmanager
from tests.waiting import wait_until


class Double(AsyncFunction):
    """Doubles a number; odd ones only once the file `open` exists."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def async_invoke(self, value: Any) -> list[Any]:
        while value.number % 2 and not (self.folder / "open").exists():
            await asyncio.sleep(0.02)
        return [(value.number, 2 * value.number)]


def test_requests_in_flight_survive_a_killed_taskmanager(jobs: Jobs) -> None:
    env = jobs.environment(2, {**RESTARTS, "penstock.async.wait": "50ms"})
    jobs.write_json("1.json", [{"number": number} for number in range(20)])
    numbers = env.from_dataframe(jobs.json_stream("number bigint")).uid("numbers")
    answers = AsyncDataStream.unordered_wait(
        numbers, Double(jobs.folder), Time.minutes(5), 100, "number bigint, twice bigint"
    ).uid("double")
    answers.sink_to(FileSink.for_row_format(str(jobs.folder / "out"), "json").build()).uid("out")
    job = env.execute_async("answers")
    out = jobs.folder / "out"
    wait_until(lambda: len(read_json(out)) == 10)  # a checkpoint has committed them, with ten requests in flight
    kill_taskmanager(jobs)
    await_attempt(jobs, 2)
    await_checkpoints(jobs, 1)
    (jobs.folder / "open").touch()
    wait_until(lambda: len(read_json(out)) >= 20)
    cancel(job)
    found = Counter((row["number"], row["twice"]) for row in read_json(out))
    assert found == Counter((number, 2 * number) for number in range(20))


def test_bounded_input_ends_after_the_last_result(jobs: Jobs) -> None:
    (jobs.folder / "open").touch()
    numbers = jobs.environment(2).from_collection([(number,) for number in range(50)], "number bigint")
    answers = AsyncDataStream.ordered_wait(
        numbers, Double(jobs.folder), Time.seconds(60), 4, Types.TUPLE([Types.LONG(), Types.LONG()])
    )
    assert collect(answers.uid("double")) == Counter((number, 2 * number) for number in range(50))
